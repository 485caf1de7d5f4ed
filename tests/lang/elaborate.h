/* A model from text to graph, with its diagnostics, for tests. */
#ifndef MPC_TESTS_LANG_ELABORATE_H
#define MPC_TESTS_LANG_ELABORATE_H

#include <string.h>

#include "frontend/frontend.h"
#include "tests/lang/support.h"

typedef struct session {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_model *model;
} session;

/* Files that texts use: a list that ends with a NULL name. */
typedef struct other_text {
    const char *name, *text;
    uint32_t id;
} other_text;

typedef struct other_texts {
    session *s;
    other_text *list;
} other_texts;

static inline uint32_t open_other(void *user, uint32_t from, const char *said, mpc_str *why) {
    other_texts *others = user;
    const char *beside = mpc_sources_name(others->s->sources, from), *slash = strrchr(beside, '/');
    mpc_str name = {0};
    mpc_str_append_n(&name, beside, slash ? (size_t)(slash + 1 - beside) : 0);
    mpc_str_append(&name, said);
    uint32_t id = 0;
    for (other_text *t = others->list; t->name && !id && !name.failed; t++) {
        if (strcmp(t->name, name.data) != 0) continue;
        if (!t->id) t->id = mpc_sources_add(others->s->sources, t->name, t->text, strlen(t->text));
        id = t->id;
    }
    if (!id) mpc_str_printf(why, "there is no %s", mpc_str_cstr(&name));
    mpc_str_free(&name);
    return id;
}

/* The first of the texts is the model. */
static inline void open_texts(session *s, other_text *list, const mpc_override *o, size_t n) {
    *s = (session){.sources = mpc_sources_create(), .diags = mpc_diag_list_create()};
    s->sink = mpc_diag_list_sink(s->diags);
    s->ctx = mpc_context_create(&s->sink, s->sources);
    for (other_text *t = list; t->name; t++) t->id = 0;
    list->id = mpc_sources_add(s->sources, list->name, list->text, strlen(list->text));
    other_texts others = {s, list};
    s->model = mpc_model_load_using(s->ctx, list->id, &(mpc_other_files){open_other, &others}, o, n);
}

static inline void open_text(session *s, const char *name, const char *text, const mpc_override *o, size_t n) {
    *s = (session){.sources = mpc_sources_create(), .diags = mpc_diag_list_create()};
    s->sink = mpc_diag_list_sink(s->diags);
    s->ctx = mpc_context_create(&s->sink, s->sources);
    s->model = mpc_model_load(s->ctx, mpc_sources_add(s->sources, name, text, strlen(text)), o, n);
}

static inline void close_session(session *s) {
    mpc_model_destroy(s->model);
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->diags);
    mpc_sources_destroy(s->sources);
}

static inline mpc_graph *elaborate(session *s, mpc_phase phase, int64_t batch) {
    return s->model ? mpc_model_elaborate(s->model, phase, batch, NULL) : NULL;
}

/* Names of the states in order, "a b c"; trainable ones with a `!`. The caller frees it. */
static inline void state_names(const mpc_graph *g, mpc_str *out) {
    for (uint32_t i = 0; g && i < g->node_count; i++) {
        if (g->nodes[i].op != MPC_OP_state) continue;
        mpc_str_printf(out, "%s%s%s", out->length ? " " : "", mpc_attr_str(g, &g->nodes[i], "name"),
                       mpc_attr_bool(g, &g->nodes[i], "trainable") ? "!" : "");
    }
}

static inline void output_names(const mpc_graph *g, mpc_str *out) {
    for (uint32_t i = 0; g && i < g->output_count; i++)
        mpc_str_printf(out, "%s%s", out->length ? " " : "", mpc_sym_text(g->ctx, g->outputs[i].name));
}

static inline const mpc_node *find_state(const mpc_graph *g, const char *name) {
    for (uint32_t i = 0; g && i < g->node_count; i++)
        if (g->nodes[i].op == MPC_OP_state && strcmp(mpc_attr_str(g, &g->nodes[i], "name"), name) == 0)
            return &g->nodes[i];
    return NULL;
}

static inline unsigned count_op(const mpc_graph *g, mpc_op_id op) {
    unsigned n = 0;
    for (uint32_t i = 0; g && i < g->node_count; i++) n += g->nodes[i].op == op;
    return n;
}

#endif
