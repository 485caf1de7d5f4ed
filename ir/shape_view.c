/* Shapes of the ops that move elements and change none, and of gathers. Attributes are absolute here: no -1 dims, no
 * negative axes or bounds; the front end has resolved them. */
#include <string.h>

#include "ir/rules.h"
#include "ir/shape_util.h"

static bool want_dims(mpc_infer *in, mpc_int_list shape) {
    if (shape.count > MPC_MAX_RANK)
        return mpc_infer_fail(in, MPC_NO_OPERAND, "shape has %u dims, the limit is %d", shape.count, MPC_MAX_RANK);
    for (uint32_t i = 0; i < shape.count; i++)
        if (shape.data[i] < 0)
            return mpc_infer_fail(in, MPC_NO_OPERAND, "a dim of %lld is not possible", (long long)shape.data[i]);
    return true;
}

bool mpc_shape_reshape(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    mpc_int_list shape = mpc_infer_ints(in, "shape");
    if (!want_dims(in, shape) || !mpc_infer_set(in, 0, t->format, shape.count, shape.data)) return false;
    if (mpc_type_elements(mpc_type_get(in->ctx, in->results[0])) == mpc_type_elements(t)) return true;
    return mpc_infer_fail(in, 0, "%s has %lld elements, %s does not", mpc_shape_text_of(t->rank, t->dims).text,
                          (long long)mpc_type_elements(t), mpc_shape_text_of(shape.count, shape.data).text);
}

bool mpc_shape_transpose(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    mpc_int_list perm = mpc_infer_ints(in, "perm");
    int64_t dims[MPC_MAX_RANK];
    unsigned seen = 0;
    if (perm.count != t->rank)
        return mpc_infer_fail(in, 0, "perm has %u axes, the operand is %s", perm.count,
                              mpc_shape_text_of(t->rank, t->dims).text);
    for (uint32_t i = 0; i < perm.count; i++) {
        if (!mpc_infer_want_axis(in, perm.data[i])) return false;
        seen |= 1u << (unsigned)perm.data[i];
        dims[i] = t->dims[perm.data[i]];
    }
    if (seen != (1u << t->rank) - 1) return mpc_infer_fail(in, MPC_NO_OPERAND, "perm names an axis twice");
    return mpc_infer_set(in, 0, t->format, t->rank, dims);
}

bool mpc_shape_slice(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    if (!mpc_infer_want_ints(in, "start", t->rank, 0) || !mpc_infer_want_ints(in, "stop", t->rank, 0)) return false;
    mpc_int_list start = mpc_infer_ints(in, "start"), stop = mpc_infer_ints(in, "stop");
    int64_t dims[MPC_MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) {
        dims[i] = stop.data[i] - start.data[i];
        if (dims[i] < 0 || stop.data[i] > t->dims[i])
            return mpc_infer_fail(in, 0, "%lld:%lld of axis %u goes beyond %s", (long long)start.data[i],
                                  (long long)stop.data[i], i, mpc_shape_text_of(t->rank, t->dims).text);
    }
    return mpc_infer_set(in, 0, t->format, t->rank, dims);
}

bool mpc_shape_pad(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    if (!mpc_infer_want_ints(in, "before", t->rank, 0) || !mpc_infer_want_ints(in, "after", t->rank, 0)) return false;
    mpc_int_list before = mpc_infer_ints(in, "before"), after = mpc_infer_ints(in, "after");
    int64_t dims[MPC_MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++) dims[i] = t->dims[i] + before.data[i] + after.data[i];
    return mpc_infer_set(in, 0, t->format, t->rank, dims);
}

/* Operand i agrees with the first on every axis but `axis`, and its format joins. */
static bool want_joinable(mpc_infer *in, uint32_t i, int64_t axis, mpc_format *format) {
    const mpc_type *a = mpc_infer_operand(in, 0), *b = mpc_infer_operand(in, i);
    if (!mpc_infer_want_rank(in, i, a->rank)) return false;
    for (uint32_t k = 0; k < a->rank; k++)
        if ((int64_t)k != axis && a->dims[k] != b->dims[k])
            return mpc_infer_fail(in, i, "%s and %s differ on axis %u, not only on axis %lld",
                                  mpc_shape_text_of(a->rank, a->dims).text, mpc_shape_text_of(b->rank, b->dims).text, k,
                                  (long long)axis);
    if (*format == b->format) return true;
    if (!mpc_format_is_float(*format) || !mpc_format_is_float(b->format))
        return mpc_infer_fail(in, i, "operands are %s and %s: cast one of them", mpc_format_get(*format)->name,
                              mpc_format_get(b->format)->name);
    *format = mpc_format_join(*format, b->format);
    return true;
}

