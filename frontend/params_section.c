/* The section params: initialisers, rates and freezing by path. Later lines win, so selectors are kept in the order of the
 * file, overrides last. */
#include <string.h>

#include "frontend/fe_params.h"
#include "frontend/fe_train.h"

static void add(mpc_model *m, fe_selector s) {
    if (!mpc_array_push(&m->params, s)) m->diag.no_memory = true;
}

static bool check_params_key(mpc_model *m, const fe_ast *e) {
    if (e->kind != AST_ENTRY) {
        fe_error(&m->diag, "E052", e->span, "here stand lines of the form key = value");
        return false;
    }
    fe_suggestion s = fe_suggest(e->text);
    for (size_t i = 0; fe_params_key(i); i++) {
        if (strcmp(e->text, fe_params_key(i)) == 0) return true;
        fe_suggest_try(&s, fe_params_key(i));
    }
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E052", e->name_span, "params has no key `%s`", e->text);
    if (s.best) fe_help(&r, "did you mean `%s`?", s.best);
    else fe_help(&r, "there are init, lr, decay, freeze, ema, weights and load");
    fe_send(&r);
    return false;
}

static void add_globs(mpc_model *m, const fe_ast *e) {
    for (const fe_ast *k = e->other.first; k; k = k->next)
        if (!check_params_key(m, k)) return;
    for (const fe_ast *g = e->list.first; g; g = g->next)
        add(m, (fe_selector){.glob = g->text, .span = g->span, .entries = e->other.first});
}

/* params."head.**".lr=10x */
static void add_override(mpc_model *m, const mpc_override *o) {
    const char *title = fe_override_title(m, o), *glob = o->key + 8,
               *end = o->key[7] == '"' ? strrchr(o->key, '"') : NULL;
    const char *value = o->value;
    size_t digits = strspn(value, "0123456789.");
    if (digits && strcmp(value + digits, "x") == 0) value = mpc_arena_printf(m->arena, "%.*s x", (int)digits, value);
    if (!end || end < glob || end[1] != '.' || !end[2]) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E301", (mpc_span){0},
                               "a line of params is chosen by its selector and key");
        r.place = title;
        fe_help(&r, "--set 'params.\"head.**\".lr=10x'");
        fe_send(&r);
        return;
    }
    const fe_ast *e = value ? fe_parse_text(m, title, value) : NULL;
    fe_ast *entry = mpc_arena_alloc(m->arena, sizeof *entry);
    const char *path = mpc_arena_strndup(m->arena, glob, (size_t)(end - glob)),
               *key = mpc_arena_strdup(m->arena, end + 2);
    if (!entry || !path || !key || !value) m->diag.no_memory = true;
    if (!e || !entry || !path || !key) return;
    *entry = (fe_ast){.kind = AST_ENTRY, .span = e->span, .name_span = e->span, .text = key};
    entry->kid[0] = (fe_ast *)(uintptr_t)e;
    if (check_params_key(m, entry)) add(m, (fe_selector){.glob = path, .span = e->span, .entries = entry});
}

void fe_read_params(mpc_model *m) {
    const fe_ast *section = fe_find_section(m, "params");
    for (const fe_ast *e = section ? section->list.first : NULL; e; e = e->next) {
        if (e->kind == AST_GLOBS && !e->kid[0]) add_globs(m, e);
        else {
            fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E052", e->span, "a line of params begins with a selector");
            fe_help(&r, "\"**.bias\" { decay = 0 }");
            fe_send(&r);
        }
    }
    for (size_t i = 0; i < m->override_count; i++)
        if (!m->overrides[i].is_const && strncmp(m->overrides[i].key, "params.", 7) == 0)
            add_override(m, &m->overrides[i]);
}
