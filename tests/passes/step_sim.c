/* States are kept as tensors in the order of the graph's state nodes. Initial values: zeros, ones and constant(a);
 * derived copies are made from their masters, as a store does. */
#include "step_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "ir/eval/eval.h"

enum { MAX_STATES = 64, MAX_INPUTS = 8 };

struct step_sim {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_graph *g;
    mpc_arena *arena;      /* states and inputs */
    mpc_arena *step_arena; /* values of the last step */
    mpc_tensor *values;
    const mpc_node *nodes[MAX_STATES];
    mpc_tensor states[MAX_STATES], inputs[MAX_INPUTS];
    unsigned state_count;
};

static void print_diagnostics(const step_sim *s) {
    for (size_t i = 0; i < mpc_diag_list_count(s->diags); i++) {
        mpc_str text = {0};
        mpc_diag_render(mpc_diag_list_get(s->diags, i), s->sources, true, false, &text);
        fprintf(stderr, "%s\n", mpc_str_cstr(&text));
        mpc_str_free(&text);
    }
}

static const char *state_name(const step_sim *s, unsigned i) { return mpc_attr_str(s->g, s->nodes[i], "name"); }
static mpc_format state_derived(const step_sim *s, unsigned i) { return mpc_attr_format(s->g, s->nodes[i], "derived"); }

static int find_state(const step_sim *s, const char *name, mpc_format derived) {
    for (unsigned i = 0; i < s->state_count; i++)
        if (strcmp(state_name(s, i), name) == 0 && state_derived(s, i) == derived) return (int)i;
    return -1;
}

static double initial_value(const step_sim *s, const mpc_node *n) {
    const char *init = mpc_attr_str(s->g, n, "init");
    if (strcmp(init, "ones") == 0) return 1;
    return strcmp(init, "constant") == 0 ? mpc_attr_float(s->g, n, "a") : 0;
}

static void derive_copies(step_sim *s) {
    for (unsigned i = 0; i < s->state_count; i++) {
        if (state_derived(s, i) == MPC_FMT_none) continue;
        int master = find_state(s, state_name(s, i), MPC_FMT_none);
        int64_t count = mpc_type_elements(&s->states[i].type);
        for (int64_t k = 0; master >= 0 && k < count; k++)
            s->states[i].data[k] = mpc_round_to(state_derived(s, i), s->states[master].data[k]);
    }
}

static void make_states(step_sim *s) {
    for (mpc_node_id id = 0; id < s->g->node_count; id++) {
        const mpc_node *n = &s->g->nodes[id];
        if (n->op != MPC_OP_state || s->state_count == MAX_STATES) continue;
        unsigned i = s->state_count++;
        s->nodes[i] = n;
        s->states[i] = mpc_tensor_make(s->arena, mpc_value_type(s->g, mpc_result(n, 0)));
        int64_t count = mpc_type_elements(&s->states[i].type);
        for (int64_t k = 0; k < count; k++)
            s->states[i].data[k] = mpc_round_to(s->states[i].type.format, initial_value(s, n));
    }
    derive_copies(s);
    for (uint32_t i = 0; i < s->g->input_count && i < MAX_INPUTS; i++)
        s->inputs[i] = mpc_tensor_make(s->arena, mpc_value_type(s->g, s->g->inputs[i].value));
}

static mpc_graph *run_passes(step_sim *s, const char *text, const char *pipeline) {
    uint32_t file = mpc_sources_add(s->sources, "test", text, strlen(text));
    mpc_graph *in = mpc_graph_parse(s->ctx, file);
    if (in == NULL) return NULL;
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *out = mpc_pipeline_run(in, pipeline, &env, &hooks);
    mpc_graph_destroy(in);
    return out;
}

step_sim *sim_create(const char *text, const char *pipeline) {
    step_sim *s = calloc(1, sizeof *s);
    if (s == NULL) abort();
    s->sources = mpc_sources_create();
    s->diags = mpc_diag_list_create();
    s->sink = mpc_diag_list_sink(s->diags);
    s->ctx = mpc_context_create(&s->sink, s->sources);
    s->arena = mpc_arena_create();
    if (s->ctx != NULL && mpc_passes_register(s->ctx) == MPC_OK) s->g = run_passes(s, text, pipeline);
    if (s->g != NULL) {
        make_states(s);
        return s;
    }
    print_diagnostics(s);
    sim_destroy(s);
    return NULL;
}

void sim_destroy(step_sim *s) {
    if (s == NULL) return;
    mpc_graph_destroy(s->g);
    mpc_arena_destroy(s->arena);
    mpc_arena_destroy(s->step_arena);
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->diags);
    mpc_sources_destroy(s->sources);
    free(s);
}

const mpc_graph *sim_graph(const step_sim *s) { return s->g; }

unsigned sim_diagnostics(const step_sim *s, const char *code) {
    unsigned count = 0;
    for (size_t i = 0; i < mpc_diag_list_count(s->diags); i++)
        count += strcmp(mpc_diag_list_get(s->diags, i)->code, code) == 0;
    return count;
}

void sim_input(step_sim *s, const char *name, const double *values, size_t count) {
    for (uint32_t i = 0; i < s->g->input_count; i++) {
        mpc_value_id v = s->g->inputs[i].value;
        if (strcmp(mpc_value_name(s->g, v), name) != 0) continue;
        for (size_t k = 0; k < count && (int64_t)k < mpc_type_elements(&s->inputs[i].type); k++)
            s->inputs[i].data[k] = mpc_round_to(s->inputs[i].type.format, values[k]);
        return;
    }
    fprintf(stderr, "no input %s\n", name);
}

