/* Which values are only other values' storage seen differently. A reshape always is; a transpose, slice or expand is when
 * everybody who reads it (through further views) is a matmul that can take the strides; a transpose of a matmul's
 * result is when the matmul can write that layout and nobody else reads the result: then the matmul's result shares the
 * transpose's storage, not the other way round. */
#include "ir/strided.h"
#include "passes/memory.h"

static bool is_bound(const mpc_graph *g, mpc_value_id v) {
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i].value == v) return true;
    for (uint32_t i = 0; i < g->next_count; i++)
        if (g->nexts[i].value == v) return true;
    return false;
}

static bool only_matmuls_read(const mpc_graph *g, const mpc_uses *uses, mpc_value_id v, const mpc_strided *layout) {
    if (uses->begin[v] == uses->begin[v + 1] || is_bound(g, v)) return false;
    for (uint32_t u = uses->begin[v]; u < uses->begin[v + 1]; u++) {
        const mpc_node *n = &g->nodes[uses->users[u]];
        mpc_strided s = *layout;
        if (mpc_strided_may_share(g, n)) {
            if (!mpc_strided_apply(g, n, &s) || !only_matmuls_read(g, uses, mpc_result(n, 0), &s)) return false;
            continue;
        }
        for (uint32_t i = 0; i < n->operand_count; i++)
            if (mpc_operand(g, n, i) == v && !mpc_strided_fits_matmul(g, n, i, &s)) return false;
    }
    return true;
}

/* The layout of a value's operand chain down to dense storage. */
static bool layout_of(const mpc_graph *g, const mpc_value_id *root, mpc_value_id v, mpc_strided *s) {
    if (root[v] == v) return *s = mpc_strided_dense(mpc_value_type(g, v)), true;
    const mpc_node *n = mpc_producer(g, v);
    return layout_of(g, root, mpc_operand(g, n, 0), s) && mpc_strided_apply(g, n, s);
}

static bool absorb_into_readers(const mpc_graph *g, const mpc_uses *uses, const mpc_node *n, mpc_value_id *root) {
    mpc_value_id operand = mpc_operand(g, n, 0), result = mpc_result(n, 0);
    const mpc_node *producer = mpc_producer(g, root[operand]);
    if (producer != NULL && (producer->op == MPC_OP_const || producer->op == MPC_OP_range)) return false;
    mpc_strided s;
    if (!layout_of(g, root, operand, &s) || !mpc_strided_apply(g, n, &s)) return false;
    if (!only_matmuls_read(g, uses, result, &s)) return false;
    return root[result] = root[operand], true;
}

static void absorb_into_maker(const mpc_graph *g, const mpc_uses *uses, const mpc_node *n, mpc_value_id *root) {
    mpc_value_id operand = mpc_operand(g, n, 0), result = mpc_result(n, 0);
    const mpc_node *maker = mpc_producer(g, operand);
    if (n->op != MPC_OP_transpose || maker == NULL || root[operand] != operand) return;
    if (maker->op != MPC_OP_matmul && maker->op != MPC_OP_linear) return;
    if (uses->begin[operand + 1] - uses->begin[operand] != 1 || is_bound(g, operand)) return;
    mpc_strided s = mpc_strided_dense(mpc_value_type(g, result));
    mpc_strided_undo_transpose(g, n, &s);
    if (mpc_strided_fits_matmul(g, maker, maker->operand_count, &s)) root[operand] = result;
}

void mpc_memory_find_roots(const mpc_graph *g, const mpc_uses *uses, mpc_value_id *root) {
    for (mpc_value_id v = 0; v < g->value_count; v++) root[v] = v;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        if (!mpc_strided_may_share(g, n)) continue;
        if (n->op != MPC_OP_reshape) {
            if (!absorb_into_readers(g, uses, n, root)) absorb_into_maker(g, uses, n, root);
        } else {
            root[mpc_result(n, 0)] = root[mpc_operand(g, n, 0)];
        }
    }
}
