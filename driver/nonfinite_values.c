/* What a launch read and computed, as tensors. Only values that own storage lie in a buffer; views are computed from
 * them, a matmul's result that was written through a transpose is read back through it, and constants are made. Inside
 * a kernel no device keeps anything: there the reference evaluator computes again, from the same operands. */
#include <string.h>

#include "driver/nonfinite_check.h"
#include "ir/strided.h"

enum { DEEPEST = 16 }; /* views of views */

mpc_value_id mpc_storage_owner(const mpc_graph *g, mpc_value_id v) {
    while (g->places && g->places[v].kind == MPC_PLACE_IN_VALUE) v = g->places[v].value;
    return v;
}

void mpc_group_of(const mpc_graph *g, mpc_node_id id, mpc_node_id *begin, mpc_node_id *end) {
    *begin = id;
    *end = id + 1;
    if (!g->groups || g->groups[id] == 0) return;
    while (*begin > 0 && g->groups[*begin - 1] == g->groups[id]) --*begin;
    while (*end < g->node_count && g->groups[*end] == g->groups[id]) ++*end;
}

static bool read_buffer(mpc_launch_values *v, mpc_value_id owner, mpc_tensor *out) {
    uint32_t buffer = v->buffer_of[owner];
    const void *bytes = buffer == MPC_NONE ? NULL : v->read(v->user, buffer);
    if (bytes && out->data) mpc_tensor_from_bytes(out, bytes);
    return bytes && out->data;
}

/* The operand of a transpose out of the transpose's elements. */
static void undo_transpose(const mpc_graph *g, const mpc_node *transpose, const mpc_tensor *from, mpc_tensor *to) {
    mpc_strided s = mpc_strided_dense(&from->type);
    mpc_strided_undo_transpose(g, transpose, &s);
    int64_t n = mpc_type_elements(&to->type);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0;
        for (uint32_t axis = s.rank; axis-- > 0; rest /= s.dims[axis]) at += rest % s.dims[axis] * s.strides[axis];
        to->data[i] = from->data[at];
    }
}

static void read_value(mpc_launch_values *v, mpc_value_id id, int depth);

static bool compute(mpc_launch_values *v, mpc_node_id id, int depth) {
    const mpc_node *n = &v->g->nodes[id];
    mpc_tensor *operands = mpc_arena_alloc(v->arena, (n->operand_count + 1) * sizeof *operands);
    if (!operands) return false;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id operand = mpc_operand(v->g, n, i);
        if (depth < DEEPEST) read_value(v, operand, depth + 1);
        operands[i] = v->values[operand];
        if (!operands[i].data) return false;
    }
    return mpc_node_op(v->g, id)->eval &&
           mpc_evaluate_node(v->g, id, operands, false, v->arena, v->values + n->result_begin) == MPC_OK;
}

/* Written through the transpose that alone reads it. */
static bool read_through_reader(mpc_launch_values *v, mpc_value_id id, mpc_value_id owner, mpc_tensor *out) {
    const mpc_node *reader = mpc_producer(v->g, owner);
    if (!reader || reader->op != MPC_OP_transpose || mpc_operand(v->g, reader, 0) != id) return false;
    mpc_tensor whole = mpc_tensor_make(v->arena, mpc_value_type(v->g, owner));
    if (!read_buffer(v, owner, &whole)) return false;
    undo_transpose(v->g, reader, &whole, out);
    return true;
}

static void read_value(mpc_launch_values *v, mpc_value_id id, int depth) {
    const mpc_graph *g = v->g;
    if (v->values[id].data) return;
    mpc_value_id owner = mpc_storage_owner(g, id);
    const mpc_node *producer = mpc_producer(g, id);
    bool stored = v->buffer_of[owner] != MPC_NONE;
    mpc_tensor t = mpc_tensor_make(v->arena, mpc_value_type(g, id));
    if (!t.data) return;
    if (stored && owner != id && read_through_reader(v, id, owner, &t)) {
        v->values[id] = t;
        return;
    }
    bool view = producer && mpc_strided_may_share(g, producer);
    if (stored && (owner == id || !view)) {
        if (read_buffer(v, owner, &t)) v->values[id] = t;
        return;
    }
    bool made = producer && (view || producer->op == MPC_OP_const || producer->op == MPC_OP_range);
    if (made && !compute(v, g->values[id].producer, depth)) v->values[id].data = NULL;
}

void mpc_launch_values_read(mpc_launch_values *v, mpc_node_id id) {
    const mpc_node *n = &v->g->nodes[id];
    for (uint32_t i = 0; i < n->operand_count; i++) read_value(v, mpc_operand(v->g, n, i), 0);
}

bool mpc_launch_values_compute(mpc_launch_values *v, mpc_node_id id) { return compute(v, id, 0); }