void sim_input1(step_sim *s, const char *name, double value) { sim_input(s, name, &value, 1); }

void sim_set_state(step_sim *s, const char *name, double value) {
    int i = find_state(s, name, MPC_FMT_none);
    int64_t count = i < 0 ? 0 : mpc_type_elements(&s->states[i].type);
    for (int64_t k = 0; k < count; k++) s->states[i].data[k] = mpc_round_to(s->states[i].type.format, value);
    derive_copies(s);
}

static void randomize(mpc_tensor *t, const char *name, uint64_t seed) {
    int64_t count = mpc_type_elements(&t->type);
    mpc_format_kind kind = mpc_format_get(t->type.format)->kind;
    for (int64_t k = 0; k < count; k++) {
        double u = (double)mpc_random_uniform(seed, mpc_hash_str(name), 0, (uint64_t)k);
        double x = kind == MPC_FORMAT_FLOAT ? u - 0.5 : kind == MPC_FORMAT_INT ? floor(u * 8) : 1;
        t->data[k] = mpc_round_to(t->type.format, x);
    }
}

void sim_randomize(step_sim *s, uint64_t seed) {
    for (unsigned i = 0; i < s->state_count; i++)
        if (strcmp(mpc_attr_str(s->g, s->nodes[i], "role"), "param") == 0)
            randomize(&s->states[i], state_name(s, i), seed);
    for (uint32_t i = 0; i < s->g->input_count && i < MAX_INPUTS; i++)
        randomize(&s->inputs[i], mpc_value_name(s->g, s->g->inputs[i].value), seed);
    derive_copies(s);
}

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *n) {
    step_sim *s = user;
    (void)g;
    for (unsigned i = 0; i < s->state_count; i++)
        if (s->nodes[i] == n) return s->states[i];
    return (mpc_tensor){0};
}

static void take_nexts(step_sim *s) {
    double *copies[MAX_STATES] = {0};
    for (uint32_t i = 0; i < s->g->next_count; i++) {
        const mpc_tensor *t = &s->values[s->g->nexts[i].value];
        size_t bytes = (size_t)mpc_type_elements(&t->type) * sizeof *t->data;
        copies[i] = malloc(bytes + 1);
        if (copies[i] != NULL) memcpy(copies[i], t->data, bytes);
    }
    for (uint32_t i = 0; i < s->g->next_count; i++) {
        const mpc_node *n = mpc_producer(s->g, s->g->nexts[i].state);
        mpc_tensor t = read_state(s, s->g, n);
        memcpy(t.data, copies[i], (size_t)mpc_type_elements(&t.type) * sizeof *t.data);
        free(copies[i]);
    }
}

bool sim_step(step_sim *s) {
    mpc_arena_destroy(s->step_arena);
    s->step_arena = mpc_arena_create();
    s->values = mpc_arena_alloc(s->step_arena, (s->g->value_count + 1) * sizeof *s->values);
    if (s->values == NULL || s->g->next_count > MAX_STATES) return false;
    if (mpc_evaluate(s->g, s->inputs, read_state, s, NULL, s->step_arena, s->values) != MPC_OK) {
        print_diagnostics(s);
        return false;
    }
    /* an output that is a state shows what it was during the step */
    for (uint32_t i = 0; i < s->g->output_count; i++) {
        mpc_tensor *t = &s->values[s->g->outputs[i].value], copy = mpc_tensor_make(s->step_arena, &t->type);
        memcpy(copy.data, t->data, (size_t)mpc_type_elements(&t->type) * sizeof *t->data);
        *t = copy;
    }
    take_nexts(s);
    return true;
}

double sim_output(const step_sim *s, const char *name) {
    mpc_value_id v = mpc_graph_find_output(s->g, name);
    if (v != MPC_NONE && s->values != NULL) return s->values[v].data[0];
    fprintf(stderr, "no output %s\n", name);
    return NAN;
}

double sim_copy(const step_sim *s, const char *name, mpc_format derived, size_t index) {
    int i = find_state(s, name, derived);
    if (i >= 0) return s->states[i].data[index];
    fprintf(stderr, "no state %s\n", name);
    return NAN;
}

double sim_state(const step_sim *s, const char *name, size_t index) { return sim_copy(s, name, MPC_FMT_none, index); }

bool sim_has_state(const step_sim *s, const char *name) { return find_state(s, name, MPC_FMT_none) >= 0; }

void sim_restore(step_sim *s, const step_sim *from) {
    for (unsigned i = 0; i < s->state_count; i++) {
        int other = find_state(from, state_name(s, i), MPC_FMT_none);
        if (other < 0 || state_derived(s, i) != MPC_FMT_none) continue;
        memcpy(s->states[i].data, from->states[other].data,
               (size_t)mpc_type_elements(&s->states[i].type) * sizeof(double));
    }
    derive_copies(s);
}

bool sim_same_states(const step_sim *a, const step_sim *b) {
    if (a->state_count != b->state_count) return false;
    for (unsigned i = 0; i < a->state_count; i++) {
        int other = find_state(b, state_name(a, i), state_derived(a, i));
        size_t bytes = (size_t)mpc_type_elements(&a->states[i].type) * sizeof(double);
        if (other < 0 || memcmp(a->states[i].data, b->states[other].data, bytes) != 0) return false;
    }
    return true;
}
