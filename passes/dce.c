/* Drops nodes that no output, next value or effect needs, states included: a state that only its own next reads is
 * kept, since its next keeps it. Inputs stay, because they are the graph's signature. */
#include "passes/passes.h"
#include "passes/rewrite.h"

static void mark_ends(const mpc_graph *g, bool *live) {
    for (uint32_t i = 0; i < g->output_count; i++) live[g->outputs[i].value] = true;
    for (uint32_t i = 0; i < g->next_count; i++) live[g->nexts[i].state] = live[g->nexts[i].value] = true;
}

static bool is_live(const mpc_graph *g, mpc_node_id id, const bool *live) {
    const mpc_node *n = &g->nodes[id];
    if ((mpc_node_op(g, id)->flags & MPC_OPF_EFFECT) != 0) return true;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (live[mpc_result(n, i)]) return true;
    return false;
}

static void mark_operands(const mpc_graph *g, bool *live) {
    for (mpc_node_id id = g->node_count; id-- > 0;) {
        const mpc_node *n = &g->nodes[id];
        if (!is_live(g, id, live)) continue;
        for (uint32_t i = 0; i < n->operand_count; i++) live[mpc_operand(g, n, i)] = true;
    }
}

mpc_graph *mpc_pass_dce(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    mpc_rewrite rw;
    (void)options;
    (void)env;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    bool *live = mpc_rewrite_scratch(&rw, in->value_count, sizeof *live);
    if (live != NULL) {
        mark_ends(in, live);
        mark_operands(in, live);
        for (mpc_node_id id = 0; id < in->node_count; id++)
            if (is_live(in, id, live)) mpc_rewrite_copy_node(&rw, id);
        mpc_build_copy_ends(rw.b, in, rw.map);
    }
    return mpc_rewrite_finish(&rw);
}
