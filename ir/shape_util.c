/* Requirements that shape rules share, with one wording for each. They only look at types: the registry has checked
 * operand counts and attribute kinds before a rule runs. A message names no op; the caller puts it in front. */
#include "ir/shape_util.h"

#include <stdio.h>
#include <string.h>

mpc_shape_text mpc_shape_text_of(uint32_t rank, const int64_t *dims) {
    mpc_shape_text out = {"["};
    size_t at = 1;
    for (uint32_t i = 0; i < rank && at < sizeof out.text - 24; i++)
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, i > 0 ? ",%lld" : "%lld", (long long)dims[i]);
    snprintf(out.text + at, sizeof out.text - at, "]");
    return out;
}

bool mpc_infer_set(mpc_infer *in, uint32_t result, mpc_format format, uint32_t rank, const int64_t *dims) {
    if (rank > MPC_MAX_RANK)
        return mpc_infer_fail(in, MPC_NO_OPERAND, "a result of rank %u is beyond the limit of %d", rank, MPC_MAX_RANK);
    in->results[result] = mpc_type_make(in->ctx, format, rank, dims);
    if (in->results[result] != 0) return true;
    return mpc_infer_fail(in, MPC_NO_OPERAND, "a result of shape %s is too large", mpc_shape_text_of(rank, dims).text);
}

bool mpc_infer_set_like(mpc_infer *in, uint32_t result, mpc_format format, const mpc_type *shape) {
    return mpc_infer_set(in, result, format, shape->rank, shape->dims);
}

bool mpc_infer_set_scalar(mpc_infer *in, uint32_t result, mpc_format format) {
    return mpc_infer_set(in, result, format, 0, NULL);
}

mpc_format mpc_infer_join(const mpc_infer *in, uint32_t count) {
    mpc_format join = MPC_FMT_none;
    for (uint32_t i = 0; i < count && i < in->operand_count; i++) {
        mpc_format f = mpc_infer_operand(in, i)->format;
        if (!mpc_format_is_float(f)) continue;
        join = join == MPC_FMT_none ? f : mpc_format_join(join, f);
    }
    return join == MPC_FMT_none ? MPC_FMT_f32 : join;
}

bool mpc_infer_want_float(mpc_infer *in, uint32_t i) {
    mpc_format f = mpc_infer_operand(in, i)->format;
    if (mpc_format_is_float(f)) return true;
    return mpc_infer_fail(in, i, "operand %u must be a float, it is %s", i, mpc_format_get(f)->name);
}

bool mpc_infer_want_int(mpc_infer *in, uint32_t i) {
    mpc_format f = mpc_infer_operand(in, i)->format;
    if (mpc_format_get(f)->kind == MPC_FORMAT_INT) return true;
    return mpc_infer_fail(in, i, "operand %u must be an integer, it is %s", i, mpc_format_get(f)->name);
}

bool mpc_infer_want_bool(mpc_infer *in, uint32_t i) {
    mpc_format f = mpc_infer_operand(in, i)->format;
    if (f == MPC_FMT_bool) return true;
    return mpc_infer_fail(in, i, "operand %u must be bool, it is %s", i, mpc_format_get(f)->name);
}

bool mpc_infer_want_rank(mpc_infer *in, uint32_t i, uint32_t rank) {
    const mpc_type *t = mpc_infer_operand(in, i);
    if (t->rank == rank) return true;
    return mpc_infer_fail(in, i, "operand %u must have %u dims, it is %s", i, rank,
                          mpc_shape_text_of(t->rank, t->dims).text);
}

bool mpc_infer_want_min_rank(mpc_infer *in, uint32_t i, uint32_t rank) {
    const mpc_type *t = mpc_infer_operand(in, i);
    if (t->rank >= rank) return true;
    return mpc_infer_fail(in, i, "operand %u must have at least %u dims, it is %s", i, rank,
                          mpc_shape_text_of(t->rank, t->dims).text);
}

bool mpc_infer_want_shape(mpc_infer *in, uint32_t i, uint32_t rank, const int64_t *dims) {
    const mpc_type *t = mpc_infer_operand(in, i);
    if (t->rank == rank && (rank == 0 || memcmp(t->dims, dims, rank * sizeof *dims) == 0)) return true;
    return mpc_infer_fail(in, i, "operand %u must be %s, it is %s", i, mpc_shape_text_of(rank, dims).text,
                          mpc_shape_text_of(t->rank, t->dims).text);
}

bool mpc_infer_want_like(mpc_infer *in, uint32_t i, uint32_t other) {
    const mpc_type *t = mpc_infer_operand(in, other);
    return mpc_infer_want_shape(in, i, t->rank, t->dims);
}

bool mpc_infer_want(mpc_infer *in, uint32_t i, mpc_format format, uint32_t rank, const int64_t *dims) {
    mpc_format f = mpc_infer_operand(in, i)->format;
    if (f != format)
        return mpc_infer_fail(in, i, "operand %u must be %s, it is %s", i, mpc_format_get(format)->name,
                              mpc_format_get(f)->name);
    return mpc_infer_want_shape(in, i, rank, dims);
}

bool mpc_infer_want_scalar(mpc_infer *in, uint32_t i, mpc_format format) {
    return mpc_infer_want(in, i, format, 0, NULL);
}

bool mpc_infer_want_ints(mpc_infer *in, const char *key, uint32_t count, int64_t least) {
    mpc_int_list list = mpc_infer_ints(in, key);
    if (list.count != count)
        return mpc_infer_fail(in, MPC_NO_OPERAND, "%s must be %u numbers, it has %u", key, count, list.count);
    for (uint32_t i = 0; i < count; i++)
        if (list.data[i] < least)
            return mpc_infer_fail(in, MPC_NO_OPERAND, "%s must be at least %lld, it is %lld", key, (long long)least,
                                  (long long)list.data[i]);
    return true;
}

bool mpc_infer_want_axis(mpc_infer *in, int64_t axis) {
    const mpc_type *t = mpc_infer_operand(in, 0);
    if (axis >= 0 && axis < (int64_t)t->rank) return true;
    return mpc_infer_fail(in, 0, "axis %lld of a %s does not exist", (long long)axis,
                          mpc_shape_text_of(t->rank, t->dims).text);
}
