/* What tests of gradients and expansions share: graphs from text, passes, evaluation with values made from names, and
 * the comparison of every gradient with central differences in f64. */
#ifndef MPC_TESTS_GRAD_SUPPORT_H
#define MPC_TESTS_GRAD_SUPPORT_H

#include <math.h>
#include <stdlib.h>

#include "../check.h"
#include "base/str.h"
#include "ir/eval/eval.h"
#include "passes/passes.h"

#define HEAD(inputs) "mpir 1\ngraph @step(" inputs ") {\n"
#define PARAM(name, shape) "  %" name " = state() {name=" name " trainable=true} : f32[" shape "]\n"
#define LOSS(shape, axes) \
    "  %yp = mul(%y, %p) : f32[" shape "]\n  %loss = sum(%yp) {axes=[" axes "]} : f32[]\n  return(\"loss\": " \
    "%loss)\n}\n"
#define SUM(shape, axes) "  %loss = sum(%y) {axes=[" axes "]} : f32[]\n  return(\"loss\": %loss)\n}\n"

typedef struct fixture {
    mpc_context *ctx;
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    /* The value of a state or input by name, instead of the made-up one. */
    const char *fixed_name[8];
    const double *fixed[8];
    int fixed_count;
    const char *bent; /* this state's element `bent_at` is moved by `by` */
    int64_t bent_at;
    double by;
    bool exact; /* round as devices do instead of f64 */
} fixture;

static inline fixture *open_fixture(void) {
    fixture *f = calloc(1, sizeof *f);
    f->sources = mpc_sources_create();
    f->diags = mpc_diag_list_create();
    f->sink = mpc_diag_list_sink(f->diags);
    f->ctx = mpc_context_create(&f->sink, f->sources);
    CHECK(f->ctx != NULL && mpc_passes_register(f->ctx) == MPC_OK);
    return f;
}

static inline void close_fixture(fixture *f) {
    mpc_context_destroy(f->ctx);
    mpc_diag_list_destroy(f->diags);
    mpc_sources_destroy(f->sources);
    free(f);
}

static inline void fix(fixture *f, const char *name, const double *values) {
    f->fixed_name[f->fixed_count] = name;
    f->fixed[f->fixed_count++] = values;
}

static inline mpc_graph *parse(fixture *f, const char *text) {
    uint32_t file = mpc_sources_add(f->sources, "test.mpir", text, strlen(text));
    mpc_graph *g = mpc_graph_parse(f->ctx, file);
    size_t n = mpc_diag_list_count(f->diags);
    CHECK_MSG(g != NULL, "%s\n%s", n > 0 ? mpc_diag_list_get(f->diags, n - 1)->message : "", text);
    return g;
}

typedef mpc_graph *(*pass)(const mpc_graph *, const mpc_pass_options *, mpc_pass_env *);

/* Runs a pass and verifies what it made. NULL after a failed check. */
static inline mpc_graph *apply(fixture *f, pass run, const mpc_graph *g) {
    mpc_pass_env env = {.ctx = f->ctx};
    mpc_graph *out = g != NULL ? run(g, NULL, &env) : NULL;
    size_t n = mpc_diag_list_count(f->diags);
    CHECK_MSG(out != NULL, "%s", n > 0 ? mpc_diag_list_get(f->diags, n - 1)->message : "");
    if (out == NULL) return NULL;
    bool ok = mpc_graph_verify(out) == MPC_OK;
    n = mpc_diag_list_count(f->diags);
    CHECK_MSG(ok, "%s", n > 0 ? mpc_diag_list_get(f->diags, n - 1)->message : "");
    return out;
}

