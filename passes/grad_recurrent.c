/* Gradients of the recurrent layers: one op that walks the steps back, from the gates and states that the forward op
 * saved. The gradient of the saved gates themselves is zero by definition: only these rules read them. */
#include "passes/grad_build.h"
#include "passes/rules.h"

enum { RESULTS = 6, SAVED = 10 };

static mpc_value_id zeros_like(mpc_grad *g, mpc_value_id a) {
    mpc_type t = mpc_grad_type(g, a);
    return mpc_grad_broadcast(g, mpc_grad_number(g, 0), t.rank, t.dims);
}

/* Appends dy and, where the states have a gradient, theirs; puts all results. */
static void emit_layer(mpc_grad *g, mpc_op_id op, mpc_value_id *operands, uint32_t count) {
    mpc_attr_arg attrs[2] = {MPC_A_BOOL("reverse", mpc_attr_bool(g->g, &g->node, "reverse")),
                             MPC_A_FORMAT("acc", mpc_attr_format(g->g, &g->node, "acc"))};
    if (g->dresults[0] == MPC_NONE && g->dresults[1] == MPC_NONE) return;
    operands[count++] = g->dresults[0] != MPC_NONE ? g->dresults[0] : zeros_like(g, mpc_grad_result(g, 0));
    if (g->dresults[1] != MPC_NONE) operands[count++] = g->dresults[1];
    mpc_grad_name_for(g, 0);
    mpc_value_id first = mpc_grad_build_inferred(g, &(mpc_grad_expr){op, operands, count, attrs, 2});
    for (uint32_t i = 0; i < RESULTS && first != MPC_NONE; i++) mpc_grad_put(g, i, first + i);
}

/* (x, w_input, w_hidden, bias, h0, c0) -> y, c, gates */
void mpc_grad_lstm(mpc_grad *g) {
    static const uint32_t kept[] = {0, 1, 2, 4, 5};
    mpc_value_id operands[SAVED];
    for (uint32_t i = 0; i < 5; i++) operands[i] = mpc_grad_operand(g, kept[i]);
    for (uint32_t i = 0; i < 3; i++) operands[5 + i] = mpc_grad_result(g, i);
    emit_layer(g, MPC_OP_lstm_grad, operands, 8);
}

/* (x, w_input, w_hidden, bias, bias_hidden, h0) -> y, h, gates */
void mpc_grad_gru(mpc_grad *g) {
    static const uint32_t kept[] = {0, 1, 2, 5};
    mpc_value_id operands[SAVED];
    for (uint32_t i = 0; i < 4; i++) operands[i] = mpc_grad_operand(g, kept[i]);
    for (uint32_t i = 0; i < 2; i++) operands[4 + i] = mpc_grad_result(g, 1 + i);
    emit_layer(g, MPC_OP_gru_grad, operands, 6);
}
