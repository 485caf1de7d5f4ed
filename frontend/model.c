/* Loading a model: read its files (use.c), apply overrides, evaluate the sections once. Elaboration comes later, as
 * often as sizes ask for it. Constants are evaluated per elaboration (`vocabulary` is known only with data), the train
 * section once. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_elab.h"

const fe_ast *fe_find_section(const mpc_model *m, const char *name) {
    for (const fe_ast *i = m->items.first; i; i = i->next)
        if (i->kind == AST_SECTION && strcmp(i->text, name) == 0) return i;
    return NULL;
}

const char *fe_source_text(mpc_model *m, mpc_span span) {
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(m->ctx), span.file, &length);
    if (!text || span.end > length || span.begin > span.end) return "";
    const char *copy = mpc_arena_strndup(m->arena, text + span.begin, span.end - span.begin);
    if (!copy) m->diag.no_memory = true;
    return copy ? copy : "";
}

bool fe_parse(mpc_model *m, uint32_t file, fe_list *items, const fe_ast **expression) {
    fe_parser *p = mpc_alloc(sizeof *p);
    if (!p) {
        m->diag.no_memory = true;
        return false;
    }
    memset(p, 0, sizeof *p);
    p->ctx = m->ctx;
    p->arena = m->arena;
    p->diag = &m->diag;
    p->file = file;
    bool ok;
    if (items) {
        ok = fe_parse_file(p);
        *items = p->items;
    } else {
        *expression = fe_parse_expression(p);
        ok = *expression != NULL;
    }
    mpc_free(p);
    return ok;
}

const fe_ast *fe_parse_text(mpc_model *m, const char *name, const char *text) {
    const fe_ast *e = NULL;
    uint32_t file = mpc_sources_add(mpc_context_sources(m->ctx), name, text, strlen(text));
    if (!file) m->diag.no_memory = true;
    return file && fe_parse(m, file, NULL, &e) ? e : NULL;
}

/* --- losses and metrics, from the text alone --- */

/* Losses and metrics share their names: `valid.ce` would be either. */
static bool share_names(const fe_ast *a, const fe_ast *b) {
    return a->kind == b->kind || (a->kind == AST_LOSS && b->kind == AST_METRIC) ||
           (a->kind == AST_METRIC && b->kind == AST_LOSS);
}

static const fe_ast *named_before(const mpc_model *m, const fe_ast *s, const char *name) {
    for (const fe_ast *o = m->item->other.first; o && o != s; o = o->next) {
        const char *other = share_names(o, s) ? fe_statement_name(o) : NULL;
        if (other && strcmp(other, name) == 0) return o;
    }
    return NULL;
}

static void report_twice(mpc_model *m, const fe_ast *s, const fe_ast *first, const char *name) {
    const char *word = s->kind == AST_LOSS ? "losses" : s->kind == AST_METRIC ? "metrics" : "outputs";
    fe_report r = s->kind == first->kind
                      ? fe_begin(&m->diag, MPC_SEV_ERROR, "E049", s->span, "there are two %s called `%s`", word, name)
                      : fe_begin(&m->diag, MPC_SEV_ERROR, "E049", s->span,
                                 "a loss and a metric are both called `%s`: valid.%s could be either", name, name);
    fe_second(&r, first->span, "the first one");
    if (!s->text)
        fe_help(&r, "without a name it is the callee's; give one: %s %s_2 = ...",
                s->kind == AST_LOSS     ? "loss"
                : s->kind == AST_METRIC ? "metric"
                                        : "output",
                name);
    fe_send(&r);
}

