/* Soundness over whole training steps: forward, backward, update and guard of small models, composites kept and
 * expanded, values rounded to bf16 or f16 wherever a coin says so. No element of any value leaves its interval.
 * Arguments: graphs of steps to check instead, as dump-ir writes them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "base/rng.h"
#include "ir/eval/eval.h"
#include "passes/pass.h"
#include "passes/precision/range.h"

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 21);
    if (file == NULL || text == NULL || fread(text, 1, (1 << 21) - 1, file) == 0) abort();
    fclose(file);
    return text;
}

typedef struct run {
    uint64_t seed;
    mpc_format low;
    double scale; /* magnitude of inputs and states */
    mpc_arena *arena;
    mpc_interval *states; /* by value */
    uint64_t checked, bounded;
} run;

static mpc_interval hull(const mpc_tensor *t) {
    mpc_interval out = {.lo = INFINITY, .hi = -INFINITY};
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) out.lo = fmin(out.lo, t->data[i]), out.hi = fmax(out.hi, t->data[i]);
    return out;
}

static mpc_tensor draw(const run *r, const mpc_type *type, uint32_t stream, bool positive) {
    mpc_tensor t = mpc_tensor_make(r->arena, type);
    int64_t count = mpc_type_elements(type);
    for (int64_t i = 0; t.data != NULL && i < count; i++) {
        double u = (double)mpc_random_uniform(r->seed, 11, stream, (uint64_t)i);
        bool whole = !mpc_format_is_float(type->format);
        double x = whole ? floor(u * (type->format == MPC_FMT_bool ? 2 : 10)) : r->scale * (positive ? u : 2 * u - 1);
        t.data[i] = mpc_round_to(type->format, x);
    }
    return t;
}

/* Scales, rates and second moments aren't negative. */
static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    run *r = user;
    mpc_value_id v = mpc_result(state, 0);
    bool positive = strcmp(mpc_attr_str(g, state, "role"), "param") != 0;
    mpc_tensor t = draw(r, mpc_value_type(g, v), 100 + v, positive);
    r->states[v] = hull(&t);
    return t;
}

static bool round_some(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    const run *r = user;
    if (!mpc_format_is_low(r->low) || mpc_random_uniform(r->seed, 3, 0, node) < 0.5f) return true;
    for (uint32_t i = 0; i < g->nodes[node].result_count; i++) {
        int64_t count = results[i].type.format == MPC_FMT_f32 ? mpc_type_elements(&results[i].type) : 0;
        for (int64_t k = 0; k < count; k++) results[i].data[k] = mpc_round_to(r->low, results[i].data[k]);
    }
    return true;
}

static void check_values(run *r, const mpc_graph *g, const mpc_interval *range, const mpc_tensor *values) {
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        int64_t count = mpc_type_elements(&values[v].type), outside = -1;
        mpc_interval a = range[v];
        for (int64_t i = 0; i < count && outside < 0; i++) {
            double x = values[v].data[i];
            if (isnan(x) ? !a.nan : !(a.lo <= x && x <= a.hi && (!a.counted || isinf(x) || fmod(x, mpc_interval_unit(a)) == 0))) outside = i;
        }
        const mpc_node *n = mpc_producer(g, v);
        CHECK_MSG(outside < 0, "seed %llu, %s, scale %g: %s (%s) is %.9g, outside [%.9g, %.9g]%s",
                  (unsigned long long)r->seed, mpc_format_get(r->low)->name, r->scale, mpc_value_name(g, v),
                  n != NULL ? mpc_op_get(g->ctx, n->op)->name : "input", values[v].data[outside], a.lo, a.hi,
                  a.nan ? " or NaN" : "");
        r->checked++;
        r->bounded += mpc_interval_is_finite(a);
    }
}

static void check_step(run *r, const mpc_graph *g) {
    mpc_tensor inputs[8], *values = mpc_arena_alloc(r->arena, ((size_t)g->value_count + 1) * sizeof *values);
    mpc_interval known[8];
    r->states = mpc_arena_alloc(r->arena, ((size_t)g->value_count + 1) * sizeof *r->states);
    CHECK(values != NULL && r->states != NULL && g->input_count <= 8);
    for (uint32_t i = 0; i < g->input_count; i++) {
        inputs[i] = draw(r, mpc_value_type(g, g->inputs[i].value), i, false);
        known[i] = hull(&inputs[i]);
    }
    mpc_eval_options options = {.after = round_some, .user = r};
    bool ok = mpc_evaluate(g, inputs, read_state, r, &options, r->arena, values) == MPC_OK;
    mpc_range_options how = {.low = r->low, .inputs = known, .states = r->states};
    const mpc_interval *range = mpc_range_analyze(g, &how, r->arena);
    CHECK(ok && range != NULL);
    if (ok && range != NULL) check_values(r, g, range, values);
}

static void check_model(mpc_context *ctx, const char *path, const char *pipeline) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    static const double scales[] = {0.1, 1, 100};
    char *text = read_file(path);
    mpc_graph *in = mpc_graph_parse(ctx, mpc_sources_add(mpc_context_sources(ctx), path, text, strlen(text)));
    mpc_pass_env env = {.ctx = ctx};
    mpc_graph *g = in != NULL ? mpc_pipeline_run(in, pipeline, &env, NULL) : NULL;
    uint64_t checked = 0, bounded = 0;
    CHECK_MSG(g != NULL, "%s: %s", path, pipeline);
    for (uint64_t seed = 0; g != NULL && seed < 9; seed++) {
        run r = {.seed = seed, .low = formats[seed % 3], .scale = scales[seed / 3], .arena = mpc_arena_create()};
        check_step(&r, g);
        checked += r.checked;
        bounded += r.bounded;
        mpc_arena_destroy(r.arena);
    }
    CHECK_MSG(bounded * 4 > checked, "%s: only %llu of %llu values are bounded", path, (unsigned long long)bounded,
              (unsigned long long)checked);
    mpc_graph_destroy(g);
    mpc_graph_destroy(in);
    free(text);
}

int main(int argc, char **argv) {
    static const char *const models[] = {"tests/passes/models/mlp.mpir", "tests/passes/models/attention.mpir",
                                         "tests/passes/models/convolution.mpir"};
    static const char *const pipelines[] = {
        "grad", "grad,loss-scale{mode=dynamic init=1024},optimizer{clip=1},guard",
        "grad,loss-scale{mode=dynamic init=1024},optimizer{clip=1},guard,expand,fold,cse,dce"};
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = mpc_context_create(NULL, sources);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    for (size_t m = 0; m < 3 && argc == 1; m++)
        for (size_t p = 0; p < 3; p++) check_model(ctx, models[m], pipelines[p]);
    for (int i = 1; i < argc; i++) {
        check_model(ctx, argv[i], "dce");
        check_model(ctx, argv[i], "expand,fold,cse,dce");
    }
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return check_result();
}
