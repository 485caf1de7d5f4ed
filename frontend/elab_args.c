/* Arguments: matching a call against a signature, and reading them as the kind a builtin needs. A wrong one is
 * reported, `bad` is set and a harmless value returned, so builtins check once, after reading all. */
#include <string.h>

#include "frontend/fe_elab.h"

enum { MAX_PARAMETERS = 32 };

typedef struct parameter {
    const char *name; /* not terminated when from a builtin's row */
    uint32_t length;
    bool keyword, optional, word;
} parameter;

typedef struct signature {
    parameter p[MAX_PARAMETERS];
    uint32_t count;
    bool open; /* takes more than it lists; the builtin reads the rest from the call */
    const char *name;
} signature;

static void read_row(const char *args, signature *s) {
    bool keyword = false;
    while (*args) {
        while (*args == ' ') args++;
        if (*args == '|') {
            keyword = true;
            args++;
            continue;
        }
        size_t n = strcspn(args, " ");
        if (strncmp(args, "...", 3) == 0) {
            s->open = true;
            return;
        }
        if (!n || s->count == MAX_PARAMETERS) return;
        parameter *p = &s->p[s->count++];
        *p = (parameter){.name = args, .length = (uint32_t)n, .keyword = keyword};
        for (; strchr("?!", p->name[p->length - 1]); p->length--) {
            p->optional = p->optional || p->name[p->length - 1] == '?';
            p->word = p->word || p->name[p->length - 1] == '!';
        }
        args += n;
    }
}

static bool read_block(fe_elab *e, const fe_ast *item, signature *s) {
    if (item->list.count > MAX_PARAMETERS) {
        fe_error(e->d, "E013", item->name_span, "a block has at most %d parameters", MAX_PARAMETERS);
        return false;
    }
    for (const fe_ast *p = item->list.first; p; p = p->next)
        s->p[s->count++] =
            (parameter){.name = p->text, .length = (uint32_t)strlen(p->text), .optional = p->kid[1] != NULL};
    return true;
}

static const char *signature_text(fe_elab *e, const signature *s) {
    mpc_str out = {0};
    for (uint32_t i = 0; i < s->count; i++)
        mpc_str_printf(&out, "%s%.*s", i ? ", " : "", (int)s->p[i].length, s->p[i].name);
    if (s->open) mpc_str_append(&out, ", ...");
    const char *text = fe_format(e, "%s", mpc_str_cstr(&out));
    mpc_str_free(&out);
    return text;
}

const char *fe_signature(fe_elab *e, const fe_builtin *fn) {
    signature s = {0};
    read_row(fn->args, &s);
    return signature_text(e, &s);
}

static uint32_t find_parameter(const signature *s, const char *name) {
    size_t n = strlen(name);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->p[i].length == n && memcmp(s->p[i].name, name, n) == 0) return i;
    return UINT32_MAX;
}

static void unknown_argument(fe_call *c, const signature *s, const fe_ast *arg) {
    fe_elab *e = c->e;
    const char *alias = fe_alias(arg->text), *best = alias && find_parameter(s, alias) != UINT32_MAX ? alias : NULL;
    fe_suggestion near = fe_suggest(arg->text);
    for (uint32_t i = 0; i < s->count; i++)
        fe_suggest_try(&near, fe_format(e, "%.*s", (int)s->p[i].length, s->p[i].name));
    if (!best) best = near.best;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E011", arg->name_span, "%s has no argument `%s`", s->name, arg->text);
    fe_label(&r, "%s(%s)", s->name, signature_text(e, s));
    mpc_span call = c->at->span; /* the whole call with that one word replaced */
    const char *before = fe_source_text(e->m, (mpc_span){call.file, call.begin, arg->name_span.begin});
    const char *after = fe_source_text(e->m, (mpc_span){call.file, arg->name_span.end, call.end});
    const char *what = best && strcmp(best, "channels") == 0 ? "the number of output channels is" : "did you mean";
    if (best) fe_help(&r, "%s `%s`: %s%s%s", what, best, before, best, after);
    if (c->block) fe_note(&r, c->block->item->name_span, "the block is declared here");
    fe_send(&r);
}

