/* Expansions of layer and batch normalisation: two-pass statistics in f32 (N30), eps inside the root (N32). Layer norm
 * stays in the shape of its operand; batch norm reduces over rows of x as [rows, c], which is a view of it, and
 * normalises in the operand's shape, so that an activation after it can share its kernel. */
#include "passes/expand_build.h"
#include "passes/rules.h"

/* sum(a) / n over `axis`, or over all rows of a [rows, c] when axis is 0. */
static mpc_value_id mean_over(mpc_expand *e, mpc_value_id a, uint32_t axis) {
    double n = (double)mpc_expand_type(e, a).dims[axis];
    return mpc_expand_op2(e, MPC_OP_div, mpc_expand_reduce(e, MPC_OP_sum, a, axis, false), mpc_expand_number(e, n));
}

static mpc_value_id plus_eps(mpc_expand *e, mpc_value_id var) {
    return mpc_expand_op2(e, MPC_OP_add, var, mpc_expand_number(e, mpc_attr_float(e->from, e->node, "eps")));
}

/* (x, gamma, beta) -> y, mean, rstd */
void mpc_expand_layer_norm(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), gamma = mpc_expand_f32(e, 1), beta = mpc_expand_f32(e, 2);
    mpc_type t = mpc_expand_type(e, x);
    uint32_t axis = t.rank - 1;
    mpc_value_id n = mpc_expand_number(e, (double)t.dims[axis]);
    mpc_value_id mean = mpc_expand_keep2(e, 1, MPC_OP_div, mpc_expand_reduce(e, MPC_OP_sum, x, axis, false), n);
    mpc_value_id centred = mpc_expand_op2(e, MPC_OP_sub, x, mpc_expand_column(e, mean));
    mpc_value_id var = mean_over(e, mpc_expand_op2(e, MPC_OP_mul, centred, centred), axis);
    mpc_value_id rstd = mpc_expand_keep1(e, 2, MPC_OP_rsqrt, plus_eps(e, var));
    mpc_value_id xhat = mpc_expand_op2(e, MPC_OP_mul, centred, mpc_expand_column(e, rstd));
    mpc_expand_emit2(e, 0, MPC_OP_add, mpc_expand_op2(e, MPC_OP_mul, xhat, gamma), beta);
}

/* (x, gamma, mean, rstd, dy) -> rstd (g - mean(g) - xhat mean(g xhat)) with g = dy gamma, sum(dy xhat), sum(dy) */
void mpc_expand_layer_norm_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), gamma = mpc_expand_f32(e, 1), dy = mpc_expand_f32(e, 4);
    mpc_value_id mean = mpc_expand_column(e, mpc_expand_f32(e, 2)), rstd = mpc_expand_column(e, mpc_expand_f32(e, 3));
    uint32_t axis = mpc_expand_type(e, x).rank - 1;
    mpc_value_id xhat = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op2(e, MPC_OP_sub, x, mean), rstd);
    if (e->used[0]) {
        mpc_value_id g = mpc_expand_op2(e, MPC_OP_mul, dy, gamma);
        mpc_value_id mean_g = mpc_expand_column(e, mean_over(e, g, axis));
        mpc_value_id mean_gx = mpc_expand_column(e, mean_over(e, mpc_expand_op2(e, MPC_OP_mul, g, xhat), axis));
        mpc_value_id rest = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_op2(e, MPC_OP_sub, g, mean_g),
                                           mpc_expand_op2(e, MPC_OP_mul, xhat, mean_gx));
        mpc_expand_emit2(e, 0, MPC_OP_mul, rstd, rest);
    }
    if (e->used[1]) {
        mpc_value_id product = mpc_expand_op2(e, MPC_OP_mul, dy, xhat);
        if (axis > 0) mpc_expand_name_result(e, 1);
        e->results[1] = mpc_expand_sum_axes(e, product, axis);
    }
    if (!e->used[2]) return;
    if (axis > 0) mpc_expand_name_result(e, 2);
    e->results[2] = mpc_expand_sum_axes(e, dy, axis);
}

static mpc_value_id as_rows(mpc_expand *e, mpc_value_id a) {
    mpc_type t = mpc_expand_type(e, a);
    int64_t dims[2] = {1, t.dims[t.rank - 1]};
    for (uint32_t i = 0; i + 1 < t.rank; i++) dims[0] *= t.dims[i];
    return mpc_expand_to_shape(e, a, 2, dims);
}

