/* The data section: where each split comes from, and which expression feeds each input of the model. Opening files is
 * the driver's. */
#include <string.h>

#include "frontend/fe_train.h"

static const fe_ast *argument(const fe_ast *call, const char *name, uint32_t position) {
    uint32_t i = 0;
    for (const fe_ast *a = call->list.first; a; a = a->next, i++)
        if (a->text ? strcmp(a->text, name) == 0 : i == position) return a->kid[0];
    return NULL;
}

static void wrong(mpc_model *m, const fe_ast *at, const char *message) {
    fe_error(&m->diag, "E205", at->span, "%s", message);
}

static const char *resolve_path(mpc_model *m, const char *path) {
    const char *file = mpc_sources_name(mpc_context_sources(m->ctx), m->file);
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (*path == '/' || !slash) return path;
    const char *full = mpc_arena_printf(m->arena, "%.*s/%s", (int)(slash - file), file, path);
    if (!full) m->diag.no_memory = true;
    return full ? full : path;
}

static bool read_path(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    const fe_ast *path = argument(call, "path", 0);
    if (path && path->kind == AST_STRING && *path->text) {
        s->path = resolve_path(m, path->text);
        return true;
    }
    wrong(m, call, "a source names its file: csv(\"train.csv\")");
    return false;
}

static bool only_arguments(mpc_model *m, const fe_ast *call, const char *const *names) {
    for (const fe_ast *a = call->list.first; a; a = a->next) {
        bool known = a->text == NULL;
        for (size_t i = 0; a->text && names[i]; i++) known = known || strcmp(names[i], a->text) == 0;
        if (known) continue;
        fe_error(&m->diag, "E011", a->name_span, "%s has no argument `%s`", call->kid[0]->text, a->text);
        return false;
    }
    return true;
}

static bool read_csv(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    static const char *const names[] = {"path", "header", "delimiter", NULL};
    s->kind = MPC_SOURCE_CSV;
    s->header = -1;
    s->delimiter = ',';
    if (!only_arguments(m, call, names) || !read_path(m, call, s)) return false;
    const fe_ast *header = argument(call, "header", 1), *delimiter = argument(call, "delimiter", UINT32_MAX);
    fe_value h = header ? fe_eval_constant(m, header) : FE_POISONED;
    if (header && h.kind != FE_BOOL) return wrong(m, header, "header is true or false"), false;
    if (header) s->header = h.i != 0;
    if (delimiter && (delimiter->kind != AST_STRING || strlen(delimiter->text) != 1))
        return wrong(m, delimiter, "the delimiter is one character: \",\" or \"\\t\""), false;
    if (delimiter) s->delimiter = delimiter->text[0];
    return true;
}

static bool read_text(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    static const char *const names[] = {"path", "length", NULL};
    s->kind = MPC_SOURCE_TEXT;
    if (!only_arguments(m, call, names) || !read_path(m, call, s)) return false;
    const fe_ast *length = argument(call, "length", 1);
    fe_value v = length ? fe_eval_constant(m, length) : FE_POISONED;
    if (length && v.kind == FE_POISON) return false;
    if (!length || v.kind != FE_INT || v.i < 1 || v.i > 1 << 24)
        return wrong(m, length ? length : call, "a text is cut into windows: text(\"file.txt\", length = 128)"), false;
    s->length = v.i;
    return true;
}

static bool read_split(mpc_model *m, const fe_ast *call, mpc_data_source *s) {
    static const char *const names[] = {"of", "fraction", "seed", NULL};
    s->kind = MPC_SOURCE_SPLIT;
    if (!only_arguments(m, call, names)) return false;
    const fe_ast *of = argument(call, "of", 0), *fraction = argument(call, "fraction", 1),
                 *seed = argument(call, "seed", 2);
    if (!of || of->kind != AST_NAME || !fraction)
        return wrong(m, call, "split takes another split, a fraction and a seed: split(train, 0.1, seed = 1)"), false;
    fe_value f = fe_eval_constant(m, fraction), n = seed ? fe_eval_constant(m, seed) : fe_int(0);
    if (f.kind == FE_POISON || n.kind == FE_POISON) return false;
    if (!fe_is_number(f) || !(fe_number(f) > 0 && fe_number(f) < 1))
        return wrong(m, fraction, "the fraction lies between 0 and 1"), false;
    if (n.kind != FE_INT || n.i < 0) return wrong(m, seed, "a seed is a whole number of at least 0"), false;
    s->of = of->text;
    s->fraction = fe_number(f);
    s->seed = (uint64_t)n.i;
    return true;
}

