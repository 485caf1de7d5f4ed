/* Gradients of losses. Those of the cross entropies read the saved log-sum-exp, as one composite whose precision is
 * assigned as one thing; those that go value by value are primitives. Labels and masks have no gradient; soft targets
 * do. */
#include "passes/grad_build.h"
#include "passes/rules.h"

/* The log-sum-exp's own gradient: softmax times dlse. */
static mpc_value_id through_lse(mpc_grad *g, mpc_value_id logits, mpc_value_id lse) {
    mpc_type column = mpc_grad_type(g, logits);
    column.dims[column.rank - 1] = 1;
    mpc_value_id at = mpc_grad_to_shape(g, lse, column.rank, column.dims);
    mpc_value_id dlse = mpc_grad_to_shape(g, g->dresults[1], column.rank, column.dims);
    mpc_value_id p = mpc_grad_op1(g, MPC_OP_exp, mpc_grad_op2(g, MPC_OP_sub, logits, at));
    return mpc_grad_op2(g, MPC_OP_mul, p, dlse);
}

/* dlogits by `op`, plus what comes through the log-sum-exp if somebody differentiates that. */
static void emit_logits(mpc_grad *g, mpc_op_id op) {
    mpc_value_id logits = mpc_grad_operand(g, 0), lse = mpc_grad_result(g, 1), rest = MPC_NONE;
    mpc_attr_arg smooth = MPC_A_FLOAT("smooth", mpc_attr_float(g->g, &g->node, "smooth"));
    if (g->dresults[1] != MPC_NONE) rest = through_lse(g, logits, lse);
    if (g->dresults[0] != MPC_NONE) {
        mpc_value_id operands[4] = {logits, mpc_grad_operand(g, 1), lse, g->dresults[0]};
        mpc_grad_emit_view(g, 0, &(mpc_grad_expr){op, operands, 4, &smooth, 1});
    }
    if (rest == MPC_NONE) return;
    if (g->doperands[0] == MPC_NONE) mpc_grad_put(g, 0, rest);
    else mpc_grad_emit2(g, 0, MPC_OP_add, g->doperands[0], rest);
}

void mpc_grad_cross_entropy(mpc_grad *g) { emit_logits(g, MPC_OP_cross_entropy_grad); }

/* Where a selection further on left nothing of dy: there a slope that isn't finite is multiplied by 0 (FC-059).
 * MPC_NONE: there is no selection. `dy` has the shape that the slope has or grows to. */
static mpc_value_id nothing_from(mpc_grad *g, mpc_value_id dy) {
    g->selects = g->selected;
    return g->selected ? mpc_grad_op2(g, MPC_OP_eq, dy, mpc_grad_number(g, 0)) : MPC_NONE;
}

/* dy slope, exactly 0 where `dead` says so (MPC_NONE: nowhere) */
static void emit_product(mpc_grad *g, uint32_t i, mpc_value_id dead, mpc_value_id dy, mpc_value_id slope) {
    if (dead == MPC_NONE) mpc_grad_emit2(g, i, MPC_OP_mul, dy, slope);
    else mpc_grad_emit_unless(g, i, dead, mpc_grad_op2(g, MPC_OP_mul, dy, slope));
}

/* dtarget = (1 - smooth) (lse - logits) dloss */
void mpc_grad_soft_cross_entropy(mpc_grad *g) {
    if (g->wanted[0]) emit_logits(g, MPC_OP_soft_cross_entropy_grad);
    if (!g->wanted[1] || g->dresults[0] == MPC_NONE) return;
    mpc_value_id logits = mpc_grad_operand(g, 0);
    mpc_type column = mpc_grad_type(g, logits);
    column.dims[column.rank - 1] = 1;
    mpc_value_id lse = mpc_grad_to_shape(g, mpc_grad_result(g, 1), column.rank, column.dims);
    mpc_value_id dloss = mpc_grad_to_shape(g, g->dresults[0], column.rank, column.dims);
    mpc_value_id dead = nothing_from(g, dloss);
    dloss = mpc_grad_scale(g, dloss, 1 - mpc_attr_float(g->g, &g->node, "smooth"));
    emit_product(g, 1, dead, dloss, mpc_grad_op2(g, MPC_OP_sub, lse, logits));
}

/* 2 (a - b) dy */
void mpc_grad_mse(mpc_grad *g) {
    mpc_value_id a = mpc_grad_operand(g, 0), b = mpc_grad_operand(g, 1);
    mpc_value_id twice = mpc_grad_scale(g, g->dresults[0], 2);
    g->selects = g->selected;
    if (g->wanted[0]) mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, twice, mpc_grad_op2(g, MPC_OP_sub, a, b));
    if (g->wanted[1]) mpc_grad_emit2_guarded(g, 1, MPC_OP_mul, twice, mpc_grad_op2(g, MPC_OP_sub, b, a));
}