/* Of all others less is better. */
static bool is_rising(const char *callee) {
    static const char *const names[] = {"accuracy", "top_k_accuracy", "top_k", "binary_accuracy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], callee) == 0) return true;
    return false;
}

static void add_statement(mpc_model *m, const fe_ast *s) {
    const char *word = s->kind == AST_LOSS ? "loss" : s->kind == AST_METRIC ? "metric" : "output";
    const char *name = fe_statement_name(s);
    if (!name) {
        fe_report r = fe_begin(&m->diag, MPC_SEV_ERROR, "E049", s->kid[0]->span, "this %s needs a name", word);
        fe_help(&r, "%s total = ...", word);
        fe_send(&r);
        return;
    }
    const fe_ast *first = named_before(m, s, name);
    if (first) {
        report_twice(m, s, first, name);
        return;
    }
    const fe_ast *v = s->kid[0];
    const char *callee = v->kind == AST_CALL && v->kid[0]->kind == AST_NAME ? v->kid[0]->text : "";
    bool ok = true;
    if (s->kind == AST_LOSS) ok = mpc_array_push(&m->losses, name);
    if (s->kind == AST_METRIC)
        ok = mpc_array_push(&m->metrics, (mpc_metric_info){.name = name,
                                                           .higher_is_better = is_rising(callee),
                                                           .exponential = strcmp(callee, "perplexity") == 0});
    if (!ok) m->diag.no_memory = true;
}

static void read_statements(mpc_model *m) {
    for (const fe_ast *s = m->item ? m->item->other.first : NULL; s; s = s->next)
        if (s->kind == AST_LOSS || s->kind == AST_METRIC || s->kind == AST_OUTPUT) add_statement(m, s);
}

/* --- what nothing reads --- */

/* `read` by symbol, for the symbols that are names of something. */
static void mark_read(const mpc_model *m, const fe_ast *at, bool *read) {
    if (!at) return;
    if (at->kind == AST_NAME && at->sym < m->latest.count) read[at->sym] = true;
    for (int i = 0; i < 3; i++) mark_read(m, at->kid[i], read);
    for (const fe_ast *k = at->kind == AST_ASSIGN ? NULL : at->list.first; k; k = k->next) mark_read(m, k, read);
    for (const fe_ast *k = at->other.first; k; k = k->next) mark_read(m, k, read);
}

static void warn_unused_file(mpc_model *m, const fe_ast *use, const bool *read) {
    for (size_t i = 0; i < m->names.count; i++) {
        const fe_name *n = &m->names.data[i];
        if (n->whole && n->from.file == m->file && n->from.begin == use->name_span.begin && read[n->sym]) return;
    }
    fe_warning(&m->diag, "W103", use->name_span, "nothing of %s is used here", use->text);
}

/* In the model's own file: what others declare may be there for others, and a constant of theirs for --const. */
static void warn_unused(mpc_model *m) {
    bool *read = mpc_arena_alloc(m->arena, (m->latest.count + 1) * sizeof *read);
    if (!read) m->diag.no_memory = true;
    for (const fe_ast *i = read ? m->items.first : NULL; i; i = i->next)
        if (i->kind != AST_USE) mark_read(m, i, read);
    for (size_t i = 0; read && i < m->names.count; i++) {
        const fe_name *n = &m->names.data[i];
        bool brought = n->from.file == m->file && !n->is_block && m->consts.data[n->index].item->span.file != m->file;
        if (n->file != m->file || n->whole || brought || read[n->sym]) continue;
        fe_warning(&m->diag, "W103", n->from, "the %s `%s` is never used", n->is_block ? "block" : "constant",
                   mpc_sym_text(m->ctx, n->sym));
    }
    for (const fe_ast *i = read ? m->items.first : NULL; i; i = i->next)
        if (i->kind == AST_USE && !i->list.count) warn_unused_file(m, i, read);
}

/* --- load --- */

static void read_sections(mpc_model *m) {
    fe_apply_const_overrides(m);
    read_statements(m);
    fe_read_train(m);
    fe_apply_train_overrides(m);
    fe_read_data(m);
    fe_read_params(m);
    fe_read_policy(m);
}

mpc_model *mpc_model_load(mpc_context *ctx, uint32_t file, const mpc_override *overrides, size_t override_count) {
    return mpc_model_load_using(ctx, file, NULL, overrides, override_count);
}

mpc_model *mpc_model_load_using(mpc_context *ctx, uint32_t file, const mpc_other_files *others,
                                const mpc_override *overrides, size_t override_count) {
    mpc_arena *arena = mpc_arena_create();
    mpc_model *m = arena ? mpc_alloc(sizeof *m) : NULL;
    if (!m) {
        mpc_arena_destroy(arena);
        mpc_error(mpc_context_sink(ctx), "E901", "out of memory while reading the model");
        return NULL;
    }
    *m = (mpc_model){.ctx = ctx,
                     .arena = arena,
                     .file = file,
                     .others = others,
                     .diag = {.ctx = ctx, .arena = arena},
                     .overrides = overrides,
                     .override_count = override_count};
    fe_load_files(m);
    if (!m->diag.errors && !m->diag.no_memory) read_sections(m);
    m->overrides = NULL;
    m->others = NULL;
    if (!m->diag.errors && !m->diag.no_memory) warn_unused(m);
    if (m->diag.no_memory) fe_no_memory(&m->diag);
    if (!m->diag.errors) return m;
    mpc_model_destroy(m);
    return NULL;
}

void mpc_model_destroy(mpc_model *m) {
    if (!m) return;
    mpc_array_free(&m->files);
    mpc_array_free(&m->names);
    mpc_array_free(&m->latest);
    mpc_array_free(&m->consts);
    mpc_array_free(&m->blocks);
    mpc_array_free(&m->train);
    mpc_array_free(&m->params);
    mpc_array_free(&m->freeze);
    mpc_array_free(&m->policy);
    mpc_array_free(&m->agreements);
    mpc_array_free(&m->sources);
    mpc_array_free(&m->source_settings);
    mpc_array_free(&m->mappings);
    mpc_array_free(&m->metrics);
    mpc_array_free(&m->losses);
    fe_diag_deinit(&m->diag);
    mpc_arena_destroy(m->arena);
    mpc_free(m);
}

static const char *label_in(const fe_list *body, const char *variable) {
    const char *label = NULL;
    for (const fe_ast *s = body->first; s && !label; s = s->next) {
        const fe_ast *target = s->kind == AST_ASSIGN && s->list.count == 1 ? s->list.first : NULL;
        if (target && target->kind == AST_NAME && s->kid[0]->kind == AST_CALL && strcmp(target->text, variable) == 0)
            label = s->kid[0]->text;
        if (s->kind == AST_REGION || s->kind == AST_REPEAT || s->kind == AST_IF) label = label_in(&s->list, variable);
        if (s->kind == AST_IF && !label) label = label_in(&s->other, variable);
    }
    return label;
}

const char *mpc_model_label(const mpc_model *m, const char *variable) {
    const char *label = label_in(&m->item->other, variable);
    for (size_t i = 0; i < m->blocks.count && !label; i++) label = label_in(&m->blocks.data[i].item->other, variable);
    return label;
}

const char *mpc_model_name(const mpc_model *m) { return m->item->text; }
bool mpc_model_has_const(const mpc_model *m, const char *name) { return fe_const_named(m, name) != NULL; }
const mpc_train_config *mpc_model_train(const mpc_model *m) { return &m->config; }
size_t mpc_model_source_count(const mpc_model *m) { return m->sources.count; }
const mpc_data_source *mpc_model_source(const mpc_model *m, size_t i) { return &m->sources.data[i]; }
size_t mpc_model_metric_count(const mpc_model *m) { return m->metrics.count; }
const mpc_metric_info *mpc_model_metric(const mpc_model *m, size_t i) { return &m->metrics.data[i]; }
size_t mpc_model_loss_count(const mpc_model *m) { return m->losses.count; }
const char *mpc_model_loss(const mpc_model *m, size_t i) { return m->losses.data[i]; }

bool mpc_model_predicts(const mpc_model *m) {
    for (const fe_ast *s = m->item->other.first; s; s = s->next)
        if (s->kind == AST_OUTPUT) return true;
    return false;
}
