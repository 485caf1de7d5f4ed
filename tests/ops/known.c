/* Values that hand calculation or theory gives, where a mistake shared by the evaluator and its gradient would go
 * unseen. */
#include <math.h>

#include "../check.h"
#include "ir/builder.h"
#include "ir/eval/eval.h"

#define DIMS(...) \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define INTS(key, ...) \
    MPC_A_INTS(key, ((const int64_t[]){__VA_ARGS__}), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define VALUES(...) \
    (const double[]) { __VA_ARGS__ }

enum { MAX = 8 };

typedef struct call { /* one op under construction: operands, attributes, then run() */
    mpc_context *ctx;
    mpc_arena *arena;
    mpc_op_id op;
    mpc_tensor operands[MAX], results[MAX];
    mpc_attr_arg attrs[MAX];
    uint32_t operand_count, attr_count;
    bool f64;
} call;

static call begin(mpc_op_id op) {
    return (call){.ctx = mpc_context_create(NULL, NULL), .arena = mpc_arena_create(), .op = op};
}

static void end(call *c) {
    mpc_arena_destroy(c->arena);
    mpc_context_destroy(c->ctx);
}

static double *operand(call *c, mpc_format format, uint32_t rank, const int64_t *dims) {
    mpc_type type = {.format = format, .rank = rank};
    if (rank > 0) memcpy(type.dims, dims, rank * sizeof *dims);
    mpc_tensor *t = &c->operands[c->operand_count++];
    *t = mpc_tensor_make(c->arena, &type);
    return t->data;
}

static void values(call *c, mpc_format format, uint32_t rank, const int64_t *dims, const double *data) {
    double *to = operand(c, format, rank, dims);
    int64_t count = mpc_type_elements(&c->operands[c->operand_count - 1].type);
    for (int64_t i = 0; i < count; i++) to[i] = mpc_round_to(format, data[i]);
}

static void attr(call *c, mpc_attr_arg a) { c->attrs[c->attr_count++] = a; }

/* First result, or NULL with a failed check. */
static const double *run(call *c) {
    mpc_builder *b = mpc_builder_create(c->ctx, "g");
    mpc_value_id operands[MAX];
    for (uint32_t i = 0; i < c->operand_count; i++) {
        const mpc_type *t = &c->operands[i].type;
        operands[i] = mpc_build_input(b, (const char[]){(char)('a' + i), 0},
                                      mpc_type_make(c->ctx, t->format, t->rank, t->dims), NULL, 0);
    }
    mpc_build(b, c->op, operands, c->operand_count, c->attrs, c->attr_count);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK_MSG(g != NULL, "%s is refused", mpc_op_get(c->ctx, c->op)->name);
    mpc_status status = g != NULL ? mpc_evaluate_node(g, 0, c->operands, c->f64, c->arena, c->results) : MPC_FAILED;
    mpc_graph_destroy(g);
    return status == MPC_OK ? c->results[0].data : NULL;
}

static void expect_near(const char *what, const double *got, const double *want, int count, double tolerance) {
    CHECK_MSG(got != NULL, "%s: no result", what);
    for (int i = 0; got != NULL && i < count; i++) {
        bool same = (got[i] != got[i] && want[i] != want[i]) || got[i] == want[i];
        CHECK_MSG(same || fabs(got[i] - want[i]) <= tolerance, "%s: element %d is %.9g, not %.9g", what, i, got[i],
                  want[i]);
    }
}

static void expect(const char *what, const double *got, const double *want, int count) {
    expect_near(what, got, want, count, 0);
}

static void convolution_with_padding_and_stride(void) {
    call c = begin(MPC_OP_conv2d);
    values(&c, MPC_FMT_f32, DIMS(1, 3, 3, 1), VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9));
    values(&c, MPC_FMT_f32, DIMS(2, 2, 1, 1), VALUES(1, 10, 100, 1000));
    attr(&c, INTS("pad", 1, 1));
    attr(&c, INTS("stride", 2, 2));
    expect("stride 2, pad 1", run(&c), VALUES(1000, 3200, 7040, 9865), 4);
    end(&c);
}