/* Floats in (-1, 1), in (0.5, 2) for names that begin with `pos`; small integers; two bools of three are true. */
static inline double made_up(const char *name, mpc_format format, int64_t i) {
    uint64_t h = (mpc_hash_str(name) ^ (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    double u = (double)((h ^ h >> 31) >> 12) * 0x1p-52;
    if (format == MPC_FMT_bool) return i % 3 != 1;
    if (!mpc_format_is_float(format)) return (double)((i * 5 + 1) % 3);
    return strncmp(name, "pos", 3) == 0 ? 0.5 + 1.5 * u : 2 * u - 1;
}

static inline mpc_tensor make_tensor(const fixture *f, const char *name, const mpc_type *type, mpc_arena *arena) {
    mpc_tensor t = mpc_tensor_make(arena, type);
    int64_t count = mpc_type_elements(type);
    const double *fixed = NULL;
    for (int k = 0; k < f->fixed_count; k++)
        if (strcmp(name, f->fixed_name[k]) == 0) fixed = f->fixed[k];
    for (int64_t i = 0; i < count; i++) {
        t.data[i] = fixed != NULL ? fixed[i] : made_up(name, type->format, i);
        if (f->exact) t.data[i] = mpc_round_to(type->format, t.data[i]);
        if (f->bent != NULL && strcmp(name, f->bent) == 0 && i == f->bent_at) t.data[i] += f->by;
    }
    return t;
}

typedef struct state_source {
    const fixture *f;
    mpc_arena *arena;
} state_source;

static inline mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    state_source *s = user;
    return make_tensor(s->f, mpc_attr_str(g, state, "name"), mpc_value_type(g, mpc_result(state, 0)), s->arena);
}

/* Values of the whole graph, in `arena`. */
static inline mpc_tensor *evaluate(fixture *f, const mpc_graph *g, mpc_arena *arena) {
    mpc_tensor *values = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values);
    mpc_tensor *inputs = mpc_arena_alloc(arena, (g->input_count + 1) * sizeof *inputs);
    for (uint32_t i = 0; i < g->input_count; i++)
        inputs[i] = make_tensor(f, mpc_value_name(g, g->inputs[i].value), mpc_value_type(g, g->inputs[i].value), arena);
    state_source source = {f, arena};
    mpc_eval_options options = {.f64 = !f->exact};
    CHECK(mpc_evaluate(g, inputs, read_state, &source, &options, arena, values) == MPC_OK);
    return values;
}

static inline mpc_tensor output_of(const mpc_graph *g, const mpc_tensor *values, const char *name) {
    mpc_value_id v = mpc_graph_find_output(g, name);
    return v == MPC_NONE ? (mpc_tensor){0} : values[v];
}

/* One output of `g`, evaluated afresh. */
static inline mpc_tensor evaluate_output(fixture *f, const mpc_graph *g, const char *name, mpc_arena *arena) {
    return output_of(g, evaluate(f, g, arena), name);
}

static inline double loss_with(fixture *f, const mpc_graph *g, const char *state, int64_t at, double by) {
    mpc_arena *arena = mpc_arena_create();
    f->bent = state;
    f->bent_at = at;
    f->by = by;
    mpc_tensor loss = evaluate_output(f, g, "loss", arena);
    f->bent = NULL;
    double out = loss.data != NULL ? loss.data[0] : (double)NAN;
    mpc_arena_destroy(arena);
    return out;
}

