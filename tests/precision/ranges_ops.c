/* Soundness of the range analysis over random chains of what random_graph.c leaves out: functions that aren't exact,
 * reductions, running sums, sorted rows, norms, products, convolutions, recurrent layers, draws. Values are rounded to
 * bf16 or f16 wherever a coin says so, and inputs hold infinities and NaN now and then. A recipe makes a value of a
 * fixed shape from values of that shape, so that everything can follow everything. Arguments: first seed, number of
 * graphs. */
#include <math.h>
#include <stdlib.h>

#include "../check.h"
#include "base/rng.h"
#include "ir/builder.h"
#include "ir/eval/eval.h"
#include "passes/pass.h"
#include "passes/precision/range.h"

enum { ROWS = 4, COLS = 8, MOST = 96, INPUTS = 5 };
static const int64_t SHAPE[2] = {ROWS, COLS};

typedef struct maker {
    mpc_builder *b;
    uint64_t seed, draws;
    mpc_value_id values[MOST], seed_input, step_input;
    uint32_t count;
} maker;

static uint32_t pick(maker *m, uint32_t n) { return mpc_random_bits(m->seed, 1, 0, m->draws++) % n; }

static mpc_value_id any(maker *m) {
    uint32_t i = pick(m, m->count), j = pick(m, m->count);
    return m->values[i > j ? i : j];
}

/* --- recipes: f32 [4,8] -> f32 [4,8] --- */

static mpc_value_id back(maker *m, mpc_value_id v) { /* of as many elements, or repeated along an axis of 1 */
    mpc_type t = *mpc_builder_type(m->b, v);
    if (t.format != MPC_FMT_f32) v = mpc_build_cast(m->b, v, MPC_FMT_f32, "user");
    if (mpc_type_elements(&t) == (int64_t)ROWS * COLS) return mpc_build_reshape(m->b, v, 2, SHAPE);
    return mpc_build(m->b, MPC_OP_expand, &v, 1, &MPC_A_INTS("shape", SHAPE, 2), 1);
}

static mpc_value_id make_unary(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_exp,     MPC_OP_log,  MPC_OP_expm1, MPC_OP_log1p, MPC_OP_tanh,
                                    MPC_OP_sigmoid, MPC_OP_erf,  MPC_OP_sin,   MPC_OP_cos,   MPC_OP_sign,
                                    MPC_OP_floor,   MPC_OP_ceil, MPC_OP_round, MPC_OP_rsqrt, MPC_OP_sqrt,
                                    MPC_OP_gelu,    MPC_OP_relu, MPC_OP_abs};
    return mpc_build1(m->b, ops[pick(m, sizeof ops / sizeof *ops)], any(m));
}

static mpc_value_id make_binary(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_add, MPC_OP_sub, MPC_OP_mul, MPC_OP_div,   MPC_OP_pow,
                                    MPC_OP_mse, MPC_OP_l1,  MPC_OP_kl,  MPC_OP_huber, MPC_OP_bce_with_logits};
    mpc_value_id a = any(m);
    return mpc_build2(m->b, ops[pick(m, sizeof ops / sizeof *ops)], a, any(m));
}

static mpc_value_id make_reduction(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_sum,       MPC_OP_mean, MPC_OP_var, MPC_OP_norm,
                                    MPC_OP_logsumexp, MPC_OP_max,  MPC_OP_min};
    int64_t axis = pick(m, 2);
    return back(m, mpc_build_reduce(m->b, ops[pick(m, sizeof ops / sizeof *ops)], any(m), &axis, 1, true));
}

static mpc_value_id make_running(maker *m) {
    mpc_value_id v = any(m);
    mpc_attr_arg attrs[] = {MPC_A_INT("axis", pick(m, 2)), MPC_A_BOOL("reverse", pick(m, 2))};
    return mpc_build(m->b, MPC_OP_cumsum, &v, 1, attrs, 2);
}