bool mpc_shape_concat(mpc_infer *in) {
    mpc_type out = *mpc_infer_operand(in, 0);
    int64_t axis = mpc_infer_int(in, "axis");
    if (!mpc_infer_want_axis(in, axis)) return false;
    for (uint32_t i = 1; i < in->operand_count; i++) {
        if (!want_joinable(in, i, axis, &out.format)) return false;
        out.dims[axis] += mpc_infer_operand(in, i)->dims[axis];
    }
    return mpc_infer_set_like(in, 0, out.format, &out);
}

bool mpc_shape_expand(mpc_infer *in) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    mpc_int_list shape = mpc_infer_ints(in, "shape");
    if (!want_dims(in, shape)) return false;
    mpc_type to = {.format = t->format, .rank = shape.count}, out;
    if (shape.count > 0) memcpy(to.dims, shape.data, shape.count * sizeof *shape.data);
    bool fits = mpc_broadcast(t, &to, &out) && out.rank == to.rank &&
                (to.rank == 0 || memcmp(out.dims, to.dims, to.rank * sizeof *to.dims) == 0);
    if (fits) return mpc_infer_set_like(in, 0, t->format, &to);
    return mpc_infer_fail(in, 0, "%s doesn't broadcast to %s", mpc_shape_text_of(t->rank, t->dims).text,
                          mpc_shape_text_of(to.rank, to.dims).text);
}

/* table [v, c], ids [...] -> [..., c] */
bool mpc_shape_embedding(mpc_infer *in) {
    if (!mpc_infer_want_rank(in, 0, 2) || !mpc_infer_want_float(in, 0) || !mpc_infer_want_int(in, 1)) return false;
    mpc_type out = *mpc_infer_operand(in, 1);
    if (out.rank == MPC_MAX_RANK) return mpc_infer_fail(in, 1, "operand 1 has too many dims");
    out.dims[out.rank++] = mpc_infer_operand(in, 0)->dims[1];
    return mpc_infer_set_like(in, 0, mpc_infer_operand(in, 0)->format, &out);
}

/* dy [..., c], ids [...] -> f32 [rows, c] */
bool mpc_shape_embedding_grad(mpc_infer *in) {
    const mpc_type *dy = mpc_infer_operand(in, 0);
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_min_rank(in, 0, 1) || !mpc_infer_want_int(in, 1)) return false;
    if (!mpc_infer_want_shape(in, 1, dy->rank - 1, dy->dims)) return false;
    int64_t dims[2] = {mpc_infer_int(in, "rows"), dy->dims[dy->rank - 1]};
    return mpc_infer_set(in, 0, MPC_FMT_f32, 2, dims);
}

bool mpc_shape_gather(mpc_infer *in) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    int64_t axis = mpc_infer_int(in, "axis"), dims[MPC_MAX_RANK];
    uint32_t rank = 0;
    if (!mpc_infer_want_axis(in, axis) || !mpc_infer_want_int(in, 1)) return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if ((int64_t)i != axis) dims[rank++] = x->dims[i];
    return mpc_infer_want_shape(in, 1, rank, dims) && mpc_infer_set(in, 0, x->format, rank, dims);
}

bool mpc_shape_one_hot(mpc_infer *in) {
    int64_t depth = mpc_infer_int(in, "depth");
    if (!mpc_infer_want_int(in, 0)) return false;
    mpc_type out = *mpc_infer_operand(in, 0);
    if (out.rank == MPC_MAX_RANK || depth < 1)
        return mpc_infer_fail(in, 0, "depth %lld is not possible here", (long long)depth);
    out.dims[out.rank++] = depth;
    return mpc_infer_set_like(in, 0, MPC_FMT_f32, &out);
}
