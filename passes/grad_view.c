/* Gradients of ops that move elements: the move back. What moves exact zeros in (the rest of a slice) is a selection. */
#include <string.h>

#include "passes/grad_build.h"
#include "passes/rules.h"

void mpc_grad_reshape(mpc_grad *g) {
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, mpc_grad_to_shape(g, g->dresults[0], x.rank, x.dims));
}

void mpc_grad_transpose(mpc_grad *g) {
    mpc_int_list perm = mpc_attr_ints(g->g, &g->node, "perm");
    int64_t inverse[MPC_MAX_RANK];
    for (uint32_t i = 0; i < perm.count; i++) inverse[perm.data[i]] = (int64_t)i;
    mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, mpc_grad_permute(g, g->dresults[0], inverse));
}

/* A view with two lists of `rank` numbers, named as the gradient of operand i. */
static void emit_window(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_attr_arg first, mpc_attr_arg second) {
    mpc_attr_arg attrs[2] = {first, second};
    mpc_grad_emit_view(g, i, &(mpc_grad_expr){op, g->dresults, 1, attrs, 2});
}

/* A part of the operand's gradient. */
void mpc_grad_slice(mpc_grad *g) {
    g->part = mpc_attr_ints(g->g, &g->node, "start");
    mpc_grad_put(g, 0, g->dresults[0]);
}

void mpc_grad_pad(mpc_grad *g) {
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    mpc_int_list before = mpc_attr_ints(g->g, &g->node, "before");
    int64_t stop[MPC_MAX_RANK];
    for (uint32_t i = 0; i < x.rank; i++) stop[i] = before.data[i] + x.dims[i];
    emit_window(g, 0, MPC_OP_slice, MPC_A_INTS("start", before.data, x.rank), MPC_A_INTS("stop", stop, x.rank));
}

void mpc_grad_concat(mpc_grad *g) {
    int64_t axis = mpc_attr_int(g->g, &g->node, "axis"), at = 0;
    for (uint32_t k = 0; k < g->node.operand_count; k++) {
        mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, k));
        int64_t start[MPC_MAX_RANK] = {0}, stop[MPC_MAX_RANK];
        memcpy(stop, x.dims, sizeof stop);
        start[axis] = at;
        at = stop[axis] = at + x.dims[axis];
        if (g->wanted[k] && g->node.operand_count == 1) mpc_grad_put(g, k, g->dresults[0]);
        if (g->wanted[k] && g->node.operand_count > 1)
            emit_window(g, k, MPC_OP_slice, MPC_A_INTS("start", start, x.rank), MPC_A_INTS("stop", stop, x.rank));
    }
}

/* mpc_grad_fit sums over what was broadcast. */
void mpc_grad_expand(mpc_grad *g) { mpc_grad_put(g, 0, g->dresults[0]); }