static mpc_value_id
make_sorted(maker *m) { /* the largest three of a row and where they were, beside two parts of another row */
    mpc_value_id v = any(m), other = any(m), join[3];
    mpc_attr_arg attrs[] = {MPC_A_INT("axis", 1), MPC_A_INT("k", 3)};
    join[0] = mpc_build(m->b, MPC_OP_top_k, &v, 1, attrs, 2);
    if (join[0] == MPC_NONE) return MPC_NONE;
    join[1] = mpc_build_cast(m->b, join[0] + 1, MPC_FMT_f32, "user"); /* its second result */
    int64_t start[2] = {0, 3}, stop[2] = {ROWS, 5};
    mpc_attr_arg part[] = {MPC_A_INTS("start", start, 2), MPC_A_INTS("stop", stop, 2)};
    join[2] = mpc_build(m->b, MPC_OP_slice, &other, 1, part, 2);
    return mpc_build(m->b, MPC_OP_concat, join, 3, &MPC_A_INT("axis", 1), 1);
}

static mpc_value_id make_chosen(maker *m) { /* rows' maxima as flags */
    mpc_value_id v = any(m), at = mpc_build(m->b, MPC_OP_argmax, &v, 1, &MPC_A_INT("axis", 1), 1);
    return mpc_build(m->b, MPC_OP_one_hot, &at, 1, &MPC_A_INT("depth", COLS), 1);
}

static mpc_value_id make_rows(maker *m) {
    static const mpc_op_id ops[] = {MPC_OP_softmax, MPC_OP_log_softmax};
    mpc_value_id v = any(m);
    return mpc_build(m->b, ops[pick(m, 2)], &v, 1, &MPC_A_INT("axis", pick(m, 2)), 1);
}

static mpc_value_id vector(maker *m) { /* [8] */
    mpc_value_id v = any(m);
    int64_t axis = 0;
    return mpc_build_reduce(m->b, MPC_OP_max, v, &axis, 1, false);
}

static mpc_value_id make_norm(maker *m) {
    mpc_value_id v[3] = {any(m), vector(m), vector(m)};
    mpc_attr_arg groups[] = {MPC_A_INT("groups", 2), MPC_A_FLOAT("eps", 1e-5)};
    uint32_t which = pick(m, 3);
    if (which == 0) return mpc_build(m->b, MPC_OP_layer_norm, v, 3, NULL, 0);
    return which == 1 ? mpc_build(m->b, MPC_OP_rms_norm, v, 2, NULL, 0)
                      : mpc_build(m->b, MPC_OP_group_norm, v, 3, groups, 2);
}

static mpc_value_id make_product(maker *m) { /* x (x^T x) */
    mpc_value_id v[2] = {any(m), any(m)};
    v[1] = mpc_build(m->b, MPC_OP_matmul, v, 2, &MPC_A_BOOL("ta", true), 1);
    v[0] = any(m);
    return mpc_build(m->b, MPC_OP_matmul, v, 2, NULL, 0);
}

static mpc_value_id make_shifted(maker *m) { /* roll along rows, or a frame of 1 cut off */
    mpc_value_id v = any(m), part[2];
    int64_t by = 1 + pick(m, COLS - 1), one[2] = {1, 1}, end[2] = {ROWS + 1, COLS + 1};
    int64_t first[6] = {0, COLS - by, ROWS, COLS, 0, 0}, second[4] = {0, 0, ROWS, COLS - by};
    if (pick(m, 2) == 0) {
        mpc_attr_arg frame[] = {MPC_A_INTS("before", one, 2), MPC_A_INTS("after", one, 2), MPC_A_FLOAT("value", 1e6)};
        bool whole = pick(m, 2) == 0; /* the middle, or the frame's corner too */
        mpc_attr_arg cut[] = {MPC_A_INTS("start", whole ? one : first + 4, 2),
                              MPC_A_INTS("stop", whole ? end : SHAPE, 2)};
        v = mpc_build(m->b, MPC_OP_pad, &v, 1, frame, 3);
        return mpc_build(m->b, MPC_OP_slice, &v, 1, cut, 2);
    }
    for (int i = 0; i < 2; i++) {
        const int64_t *at = i == 0 ? first : second;
        mpc_attr_arg cut[] = {MPC_A_INTS("start", at, 2), MPC_A_INTS("stop", at + 2, 2)};
        part[i] = mpc_build(m->b, MPC_OP_slice, &v, 1, cut, 2);
    }
    return mpc_build(m->b, MPC_OP_concat, part, 2, &MPC_A_INT("axis", 1), 1);
}

