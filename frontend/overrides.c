/* --set and --const. Values are parsed by the file's own grammar. All replacements of values come first, then the edits
 * of single arguments, so the order on the command line doesn't matter. */
#include <string.h>

#include "frontend/fe_train.h"
#include "frontend/lex.h"

static const char *option_of(const mpc_override *o) {
    return o->from == MPC_FROM_CHANGE ? "--change" : o->is_const ? "--const" : "--set";
}

const char *fe_override_title(mpc_model *m, const mpc_override *o) {
    const char *text = mpc_arena_printf(m->arena, "%s %s=%s", option_of(o), o->key, o->value);
    if (!text) m->diag.no_memory = true;
    return text ? text : "";
}

static fe_report begin(mpc_model *m, const mpc_override *o, const char *code, const char *message) {
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, code, (mpc_span){0}, "%s", message);
    r.place = fe_override_title(m, o);
    return r;
}

static const char *text_of(mpc_model *m, const char *format, const char *a, const char *b) {
    mpc_str s = {0};
    for (const char *p = format; *p; p++) {
        if (*p == '@') mpc_str_append(&s, a);
        else if (*p == '^') mpc_str_append(&s, b);
        else mpc_str_append_n(&s, p, 1);
    }
    const char *text = s.failed ? NULL : mpc_arena_strdup(m->arena, mpc_str_cstr(&s));
    mpc_str_free(&s);
    if (!text) m->diag.no_memory = true;
    return text ? text : "";
}

/* "10x" and "20epochs" get the blank that the grammar wants. */
static const char *spaced(mpc_model *m, const char *value) {
    size_t n = strspn(value, "0123456789.");
    if (!n || !fe_lex_is_unit(value + n, strlen(value + n))) return value;
    const char *number = mpc_arena_strndup(m->arena, value, n);
    return number ? text_of(m, "@ ^", number, value + n) : value;
}

static const fe_ast *parse_value(mpc_model *m, const mpc_override *o, const char **text) {
    *text = spaced(m, o->value);
    return fe_parse_text(m, fe_override_title(m, o), *text);
}

/* --- constants --- */

static void set_const(mpc_model *m, const mpc_override *o) {
    fe_const *c = fe_const_named(m, o->key);
    if (c) {
        const char *text;
        const fe_ast *e = parse_value(m, o, &text);
        if (e) c->expr = e;
        c->command = fe_override_title(m, o);
        return;
    }
    if (o->from == MPC_FROM_RUN) return;
    fe_suggestion s = fe_suggest(o->key);
    fe_suggest_names(m, m->item, false, &s);
    fe_report r = begin(m, o, "E302", text_of(m, "the file has no constant `@`", o->key, ""));
    if (s.best) fe_help(&r, "did you mean --const %s=%s?", s.best, o->value);
    fe_send(&r);
}

void fe_apply_const_overrides(mpc_model *m) {
    for (size_t i = 0; i < m->override_count; i++)
        if (m->overrides[i].is_const) set_const(m, &m->overrides[i]);
}

/* --- train --- */

static const char *train_key(const char *key) { return strncmp(key, "train.", 6) == 0 ? key + 6 : key; }
static bool is_section_key(const char *key) {
    return strncmp(key, "params.", 7) == 0 || strncmp(key, "data.", 5) == 0 || strncmp(key, "policy.", 7) == 0;
}

static void unknown_key(mpc_model *m, const mpc_override *o, const char *key) {
    fe_report r = begin(m, o, "E301", text_of(m, "train has no key `@`", key, ""));
    fe_explain_key(&r, key, o->value, option_of(o));
    fe_send(&r);
}

static void replace(mpc_model *m, const mpc_override *o) {
    const fe_train_key *k = fe_find_train_key(train_key(o->key));
    if (!k) {
        unknown_key(m, o, train_key(o->key));
        return;
    }
    const char *text;
    const fe_ast *e = parse_value(m, o, &text);
    fe_setting *s = e ? fe_train_setting(m, k) : NULL;
    if (s)
        *s = (fe_setting){
            .key = k->name, .expr = e, .text = text, .origin = FE_FROM_COMMAND, .command = fe_override_title(m, o)};
}

