/* Shapes of structure, elementwise ops and reductions. Operands of an elementwise op broadcast as in numpy; floats of
 * different formats join, but a float never meets an integer without a cast (an i32 that slips into f16 loses digits
 * silently, N44). */
#include "ir/rules.h"
#include "ir/shape_util.h"

/* The caller gives the type, as the text form does: state, const and range cannot know it from operands. */
bool mpc_shape_attr_typed(mpc_infer *in) {
    if (in->results[0] != 0) return true;
    return mpc_infer_fail(in, MPC_NO_OPERAND, "its type must be given");
}

static bool want_same_kind(mpc_infer *in, uint32_t a, uint32_t b) {
    mpc_format fa = mpc_infer_operand(in, a)->format, fb = mpc_infer_operand(in, b)->format;
    if (fa == fb || (mpc_format_is_float(fa) && mpc_format_is_float(fb))) return true;
    return mpc_infer_fail(in, b, "operands are %s and %s: cast one of them", mpc_format_get(fa)->name,
                          mpc_format_get(fb)->name);
}

static bool broadcast_to_result(mpc_infer *in, uint32_t a, uint32_t b, mpc_type *out) {
    const mpc_type *ta = mpc_infer_operand(in, a), *tb = mpc_infer_operand(in, b);
    if (mpc_broadcast(ta, tb, out)) return true;
    return mpc_infer_fail(in, b, "shapes %s and %s don't match", mpc_shape_text_of(ta->rank, ta->dims).text,
                          mpc_shape_text_of(tb->rank, tb->dims).text);
}

static mpc_format join_pair(const mpc_infer *in, uint32_t a, uint32_t b) {
    mpc_format fa = mpc_infer_operand(in, a)->format, fb = mpc_infer_operand(in, b)->format;
    return fa == fb ? fa : mpc_format_join(fa, fb);
}

static bool want_number(mpc_infer *in, uint32_t i) {
    if (mpc_infer_operand(in, i)->format != MPC_FMT_bool) return true;
    return mpc_infer_fail(in, i, "operand %u must be a number, it is bool", i);
}

bool mpc_shape_bcast(mpc_infer *in) {
    mpc_type out;
    return want_number(in, 0) && want_same_kind(in, 0, 1) && broadcast_to_result(in, 0, 1, &out) &&
           mpc_infer_set_like(in, 0, join_pair(in, 0, 1), &out);
}

bool mpc_shape_bcast_float(mpc_infer *in) { return mpc_infer_want_float(in, 0) && mpc_shape_bcast(in); }

bool mpc_shape_same(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    return mpc_infer_set_like(in, 0, t->format, t);
}

bool mpc_shape_same_float(mpc_infer *in) { return mpc_infer_want_float(in, 0) && mpc_shape_same(in); }

bool mpc_shape_compare(mpc_infer *in) {
    mpc_type out;
    return want_same_kind(in, 0, 1) && broadcast_to_result(in, 0, 1, &out) &&
           mpc_infer_set_like(in, 0, MPC_FMT_bool, &out);
}

bool mpc_shape_compare1(mpc_infer *in) {
    return mpc_infer_want_float(in, 0) && mpc_infer_set_like(in, 0, MPC_FMT_bool, mpc_infer_operand(in, 0));
}

bool mpc_shape_logic(mpc_infer *in) {
    mpc_type out = *mpc_infer_operand(in, 0);
    if (!mpc_infer_want_bool(in, 0)) return false;
    if (in->operand_count == 2 && !(mpc_infer_want_bool(in, 1) && broadcast_to_result(in, 0, 1, &out))) return false;
    return mpc_infer_set_like(in, 0, MPC_FMT_bool, &out);
}

bool mpc_shape_where(mpc_infer *in) {
    mpc_type pair, out;
    if (!mpc_infer_want_bool(in, 0) || !want_same_kind(in, 1, 2) || !broadcast_to_result(in, 1, 2, &pair)) return false;
    const mpc_type *c = mpc_infer_operand(in, 0);
    if (!mpc_broadcast(c, &pair, &out))
        return mpc_infer_fail(in, 0, "condition %s doesn't match the values %s",
                              mpc_shape_text_of(c->rank, c->dims).text, mpc_shape_text_of(pair.rank, pair.dims).text);
    return mpc_infer_set_like(in, 0, join_pair(in, 1, 2), &out);
}

bool mpc_shape_cast(mpc_infer *in) {
    mpc_format to = mpc_infer_format(in, "to");
    if (to == MPC_FMT_none || !mpc_format_get(to)->storable)
        return mpc_infer_fail(in, MPC_NO_OPERAND, "there is no such format to store in");
    return mpc_infer_set_like(in, 0, to, mpc_infer_operand(in, 0));
}

