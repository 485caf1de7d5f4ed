/* Before grouping: a cast or reshape of what is stored anyway (an input, a state, a matmul's result) is made once for
 * each reader that can take it into its loop, where it costs a register or nothing. Shared by readers in different
 * groups a cast would have to be stored in the format it was cast to. Readers that no loop can take (a matmul that
 * wants the low copy), outputs and nexts share one. */
#include "passes/fuse_split.h"
#include "ir/space.h"
#include "passes/rewrite.h"

static bool is_stored(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (n != NULL && n->op == MPC_OP_reshape) {
        v = mpc_operand(g, n, 0);
        n = mpc_producer(g, v);
    }
    if (n == NULL || n->op == MPC_OP_state) return true;
    return mpc_op_get(g->ctx, n->op)->kind != MPC_KIND_STRUCT && !mpc_space_takes(g, g->values[v].producer);
}

static bool is_split(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return n != NULL && (n->op == MPC_OP_cast || n->op == MPC_OP_reshape) &&
           mpc_type_elements(mpc_value_type(g, v)) > 1 && is_stored(g, mpc_operand(g, n, 0));
}

static mpc_value_id copy_own(mpc_rewrite *rw, mpc_value_id v) {
    const mpc_node *n = mpc_producer(rw->in, v);
    mpc_value_id from = mpc_operand(rw->in, n, 0),
                 operand = is_split(rw->in, from) ? copy_own(rw, from) : rw->map[from];
    return mpc_build_copy(rw->b, rw->in, rw->in->values[v].producer, &operand);
}

/* The one that everybody shares who can't have one of his own. */
static void share(mpc_rewrite *rw, mpc_value_id v) {
    if (!is_split(rw->in, v) || rw->map[v] != MPC_NONE) return;
    const mpc_node *n = mpc_producer(rw->in, v);
    share(rw, mpc_operand(rw->in, n, 0));
    mpc_rewrite_copy_node(rw, rw->in->values[v].producer);
}

static void copy_reader(mpc_rewrite *rw, mpc_node_id id) {
    const mpc_graph *g = rw->in;
    const mpc_node *n = &g->nodes[id];
    bool takes = mpc_space_takes(g, id);
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (!takes) share(rw, mpc_operand(g, n, i));
    const mpc_value_id *mapped = mpc_rewrite_operands(rw, n);
    for (uint32_t i = 0; takes && i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(g, n, i);
        if (!is_split(g, v)) continue;
        bool again = i > 0 && mpc_operand(g, n, i - 1) == v;
        rw->operands[i] = again ? rw->operands[i - 1] : copy_own(rw, v);
    }
    mpc_rewrite_map_results(rw, n, mpc_build_copy(rw->b, g, id, mapped));
}

mpc_graph *mpc_fuse_split(const mpc_graph *in) {
    mpc_rewrite rw;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    for (mpc_node_id id = 0; id < in->node_count; id++) {
        const mpc_node *n = &in->nodes[id];
        if (n->result_count != 1 || !is_split(in, mpc_result(n, 0))) copy_reader(&rw, id);
    }
    for (uint32_t i = 0; i < in->output_count; i++) share(&rw, in->outputs[i].value);
    for (uint32_t i = 0; i < in->next_count; i++) share(&rw, in->nexts[i].value);
    return mpc_rewrite_finish(&rw);
}
