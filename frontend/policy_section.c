/* The section policy: formats by op name or path, values that must agree, the level. Later lines win over earlier ones,
 * those of the command line come last. A newcomer would look for `level` in the configuration: it is the setting
 * `solver` under another name. */
#include <string.h>

#include "frontend/fe_train.h"

static void add(mpc_model *m, fe_selector s) {
    if (!mpc_array_push(&m->policy, s)) m->diag.no_memory = true;
}

/* --- formats --- */

static const fe_ast *policy_word(mpc_model *m, const fe_ast *e) {
    if (e->kid[0]) return e->kid[0];
    const fe_ast *only = e->other.first;
    bool fits = only && !only->next && only->kind == AST_ENTRY &&
                (strcmp(only->text, "format") == 0 || strcmp(only->text, "precision") == 0);
    if (fits) return only->kid[0];
    fe_error(&m->diag, "E052", e->span, "a policy names one format: \"head.**\" { format = f32 }");
    return NULL;
}

static bool known_op(mpc_model *m, const char *name) {
    mpc_op_id id;
    return fe_find_builtin(name) || mpc_op_find(m->ctx, name, &id);
}

static void unknown_op(mpc_model *m, const char *name, mpc_span span) {
    fe_suggestion near = fe_suggest(name);
    for (size_t i = 0; fe_builtin_at(i); i++) fe_suggest_try(&near, fe_builtin_at(i)->name);
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E052", span,
                           "there is no op `%s`; paths stand in quotes: \"%s.**\" = f32", name, name);
    bool close = near.best && 3 * near.distance <= strlen(name); /* short words may well be paths */
    if (close) fe_help(&r, "did you mean `%s`?", near.best);
    fe_send(&r);
}

static mpc_format format_of(mpc_model *m, const fe_ast *word) {
    if (word->kind == AST_NAME) return fe_region_format(m, word);
    fe_error(&m->diag, "E052", word->span, "a policy names a format: f32, bf16 or f16");
    return MPC_FMT_none;
}

/* --- agree --- */

static bool is_glob(mpc_model *m, const fe_ast *e) {
    if (e->kind == AST_STRING && *e->text && !strpbrk(e->text, "|;@\"")) return true;
    fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E052", e->span, "`agree` names values by their paths, in quotes");
    fe_help(&r, "agree = [\"fc1\", \"layer.*.out\"]");
    fe_send(&r);
    return false;
}

/* "fc1|layer.*.out" */
static void add_agreement(mpc_model *m, const fe_ast *value, mpc_span span) {
    mpc_str globs = {0};
    bool ok = true;
    if (value->kind != AST_LIST) ok = is_glob(m, value);
    if (ok && value->kind != AST_LIST) mpc_str_append(&globs, value->text);
    for (const fe_ast *g = value->kind == AST_LIST ? value->list.first : NULL; g && ok; g = g->next) {
        ok = is_glob(m, g);
        if (ok) mpc_str_printf(&globs, "%s%s", globs.length ? "|" : "", g->text);
    }
    if (ok && !globs.length) ok = is_glob(m, value);
    fe_agreement a = {.globs = ok ? mpc_arena_strdup(m->arena, mpc_str_cstr(&globs)) : NULL, .span = span};
    if (ok && (globs.failed || !a.globs || !mpc_array_push(&m->agreements, a))) m->diag.no_memory = true;
    mpc_str_free(&globs);
}

/* --- level --- */

static bool is_level(const fe_ast *word) {
    return word->kind == AST_NAME && strlen(word->text) == 2 && word->text[0] == 'O' && word->text[1] >= '0' &&
           word->text[1] <= '3';
}

static void set_level(mpc_model *m, const fe_ast *word, mpc_span span, const char *command) {
    if (!is_level(word)) {
        fe_error(&m->diag, "E052", word->span,
                 "`level` is O0 (all f32), O1 (lists), O2 (almost all low) or O3 (all low)");
        return;
    }
    fe_setting *s = fe_train_setting(m, fe_find_train_key("solver"));
    if (!s || (s->origin == FE_FROM_COMMAND && !command)) return; /* --solver is nearer */
    if (s->origin == FE_FROM_FILE && !command) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E052", span, "`level` says what `solver` says already");
        fe_second(&r, s->span, "the first time");
        fe_help(&r, "a level is a solver by the name of O0 ... O3: leave one of them out");
        fe_send(&r);
        return;
    }
    *s = (fe_setting){.key = "solver",
                      .expr = word,
                      .text = word->text,
                      .span = span,
                      .origin = command ? FE_FROM_COMMAND : FE_FROM_FILE,
                      .command = command};
    m->config.solver = word->text;
    /* whether there are masters depends on the level, which was not known when `train` was read */
    fe_store_train_key(m, fe_find_train_key("weights"));
}