static void convolution_axes_are_not_mixed_up(void) {
    call c = begin(
        MPC_OP_conv2d); /* 3 rows of 1..5, 11..15, 21..25; taps two rows apart, 1 + 10 times; every second column */
    values(&c, MPC_FMT_f32, DIMS(1, 3, 5, 1), VALUES(1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25));
    values(&c, MPC_FMT_f32, DIMS(2, 1, 1, 1), VALUES(1, 10));
    attr(&c, INTS("stride", 1, 2));
    attr(&c, INTS("dilation", 2, 1));
    attr(&c, INTS("pad", 1, 0));
    expect("rows and columns", run(&c), VALUES(110, 130, 150, 211, 233, 255, 11, 13, 15), 9);
    end(&c);
}

static void convolution_in_groups(void) {
    call c =
        begin(MPC_OP_conv2d); /* 2 groups of one channel, two outputs each; the third operand is a bias; then relu */
    values(&c, MPC_FMT_f32, DIMS(1, 1, 1, 2), VALUES(3, 5));
    values(&c, MPC_FMT_f32, DIMS(1, 1, 1, 4), VALUES(1, 2, 10, -20));
    values(&c, MPC_FMT_f32, DIMS(4), VALUES(0.5, 0.5, 0.5, 0.5));
    attr(&c, MPC_A_INT("groups", 2));
    attr(&c, MPC_A_STR("act", "relu"));
    expect("groups", run(&c), VALUES(3.5, 6.5, 50.5, 0), 4);
    end(&c);
}

static void linear_rounds_once_after_bias(void) {
    call c = begin(MPC_OP_linear); /* 256 + 1 is 256 in bf16; -256 afterwards must still see the 1 */
    values(&c, MPC_FMT_bf16, DIMS(1, 2), VALUES(256, 1));
    values(&c, MPC_FMT_bf16, DIMS(2, 1), VALUES(1, 1));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(-256));
    expect("bias on the accumulator", run(&c), VALUES(1), 1);
    end(&c);
}

static void matmul_transposes_what_is_stored(void) {
    call c = begin(MPC_OP_matmul);
    values(&c, MPC_FMT_f32, DIMS(3, 2), VALUES(1, 4, 2, 5, 3, 6));    /* of [[1,2,3],[4,5,6]] */
    values(&c, MPC_FMT_f32, DIMS(2, 3), VALUES(7, 9, 11, 8, 10, 12)); /* of [[7,8],[9,10],[11,12]] */
    attr(&c, MPC_A_BOOL("ta", true));
    attr(&c, MPC_A_BOOL("tb", true));
    expect("ta, tb", run(&c), VALUES(58, 64, 139, 154), 4);
    end(&c);
}

static void narrow_accumulator_loses_what_it_must(void) {
    call c = begin(MPC_OP_matmul); /* in f16, 2048 + 1 is 2048 */
    double *a = operand(&c, MPC_FMT_f16, DIMS(1, 3000)), *b = operand(&c, MPC_FMT_f16, DIMS(3000, 1));
    for (int i = 0; i < 3000; i++) a[i] = b[i] = 1;
    attr(&c, MPC_A_FORMAT("acc", MPC_FMT_f16));
    expect("f16 accumulator", run(&c), VALUES(2048), 1);
    c.attr_count = 0;
    expect("f32 accumulator", run(&c), VALUES(3000), 1);
    end(&c);
}

static void pools_ignore_padding(void) {
    call c = begin(MPC_OP_max_pool);
    values(&c, MPC_FMT_f32, DIMS(1, 3, 3, 1), VALUES(-1, -2, -3, -4, -5, -6, -7, -8, (double)NAN));
    attr(&c, INTS("kernel", 2, 2));
    attr(&c, INTS("stride", 2, 2));
    attr(&c, INTS("pad", 1, 1));
    expect("max", run(&c), VALUES(-1, -2, -4, (double)NAN), 4);
    c.op = MPC_OP_avg_pool;
    c.operands[0].data[8] = -9;
    expect("mean", run(&c), VALUES(-1, -2.5, -5.5, -7), 4);
    end(&c);
}

