/* Shapes of rms norm and group norm. As for layer norm, statistics, gamma and beta are f32 by type (N30): a pass that
 * narrows one of them is refused here. */
#include "ir/rules.h"
#include "ir/shape_util.h"

/* x [..., c] and f32 [c] at operands first..last */
static bool want_vectors(mpc_infer *in, uint32_t first, uint32_t last) {
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_min_rank(in, 0, 1)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    for (uint32_t i = first; i <= last; i++)
        if (!mpc_infer_want(in, i, MPC_FMT_f32, 1, x->dims + x->rank - 1)) return false;
    return true;
}

static bool set_vector(mpc_infer *in, uint32_t result) {
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_set(in, result, MPC_FMT_f32, 1, x->dims + x->rank - 1);
}

static bool set_as_x(mpc_infer *in) {
    return mpc_infer_set_like(in, 0, mpc_infer_operand(in, 0)->format, mpc_infer_operand(in, 0));
}

/* (x [..., c], gamma) */
bool mpc_shape_rms_norm(mpc_infer *in) {
    if (!want_vectors(in, 1, 1) || !set_as_x(in)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_set(in, 1, MPC_FMT_f32, x->rank - 1, x->dims);
}

/* (x, gamma, rstd [...], dy) */
bool mpc_shape_rms_norm_grad(mpc_infer *in) {
    if (!want_vectors(in, 1, 1)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    return mpc_infer_want(in, 2, MPC_FMT_f32, x->rank - 1, x->dims) && mpc_infer_want_float(in, 3) &&
           mpc_infer_want_like(in, 3, 0) && set_as_x(in) && set_vector(in, 1);
}

/* [n, groups], the shape of the statistics */
static bool read_groups(mpc_infer *in, int64_t *dims) {
    if (!mpc_infer_want_float(in, 0) || !mpc_infer_want_min_rank(in, 0, 2)) return false;
    const mpc_type *x = mpc_infer_operand(in, 0);
    int64_t groups = mpc_infer_int(in, "groups"), c = x->dims[x->rank - 1];
    dims[0] = x->dims[0];
    dims[1] = groups;
    if (groups >= 1 && c % groups == 0) return true;
    return mpc_infer_fail(in, 0, "%lld channels can't be divided into %lld groups", (long long)c, (long long)groups);
}

/* (x [n, ..., c], gamma, beta) */
bool mpc_shape_group_norm(mpc_infer *in) {
    int64_t dims[2];
    return read_groups(in, dims) && want_vectors(in, 1, 2) && set_as_x(in) &&
           mpc_infer_set(in, 1, MPC_FMT_f32, 2, dims) && mpc_infer_set(in, 2, MPC_FMT_f32, 2, dims);
}

/* (x, gamma, mean, rstd, dy) */
bool mpc_shape_group_norm_grad(mpc_infer *in) {
    int64_t dims[2];
    return read_groups(in, dims) && want_vectors(in, 1, 1) && mpc_infer_want(in, 2, MPC_FMT_f32, 2, dims) &&
           mpc_infer_want(in, 3, MPC_FMT_f32, 2, dims) && mpc_infer_want_float(in, 4) &&
           mpc_infer_want_like(in, 4, 0) && set_as_x(in) && set_vector(in, 1) && set_vector(in, 2);
}
