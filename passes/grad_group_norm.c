/* Gradients of rms norm, group norm and drop path. The norms read the statistics that the forward op saved; through the
 * saved results themselves no gradient goes, since only these rules read them. */
#include "passes/grad_build.h"
#include "passes/rules.h"

void mpc_grad_rms_norm(mpc_grad *g) {
    if (g->dresults[0] == MPC_NONE) return;
    mpc_value_id operands[4] = {mpc_grad_operand(g, 0), mpc_grad_operand(g, 1), mpc_grad_result(g, 1), g->dresults[0]};
    mpc_grad_name_for(g, 0);
    mpc_value_id first = mpc_grad_build_inferred(g, &(mpc_grad_expr){MPC_OP_rms_norm_grad, operands, 4, NULL, 0});
    for (uint32_t i = 0; i < 2 && first != MPC_NONE; i++) mpc_grad_put(g, i, first + i);
}

void mpc_grad_group_norm(mpc_grad *g) {
    if (g->dresults[0] == MPC_NONE) return;
    mpc_value_id operands[5] = {mpc_grad_operand(g, 0), mpc_grad_operand(g, 1), mpc_grad_result(g, 1),
                                mpc_grad_result(g, 2), g->dresults[0]};
    mpc_attr_arg groups = MPC_A_INT("groups", mpc_attr_int(g->g, &g->node, "groups"));
    mpc_grad_name_for(g, 0);
    mpc_value_id first = mpc_grad_build_inferred(g, &(mpc_grad_expr){MPC_OP_group_norm_grad, operands, 5, &groups, 1});
    for (uint32_t i = 0; i < 3 && first != MPC_NONE; i++) mpc_grad_put(g, i, first + i);
}

/* The same draw decides again. */
void mpc_grad_drop_path(mpc_grad *g) {
    mpc_value_id operands[3] = {g->dresults[0], mpc_grad_operand(g, 1), mpc_grad_operand(g, 2)};
    mpc_attr_arg attrs[2] = {MPC_A_FLOAT("rate", mpc_attr_float(g->g, &g->node, "rate")),
                             MPC_A_INT("stream", mpc_attr_int(g->g, &g->node, "stream"))};
    g->selects = true;
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_drop_path, operands, 3, attrs, 2});
}