static bool read_source(mpc_model *m, const fe_ast *value, mpc_data_source *s) {
    const char *callee = value->kind == AST_CALL && value->kid[0]->kind == AST_NAME ? value->kid[0]->text : "";
    if (strcmp(callee, "csv") == 0) return read_csv(m, value, s);
    if (strcmp(callee, "text") == 0) return read_text(m, value, s);
    if (strcmp(callee, "split") == 0) return read_split(m, value, s);
    static const char *const later[] = {"tokens", "npz", "npy", "zip", "idx", "images", "hdf5", "parquet"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (strcmp(callee, later[i]) == 0) {
            fe_error(&m->diag, "E009", value->span, "sources of kind `%s` are not supported yet", callee);
            return false;
        }
    wrong(m, value, "a source is csv(\"file.csv\"), text(\"file.txt\", length = n) or split(train, 0.1)");
    return false;
}

static void add_source(mpc_model *m, const char *split, mpc_span at, const fe_setting *setting) {
    static const char *const splits[] = {"train", "valid", "test", "predict"};
    bool known = false;
    for (size_t i = 0; i < 4; i++) known = known || strcmp(splits[i], split) == 0;
    if (!known) {
        fe_error(&m->diag, "E205", at, "there is no split `%s`; splits are train, valid, test and predict", split);
        return;
    }
    mpc_data_source s = {.split = split, .span = at};
    if (!read_source(m, setting->expr, &s)) return;
    for (size_t i = 0; i < m->sources.count; i++) {
        if (strcmp(m->sources.data[i].split, split) != 0) continue;
        if (setting->origin != FE_FROM_COMMAND) {
            fe_error(&m->diag, "E205", at, "the split `%s` has two sources", split);
            return;
        }
        m->sources.data[i] = s;
        m->source_settings.data[i] = *setting;
        return;
    }
    if (!mpc_array_push(&m->sources, s) || !mpc_array_push(&m->source_settings, *setting)) m->diag.no_memory = true;
}

static void add_mapping(mpc_model *m, const fe_ast *e) {
    const fe_ast *input = NULL;
    fe_suggestion near = fe_suggest(e->text);
    for (const fe_ast *p = m->item->list.first; p; p = p->next) {
        if (p->sym == e->sym) input = p;
        fe_suggest_try(&near, p->text);
    }
    if (!input) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E202", e->name_span, "model `%s` has no input `%s`",
                               m->item->text, e->text);
        if (near.best) fe_help(&r, "did you mean `%s`?", near.best);
        fe_send(&r);
        return;
    }
    for (size_t i = 0; i < m->mappings.count; i++)
        if (m->mappings.data[i]->sym == e->sym) {
            fe_error(&m->diag, "E202", e->name_span, "`%s` is mapped twice", e->text);
            return;
        }
    if (!mpc_array_push(&m->mappings, e)) m->diag.no_memory = true;
}

static void check_splits(mpc_model *m) {
    for (size_t i = 0; i < m->sources.count; i++) {
        const mpc_data_source *s = &m->sources.data[i];
        bool found = s->kind != MPC_SOURCE_SPLIT;
        for (size_t k = 0; k < m->sources.count; k++) {
            const mpc_data_source *o = &m->sources.data[k];
            found = found || (o->kind != MPC_SOURCE_SPLIT && strcmp(o->split, s->of) == 0);
        }
        if (!found) fe_error(&m->diag, "E205", s->span, "`%s` is split from `%s`, which has no file", s->split, s->of);
    }
}

static void apply_overrides(mpc_model *m) {
    for (size_t i = 0; i < m->override_count; i++) {
        const mpc_override *o = &m->overrides[i];
        if (o->is_const || strncmp(o->key, "data.", 5) != 0) continue;
        const char *title = fe_override_title(m, o);
        const fe_ast *e = fe_parse_text(m, title, o->value);
        const char *split = mpc_arena_strdup(m->arena, o->key + 5);
        fe_setting s = {.key = split, .expr = e, .text = o->value, .origin = FE_FROM_COMMAND, .command = title};
        if (split) s.text = mpc_arena_strdup(m->arena, o->value);
        if (!split || !s.text) m->diag.no_memory = true;
        else if (e) add_source(m, split, e->span, &s);
    }
}

void fe_read_data(mpc_model *m) {
    const fe_ast *section = fe_find_section(m, "data");
    m->has_data = section != NULL;
    for (const fe_ast *e = section ? section->list.first : NULL; e; e = e->next) {
        if (e->kind == AST_INPUT_ENTRY) add_mapping(m, e);
        else if (e->kind == AST_ENTRY) {
            fe_setting s = {
                .key = e->text, .expr = e->kid[0], .text = fe_source_text(m, e->kid[0]->span), .span = e->span};
            add_source(m, e->text, e->name_span, &s);
        } else
            fe_error(&m->diag, "E205", e->span,
                     "the data section has sources and inputs: train = csv(...), input x = columns[0:8]");
    }
    apply_overrides(m);
    if (m->diag.errors || !section) return;
    check_splits(m);
}
