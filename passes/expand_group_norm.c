/* Expansions of rms norm and group norm: operands are widened before they are squared (a square of f16 overflows from
 * 256 on), statistics are two-pass and f32 (N30), eps stands inside the root (N32). Group norm reads x as [n,
 * positions, groups, size], which is a view of it. */
#include "passes/expand_build.h"
#include "passes/rules.h"

static mpc_value_id plus_eps(mpc_expand *e, mpc_value_id a) {
    return mpc_expand_op2(e, MPC_OP_add, a, mpc_expand_number(e, mpc_attr_float(e->from, e->node, "eps")));
}

static mpc_value_id row_mean(mpc_expand *e, mpc_value_id a) {
    mpc_type t = mpc_expand_type(e, a);
    mpc_value_id sum = mpc_expand_reduce(e, MPC_OP_sum, a, t.rank - 1, false);
    return mpc_expand_op2(e, MPC_OP_div, sum, mpc_expand_number(e, (double)t.dims[t.rank - 1]));
}

/* (x, gamma) -> y, rstd */
void mpc_expand_rms_norm(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), gamma = mpc_expand_f32(e, 1);
    mpc_value_id mean = row_mean(e, mpc_expand_op2(e, MPC_OP_mul, x, x));
    mpc_value_id rstd = mpc_expand_keep1(e, 1, MPC_OP_rsqrt, plus_eps(e, mean));
    mpc_expand_emit2(e, 0, MPC_OP_mul, mpc_expand_op2(e, MPC_OP_mul, x, mpc_expand_column(e, rstd)), gamma);
}

/* (x, gamma, rstd, dy) -> rstd (g - xhat mean(g xhat)) with g = dy gamma, sum(dy xhat) */
void mpc_expand_rms_norm_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), gamma = mpc_expand_f32(e, 1), dy = mpc_expand_f32(e, 3);
    mpc_value_id rstd = mpc_expand_column(e, mpc_expand_f32(e, 2)), xhat = mpc_expand_op2(e, MPC_OP_mul, x, rstd);
    uint32_t axis = mpc_expand_type(e, x).rank - 1;
    if (e->used[0]) {
        mpc_value_id g = mpc_expand_op2(e, MPC_OP_mul, dy, gamma);
        mpc_value_id dot = mpc_expand_column(e, row_mean(e, mpc_expand_op2(e, MPC_OP_mul, g, xhat)));
        mpc_value_id rest = mpc_expand_op2(e, MPC_OP_sub, g, mpc_expand_op2(e, MPC_OP_mul, xhat, dot));
        mpc_expand_emit2(e, 0, MPC_OP_mul, rstd, rest);
    }
    if (!e->used[1]) return;
    mpc_value_id product = mpc_expand_op2(e, MPC_OP_mul, dy, xhat);
    if (axis > 0) mpc_expand_name_result(e, 1);
    e->results[1] = mpc_expand_sum_axes(e, product, axis);
}

/* --- group norm --- */

typedef struct grouped {
    mpc_type x;      /* of the operand */
    int64_t dims[4]; /* n, positions, groups, size */
    double count;    /* elements of a group */
} grouped;

static grouped read_grouped(mpc_expand *e) {
    grouped g = {.x = mpc_expand_type(e, e->operands[0])};
    int64_t c = g.x.dims[g.x.rank - 1], groups = mpc_attr_int(e->from, e->node, "groups"), positions = 1;
    for (uint32_t i = 1; i + 1 < g.x.rank; i++) positions *= g.x.dims[i];
    g.dims[0] = g.x.dims[0];
    g.dims[1] = positions;
    g.dims[2] = groups;
    g.dims[3] = c / groups;
    g.count = (double)(positions * g.dims[3]);
    return g;
}

/* f32 [n, positions, groups, size] of operand i */
static mpc_value_id split(mpc_expand *e, const grouped *g, uint32_t i) {
    return mpc_expand_as(e, mpc_expand_to_shape(e, e->operands[i], 4, g->dims), MPC_FMT_f32);
}

/* [n, groups] as [n, 1, groups, 1] */
static mpc_value_id spread(mpc_expand *e, const grouped *g, mpc_value_id a) {
    return mpc_expand_to_shape(e, a, 4, (int64_t[]){g->dims[0], 1, g->dims[2], 1});
}