/* index UINT32_MAX: the rest of an open signature */
static bool positional(fe_call *c, const signature *s, const fe_ast *arg, uint32_t *next, uint32_t *index) {
    fe_elab *e = c->e;
    while (*next < s->count && c->ast[*next]) ++*next;
    if (*next < s->count && !s->p[*next].keyword) {
        *index = (*next)++;
        return true;
    }
    if (s->open) return true;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E013", arg->span,
                           *next < s->count ? "this argument needs its name" : "%s takes %u argument%s", s->name,
                           s->count, s->count == 1 ? "" : "s");
    fe_label(&r, "%s(%s)", s->name, signature_text(e, s));
    if (*next < s->count)
        fe_help(&r, "%.*s = %s", (int)s->p[*next].length, s->p[*next].name, fe_source_text(e->m, arg->span));
    fe_send(&r);
    return false;
}

static bool place(fe_call *c, const signature *s, const fe_ast *arg, uint32_t *next, bool *named) {
    fe_elab *e = c->e;
    uint32_t i = UINT32_MAX;
    if (!arg->text) {
        if (*named) {
            fe_error(e->d, "E013", arg->span, "an argument without a name can't follow one with a name");
            return false;
        }
        if (!positional(c, s, arg, next, &i)) return false;
    } else {
        *named = true;
        i = find_parameter(s, arg->text);
        if (i == UINT32_MAX && !s->open) {
            unknown_argument(c, s, arg);
            return false;
        }
        if (i != UINT32_MAX && c->ast[i]) {
            fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E013", arg->name_span, "`%s` is given twice", arg->text);
            fe_second(&r, c->ast[i]->span, "the first time");
            fe_send(&r);
            return false;
        }
    }
    if (i == UINT32_MAX) return true;
    c->ast[i] = arg->kid[0];
    if (s->p[i].word && arg->kid[0]->kind == AST_NAME) c->v[i] = (fe_value){.kind = FE_STRING, .s = arg->kid[0]->text};
    else c->v[i] = fe_eval(e, arg->kid[0], NULL);
    if (c->v[i].kind != FE_TUPLE) return c->v[i].kind != FE_POISON;
    fe_error(e->d, "E015", arg->kid[0]->span, "this gives %u results; an argument is one value", c->v[i].count);
    return false;
}

static bool complete(fe_call *c, const signature *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        if (c->ast[i] || s->p[i].optional) continue;
        fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E012", c->at->span, "%s needs `%.*s`", s->name,
                               (int)s->p[i].length, s->p[i].name);
        fe_label(&r, "%s(%s)", s->name, signature_text(c->e, s));
        fe_send(&r);
        return false;
    }
    return true;
}

bool fe_bind_arguments(fe_call *c) {
    fe_elab *e = c->e;
    signature s = {.name = c->fn ? c->fn->name : c->block->item->text};
    if (c->fn) read_row(c->fn->args, &s);
    else if (!read_block(e, c->block->item, &s)) return false;
    c->count = s.count;
    c->v = fe_alloc(e, (s.count + 1) * sizeof *c->v);
    c->ast = fe_alloc(e, (s.count + 1) * sizeof *c->ast);
    if (!c->v || !c->ast) return false;
    uint32_t next = 0;
    bool named = false, ok = true;
    for (const fe_ast *arg = c->at->list.first; arg; arg = arg->next) ok = place(c, &s, arg, &next, &named) && ok;
    return ok && complete(c, &s);
}

/* --- reading --- */

bool fe_given(const fe_call *c, uint32_t i) { return c->ast[i] != NULL; }
mpc_span fe_arg_span(const fe_call *c, uint32_t i) { return c->ast[i] ? c->ast[i]->span : c->at->span; }
const char *fe_arg_text(fe_call *c, uint32_t i) { return fe_source_text(c->e->m, fe_arg_span(c, i)); }

static void wrong(fe_call *c, uint32_t i, const char *wanted) {
    signature s = {0};
    read_row(c->fn->args, &s);
    if (!c->bad)
        fe_error(c->e->d, "E014", fe_arg_span(c, i), "%s: `%.*s` is %s, %s is needed", c->fn->name, (int)s.p[i].length,
                 s.p[i].name, fe_kind_name(c->v[i].kind), wanted);
    c->bad = true;
}

