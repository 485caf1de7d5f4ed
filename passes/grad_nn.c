/* Gradients of gathers, random ops, softmax, normalisation and attention: mostly one composite that reads what
 * the forward op saved (softmax's result, the log-sum-exp, mean and 1/std), so that its precision is assigned as one
 * thing. Ids, labels, masks and running statistics have no gradient; nor has the saved log-sum-exp of attention. */
#include <string.h>

#include "passes/grad_build.h"
#include "passes/rules.h"

void mpc_grad_embedding(mpc_grad *g) {
    mpc_value_id operands[2] = {g->dresults[0], mpc_grad_operand(g, 1)};
    mpc_attr_arg rows = MPC_A_INT("rows", mpc_grad_type(g, mpc_grad_operand(g, 0)).dims[0]);
    mpc_grad_emit_view(g, 0, &(mpc_grad_expr){MPC_OP_embedding_grad, operands, 2, &rows, 1});
}

/* dy where the position along the axis is the index, else 0. */
void mpc_grad_gather(mpc_grad *g) {
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0)), along = {.rank = x.rank};
    int64_t axis = mpc_attr_int(g->g, &g->node, "axis");
    mpc_value_id index = mpc_grad_convert(g, mpc_grad_operand(g, 1), MPC_FMT_i32);
    mpc_value_id positions = mpc_grad_range(g, x.dims[axis]);
    for (uint32_t i = 0; i < x.rank; i++) along.dims[i] = (int64_t)i == axis ? x.dims[i] : 1;
    positions = mpc_grad_to_shape(g, positions, along.rank, along.dims);
    int64_t extent = x.dims[axis];
    x.dims[axis] = 1;
    index = mpc_grad_to_shape(g, index, x.rank, x.dims);
    mpc_value_id dy = mpc_grad_to_shape(g, g->dresults[0], x.rank, x.dims);
    x.dims[axis] = extent;
    mpc_value_id hit = mpc_grad_op2(g, MPC_OP_eq, positions, index);
    g->selects = true;
    mpc_grad_emit3(g, 0, MPC_OP_where, hit, dy, mpc_grad_number(g, 0));
}

/* The same draw decides again. */
void mpc_grad_dropout(mpc_grad *g) {
    mpc_value_id operands[3] = {g->dresults[0], mpc_grad_operand(g, 1), mpc_grad_operand(g, 2)};
    mpc_attr_arg attrs[2] = {MPC_A_FLOAT("rate", mpc_attr_float(g->g, &g->node, "rate")),
                             MPC_A_INT("stream", mpc_attr_int(g->g, &g->node, "stream"))};
    g->selects = true;
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_dropout, operands, 3, attrs, 2});
}

static void emit_from_result(mpc_grad *g, mpc_op_id op) {
    mpc_value_id operands[2] = {mpc_grad_result(g, 0), g->dresults[0]};
    mpc_attr_arg axis = MPC_A_INT("axis", mpc_attr_int(mpc_builder_graph(g->b), &g->node, "axis"));
    mpc_grad_emit(g, 0, &(mpc_grad_expr){op, operands, 2, &axis, 1});
}

void mpc_grad_softmax(mpc_grad *g) { emit_from_result(g, MPC_OP_softmax_grad); }

void mpc_grad_log_softmax(mpc_grad *g) { emit_from_result(g, MPC_OP_log_softmax_grad); }

void mpc_grad_gelu(mpc_grad *g) {
    mpc_value_id operands[2] = {mpc_grad_operand(g, 0), g->dresults[0]};
    mpc_attr_arg form = MPC_A_BOOL("tanh", mpc_attr_bool(g->g, &g->node, "tanh"));
    mpc_grad_expr slope = {MPC_OP_gelu_grad, operands, 2, &form, 1};
    g->selects = g->selected;
    if (!g->selected) mpc_grad_emit(g, 0, &slope);
    else mpc_grad_emit_unless(g, 0, mpc_grad_op2(g, MPC_OP_eq, operands[1], mpc_grad_number(g, 0)), mpc_grad_build(g, &slope));
}

/* `a` and `b` are partial gradients of operand 0; either may be absent. */
static void put_sum(mpc_grad *g, mpc_value_id a, mpc_value_id b) {
    if (a != MPC_NONE && b != MPC_NONE) mpc_grad_emit2(g, 0, MPC_OP_add, a, b);
    else mpc_grad_put(g, 0, a != MPC_NONE ? a : b);
}

/* Gradients through saved statistics, m = mean(x) and r = 1/sqrt(var(x) + eps), of n elements each: dm / n - r^3 (x -
 * m) dr / n. */