/* `da` for the first operand of a - b, its negative for the second. */
static void emit_difference(mpc_grad *g, mpc_value_id da) {
    if (g->wanted[0]) mpc_grad_put(g, 0, da);
    if (g->wanted[1]) mpc_grad_emit1(g, 1, MPC_OP_neg, da);
}

/* dy by the sign of the difference, 0 at 0 */
void mpc_grad_l1(mpc_grad *g) {
    mpc_value_id a = mpc_grad_operand(g, 0), b = mpc_grad_operand(g, 1), dy = g->dresults[0];
    mpc_value_id zero = mpc_grad_number(g, 0), minus = mpc_grad_op1(g, MPC_OP_neg, dy);
    mpc_value_id below = mpc_grad_op3(g, MPC_OP_where, mpc_grad_op2(g, MPC_OP_lt, a, b), minus, zero);
    g->selects = true;
    emit_difference(g, mpc_grad_op3(g, MPC_OP_where, mpc_grad_op2(g, MPC_OP_gt, a, b), dy, below));
}

/* dy times the difference, at most delta of it */
void mpc_grad_huber(mpc_grad *g) {
    double delta = mpc_attr_float(g->g, &g->node, "delta");
    mpc_value_id d = mpc_grad_op2(g, MPC_OP_sub, mpc_grad_operand(g, 0), mpc_grad_operand(g, 1));
    d = mpc_grad_op2(g, MPC_OP_minimum, d, mpc_grad_number(g, delta));
    d = mpc_grad_op2(g, MPC_OP_maximum, d, mpc_grad_number(g, -delta));
    g->selects = g->selected;
    if (g->wanted[0]) mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], d);
    if (g->wanted[1]) mpc_grad_emit2_guarded(g, 1, MPC_OP_mul, g->dresults[0], mpc_grad_op1(g, MPC_OP_neg, d));
}

/* dz = (sigmoid(z) (1 - t) - sigmoid(-z) t) dy: the plain sigmoid(z) - t loses all digits where a logit is right and
 * large. dt = -z dy. */
void mpc_grad_bce_with_logits(mpc_grad *g) {
    mpc_value_id z = mpc_grad_operand(g, 0), t = mpc_grad_operand(g, 1), dy = g->dresults[0];
    mpc_value_id minus = mpc_grad_op1(g, MPC_OP_neg, z);
    g->selects = g->selected;
    if (g->wanted[1]) mpc_grad_emit2_guarded(g, 1, MPC_OP_mul, dy, minus);
    if (!g->wanted[0]) return;
    mpc_value_id off = mpc_grad_op2(g, MPC_OP_sub, mpc_grad_number(g, 1), t);
    off = mpc_grad_op2(g, MPC_OP_mul, mpc_grad_op1(g, MPC_OP_sigmoid, z), off);
    mpc_value_id on = mpc_grad_op2(g, MPC_OP_mul, mpc_grad_op1(g, MPC_OP_sigmoid, minus), t);
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, dy, mpc_grad_op2(g, MPC_OP_sub, off, on));
}

/* d log p = -q dy; dq = (log q + 1 - log p) dy, 0 where q is */
void mpc_grad_kl(mpc_grad *g) {
    mpc_value_id log_p = mpc_grad_operand(g, 0), q = mpc_grad_operand(g, 1), dy = g->dresults[0];
    g->selects = g->selected;
    if (g->wanted[0]) mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, dy, mpc_grad_op1(g, MPC_OP_neg, q));
    if (!g->wanted[1]) return;
    mpc_value_id slope = mpc_grad_op2(g, MPC_OP_sub, mpc_grad_op1(g, MPC_OP_log, q), log_p);
    slope = mpc_grad_op2(g, MPC_OP_add, slope, mpc_grad_number(g, 1));
    mpc_value_id dead = mpc_grad_op2(g, MPC_OP_eq, q, mpc_grad_number(g, 0)), none = nothing_from(g, dy);
    if (none != MPC_NONE) dead = mpc_grad_op2(g, MPC_OP_or, dead, none);
    emit_product(g, 1, dead, dy, slope);
}

/* The number of elements that count is a constant of the batch. */
void mpc_grad_loss_mean(mpc_grad *g) {
    if (g->dresults[0] == MPC_NONE) return;
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    mpc_value_id operands[3] = {g->dresults[0], mpc_grad_result(g, 1), MPC_NONE};
    mpc_attr_arg shape = MPC_A_INTS("shape", x.dims, x.rank);
    if (g->node.operand_count > 1) operands[2] = mpc_grad_operand(g, 1);
    g->selects = g->node.operand_count > 1;
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_loss_mean_grad, operands, g->node.operand_count + 1, &shape, 1});
}