static mpc_value_id make_image(maker *m) { /* [1,4,8,1] through a convolution of 3 x 3, its transpose, or a pool */
    const int64_t image[] = {1, ROWS, COLS, 1}, kernel[] = {3, 3, 1, 1}, start[] = {0, 0}, stop[] = {1, 8},
                  ones[] = {1, 1};
    mpc_value_id x = mpc_build_reshape(m->b, any(m), 4, image), other = any(m);
    uint32_t which = pick(m, 4);
    mpc_attr_arg pool[] = {MPC_A_INTS("kernel", kernel, 2), MPC_A_INTS("stride", ones, 2), MPC_A_INTS("pad", ones, 2)};
    if (which >= 2) return back(m, mpc_build(m->b, which == 2 ? MPC_OP_max_pool : MPC_OP_avg_pool, &x, 1, pool, 3));
    mpc_attr_arg cut[] = {MPC_A_INTS("start", start, 2), MPC_A_INTS("stop", stop, 2)};
    mpc_value_id w[2] = {mpc_build(m->b, MPC_OP_slice, &other, 1, cut, 2), mpc_build_const(m->b, 0.5, MPC_FMT_f32)};
    w[1] = mpc_build_reshape(m->b, w[1], 2, ones);
    w[0] = mpc_build_reshape(m->b, mpc_build(m->b, MPC_OP_concat, w, 2, &MPC_A_INT("axis", 1), 1), 4, kernel);
    mpc_value_id operands[2] = {which == 0 ? x : w[0], which == 0 ? w[0] : x};
    mpc_attr_arg attrs[] = {MPC_A_INTS("stride", ones, 2), MPC_A_INTS("pad", ones, 2)};
    mpc_attr_arg sized[] = {attrs[0], attrs[1], MPC_A_INT("h", ROWS), MPC_A_INT("w", COLS)};
    if (which == 1)
        return back(m, mpc_build(m->b, MPC_OP_conv2d_grad_input, (const mpc_value_id[]){x, w[0]}, 2, sized, 4));
    return back(m, mpc_build(m->b, MPC_OP_conv2d, operands, 2, attrs, 2));
}

static mpc_value_id repeated(maker *m, int64_t rows, int64_t cols) { /* a row of numbers, spread */
    const int64_t shape[] = {rows, cols}, start[] = {0, 0}, stop[] = {1, 1};
    mpc_value_id v = any(m);
    mpc_attr_arg cut[] = {MPC_A_INTS("start", start, 2), MPC_A_INTS("stop", stop, 2)};
    v = mpc_build(m->b, MPC_OP_slice, &v, 1, cut, 2);
    return mpc_build(m->b, MPC_OP_expand, &v, 1, &MPC_A_INTS("shape", shape, 2), 1);
}

static mpc_value_id make_recurrent(maker *m) { /* x [2,2,8], states [2,8] */
    const int64_t steps[] = {2, 2, COLS};
    bool lstm = pick(m, 2) == 0;
    int64_t wide = (lstm ? 4 : 3) * COLS, flat[] = {wide}, narrow[] = {COLS};
    mpc_value_id x = mpc_build_reshape(m->b, any(m), 3, steps), bias = repeated(m, 1, wide), h = repeated(m, 2, COLS);
    mpc_value_id v[6] = {x, repeated(m, COLS, wide), repeated(m, COLS, wide), mpc_build_reshape(m->b, bias, 1, flat),
                         h, repeated(m, 2, COLS)};
    if (!lstm) v[4] = mpc_build_reshape(m->b, repeated(m, 1, COLS), 1, narrow);
    return back(m, mpc_build(m->b, lstm ? MPC_OP_lstm : MPC_OP_gru, v, 6, NULL, 0));
}