/* The call's text with one argument replaced or added. */
static const char *edited(mpc_model *m, const fe_setting *s, const char *argument, const char *value) {
    const fe_ast *e = s->expr;
    mpc_str out = {0};
    mpc_str_printf(&out, "%s(", e->kind == AST_CALL ? e->kid[0]->text : e->text);
    bool done = false, first = true;
    for (const fe_ast *a = e->kind == AST_CALL ? e->list.first : NULL; a; a = a->next) {
        bool hit = a->text && strcmp(a->text, argument) == 0;
        mpc_str_append(&out, first ? "" : ", ");
        if (hit) mpc_str_printf(&out, "%s = %s", argument, value);
        else mpc_str_append(&out, fe_source_text(m, a->span));
        done = done || hit;
        first = false;
    }
    if (!done) mpc_str_printf(&out, "%s%s = %s", first ? "" : ", ", argument, value);
    mpc_str_append(&out, ")");
    const char *text = text_of(m, "@", mpc_str_cstr(&out), "");
    mpc_str_free(&out);
    return text;
}

static void edit_argument(mpc_model *m, const mpc_override *o) {
    const char *path = train_key(o->key), *dot = strchr(path, '.');
    const char *key = mpc_arena_strndup(m->arena, path, (size_t)(dot - path));
    const fe_train_key *k = key ? fe_find_train_key(key) : NULL;
    if (!k) {
        if (key) unknown_key(m, o, key);
        return;
    }
    fe_setting *s = fe_train_setting(m, k);
    if (!s) return;
    const fe_ast *name = s->expr->kind == AST_CALL ? s->expr->kid[0] : s->expr;
    const char *callee = name->kind == AST_NAME ? name->text : "";
    mpc_str all = {0};
    fe_suggestion near = fe_suggest(dot + 1);
    if (!fe_train_call_takes(callee, dot + 1, &all, &near)) {
        const char *what = *mpc_str_cstr(&all) ? text_of(m, "@ has no argument `^`", callee, dot + 1)
                                               : text_of(m, "`@` has no arguments", key, "");
        fe_report r = begin(m, o, "E301", what);
        if (near.best) fe_help(&r, "did you mean %s %s.%s=%s?", option_of(o), key, near.best, o->value);
        else if (all.length) fe_help(&r, "%s takes %s", callee, mpc_str_cstr(&all));
        fe_send(&r);
    } else {
        const char *text = edited(m, s, dot + 1, spaced(m, o->value));
        const fe_ast *e = fe_parse_text(m, fe_override_title(m, o), text);
        if (e)
            *s = (fe_setting){
                .key = k->name, .expr = e, .text = text, .origin = FE_FROM_COMMAND, .command = fe_override_title(m, o)};
    }
    mpc_str_free(&all);
}

void fe_apply_train_overrides(mpc_model *m) {
    for (int arguments = 0; arguments < 2; arguments++) {
        for (size_t i = 0; i < m->override_count && !m->diag.no_memory; i++) {
            const mpc_override *o = &m->overrides[i];
            bool dotted = strchr(train_key(o->key), '.') != NULL;
            if (o->is_const || is_section_key(o->key) || dotted != (bool)arguments) continue;
            if (dotted) edit_argument(m, o);
            else replace(m, o);
        }
    }
    if (!m->diag.errors && !m->diag.no_memory) fe_complete_train(m);
}

bool mpc_model_change_setting(mpc_model *m, const mpc_override *o) {
    const fe_train_key *k = fe_find_train_key(o->key);
    replace(m, o);
    if (k && !m->diag.errors && !m->diag.no_memory) fe_store_train_key(m, k);
    return k && !m->diag.errors && !m->diag.no_memory;
}
