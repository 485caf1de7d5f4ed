/* Expansions of softmax and its logarithm. The maximum goes first, always (N10). */
#include "passes/expand_build.h"
#include "passes/rules.h"

static uint32_t softmax_axis(const mpc_expand *e) { return (uint32_t)mpc_attr_int(e->from, e->node, "axis"); }

static mpc_value_id minus_max(mpc_expand *e, mpc_value_id x, uint32_t axis) {
    return mpc_expand_op2(e, MPC_OP_sub, x, mpc_expand_reduce(e, MPC_OP_max, x, axis, true));
}

void mpc_expand_softmax(mpc_expand *e) {
    uint32_t axis = softmax_axis(e);
    mpc_value_id numerator = mpc_expand_op1(e, MPC_OP_exp, minus_max(e, mpc_expand_f32(e, 0), axis));
    mpc_expand_emit2(e, 0, MPC_OP_div, numerator, mpc_expand_reduce(e, MPC_OP_sum, numerator, axis, true));
}

/* y (dy - sum(y dy)) */
void mpc_expand_softmax_grad(mpc_expand *e) {
    mpc_value_id y = mpc_expand_f32(e, 0), dy = mpc_expand_f32(e, 1);
    mpc_value_id dot = mpc_expand_reduce(e, MPC_OP_sum, mpc_expand_op2(e, MPC_OP_mul, y, dy), softmax_axis(e), true);
    mpc_expand_emit2(e, 0, MPC_OP_mul, y, mpc_expand_op2(e, MPC_OP_sub, dy, dot));
}

void mpc_expand_log_softmax(mpc_expand *e) {
    uint32_t axis = softmax_axis(e);
    mpc_value_id low = minus_max(e, mpc_expand_f32(e, 0), axis);
    mpc_value_id sum = mpc_expand_reduce(e, MPC_OP_sum, mpc_expand_op1(e, MPC_OP_exp, low), axis, true);
    mpc_expand_emit2(e, 0, MPC_OP_sub, low, mpc_expand_op1(e, MPC_OP_log, sum));
}

/* dy - exp(y) sum(dy) */
void mpc_expand_log_softmax_grad(mpc_expand *e) {
    mpc_value_id y = mpc_expand_f32(e, 0), dy = mpc_expand_f32(e, 1);
    mpc_value_id sum = mpc_expand_reduce(e, MPC_OP_sum, dy, softmax_axis(e), true);
    mpc_value_id part = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op1(e, MPC_OP_exp, y), sum);
    mpc_expand_emit2(e, 0, MPC_OP_sub, dy, part);
}
