/* See graph_run.h. Both devices get the same lowered graph, `ref` through the evaluator. Inputs are rounded to their
 * formats first, so that a value written here is one that the format has. */
#include "graph_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ops/device_run.h"
#include "passes/pass.h"

enum { MAX_ENDS = 8 };

struct graph_run {
    mpc_sources *sources;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_graph *g;
    mpc_arena *arena;
    mpc_tensor inputs[MAX_ENDS], outputs[GRAPH_DEVICES][MAX_ENDS];
};

static void print_diag(void *user, const mpc_diag *diag) {
    mpc_str text = {0};
    mpc_diag_render(diag, user, true, false, &text);
    fprintf(stderr, "%s\n", mpc_str_cstr(&text));
    mpc_str_free(&text);
}

static mpc_graph *passed(graph_run *r, mpc_graph *in, const char *pipeline) {
    mpc_pass_env env = {.ctx = r->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    if (in == NULL || pipeline[0] == '\0') return in;
    mpc_graph *out = mpc_pipeline_run(in, pipeline, &env, &hooks);
    mpc_graph_destroy(in);
    return out;
}

graph_run *graph_open(const char *text, const char *pipeline) {
    graph_run *r = calloc(1, sizeof *r);
    if (r == NULL) abort();
    r->sources = mpc_sources_create();
    r->sink = (mpc_sink){.emit = print_diag, .user = r->sources};
    r->ctx = mpc_context_create(&r->sink, r->sources);
    r->arena = mpc_arena_create();
    if (r->ctx != NULL && mpc_passes_register(r->ctx) == MPC_OK) {
        uint32_t file = mpc_sources_add(r->sources, "test", text, strlen(text));
        r->g = passed(r, mpc_graph_parse(r->ctx, file), pipeline);
    }
    if (r->g == NULL || r->g->input_count > MAX_ENDS || r->g->output_count > MAX_ENDS) {
        graph_close(r);
        return NULL;
    }
    for (uint32_t i = 0; i < r->g->input_count; i++)
        r->inputs[i] = mpc_tensor_make(r->arena, mpc_value_type(r->g, r->g->inputs[i].value));
    return r;
}

void graph_close(graph_run *r) {
    if (r == NULL) return;
    mpc_graph_destroy(r->g);
    mpc_arena_destroy(r->arena);
    mpc_context_destroy(r->ctx);
    mpc_sources_destroy(r->sources);
    free(r);
}

double *graph_input(graph_run *r, const char *name) {
    for (uint32_t i = 0; i < r->g->input_count; i++)
        if (strcmp(mpc_value_name(r->g, r->g->inputs[i].value), name) == 0) return r->inputs[i].data;
    fprintf(stderr, "no input %s\n", name);
    abort();
}

static bool run_ref(graph_run *r) {
    mpc_pass_env env = {.ctx = r->ctx};
    mpc_graph *low = mpc_pipeline_run(r->g, "@lower", &env, NULL);
    if (low == NULL) return false;
    mpc_tensor *values = mpc_arena_alloc(r->arena, (low->value_count + 1) * sizeof *values);
    mpc_eval_options options = {0};
    bool ok = values != NULL && mpc_evaluate(low, r->inputs, NULL, NULL, &options, r->arena, values) == MPC_OK;
    for (uint32_t i = 0; ok && i < low->output_count; i++) r->outputs[0][i] = values[low->outputs[i].value];
    mpc_graph_destroy(low);
    return ok;
}

bool graph_step(graph_run *r) {
    for (uint32_t i = 0; i < r->g->input_count; i++) {
        int64_t count = mpc_type_elements(&r->inputs[i].type);
        for (int64_t k = 0; k < count; k++)
            r->inputs[i].data[k] = mpc_round_to(r->inputs[i].type.format, r->inputs[i].data[k]);
    }
    if (!run_ref(r)) return false;
    const char *why = ops_device_run(OPS_ON_CPU, r->g, r->inputs, r->arena, r->outputs[1]);
    if (why != NULL) fprintf(stderr, "cpu: %s\n", why);
    return why == NULL;
}

mpc_tensor graph_output(const graph_run *r, int device, const char *name) {
    for (uint32_t i = 0; i < r->g->output_count; i++)
        if (strcmp(mpc_sym_text(r->ctx, r->g->outputs[i].name), name) == 0) return r->outputs[device][i];
    return (mpc_tensor){0};
}