/* (1 - momentum) running + momentum batch; a batch without rows leaves it alone. */
static void emit_running(mpc_expand *e, uint32_t operand, uint32_t result, mpc_value_id batch) {
    if (!e->used[result]) return;
    if (mpc_type_elements(mpc_value_type(e->from, mpc_operand(e->from, e->node, 0))) == 0) {
        e->results[result] = e->operands[operand];
        return;
    }
    double momentum = mpc_attr_float(e->from, e->node, "momentum");
    mpc_value_id kept = mpc_expand_scale(e, mpc_expand_f32(e, operand), 1 - momentum);
    mpc_expand_emit2(e, result, MPC_OP_add, kept, mpc_expand_scale(e, batch, momentum));
}

static void emit_affine(mpc_expand *e, mpc_value_id mean, mpc_value_id rstd) {
    mpc_value_id gamma = mpc_expand_f32(e, 1), beta = mpc_expand_f32(e, 2);
    mpc_value_id xhat = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op2(e, MPC_OP_sub, mpc_expand_f32(e, 0), mean), rstd);
    mpc_expand_emit2(e, 0, MPC_OP_add, mpc_expand_op2(e, MPC_OP_mul, xhat, gamma), beta);
}

/* (x, gamma, beta, running mean, running var) -> y, mean, rstd, running mean', running var' */
void mpc_expand_batch_norm(mpc_expand *e) {
    mpc_value_id rows = mpc_expand_as(e, as_rows(e, e->operands[0]), MPC_FMT_f32);
    double n = (double)mpc_expand_type(e, rows).dims[0];
    mpc_value_id sum = mpc_expand_reduce(e, MPC_OP_sum, rows, 0, false);
    mpc_value_id mean = mpc_expand_keep2(e, 1, MPC_OP_div, sum, mpc_expand_number(e, n));
    mpc_value_id centred = mpc_expand_op2(e, MPC_OP_sub, rows, mean);
    mpc_value_id var = mean_over(e, mpc_expand_op2(e, MPC_OP_mul, centred, centred), 0);
    mpc_value_id rstd = mpc_expand_keep1(e, 2, MPC_OP_rsqrt, plus_eps(e, var));
    if (e->used[0]) emit_affine(e, mean, rstd);
    emit_running(e, 3, 3, mean);
    if (e->used[4]) emit_running(e, 4, 4, n > 1 ? mpc_expand_scale(e, var, n / (n - 1)) : var);
}

/* (x, gamma, beta, running mean, running var) -> y */
void mpc_expand_batch_norm_eval(mpc_expand *e) {
    mpc_value_id rstd = mpc_expand_op1(e, MPC_OP_rsqrt, plus_eps(e, mpc_expand_f32(e, 4)));
    emit_affine(e, mpc_expand_f32(e, 3), rstd);
}

/* gamma rstd (dy - dbeta / n - xhat dgamma / n), in [rows, c]; then the operand's shape */
static void emit_column_grad(mpc_expand *e, mpc_value_id dy, mpc_value_id xhat, mpc_value_id scale) {
    mpc_type to = mpc_expand_result_type(e, 0);
    double n = (double)mpc_expand_type(e, dy).dims[0];
    mpc_value_id mean_dy = mpc_expand_op2(e, MPC_OP_div, e->results[2], mpc_expand_number(e, n));
    mpc_value_id mean_dx = mpc_expand_op2(e, MPC_OP_div, e->results[1], mpc_expand_number(e, n));
    mpc_value_id rest = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_op2(e, MPC_OP_sub, dy, mean_dy),
                                       mpc_expand_op2(e, MPC_OP_mul, xhat, mean_dx));
    if (to.rank == 2) {
        mpc_expand_emit2(e, 0, MPC_OP_mul, scale, rest);
        return;
    }
    mpc_value_id dx =
        mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_mul, (mpc_value_id[]){scale, rest}, 2, NULL, 0}, to.format);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_to_shape(e, dx, to.rank, to.dims);
}

/* (x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta */
void mpc_expand_batch_norm_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_as(e, as_rows(e, e->operands[0]), MPC_FMT_f32);
    mpc_value_id dy = mpc_expand_as(e, as_rows(e, e->operands[4]), MPC_FMT_f32);
    mpc_value_id gamma = mpc_expand_f32(e, 1), mean = mpc_expand_f32(e, 2), rstd = mpc_expand_f32(e, 3);
    mpc_value_id xhat = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op2(e, MPC_OP_sub, x, mean), rstd);
    mpc_value_id product = mpc_expand_op2(e, MPC_OP_mul, dy, xhat);
    if (e->used[1]) mpc_expand_name_result(e, 1);
    e->results[1] = mpc_expand_sum_axes(e, product, 1);
    if (e->used[2]) mpc_expand_name_result(e, 2);
    e->results[2] = mpc_expand_sum_axes(e, dy, 1);
    if (e->used[0]) emit_column_grad(e, dy, xhat, mpc_expand_op2(e, MPC_OP_mul, gamma, rstd));
}
