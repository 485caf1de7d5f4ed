/* Where values lie: the places of the memory pass turned into buffers, pointers and strides. A value may own storage,
 * be a view of its operand, be written through its reader's layout (a matmul whose result only a transpose reads), or
 * lie in a state. */
#include "codegen/cg.h"

mpc_value_id mpc_cg_owner(const mpc_cg *cg, mpc_value_id v) {
    while (cg->g->places[v].kind == MPC_PLACE_IN_VALUE) v = cg->g->places[v].value;
    return v;
}

bool mpc_cg_is_state(const mpc_cg *cg, mpc_value_id v) {
    const mpc_node *n = mpc_producer(cg->g, v);
    return n != NULL && n->op == MPC_OP_state;
}

const mpc_node *mpc_cg_inlined(const mpc_cg *cg, mpc_value_id v) {
    const mpc_node *n = mpc_producer(cg->g, v);
    while (n != NULL && n->op == MPC_OP_reshape && mpc_strided_is_view(cg->g, n))
        n = mpc_producer(cg->g, mpc_operand(cg->g, n, 0));
    return n != NULL && (n->op == MPC_OP_const || n->op == MPC_OP_range) ? n : NULL;
}

/* The maker of the operand writes through this transpose. */
static bool is_written_through(const mpc_cg *cg, const mpc_node *n) {
    const mpc_place *place = &cg->g->places[mpc_operand(cg->g, n, 0)];
    return n->op == MPC_OP_transpose && place->kind == MPC_PLACE_IN_VALUE && place->value == mpc_result(n, 0);
}

bool mpc_cg_is_free_view(const mpc_cg *cg, const mpc_node *n) {
    if (!mpc_strided_may_share(cg->g, n)) return false;
    if (is_written_through(cg, n)) return true;
    mpc_value_id operand = mpc_operand(cg->g, n, 0), result = mpc_result(n, 0);
    if (n->op == MPC_OP_reshape && cg->g->places[result].kind == MPC_PLACE_NONE) return true;
    return cg->g->places[result].kind == MPC_PLACE_IN_VALUE && mpc_cg_owner(cg, operand) == mpc_cg_owner(cg, result);
}

static mpc_strided find_layout(const mpc_cg *cg, mpc_value_id v) {
    const mpc_graph *g = cg->g;
    const mpc_node *n = mpc_producer(g, v);
    mpc_strided s = mpc_strided_dense(mpc_value_type(g, v));
    if (n == NULL || g->places[v].kind != MPC_PLACE_IN_VALUE) return s;
    const mpc_node *reader = mpc_producer(g, g->places[v].value);
    if (reader != NULL && is_written_through(cg, reader) && mpc_operand(g, reader, 0) == v) {
        s = mpc_strided_dense(mpc_value_type(g, mpc_result(reader, 0)));
        mpc_strided_undo_transpose(g, reader, &s);
        return s;
    }
    if (!mpc_cg_is_free_view(cg, n) || is_written_through(cg, n)) return s;
    s = find_layout(cg, mpc_operand(g, n, 0));
    mpc_strided_apply(g, n, &s); /* the planner made sure that it can */
    return s;
}

mpc_pointer mpc_cg_layout(mpc_cg *cg, mpc_value_id v, mpc_strided *layout) {
    uint32_t buffer = cg->buffer_of[mpc_cg_owner(cg, v)];
    *layout = find_layout(cg, v);
    if (buffer == MPC_NONE) {
        mpc_cg_fail(cg, "value %s has no storage", mpc_value_name(cg->g, v));
        return (mpc_pointer){0};
    }
    return (mpc_pointer){buffer, (uint64_t)layout->offset * mpc_format_get(mpc_value_format(cg->g, v))->bytes};
}

mpc_pointer mpc_cg_pointer(mpc_cg *cg, mpc_value_id v) {
    mpc_strided layout;
    int64_t stride;
    mpc_pointer p = mpc_cg_layout(cg, v, &layout);
    bool empty = mpc_type_elements(mpc_value_type(cg->g, v)) == 0;
    if (mpc_cg_ok(cg) && !empty && (!mpc_strided_collapse(&layout, 0, layout.rank, &stride) || stride != 1))
        mpc_cg_fail(cg, "value %s is a strided view where a dense one is needed", mpc_value_name(cg->g, v));
    return p;
}

mpc_pointer mpc_cg_workspace(mpc_cg *cg, uint64_t bytes) {
    mpc_pointer p = {cg->workspace, cg->workspace_used};
    cg->workspace_used += (bytes + 63) / 64 * 64;
    if (cg->workspace_used > cg->workspace_bytes) cg->workspace_bytes = cg->workspace_used;
    return p;
}

char mpc_cg_lanes(mpc_format format) {
    if (format == MPC_FMT_bool) return 'b';
    if (format == MPC_FMT_i64) return 'l';
    return mpc_format_is_float(format) ? 'f' : 'i';
}

bool mpc_cg_rounds(mpc_format format) { return mpc_format_is_low(format) || format == MPC_FMT_u8; }