/* Shape of the first operand, which the second broadcasts into. */
bool mpc_shape_same_first(mpc_infer *in) {
    mpc_type out;
    const mpc_type *t = mpc_infer_operand(in, 0);
    return mpc_infer_want_float(in, 0) && mpc_infer_want_float(in, 1) && broadcast_to_result(in, 0, 1, &out) &&
           (out.rank == t->rank && mpc_type_elements(&out) == mpc_type_elements(t)
                ? mpc_infer_set_like(in, 0, mpc_infer_join(in, 2), t)
                : mpc_infer_fail(in, 1, "operand 1 is larger than %s", mpc_shape_text_of(t->rank, t->dims).text));
}

/* (value, gradient of the result) of a shape-preserving op: the gradient has its value's format. */
bool mpc_shape_grad_same(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    return mpc_infer_want_float(in, 0) && mpc_infer_want_float(in, 1) && mpc_infer_want_like(in, 1, 0) &&
           mpc_infer_set_like(in, 0, t->format, t);
}

/* softmax and its like */
bool mpc_shape_along_axis(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    return mpc_infer_want_float(in, 0) && mpc_infer_want_axis(in, mpc_infer_int(in, "axis")) &&
           mpc_infer_set_like(in, 0, t->format, t);
}

bool mpc_shape_along_axis_grad(mpc_infer *in) {
    return mpc_infer_want_float(in, 1) && mpc_infer_want_like(in, 1, 0) && mpc_shape_along_axis(in);
}

static bool want_sorted_axes(mpc_infer *in, mpc_int_list axes) {
    for (uint32_t i = 0; i < axes.count; i++) {
        if (!mpc_infer_want_axis(in, axes.data[i])) return false;
        if (i > 0 && axes.data[i] <= axes.data[i - 1])
            return mpc_infer_fail(in, MPC_NO_OPERAND, "axes must be ascending and different");
    }
    return true;
}

bool mpc_shape_reduce(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    mpc_int_list axes = mpc_infer_ints(in, "axes");
    bool keep = mpc_infer_bool(in, "keep");
    int64_t dims[MPC_MAX_RANK];
    uint32_t rank = 0, next = 0;
    if (!want_number(in, 0) || !want_sorted_axes(in, axes)) return false;
    for (uint32_t i = 0; i < t->rank; i++) {
        bool reduced = next < axes.count && axes.data[next] == (int64_t)i;
        if (reduced) next++;
        if (!reduced || keep) dims[rank++] = reduced ? 1 : t->dims[i];
    }
    return mpc_infer_set(in, 0, t->format, rank, dims);
}

bool mpc_shape_reduce_float(mpc_infer *in) { return mpc_infer_want_float(in, 0) && mpc_shape_reduce(in); }

/* The maximum of nothing has no value. */
bool mpc_shape_reduce_order(mpc_infer *in) {
    mpc_int_list axes = mpc_infer_ints(in, "axes");
    if (!mpc_shape_reduce(in)) return false;
    for (uint32_t i = 0; i < axes.count; i++)
        if (mpc_infer_operand(in, 0)->dims[axes.data[i]] == 0)
            return mpc_infer_fail(in, 0, "axis %lld is empty", (long long)axes.data[i]);
    return true;
}

bool mpc_shape_reduce_order_float(mpc_infer *in) { return mpc_infer_want_float(in, 0) && mpc_shape_reduce_order(in); }

/* Values in the operand's format, indices i32. */
bool mpc_shape_top_k(mpc_infer *in) {
    int64_t axis = mpc_infer_int(in, "axis"), k = mpc_infer_int(in, "k");
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_axis(in, axis)) return false;
    mpc_type out = *mpc_infer_operand(in, 0);
    if (k < 1 || k > out.dims[axis])
        return mpc_infer_fail(in, 0, "k = %lld of %lld elements is not possible", (long long)k,
                              (long long)out.dims[axis]);
    out.dims[axis] = k;
    return mpc_infer_set_like(in, 0, out.format, &out) && mpc_infer_set_like(in, 1, MPC_FMT_i32, &out);
}

bool mpc_shape_argmax(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    int64_t axis = mpc_infer_int(in, "axis"), dims[MPC_MAX_RANK];
    uint32_t rank = 0;
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_axis(in, axis)) return false;
    if (t->dims[axis] == 0) return mpc_infer_fail(in, 0, "axis %lld is empty", (long long)axis);
    for (uint32_t i = 0; i < t->rank; i++)
        if ((int64_t)i != axis) dims[rank++] = t->dims[i];
    return mpc_infer_set(in, 0, MPC_FMT_i32, rank, dims);
}