/* Of a vector over channels, as [groups, size]. */
static mpc_value_id by_group(mpc_expand *e, const grouped *g, uint32_t i) {
    return mpc_expand_to_shape(e, mpc_expand_f32(e, i), 2, g->dims + 2);
}

static mpc_value_id sum_two(mpc_expand *e, mpc_value_id a, int64_t first, int64_t second) {
    mpc_attr_arg axes = MPC_A_INTS("axes", ((int64_t[]){first, second}), 2);
    return mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_sum, &a, 1, &axes, 1}, MPC_FMT_f32);
}

/* [n, groups] */
static mpc_value_id group_mean(mpc_expand *e, const grouped *g, mpc_value_id a) {
    return mpc_expand_op2(e, MPC_OP_div, sum_two(e, a, 1, 3), mpc_expand_number(e, g->count));
}

/* Result 0 in x's shape and format; the rounding is in `op`. */
static void emit_joined(mpc_expand *e, const grouped *g, mpc_op_id op, mpc_value_id a, mpc_value_id b) {
    mpc_format format = mpc_expand_result_type(e, 0).format;
    mpc_value_id y = mpc_expand_build(e, &(mpc_expand_expr){op, (mpc_value_id[]){a, b}, 2, NULL, 0}, format);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_to_shape(e, y, g->x.rank, g->x.dims);
}

/* (x, gamma, beta) -> y, mean, rstd */
void mpc_expand_group_norm(mpc_expand *e) {
    grouped g = read_grouped(e);
    mpc_value_id x = split(e, &g, 0), sum = sum_two(e, x, 1, 3);
    mpc_value_id mean = mpc_expand_keep2(e, 1, MPC_OP_div, sum, mpc_expand_number(e, g.count));
    mpc_value_id centred = mpc_expand_op2(e, MPC_OP_sub, x, spread(e, &g, mean));
    mpc_value_id var = group_mean(e, &g, mpc_expand_op2(e, MPC_OP_mul, centred, centred));
    mpc_value_id rstd = mpc_expand_keep1(e, 2, MPC_OP_rsqrt, plus_eps(e, var));
    if (!e->used[0]) return;
    mpc_value_id xhat = mpc_expand_op2(e, MPC_OP_mul, centred, spread(e, &g, rstd));
    emit_joined(e, &g, MPC_OP_add, mpc_expand_op2(e, MPC_OP_mul, xhat, by_group(e, &g, 1)), by_group(e, &g, 2));
}

/* Over examples and positions, result r [c]. */
static void emit_vector(mpc_expand *e, const grouped *g, uint32_t r, mpc_value_id a) {
    if (!e->used[r]) return;
    mpc_value_id sum = sum_two(e, a, 0, 1);
    mpc_expand_name_result(e, r);
    e->results[r] = mpc_expand_to_shape(e, sum, 1, g->x.dims + g->x.rank - 1);
}

/* (x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta */
void mpc_expand_group_norm_grad(mpc_expand *e) {
    grouped g = read_grouped(e);
    mpc_value_id x = split(e, &g, 0), dy = split(e, &g, 4);
    mpc_value_id mean = spread(e, &g, mpc_expand_f32(e, 2)), rstd = spread(e, &g, mpc_expand_f32(e, 3));
    mpc_value_id xhat = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op2(e, MPC_OP_sub, x, mean), rstd);
    emit_vector(e, &g, 1, mpc_expand_op2(e, MPC_OP_mul, dy, xhat));
    emit_vector(e, &g, 2, dy);
    if (!e->used[0]) return;
    mpc_value_id slope = mpc_expand_op2(e, MPC_OP_mul, dy, by_group(e, &g, 1));
    mpc_value_id mean_g = spread(e, &g, group_mean(e, &g, slope));
    mpc_value_id mean_gx = spread(e, &g, group_mean(e, &g, mpc_expand_op2(e, MPC_OP_mul, slope, xhat)));
    mpc_value_id rest = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_op2(e, MPC_OP_sub, slope, mean_g),
                                       mpc_expand_op2(e, MPC_OP_mul, xhat, mean_gx));
    emit_joined(e, &g, MPC_OP_mul, rstd, rest);
}
