/* Expansions of reductions: mean, variance, norm, log-sum-exp. All is f32 inside, squares too (N30, N40), and whatever
 * a result would lose by overflow in between is scaled or shifted away first. Axes that are reduced stay with size 1 as
 * long as something is compared with the operand. */
#include "passes/expand_build.h"
#include "passes/rules.h"

static mpc_value_id reduce_axes(mpc_expand *e, mpc_op_id op, mpc_value_id a, bool keep) {
    mpc_int_list axes = mpc_attr_ints(e->from, e->node, "axes");
    mpc_attr_arg attrs[2] = {MPC_A_INTS("axes", axes.data, axes.count), MPC_A_BOOL("keep", keep)};
    return mpc_expand_build(e, &(mpc_expand_expr){op, &a, 1, attrs, 2}, MPC_FMT_f32);
}

static bool keeps(const mpc_expand *e) { return mpc_attr_bool(e->from, e->node, "keep"); }

/* Elements of `a` that become one. */
static double group_size(mpc_expand *e, mpc_value_id a) {
    mpc_int_list axes = mpc_attr_ints(e->from, e->node, "axes");
    mpc_type t = mpc_expand_type(e, a);
    double count = 1;
    for (uint32_t i = 0; i < axes.count; i++) count *= (double)t.dims[axes.data[i]];
    return count;
}

void mpc_expand_mean(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    double n = group_size(e, x);
    mpc_value_id sum = reduce_axes(e, MPC_OP_sum, x, keeps(e));
    mpc_expand_emit2(e, 0, MPC_OP_div, sum, mpc_expand_number(e, n));
}

void mpc_expand_var(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    double n = group_size(e, x), less = mpc_attr_bool(e->from, e->node, "unbiased") ? 1 : 0;
    mpc_value_id mean = mpc_expand_op2(e, MPC_OP_div, reduce_axes(e, MPC_OP_sum, x, true), mpc_expand_number(e, n));
    mpc_value_id centred = mpc_expand_op2(e, MPC_OP_sub, x, mean);
    mpc_value_id sum = reduce_axes(e, MPC_OP_sum, mpc_expand_op2(e, MPC_OP_mul, centred, centred), keeps(e));
    mpc_expand_emit2(e, 0, MPC_OP_div, sum, mpc_expand_number(e, n - less));
}

/* Below 2^-32 and above 2^48 squares come near the ends of f32's range. A power of two takes nothing from the digits.
 */
static mpc_value_id norm_scale(mpc_expand *e, mpc_value_id x) {
    mpc_value_id max = reduce_axes(e, MPC_OP_max, mpc_expand_op1(e, MPC_OP_abs, x), true);
    mpc_value_id small = mpc_expand_op2(e, MPC_OP_lt, max, mpc_expand_number(e, 0x1p-32));
    mpc_value_id large = mpc_expand_op2(e, MPC_OP_gt, max, mpc_expand_number(e, 0x1p48));
    mpc_value_id scale = mpc_expand_op3(e, MPC_OP_where, small, mpc_expand_number(e, 0x1p80), mpc_expand_number(e, 1));
    return mpc_expand_op3(e, MPC_OP_where, large, mpc_expand_number(e, 0x1p-80), scale);
}

void mpc_expand_norm(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), scale = norm_scale(e, x);
    mpc_type out = mpc_expand_result_type(e, 0);
    mpc_value_id scaled = mpc_expand_op2(e, MPC_OP_mul, x, scale);
    mpc_value_id sum = reduce_axes(e, MPC_OP_sum, mpc_expand_op2(e, MPC_OP_mul, scaled, scaled), keeps(e));
    mpc_value_id unscale = mpc_expand_to_shape(e, scale, out.rank, out.dims);
    mpc_expand_emit2(e, 0, MPC_OP_div, mpc_expand_op1(e, MPC_OP_sqrt, sum), unscale);
}

/* An infinite maximum is not taken out: infinity less itself is NaN. */
void mpc_expand_logsumexp(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), max = reduce_axes(e, MPC_OP_max, x, true);
    mpc_type out = mpc_expand_result_type(e, 0);
    mpc_value_id finite = mpc_expand_op1(e, MPC_OP_is_finite, max);
    mpc_value_id shift = mpc_expand_op3(e, MPC_OP_where, finite, max, mpc_expand_number(e, 0));
    mpc_value_id part = mpc_expand_op1(e, MPC_OP_exp, mpc_expand_op2(e, MPC_OP_sub, x, shift));
    mpc_value_id rest = mpc_expand_op1(e, MPC_OP_log, reduce_axes(e, MPC_OP_sum, part, keeps(e)));
    mpc_expand_emit2(e, 0, MPC_OP_add, rest, mpc_expand_to_shape(e, shift, out.rank, out.dims));
}
