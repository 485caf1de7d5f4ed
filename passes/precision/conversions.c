/* In which format a decided graph stores each value, and in which an op reads it: what the decisions say, where the
 * types leave it to them. The one place that knows: insert-casts builds what is said here, lint looks at it. A newcomer
 * would take an op's `operand` for what it reads: elementwise ops widen in registers, and literals are never rounded
 * for them. */
#include "passes/precision/precision.h"

mpc_format mpc_format_stored(const mpc_graph *g, const mpc_fixed *fixed, mpc_value_id v) {
    mpc_node_id id = g->values[v].producer;
    mpc_format planned = id == MPC_NONE ? MPC_FMT_none : mpc_decision_at(g, id).result;
    return planned == MPC_FMT_none || fixed->result[v] ? mpc_value_format(g, v) : planned;
}

static bool is_const(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return n != NULL && n->op == MPC_OP_const;
}

mpc_format mpc_format_read(const mpc_graph *g, const mpc_fixed *fixed, mpc_node_id id, uint32_t i) {
    const mpc_node *n = &g->nodes[id];
    const mpc_op *op = mpc_node_op(g, id);
    mpc_value_id v = mpc_operand(g, n, i);
    mpc_format typed = mpc_value_format(g, v), now = mpc_format_stored(g, fixed, v),
               wanted = mpc_decision_at(g, id).operand;
    if (!mpc_format_is_float(typed)) return typed;
    if (op->cls == MPC_CLASS_NONE || fixed->operand[n->operand_begin + i]) return typed;
    if (fixed->held[id] != 0) wanted = MPC_FMT_f32;
    if (wanted == MPC_FMT_none) return now;
    if (op->cls == MPC_CLASS_LOW || op->kind == MPC_KIND_VIEW) return wanted;
    if (op->kind == MPC_KIND_EWISE && is_const(g, v)) return now;
    return mpc_format_join(now, wanted) == wanted ? now : wanted;
}