int64_t fe_arg_int(fe_call *c, uint32_t i, int64_t fallback) {
    if (!c->ast[i]) return fallback;
    if (c->v[i].kind == FE_INT) return c->v[i].i;
    wrong(c, i, "a constant integer");
    return fallback;
}

double fe_arg_float(fe_call *c, uint32_t i, double fallback) {
    if (!c->ast[i]) return fallback;
    if (fe_is_number(c->v[i])) return fe_number(c->v[i]);
    wrong(c, i, "a constant number");
    return fallback;
}

bool fe_arg_bool(fe_call *c, uint32_t i, bool fallback) {
    if (!c->ast[i]) return fallback;
    if (c->v[i].kind == FE_BOOL) return c->v[i].i != 0;
    wrong(c, i, "true or false");
    return fallback;
}

fe_value fe_arg_tensor(fe_call *c, uint32_t i) {
    if (c->v[i].kind == FE_TENSOR) return c->v[i];
    wrong(c, i, "a tensor");
    return FE_POISONED;
}

fe_value fe_arg_float_tensor(fe_call *c, uint32_t i) {
    fe_value v = fe_arg_tensor(c, i);
    return v.kind == FE_TENSOR ? fe_to_float(c->e, c->ast[i] ? c->ast[i] : c->at, v) : v;
}

const mpc_type *fe_arg_type(fe_call *c, uint32_t i) {
    static const mpc_type nothing = {.format = MPC_FMT_f32};
    return c->v[i].kind == FE_TENSOR ? fe_type(c->v[i]) : &nothing;
}

static uint32_t axis_in(fe_call *c, uint32_t i, int64_t axis, uint32_t rank) {
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) return (uint32_t)axis;
    if (!c->bad)
        fe_error(c->e->d, "E027", fe_arg_span(c, i), "there is no axis %lld: %s has %u",
                 (long long)(axis < 0 ? axis - rank : axis), fe_shape_text(c->e, c->v[0]), rank);
    c->bad = true;
    return 0;
}

uint32_t fe_arg_axis(fe_call *c, uint32_t i, uint32_t rank, int64_t fallback) {
    int64_t axis = fe_arg_int(c, i, fallback);
    uint32_t lead = fe_lead(c->e, c->v[0]);
    return c->bad ? 0 : lead + axis_in(c, i, axis, rank - lead);
}

uint32_t fe_arg_ints(fe_call *c, uint32_t i, int64_t *out, uint32_t max, uint32_t repeat) {
    fe_value v = c->v[i];
    if (v.kind == FE_INT && repeat) {
        for (uint32_t k = 0; k < repeat; k++) out[k] = v.i;
        return repeat;
    }
    bool ok = v.kind == FE_LIST && v.count <= max;
    for (uint32_t k = 0; ok && k < v.count; k++) {
        ok = v.items[k].kind == FE_INT;
        out[k] = v.items[k].i;
    }
    if (ok) return v.count;
    wrong(c, i, v.kind == FE_LIST ? "a short list of constant integers" : "a list of constant integers");
    return UINT32_MAX;
}

mpc_format fe_arg_format(fe_call *c, uint32_t i) {
    fe_value v = c->v[i];
    mpc_format f = v.kind == FE_STRING ? mpc_format_find(v.s) : MPC_FMT_none;
    if (f != MPC_FMT_none && mpc_format_get(f)->storable) return f;
    if (!c->bad)
        fe_error(c->e->d, "E014", fe_arg_span(c, i),
                 "%s: this is no number format; there are f32, bf16, f16, f64, i32, i64, u8 and bool", c->fn->name);
    c->bad = true;
    return MPC_FMT_f32;
}

const fe_init *fe_arg_init(fe_call *c, uint32_t i, const fe_init *fallback) {
    if (!c->ast[i]) return fallback;
    if (c->v[i].kind == FE_INIT) return c->v[i].init;
    wrong(c, i, "an initialiser (normal, truncated_normal, uniform, constant, zeros, ones, kaiming, xavier, orthogonal)");
    return fallback;
}