static void first_maximum_takes_the_gradient(void) {
    call c = begin(MPC_OP_max_pool_grad);
    values(&c, MPC_FMT_f32, DIMS(1, 2, 2, 1), VALUES(1, 3, 3, 2));
    values(&c, MPC_FMT_f32, DIMS(1, 1, 1, 1), VALUES(5));
    attr(&c, INTS("kernel", 2, 2));
    attr(&c, INTS("stride", 2, 2));
    expect("tie", run(&c), VALUES(0, 5, 0, 0), 4);
    end(&c);
}

static void embedding_gradient_does_not_stick(void) { /* FC-030: 12500 times f16(0.01) into each of 8 rows */
    call c = begin(MPC_OP_embedding_grad);
    double *dy = operand(&c, MPC_FMT_f16, DIMS(100000, 1)), *ids = operand(&c, MPC_FMT_i32, DIMS(100000));
    for (int i = 0; i < 100000; i++) dy[i] = mpc_round_to(MPC_FMT_f16, 0.01), ids[i] = i % 8;
    attr(&c, MPC_A_INT("rows", 8));
    double each = 12500 * mpc_round_to(MPC_FMT_f16, 0.01);
    expect_near("rows", run(&c), VALUES(each, each, each, each, each, each, each, each), 8, 1e-4);
    CHECK(c.results[0].type.format == MPC_FMT_f32);
    end(&c);
}

static void embedding_out_of_range_is_nan(void) {
    call c = begin(MPC_OP_embedding);
    values(&c, MPC_FMT_f32, DIMS(2, 1), VALUES(10, 20));
    values(&c, MPC_FMT_i32, DIMS(4), VALUES(1, 2, -1, 0));
    expect("rows", run(&c), VALUES(20, (double)NAN, (double)NAN, 10), 4);
    end(&c);
}

static void softmax_of_many_equal_logits(void) { /* FC-032 */
    call c = begin(MPC_OP_softmax);
    operand(&c, MPC_FMT_bf16, DIMS(1, 512));
    attr(&c, MPC_A_INT("axis", 1));
    const double *y = run(&c);
    for (int i = 0; y != NULL && i < 512; i++) CHECK(y[i] == 1.0 / 512);
    end(&c);
    c = begin(MPC_OP_sum);
    double *ones = operand(&c, MPC_FMT_bf16, DIMS(5120));
    for (int i = 0; i < 5120; i++) ones[i] = 1;
    attr(&c, INTS("axes", 0));
    expect("sum of ones", run(&c), VALUES(5120), 1);
    end(&c);
}

static void softmax_of_large_logits_is_finite(void) {
    call c = begin(MPC_OP_softmax);
    values(&c, MPC_FMT_f32, DIMS(1, 3), VALUES(1000, 1000, -1000));
    attr(&c, MPC_A_INT("axis", 1));
    expect("large", run(&c), VALUES(0.5, 0.5, 0), 3);
    end(&c);
}

static void cross_entropy_known_values(void) {
    call c = begin(MPC_OP_cross_entropy);
    values(&c, MPC_FMT_f32, DIMS(3, 2), VALUES(0, 0, 1000, 0, 5, 5));
    values(&c, MPC_FMT_i32, DIMS(3), VALUES(1, 1, 2));
    expect_near("loss", run(&c), VALUES(0.69314718, 1000, (double)NAN), 3, 1e-7);
    expect_near("log-sum-exp", c.results[1].data, VALUES(0.69314718, 1000, 5.69314718), 3, 1e-6);
    end(&c);
}