static inline bool close_to(double a, double b, double tolerance) {
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* grad:NAME of one state against central differences of the forward graph. */
static inline void check_state(fixture *f, const char *label, const mpc_graph *g, const char *name,
                               const mpc_tensor *gradient) {
    int64_t count = mpc_type_elements(&gradient->type);
    const double h = 1e-5;
    for (int64_t i = 0; i < count; i++) {
        double numeric = (loss_with(f, g, name, i, h) - loss_with(f, g, name, i, -h)) / (2 * h);
        CHECK_MSG(close_to(gradient->data[i], numeric, 1e-6), "%s: d loss / d %s[%lld] is %.9g, by differences %.9g",
                  label, name, (long long)i, gradient->data[i], numeric);
    }
}

/* Of each trainable state. `all`: the loss depends on all of them. */
static inline void check_states(fixture *f, const char *label, const mpc_graph *g, const mpc_graph *dg, bool all) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *values = evaluate(f, dg, arena);
    char name[256];
    for (uint32_t i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (n->op != MPC_OP_state || !mpc_attr_bool(g, n, "trainable")) continue;
        const char *path = mpc_attr_str(g, n, "name");
        snprintf(name, sizeof name, "grad:%s", path);
        mpc_tensor gradient = output_of(dg, values, name);
        CHECK_MSG(!all || gradient.data != NULL, "%s: no gradient of %s", label, path);
        if (gradient.data == NULL) continue;
        const mpc_type *type = mpc_value_type(g, mpc_result(n, 0));
        CHECK_MSG(gradient.type.format == MPC_FMT_f32 && mpc_type_elements(type) == mpc_type_elements(&gradient.type) &&
                      gradient.type.rank == type->rank,
                  "%s: type of the gradient of %s", label, path);
        check_state(f, label, g, path, &gradient);
    }
    mpc_arena_destroy(arena);
}

/* All outputs of two forms of a graph agree. */
static inline void check_same_outputs(fixture *f, const char *label, const mpc_graph *a, const mpc_graph *b,
                                      double tolerance) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *va = evaluate(f, a, arena), *vb = evaluate(f, b, arena);
    CHECK(a->output_count == b->output_count);
    for (uint32_t i = 0; i < a->output_count; i++) {
        const char *name = mpc_sym_text(a->ctx, a->outputs[i].name);
        mpc_tensor x = output_of(a, va, name), y = output_of(b, vb, name);
        CHECK_MSG(y.data != NULL && memcmp(&x.type, &y.type, sizeof x.type) == 0, "%s: type of output %s", label, name);
        for (int64_t k = 0; y.data != NULL && k < mpc_type_elements(&x.type); k++)
            CHECK_MSG(close_to(y.data[k], x.data[k], tolerance), "%s: %s[%lld] is %.9g, was %.9g", label, name,
                      (long long)k, y.data[k], x.data[k]);
    }
    mpc_arena_destroy(arena);
}

static inline bool only_primitives(const mpc_graph *g) {
    for (uint32_t i = 0; i < g->node_count; i++)
        if (mpc_node_op(g, i)->kind == MPC_KIND_COMPOSITE) return false;
    return true;
}

/* No backward node is built in vain: each is read by another or is an output. */
static inline void check_no_dead_node(const char *label, const mpc_graph *g, uint32_t first) {
    bool *read = calloc(g->value_count + 1, sizeof *read);
    for (uint32_t i = 0; i < g->operand_total; i++) read[g->operands[i]] = true;
    for (uint32_t i = 0; i < g->output_count; i++) read[g->outputs[i].value] = true;
    for (uint32_t i = first; i < g->node_count; i++) {
        bool any = false;
        for (uint32_t r = 0; r < g->nodes[i].result_count; r++) any = any || read[mpc_result(&g->nodes[i], r)];
        CHECK_MSG(any, "%s: nobody reads %s", label, mpc_value_name(g, mpc_result(&g->nodes[i], 0)));
    }
    free(read);
}

/* Gradients by differences; and the expanded graph gives the same. */
static inline void check_gradients(fixture *f, const char *label, const char *text) {
    mpc_graph *g = parse(f, text), *dg = apply(f, mpc_pass_grad, g), *low = apply(f, mpc_pass_expand, dg);
    if (dg != NULL) check_states(f, label, g, dg, true);
    if (dg != NULL && g->node_count > 0) check_no_dead_node(label, dg, g->node_count);
    if (low != NULL) {
        CHECK_MSG(only_primitives(low), "%s: composites are left", label);
        check_same_outputs(f, label, dg, low, 1e-9);
    }
    mpc_graph_destroy(low);
    mpc_graph_destroy(dg);
    mpc_graph_destroy(g);
}

static inline uint32_t count_op(const mpc_graph *g, const char *name) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++) count += strcmp(mpc_node_op(g, i)->name, name) == 0;
    return count;
}

#endif