static mpc_value_id make_attention(maker *m) { /* q, k, v [1,4,2,4] */
    const int64_t heads[] = {1, ROWS, 2, COLS / 2};
    mpc_value_id v[3];
    for (int i = 0; i < 3; i++) v[i] = mpc_build_reshape(m->b, any(m), 4, heads);
    mpc_attr_arg attrs[] = {MPC_A_FLOAT("scale", 0.5), MPC_A_BOOL("causal", pick(m, 2)),
                            MPC_A_INT("window", pick(m, 3))};
    return back(m, mpc_build(m->b, MPC_OP_attention, v, 3, attrs, 3));
}

static mpc_value_id make_draw(maker *m) {
    mpc_value_id v[3] = {any(m), m->seed_input, m->step_input};
    mpc_attr_arg drop[] = {MPC_A_FLOAT("rate", 0.25), MPC_A_INT("stream", 7)},
                 shape[] = {MPC_A_INTS("shape", SHAPE, 2), MPC_A_INT("stream", 8)};
    if (pick(m, 2) == 0) return mpc_build(m->b, pick(m, 2) ? MPC_OP_dropout : MPC_OP_drop_path, v, 3, drop, 2);
    return mpc_build(m->b, pick(m, 2) ? MPC_OP_random_normal : MPC_OP_random_uniform, v + 1, 2, shape, 2);
}

static mpc_graph *make_graph(mpc_context *ctx, uint64_t seed, uint32_t size) {
    static mpc_value_id (*const recipes[])(maker *) = {
        make_unary,   make_unary,  make_unary,     make_binary,    make_binary, make_reduction,
        make_running, make_sorted, make_chosen,    make_rows,      make_norm,   make_product,
        make_shifted, make_image,  make_recurrent, make_attention, make_draw};
    maker m = {.b = mpc_builder_create(ctx, "random"), .seed = seed};
    if (m.b == NULL) return NULL;
    for (int i = 0; i < INPUTS; i++)
        m.values[m.count++] = mpc_build_input(m.b, (const char[]){'x', (char)('0' + i), 0},
                                              mpc_type_make(ctx, MPC_FMT_f32, 2, SHAPE), NULL, 0);
    m.seed_input = mpc_build_input(m.b, "seed", mpc_type_make(ctx, MPC_FMT_i64, 0, SHAPE), NULL, 0);
    m.step_input = mpc_build_input(m.b, "step", mpc_type_make(ctx, MPC_FMT_i32, 0, SHAPE), NULL, 0);
    for (uint32_t i = 0; i < size && m.count < MOST; i++) {
        mpc_value_id v = recipes[pick(&m, sizeof recipes / sizeof *recipes)](&m);
        if (v != MPC_NONE) m.values[m.count++] = v;
    }
    mpc_build_output(m.b, "y", m.values[m.count - 1]);
    return mpc_builder_finish(m.b);
}

/* --- numbers --- */

typedef struct run {
    uint64_t seed;
    mpc_format low;
    mpc_interval *known; /* of the inputs */
    uint64_t checked, bounded;
} run;

/* A quarter of the graphs sees 0, infinities and NaN; scales go from 1e-3 to 1e3. */
static double draw(const run *r, uint32_t input, uint64_t k) {
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 3e38};
    double u = (double)mpc_random_uniform(r->seed, 2, input, k), v = (double)mpc_random_uniform(r->seed, 3, input, k);
    if (r->seed % 4 == 0 && v < 0.1) return special[(int)(u * 7)];
    return mpc_round_to(MPC_FMT_f32, (2 * u - 1) * pow(10, (double)(r->seed / 3 % 7) - 3));
}

static void fill(const run *r, const mpc_graph *g, uint32_t i, mpc_arena *arena, mpc_tensor *out) {
    *out = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
    int64_t count = mpc_type_elements(&out->type);
    mpc_interval *a = &r->known[i];
    *a = (mpc_interval){.lo = INFINITY, .hi = -INFINITY};
    for (int64_t k = 0; k < count; k++) {
        double x = out->data[k] = i < INPUTS ? draw(r, i, (uint64_t)k) : (double)(r->seed % 100);
        if (isnan(x)) a->nan = true;
        else a->lo = fmin(a->lo, x), a->hi = fmax(a->hi, x);
    }
}

