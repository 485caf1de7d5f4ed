/* Expansions of softmax, losses and metrics. The maximum goes first, always (N10); a loss comes from the log-sum-exp,
 * so that forward and backward see the same logits (N11); masked elements are selected away before they are summed, so
 * a NaN in them is harmless. */
#include "passes/expand_lookup.h"
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

/* loss = (max - x[label]) + log(sum): this order keeps the digits that (max + log(sum)) - x[label] loses at large
 * logits. */
void mpc_expand_cross_entropy(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), labels = e->operands[1];
    mpc_type t = mpc_expand_type(e, x);
    uint32_t axis = t.rank - 1;
    mpc_value_id max = mpc_expand_reduce(e, MPC_OP_max, x, axis, false);
    mpc_value_id low = mpc_expand_op2(e, MPC_OP_sub, x, mpc_expand_column(e, max));
    mpc_value_id rest = mpc_expand_reduce(e, MPC_OP_sum, mpc_expand_op1(e, MPC_OP_exp, low), axis, false);
    rest = mpc_expand_op1(e, MPC_OP_log, rest);
    mpc_expand_emit2(e, 1, MPC_OP_add, max, rest);
    if (!e->used[0]) return;
    mpc_value_id hit = mpc_expand_hit(e, labels, t.dims[axis], axis);
    mpc_value_id picked = mpc_expand_op3(e, MPC_OP_where, hit, x, mpc_expand_number(e, 0));
    picked = mpc_expand_reduce(e, MPC_OP_sum, picked, axis, false);
    mpc_value_id loss = mpc_expand_op2(e, MPC_OP_add, mpc_expand_op2(e, MPC_OP_sub, max, picked), rest);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_nan_unless(e, labels, t.dims[axis], loss);
}

/* (logits, labels, lse, dloss) -> (exp(logits - lse) - onehot) dloss */
void mpc_expand_cross_entropy_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_type t = mpc_expand_type(e, x);
    mpc_value_id lse = mpc_expand_column(e, mpc_expand_f32(e, 2)), dloss = mpc_expand_column(e, mpc_expand_f32(e, 3));
    mpc_value_id p = mpc_expand_op1(e, MPC_OP_exp, mpc_expand_op2(e, MPC_OP_sub, x, lse));
    mpc_value_id hit = mpc_expand_hit(e, e->operands[1], t.dims[t.rank - 1], t.rank - 1);
    mpc_value_id less = mpc_expand_op2(e, MPC_OP_sub, p, mpc_expand_number(e, 1));
    mpc_expand_emit2(e, 0, MPC_OP_mul, mpc_expand_op3(e, MPC_OP_where, hit, less, p), dloss);
}

void mpc_expand_accuracy(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_value_id best = mpc_expand_first_max(e, x, mpc_expand_type(e, x).rank - 1);
    mpc_value_id right = mpc_expand_op2(e, MPC_OP_eq, best, mpc_expand_as(e, e->operands[1], MPC_FMT_i32));
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_as(e, right, MPC_FMT_f32);
}

static mpc_value_id sum_all(mpc_expand *e, mpc_value_id a) {
    return mpc_expand_sum_axes(e, a, mpc_expand_type(e, a).rank);
}

/* An empty or fully masked batch has mean 0 (FC-125). */
void mpc_expand_loss_mean(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), count;
    mpc_type t = mpc_expand_type(e, x);
    double all = (double)mpc_type_elements(&t);
    if (e->operand_count == 1) {
        if (e->used[1]) mpc_expand_name_result(e, 1);
        e->results[1] = count = mpc_expand_number(e, all);
        mpc_expand_emit2(e, 0, MPC_OP_div, sum_all(e, x), all > 0 ? count : mpc_expand_number(e, 1));
        return;
    }
    mpc_value_id ones = mpc_expand_as(e, e->operands[1], MPC_FMT_f32);
    x = mpc_expand_op3(e, MPC_OP_where, e->operands[1], x, mpc_expand_number(e, 0));
    if (e->used[1] && t.rank > 0) mpc_expand_name_result(e, 1);
    e->results[1] = count = sum_all(e, ones);
    mpc_value_id divisor = mpc_expand_op2(e, MPC_OP_maximum, count, mpc_expand_number(e, 1));
    mpc_expand_emit2(e, 0, MPC_OP_div, sum_all(e, x), divisor);
}

/* (dmean, count, mask?) -> where(mask, dmean / max(count, 1), 0) */
void mpc_expand_loss_mean_grad(mpc_expand *e) {
    mpc_type to = mpc_expand_result_type(e, 0);
    mpc_value_id divisor = mpc_expand_op2(e, MPC_OP_maximum, mpc_expand_f32(e, 1), mpc_expand_number(e, 1));
    mpc_value_id share = mpc_expand_op2(e, MPC_OP_div, mpc_expand_f32(e, 0), divisor);
    if (e->operand_count > 2) {
        mpc_expand_emit3(e, 0, MPC_OP_where, e->operands[2], share, mpc_expand_number(e, 0));
        return;
    }
    share = mpc_expand_as(e, share, to.format);
    if (to.rank > 0) mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_broadcast(e, share, to.rank, to.dims);
}