/* FC-027, FC-047 */
static void smoothed_and_soft_cross_entropy(void) {
    double inf = (double)INFINITY;
    call c = begin(MPC_OP_cross_entropy);
    values(&c, MPC_FMT_f32, DIMS(3, 2), VALUES(0, 0, 2, 0, -inf, 0));
    values(&c, MPC_FMT_i32, DIMS(3), VALUES(1, 0, 1));
    attr(&c, MPC_A_FLOAT("smooth", 0.5));
    expect_near("smoothed", run(&c), VALUES(0.69314718, 0.12692801 + 0.5, inf), 3, 1e-6);
    end(&c);
    c = begin(MPC_OP_soft_cross_entropy);
    values(&c, MPC_FMT_f32, DIMS(3, 2), VALUES(0, 0, -inf, 0, -inf, 0));
    values(&c, MPC_FMT_f32, DIMS(3, 2), VALUES(0.25, 0.75, 0, 1, 0.5, 0.5));
    expect_near("soft labels", run(&c), VALUES(0.69314718, 0, inf), 3, 1e-6);
    end(&c);
}

static void losses_value_by_value(void) {
    double inf = (double)INFINITY;
    call c = begin(MPC_OP_huber);
    values(&c, MPC_FMT_f32, DIMS(3), VALUES(1.25, -1, 100));
    values(&c, MPC_FMT_f32, DIMS(3), VALUES(1, 2, 0));
    attr(&c, MPC_A_FLOAT("delta", 0.5));
    expect_near("huber", run(&c), VALUES(0.03125, 1.375, 49.875), 3, 0);
    end(&c);
    c = begin(MPC_OP_bce_with_logits); /* FC-045, FC-046 */
    values(&c, MPC_FMT_f32, DIMS(5), VALUES(12, 12, -inf, inf, -inf));
    values(&c, MPC_FMT_f32, DIMS(5), VALUES(0, 1, 0, 1, 1));
    expect_near("bce", run(&c), VALUES(12.0000061, 6.1441935e-06, 0, 0, inf), 5, 1e-6);
    end(&c);
    c = begin(MPC_OP_kl);
    values(&c, MPC_FMT_f32, DIMS(3), VALUES(-inf, -1, -inf));
    values(&c, MPC_FMT_f32, DIMS(3), VALUES(0, 1, 1));
    expect_near("kl", run(&c), VALUES(0, 1, inf), 3, 1e-7);
    end(&c);
}

static void top_k_accuracy_counts_what_comes_before(void) {
    call c = begin(MPC_OP_top_k_accuracy);
    values(&c, MPC_FMT_f32, DIMS(5, 4),
           VALUES(1, 2, 3, 4, 1, 2, 3, 4, 5, 5, 5, 5, 1, (double)NAN, 3, 4, 1, 2, 3, 4));
    values(&c, MPC_FMT_i32, DIMS(5), VALUES(2, 1, 1, 2, 4));
    attr(&c, MPC_A_INT("k", 2));
    expect("second, third, an equal one first, after NaN, no such class", run(&c), VALUES(1, 0, 1, 0, 0), 5);
    end(&c);
}

static void masked_rows_have_no_gradient(void) { /* FC-125: labels of -100 with dloss 0 */
    call c = begin(MPC_OP_cross_entropy_grad);
    values(&c, MPC_FMT_f32, DIMS(2, 2), VALUES(0, 0, 0, 0));
    values(&c, MPC_FMT_i32, DIMS(2), VALUES(-100, 0));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(0.69314718, 0.69314718));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(0, 1));
    expect_near("gradient", run(&c), VALUES(0, 0, -0.5, 0.5), 4, 1e-7);
    end(&c);
    c = begin(MPC_OP_loss_mean);
    values(&c, MPC_FMT_f32, DIMS(2), VALUES((double)NAN, 3));
    values(&c, MPC_FMT_bool, DIMS(2), VALUES(0, 0));
    expect("all masked", run(&c), VALUES(0), 1);
    CHECK(c.results[1].data[0] == 0);
    c.operands[1].data[1] = 1;
    expect("a masked NaN", run(&c), VALUES(3), 1);
    end(&c);
}