static bool round_some(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    const run *r = user;
    if (!mpc_format_is_low(r->low) || mpc_random_uniform(r->seed, 4, 0, node) < 0.5f) return true;
    for (uint32_t i = 0; i < g->nodes[node].result_count; i++) {
        int64_t count = results[i].type.format == MPC_FMT_f32 ? mpc_type_elements(&results[i].type) : 0;
        for (int64_t k = 0; k < count; k++) results[i].data[k] = mpc_round_to(r->low, results[i].data[k]);
    }
    return true;
}

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

static bool is_inside(mpc_interval a, double x) {
    return isnan(x) ? a.nan : a.lo <= x && x <= a.hi && (!a.counted || isinf(x) || fmod(x, mpc_interval_unit(a)) == 0);
}

static void check_values(run *r, const mpc_graph *g, const mpc_interval *range, const mpc_tensor *values) {
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        int64_t count = mpc_type_elements(&values[v].type), at = 0;
        while (at < count && is_inside(range[v], values[v].data[at])) at++;
        const mpc_node *n = mpc_producer(g, v);
        CHECK_MSG(at == count, "seed %llu, %s: %s (%s) is %.9g, outside [%.9g, %.9g]%s", (unsigned long long)r->seed,
                  mpc_format_get(r->low)->name, mpc_value_name(g, v), n ? mpc_op_get(g->ctx, n->op)->name : "input",
                  values[v].data[at], range[v].lo, range[v].hi, range[v].nan ? " or NaN" : "");
        r->checked++;
        r->bounded += mpc_interval_is_finite(range[v]);
    }
}

static void check_graph(run *r, const mpc_graph *g) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor inputs[INPUTS + 2], *values = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *values);
    mpc_interval known[INPUTS + 2];
    r->known = known;
    for (uint32_t i = 0; i < g->input_count; i++) fill(r, g, i, arena, &inputs[i]);
    mpc_eval_options options = {.after = round_some, .user = r};
    const mpc_interval *range = mpc_range_analyze(g, &(mpc_range_options){.low = r->low, .inputs = known}, arena);
    bool ok = range != NULL && mpc_evaluate(g, inputs, no_state, NULL, &options, arena, values) == MPC_OK;
    CHECK(ok);
    if (ok) check_values(r, g, range, values);
    mpc_arena_destroy(arena);
}

/* As built, and with composites expanded. */
static void check_seed(mpc_context *ctx, run *r) {
    mpc_graph *g = make_graph(ctx, r->seed, 6 + (uint32_t)(r->seed % 24));
    mpc_pass_env env = {.ctx = ctx};
    mpc_graph *low = g != NULL ? mpc_pipeline_run(g, "expand", &env, NULL) : NULL;
    CHECK_MSG(g != NULL && low != NULL, "seed %llu", (unsigned long long)r->seed);
    if (g != NULL) check_graph(r, g);
    if (low != NULL) check_graph(r, low);
    mpc_graph_destroy(low);
    mpc_graph_destroy(g);
}

static void show(void *user, const mpc_diag *d) {
    (void)user;
    fprintf(stderr, "%s: %s\n", d->code, d->message);
}

int main(int argc, char **argv) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    const mpc_sink sink = {show, NULL};
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = mpc_context_create(&sink, sources);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1500,
             checked = 0, bounded = 0;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    for (uint64_t seed = first; seed < first + count; seed++) {
        run r = {.seed = seed, .low = formats[seed % 3]};
        check_seed(ctx, &r);
        checked += r.checked;
        bounded += r.bounded;
    }
    CHECK_MSG(bounded * 4 > checked, "only %llu of %llu values are bounded", (unsigned long long)bounded,
              (unsigned long long)checked);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return check_result();
}
