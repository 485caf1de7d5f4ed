/* Ops that move elements. Each is one walk over the smaller side with the strides of the other; nothing is computed, so
 * a NaN or a negative zero arrives as it was. Reshape is a plain copy (mpc_eval_copy). */
#include "ir/eval/eval_util.h"
#include "ir/rules.h"

bool mpc_eval_transpose(mpc_eval *e) {
    mpc_int_list perm = mpc_attr_ints(e->graph, e->node, "perm");
    int64_t dense[MPC_MAX_RANK], strides[MPC_MAX_RANK];
    mpc_dense_strides(&e->operands[0].type, dense);
    for (uint32_t i = 0; i < perm.count; i++) strides[i] = dense[perm.data[i]];
    mpc_walk w = mpc_walk_strided(&e->results[0].type, strides);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) e->results[0].data[i] = e->operands[0].data[w.at[0]];
    return true;
}

static int64_t offset_of(const int64_t *strides, mpc_int_list index) {
    int64_t at = 0;
    for (uint32_t i = 0; i < index.count; i++) at += strides[i] * index.data[i];
    return at;
}

bool mpc_eval_slice(mpc_eval *e) {
    int64_t strides[MPC_MAX_RANK];
    mpc_dense_strides(&e->operands[0].type, strides);
    int64_t begin = offset_of(strides, mpc_attr_ints(e->graph, e->node, "start"));
    mpc_walk w = mpc_walk_strided(&e->results[0].type, strides);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w))
        e->results[0].data[i] = e->operands[0].data[begin + w.at[0]];
    return true;
}

bool mpc_eval_pad(mpc_eval *e) {
    double value = mpc_attr_float(e->graph, e->node, "value");
    int64_t strides[MPC_MAX_RANK], count = mpc_type_elements(&e->results[0].type);
    mpc_dense_strides(&e->results[0].type, strides);
    int64_t begin = offset_of(strides, mpc_attr_ints(e->graph, e->node, "before"));
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] = value;
    mpc_walk w = mpc_walk_strided(&e->operands[0].type, strides);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w))
        e->results[0].data[begin + w.at[0]] = e->operands[0].data[i];
    return true;
}

bool mpc_eval_concat(mpc_eval *e) {
    int64_t axis = mpc_attr_int(e->graph, e->node, "axis"), begin = 0, strides[MPC_MAX_RANK];
    mpc_dense_strides(&e->results[0].type, strides);
    for (uint32_t k = 0; k < e->operand_count; k++) {
        const mpc_tensor *x = &e->operands[k];
        mpc_walk w = mpc_walk_strided(&x->type, strides);
        for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) e->results[0].data[begin + w.at[0]] = x->data[i];
        begin += x->type.dims[axis] * strides[axis];
    }
    return true;
}

bool mpc_eval_expand(mpc_eval *e) {
    mpc_walk w = mpc_walk_begin(&e->results[0].type, e->operands, 1);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) e->results[0].data[i] = e->operands[0].data[w.at[0]];
    return true;
}