static void batch_norm_keeps_unbiased_variance(void) {
    call c = begin(MPC_OP_batch_norm);
    values(&c, MPC_FMT_f32, DIMS(3, 1), VALUES(1, 2, 6));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(2));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(0.5));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(1));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(1));
    attr(&c, MPC_A_FLOAT("eps", 0.25));
    attr(&c, MPC_A_FLOAT("momentum", 0.5));
    double rstd = 1 / sqrt(14.0 / 3 + 0.25); /* mean 3, biased variance 14/3, unbiased 7 */
    expect_near("y", run(&c), VALUES(-4 * rstd + 0.5, -2 * rstd + 0.5, 6 * rstd + 0.5), 3, 1e-6);
    expect_near("mean", c.results[1].data, VALUES(3), 1, 0);
    expect_near("rstd", c.results[2].data, &rstd, 1, 1e-7);
    expect_near("running mean", c.results[3].data, VALUES(2), 1, 0);
    expect_near("running variance", c.results[4].data, VALUES(4), 1, 1e-6);
    end(&c);
}

static void layer_norm_of_a_large_offset(void) { /* one pass over squares would give 0 */
    call c = begin(MPC_OP_layer_norm);
    values(&c, MPC_FMT_f32, DIMS(1, 2), VALUES(10000, 10002));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(1, 1));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(0, 0));
    attr(&c, MPC_A_FLOAT("eps", 0));
    expect("two-pass", run(&c), VALUES(-1, 1), 2);
    end(&c);
}

static void causal_attention_sees_the_past(void) {
    call c = begin(MPC_OP_attention);
    operand(&c, MPC_FMT_f32, DIMS(1, 3, 1, 1)); /* q = 0: equal weights */
    operand(&c, MPC_FMT_f32, DIMS(1, 3, 1, 1));
    values(&c, MPC_FMT_f32, DIMS(1, 3, 1, 1), VALUES(2, 4, 9));
    attr(&c, MPC_A_FLOAT("scale", 1));
    attr(&c, MPC_A_BOOL("causal", true));
    expect_near("means of prefixes", run(&c), VALUES(2, 3, 5), 3, 1e-6);
    expect_near("log-sum-exp", c.results[1].data, VALUES(0, log(2), log(3)), 3, 1e-7);
    end(&c);
}

static void windowed_attention_sees_what_is_near(void) {
    for (int causal = 0; causal < 2; causal++) {
        call c = begin(MPC_OP_attention);
        operand(&c, MPC_FMT_f32, DIMS(1, 4, 1, 1)); /* q = 0: equal weights */
        operand(&c, MPC_FMT_f32, DIMS(1, 4, 1, 1));
        values(&c, MPC_FMT_f32, DIMS(1, 4, 1, 1), VALUES(2, 4, 9, 20));
        attr(&c, MPC_A_FLOAT("scale", 1));
        attr(&c, MPC_A_INT("window", 2));
        attr(&c, MPC_A_BOOL("causal", causal == 1));
        if (causal) expect_near("itself and the one before", run(&c), VALUES(2, 3, 6.5, 14.5), 4, 1e-6);
        else expect_near("one on each side", run(&c), VALUES(3, 5, 11, 14.5), 4, 1e-6);
        end(&c);
    }
}

static void query_heads_share_heads_of_keys(void) { /* heads 0, 1 read the first, 2, 3 the second */
    call c = begin(MPC_OP_attention);
    operand(&c, MPC_FMT_f32, DIMS(1, 1, 4, 1));
    operand(&c, MPC_FMT_f32, DIMS(1, 2, 2, 1));
    values(&c, MPC_FMT_f32, DIMS(1, 2, 2, 1), VALUES(1, 10, 3, 30));
    attr(&c, MPC_A_FLOAT("scale", 1));
    expect_near("means of two keys", run(&c), VALUES(2, 2, 20, 20), 4, 1e-6);
    end(&c);
}