/* --- lines --- */

static void add_entry(mpc_model *m, const char *key, const fe_ast *value, mpc_span span, mpc_span name_span,
                      const char *command) {
    if (strcmp(key, "agree") == 0) add_agreement(m, value, span);
    else if (strcmp(key, "level") == 0) set_level(m, value, span, command);
    else if (!known_op(m, key)) unknown_op(m, key, name_span);
    else {
        mpc_format format = format_of(m, value);
        fe_selector s = {.glob = key, .span = span, .format = format, .is_op = true, .command = command != NULL};
        if (format != MPC_FMT_none) add(m, s);
    }
}

static void add_globs(mpc_model *m, const fe_ast *e) {
    const fe_ast *word = policy_word(m, e);
    mpc_format format = word ? format_of(m, word) : MPC_FMT_none;
    if (format == MPC_FMT_none) return;
    for (const fe_ast *g = e->list.first; g; g = g->next)
        add(m, (fe_selector){.glob = g->text, .span = g->span, .format = format});
}

/* policy."head.**"=f32, policy.softmax=f32, policy.level=O2 */
static void add_override(mpc_model *m, const mpc_override *o) {
    const char *title = fe_override_title(m, o), *key = o->key + 7, *end = strrchr(key, '"');
    bool quoted = *key == '"' && end > key + 1 && !end[1];
    const fe_ast *e = *o->value ? fe_parse_text(m, title, o->value) : NULL;
    const char *name =
        quoted ? mpc_arena_strndup(m->arena, key + 1, (size_t)(end - key - 1)) : mpc_arena_strdup(m->arena, key);
    if (!name) m->diag.no_memory = true;
    if (!name || (*o->value && !e)) return;
    if (!*o->value || !*key || (*key == '"' && !quoted)) {
        fe_report r =
            fe_begin(&m->diag, MPC_SEV_ERROR, "E301", (mpc_span){0}, "a policy names an op or a path, and a format");
        r.place = title;
        fe_help(&r, "--set 'policy.\"head.**\"=f32'");
        fe_send(&r);
        return;
    }
    if (!quoted) {
        add_entry(m, name, e, e->span, e->span, title);
        return;
    }
    mpc_format format = format_of(m, e);
    if (format != MPC_FMT_none) add(m, (fe_selector){.glob = name, .span = e->span, .format = format, .command = true});
}

void fe_read_policy(mpc_model *m) {
    const fe_ast *section = fe_find_section(m, "policy");
    for (const fe_ast *e = section ? section->list.first : NULL; e; e = e->next) {
        if (e->kind == AST_ENTRY) add_entry(m, e->text, e->kid[0], e->span, e->name_span, NULL);
        else if (e->kind == AST_GLOBS) add_globs(m, e);
        else fe_error(&m->diag, "E052", e->span, "a policy is an op or a path with a format: softmax = f32");
    }
    for (size_t i = 0; i < m->override_count; i++)
        if (!m->overrides[i].is_const && strncmp(m->overrides[i].key, "policy.", 7) == 0)
            add_override(m, &m->overrides[i]);
}

/* --- what autocast is told --- */

/* Of the option's own signs a place may hold, say in the name of a folder. */
static void append_place(const char *place, mpc_str *out) {
    for (const char *at = place; *at; at++) mpc_str_append_n(out, *at == ';' || *at == '"' ? "_" : at, 1);
}

const char *mpc_model_agreements(mpc_model *m) {
    mpc_str text = {0};
    for (size_t i = 0; i < m->agreements.count; i++) {
        const fe_agreement *a = &m->agreements.data[i];
        mpc_str_printf(&text, "%s%s@", i ? ";" : "", a->globs);
        append_place(fe_place_text(&m->diag, a->span), &text);
    }
    const char *copy = text.failed ? NULL : mpc_arena_strdup(m->arena, mpc_str_cstr(&text));
    mpc_str_free(&text);
    return copy;
}