static mpc_value_id through_statistics(mpc_grad *g, mpc_type column, double n) {
    mpc_value_id sum = MPC_NONE;
    if (g->dresults[1] != MPC_NONE)
        sum = mpc_grad_scale(g, mpc_grad_to_shape(g, g->dresults[1], column.rank, column.dims), 1 / n);
    if (g->dresults[2] == MPC_NONE) return sum;
    mpc_value_id x = mpc_grad_operand(g, 0), r = mpc_grad_to_shape(g, mpc_grad_result(g, 2), column.rank, column.dims);
    mpc_value_id centred =
        mpc_grad_op2(g, MPC_OP_sub, x, mpc_grad_to_shape(g, mpc_grad_result(g, 1), column.rank, column.dims));
    mpc_value_id cubed = mpc_grad_op2(g, MPC_OP_mul, r, mpc_grad_op2(g, MPC_OP_mul, r, r));
    mpc_value_id dr = mpc_grad_to_shape(g, g->dresults[2], column.rank, column.dims);
    mpc_value_id slope = mpc_grad_scale(g, mpc_grad_op2(g, MPC_OP_mul, cubed, dr), -1 / n);
    mpc_value_id part = mpc_grad_op2(g, MPC_OP_mul, centred, slope);
    return sum == MPC_NONE ? part : mpc_grad_op2(g, MPC_OP_add, part, sum);
}

/* (x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta */
static void emit_norm(mpc_grad *g, mpc_op_id op) {
    if (g->dresults[0] == MPC_NONE) return;
    mpc_value_id operands[5] = {mpc_grad_operand(g, 0), mpc_grad_operand(g, 1), mpc_grad_result(g, 1),
                                mpc_grad_result(g, 2), g->dresults[0]};
    mpc_grad_name_for(g, 0);
    mpc_value_id first = mpc_grad_build_inferred(g, &(mpc_grad_expr){op, operands, 5, NULL, 0});
    for (uint32_t i = 0; i < 3 && first != MPC_NONE; i++) mpc_grad_put(g, i, first + i);
}

static void add_statistics(mpc_grad *g, mpc_type column, double n) {
    bool any = g->dresults[1] != MPC_NONE || g->dresults[2] != MPC_NONE;
    if (!any || !g->wanted[0]) return;
    mpc_value_id rest = through_statistics(g, column, n);
    put_sum(g, g->doperands[0], rest);
}

void mpc_grad_layer_norm(mpc_grad *g) {
    mpc_type column = mpc_grad_type(g, mpc_grad_operand(g, 0));
    double n = (double)column.dims[column.rank - 1];
    column.dims[column.rank - 1] = 1;
    emit_norm(g, MPC_OP_layer_norm_grad);
    add_statistics(g, column, n);
}

void mpc_grad_batch_norm(mpc_grad *g) {
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0)), column = {.rank = 1};
    column.dims[0] = x.dims[x.rank - 1];
    emit_norm(g, MPC_OP_batch_norm_grad);
    add_statistics(g, column, (double)mpc_type_elements(&x) / (double)column.dims[0]);
}

/* (q, k, v, y, lse, dy, mask?) -> dq, dk, dv */
void mpc_grad_attention(mpc_grad *g) {
    if (g->dresults[0] == MPC_NONE) return;
    mpc_value_id operands[7] = {[3] = mpc_grad_result(g, 0), [4] = mpc_grad_result(g, 1), [5] = g->dresults[0]};
    for (uint32_t i = 0; i < 3; i++) operands[i] = mpc_grad_operand(g, i);
    if (g->node.operand_count > 3) operands[6] = mpc_grad_operand(g, 3);
    mpc_attr_arg attrs[4] = {MPC_A_BOOL("causal", mpc_attr_bool(g->g, &g->node, "causal")),
                             MPC_A_INT("window", mpc_attr_int(g->g, &g->node, "window")),
                             MPC_A_FLOAT("scale", mpc_attr_float(g->g, &g->node, "scale")),
                             MPC_A_FORMAT("acc", mpc_attr_format(g->g, &g->node, "acc"))};
    mpc_grad_name_for(g, 0);
    mpc_value_id first = mpc_grad_build_inferred(
        g, &(mpc_grad_expr){MPC_OP_attention_grad, operands, g->node.operand_count + 3, attrs, 4});
    for (uint32_t i = 0; i < 3 && first != MPC_NONE; i++) mpc_grad_put(g, i, first + i);
}