static void fully_masked_attention_row_is_zero(void) {
    call c = begin(MPC_OP_attention);
    values(&c, MPC_FMT_f32, DIMS(1, 2, 1, 1), VALUES(1, 1));
    values(&c, MPC_FMT_f32, DIMS(1, 2, 1, 1), VALUES(1, 2));
    values(&c, MPC_FMT_f32, DIMS(1, 2, 1, 1), VALUES((double)NAN, 7));
    values(&c, MPC_FMT_bool, DIMS(2, 2), VALUES(0, 0, 0, 1));
    attr(&c, MPC_A_FLOAT("scale", 1));
    expect("rows", run(&c), VALUES(0, 7), 2);
    expect("log-sum-exp", c.results[1].data, VALUES(-HUGE_VAL, 2), 2);
    end(&c);
}

static void concat_joins_to_the_widest(void) { /* FC-089 */
    call c = begin(MPC_OP_concat);
    values(&c, MPC_FMT_f16, DIMS(1), VALUES(2049));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(2049));
    attr(&c, MPC_A_INT("axis", 0));
    expect("f16 and f32", run(&c), VALUES(2048, 2049), 2);
    CHECK(c.results[0].type.format == MPC_FMT_f32);
    end(&c);
}

static void selection_is_not_arithmetic(void) {
    call c = begin(MPC_OP_where);
    values(&c, MPC_FMT_bool, DIMS(2), VALUES(1, 0));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(1, (double)NAN));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES((double)INFINITY, 2));
    expect("the other branch has no influence", run(&c), VALUES(1, 2), 2);
    end(&c);
}

static void casts_round_overflow_and_saturate(void) {
    const double huge = 70000, x[] = {2049, huge, -huge, 0x1p-25, (double)NAN};
    call c = begin(MPC_OP_cast);
    values(&c, MPC_FMT_f32, DIMS(5), x);
    attr(&c, MPC_A_FORMAT("to", MPC_FMT_f16));
    expect("f16", run(&c), VALUES(2048, HUGE_VAL, -HUGE_VAL, 0, (double)NAN), 5);
    c.attrs[0].format = MPC_FMT_f8e4m3;
    expect("f8 saturates", run(&c), VALUES(448, 448, -448, 0, (double)NAN), 5);
    c.attrs[0].format = MPC_FMT_i32;
    expect("i32", run(&c), VALUES(2049, 70000, -70000, 0, 0), 5);
    end(&c);
}

static void adam_first_step_is_the_rate(void) { /* m/c1 = g, v/c2 = g^2: w - rate * g / (|g| + eps) */
    call c = begin(MPC_OP_adamw);
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(1, 1));
    values(&c, MPC_FMT_f32, DIMS(2), VALUES(0.5, -1e-8));
    operand(&c, MPC_FMT_f32, DIMS(2));
    operand(&c, MPC_FMT_f32, DIMS(2));
    values(&c, MPC_FMT_f32, 0, NULL, VALUES(0.1));
    values(&c, MPC_FMT_i32, 0, NULL, VALUES(1));
    expect_near("eps is outside the root", run(&c), VALUES(0.9, 1.05), 2, 1e-7);
    attr(&c, MPC_A_FLOAT("decay", 0.5));
    expect_near("decay is decoupled", run(&c), VALUES(0.85, 1.0), 2, 1e-7);
    end(&c);
}

static void schedule_warms_up_and_ends(void) {
    static const double applied[] = {0, 9, 54, 99, 1000}, rate[] = {0.1, 1, 0.55, 0.1, 0.1};
    for (int i = 0; i < 5; i++) {
        call c = begin(MPC_OP_schedule);
        values(&c, MPC_FMT_i32, 0, NULL, &applied[i]);
        attr(&c, MPC_A_STR("kind", "cosine"));
        attr(&c, MPC_A_FLOAT("rate", 1));
        attr(&c, MPC_A_FLOAT("warmup", 10));
        attr(&c, MPC_A_FLOAT("total", 100));
        attr(&c, MPC_A_FLOAT("final", 0.1));
        expect_near("rate", run(&c), &rate[i], 1, 1e-7);
        end(&c);
    }
}

static void scaler_grows_and_backs_off(void) {
    static const double in[][4] = {
        {1024, 1999, 0, 1}, {1024, 5, 1, 0}, {1024, 5, 0, 0}, {16777216, 1999, 0, 1}, {1, 0, 1, 1}};
    static const double out[][2] = {{2048, 0}, {512, 0}, {1024, 5}, {16777216, 0}, {0.5, 0}};
    for (int i = 0; i < 5; i++) {
        call c = begin(MPC_OP_scaler_update);
        values(&c, MPC_FMT_f32, 0, NULL, &in[i][0]);
        values(&c, MPC_FMT_i32, 0, NULL, &in[i][1]);
        values(&c, MPC_FMT_bool, 0, NULL, &in[i][2]);
        values(&c, MPC_FMT_bool, 0, NULL, &in[i][3]);
        expect("scale", run(&c), &out[i][0], 1);
        expect("clean steps", c.results[1].data, &out[i][1], 1);
        end(&c);
    }
}

static void norm_does_not_overflow(void) {
    call c = begin(MPC_OP_global_norm);
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(3e30));
    values(&c, MPC_FMT_f32, DIMS(1), VALUES(4e30));
    expect_near("norm", run(&c), VALUES(5e30), 1, 1e24);
    c.operands[0].data[0] = HUGE_VAL;
    expect("infinity", run(&c), VALUES(HUGE_VAL), 1);
    end(&c);
}

static void dropout_keeps_the_expectation(void) {
    call c = begin(MPC_OP_dropout);
    double *x = operand(&c, MPC_FMT_f32, DIMS(10000)), sum = 0;
    for (int i = 0; i < 10000; i++) x[i] = 1;
    values(&c, MPC_FMT_i64, 0, NULL, VALUES(3));
    values(&c, MPC_FMT_i32, 0, NULL, VALUES(0));
    attr(&c, MPC_A_FLOAT("rate", 0.2));
    attr(&c, MPC_A_INT("stream", 11));
    const double *y = run(&c);
    for (int i = 0; y != NULL && i < 10000; i++) {
        CHECK(y[i] == 0 || y[i] == 1.25);
        sum += y[i];
    }
    CHECK_MSG(fabs(sum - 10000) < 200, "sum is %g", sum);
    end(&c);
}

int main(void) {
    convolution_with_padding_and_stride();
    convolution_axes_are_not_mixed_up();
    convolution_in_groups();
    linear_rounds_once_after_bias();
    matmul_transposes_what_is_stored();
    narrow_accumulator_loses_what_it_must();
    pools_ignore_padding();
    first_maximum_takes_the_gradient();
    embedding_gradient_does_not_stick();
    embedding_out_of_range_is_nan();
    softmax_of_many_equal_logits();
    softmax_of_large_logits_is_finite();
    cross_entropy_known_values();
    smoothed_and_soft_cross_entropy();
    losses_value_by_value();
    top_k_accuracy_counts_what_comes_before();
    masked_rows_have_no_gradient();
    batch_norm_keeps_unbiased_variance();
    layer_norm_of_a_large_offset();
    causal_attention_sees_the_past();
    windowed_attention_sees_what_is_near();
    query_heads_share_heads_of_keys();
    fully_masked_attention_row_is_zero();
    concat_joins_to_the_widest();
    selection_is_not_arithmetic();
    casts_round_overflow_and_saturate();
    adam_first_step_is_the_rate();
    schedule_warms_up_and_ends();
    scaler_grows_and_backs_off();
    norm_does_not_overflow();
    dropout_keeps_the_expectation();
    return check_result();
}
