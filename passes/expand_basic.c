/* Expansions of look-ups by position, dropout and gelu. A look-up is a comparison of positions
 * with the index and a selection, never a product with a one-hot tensor: NaN in elements not looked up must stay out
 * (N52). */
#include <math.h>
#include <string.h>

#include "passes/expand_lookup.h"
#include "passes/rules.h"

/* Position of the first maximum, or of the first NaN. */
mpc_value_id mpc_expand_first_max(mpc_expand *e, mpc_value_id x, uint32_t axis) {
    mpc_type t = mpc_expand_type(e, x);
    mpc_value_id max = mpc_expand_reduce(e, MPC_OP_max, x, axis, true);
    mpc_value_id hit =
        mpc_expand_op2(e, MPC_OP_or, mpc_expand_op2(e, MPC_OP_eq, x, max), mpc_expand_op1(e, MPC_OP_is_nan, x));
    mpc_value_id at = mpc_expand_positions(e, t.dims[axis], t.rank, axis);
    mpc_value_id candidates = mpc_expand_op3(e, MPC_OP_where, hit, at, mpc_expand_int(e, t.dims[axis]));
    return mpc_expand_reduce(e, MPC_OP_min, candidates, axis, false);
}

void mpc_expand_argmax(mpc_expand *e) {
    uint32_t axis = (uint32_t)mpc_attr_int(e->from, e->node, "axis");
    e->results[0] = mpc_expand_first_max(e, mpc_expand_f32(e, 0), axis);
}

/* True where the position along `axis` is the index; `index` lacks that axis. */
mpc_value_id mpc_expand_hit(mpc_expand *e, mpc_value_id index, int64_t n, uint32_t axis) {
    mpc_type t = mpc_expand_type(e, index);
    mpc_value_id at = mpc_expand_as(e, index, MPC_FMT_i32);
    memmove(t.dims + axis + 1, t.dims + axis, (t.rank - axis) * sizeof *t.dims);
    t.dims[axis] = 1;
    at = mpc_expand_to_shape(e, at, t.rank + 1, t.dims);
    return mpc_expand_op2(e, MPC_OP_eq, mpc_expand_positions(e, n, t.rank + 1, axis), at);
}

static mpc_value_id in_range(mpc_expand *e, mpc_value_id index, int64_t n) {
    mpc_value_id at = mpc_expand_as(e, index, MPC_FMT_i32);
    mpc_value_id above = mpc_expand_op2(e, MPC_OP_ge, at, mpc_expand_int(e, 0));
    return mpc_expand_op2(e, MPC_OP_and, above, mpc_expand_op2(e, MPC_OP_lt, at, mpc_expand_int(e, n)));
}

mpc_value_id mpc_expand_nan_unless(mpc_expand *e, mpc_value_id index, int64_t n, mpc_value_id value) {
    return mpc_expand_op3(e, MPC_OP_where, in_range(e, index, n), value, mpc_expand_number(e, (double)NAN));
}

/* The sum over one element and zeros is exact. */
void mpc_expand_gather(mpc_expand *e) {
    uint32_t axis = (uint32_t)mpc_attr_int(e->from, e->node, "axis");
    bool is_float = mpc_format_is_float(mpc_expand_result_type(e, 0).format);
    mpc_value_id x = is_float ? mpc_expand_f32(e, 0) : e->operands[0], index = e->operands[1];
    mpc_type t = mpc_expand_type(e, x);
    mpc_value_id hit = mpc_expand_hit(e, index, t.dims[axis], axis);
    mpc_value_id zero = is_float ? mpc_expand_number(e, 0) : mpc_expand_as(e, mpc_expand_int(e, 0), t.format);
    mpc_value_id found = mpc_expand_reduce(e, MPC_OP_sum, mpc_expand_op3(e, MPC_OP_where, hit, x, zero), axis, false);
    e->results[0] = is_float ? mpc_expand_nan_unless(e, index, t.dims[axis], found) : found;
}

void mpc_expand_one_hot(mpc_expand *e) {
    uint32_t rank = mpc_expand_type(e, e->operands[0]).rank;
    mpc_value_id hit = mpc_expand_hit(e, e->operands[0], mpc_attr_int(e->from, e->node, "depth"), rank);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_as(e, hit, mpc_expand_result_type(e, 0).format);
}

/* The rate is compared as f32, like the draw: which elements go doesn't depend on a format. */
void mpc_expand_dropout(mpc_expand *e) {
    double rate = mpc_attr_float(e->from, e->node, "rate");
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_type t = mpc_expand_type(e, x);
    mpc_attr_arg attrs[2] = {MPC_A_INTS("shape", t.dims, t.rank),
                             MPC_A_INT("stream", mpc_attr_int(e->from, e->node, "stream"))};
    mpc_value_id draw =
        mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_random_uniform, e->operands + 1, 2, attrs, 2}, MPC_FMT_f32);
    mpc_value_id keep = mpc_expand_op2(e, MPC_OP_ge, draw, mpc_expand_number(e, (double)(float)rate));
    mpc_value_id scaled = mpc_expand_op2(e, MPC_OP_div, x, mpc_expand_number(e, 1 - rate));
    mpc_expand_emit3(e, 0, MPC_OP_where, keep, scaled, mpc_expand_number(e, 0));
}

static const double sqrt_half = 0.70710678118654752440, bell_height = 0.39894228040143267794; /* 1 / sqrt(2 pi) */

/* 1 + erf(x / sqrt 2): twice the normal distribution function. */
static mpc_value_id twice_cdf(mpc_expand *e, mpc_value_id x) {
    mpc_value_id erf = mpc_expand_op1(e, MPC_OP_erf, mpc_expand_scale(e, x, sqrt_half));
    return mpc_expand_op2(e, MPC_OP_add, erf, mpc_expand_number(e, 1));
}

/* (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), as the logistic function of 2 u: 1 + tanh(u) would lose the
 * digits of a gate near 0. */
static const double tanh_slope = 1.5957691216057308, tanh_bend = 0.07135481627260025; /* of 2 u at x and x^3 */

static mpc_value_id tanh_gate(mpc_expand *e, mpc_value_id x, mpc_value_id square) {
    mpc_value_id bent =
        mpc_expand_op2(e, MPC_OP_add, mpc_expand_scale(e, square, tanh_bend), mpc_expand_number(e, tanh_slope));
    return mpc_expand_op1(e, MPC_OP_sigmoid, mpc_expand_op2(e, MPC_OP_mul, x, bent));
}

static bool by_tanh(const mpc_expand *e) { return mpc_attr_bool(e->from, e->node, "tanh"); }

void mpc_expand_gelu(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    if (by_tanh(e)) {
        mpc_expand_emit2(e, 0, MPC_OP_mul, x, tanh_gate(e, x, mpc_expand_op2(e, MPC_OP_mul, x, x)));
        return;
    }
    mpc_value_id half = mpc_expand_scale(e, x, 0.5);
    mpc_expand_emit2(e, 0, MPC_OP_mul, half, twice_cdf(e, x));
}

/* gate + x gate (1 - gate) d(2 u)/dx; the second term is 0 where the gate is 0 or 1, however large x^2 gets. */
static mpc_value_id tanh_form_slope(mpc_expand *e, mpc_value_id x) {
    mpc_value_id one = mpc_expand_number(e, 1), square = mpc_expand_op2(e, MPC_OP_mul, x, x);
    mpc_value_id gate = tanh_gate(e, x, square);
    mpc_value_id bend = mpc_expand_op2(e, MPC_OP_mul, gate, mpc_expand_op2(e, MPC_OP_sub, one, gate));
    mpc_value_id rise =
        mpc_expand_op2(e, MPC_OP_add, mpc_expand_scale(e, square, 3 * tanh_bend), mpc_expand_number(e, tanh_slope));
    mpc_value_id turn = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op2(e, MPC_OP_mul, bend, x), rise);
    mpc_value_id zero = mpc_expand_number(e, 0);
    turn = mpc_expand_op3(e, MPC_OP_where, mpc_expand_op2(e, MPC_OP_eq, bend, zero), zero, turn);
    return mpc_expand_op2(e, MPC_OP_add, gate, turn);
}

/* dy (cdf(x) + x pdf(x)) */
void mpc_expand_gelu_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), dy = mpc_expand_f32(e, 1);
    if (by_tanh(e)) {
        mpc_expand_emit2(e, 0, MPC_OP_mul, dy, tanh_form_slope(e, x));
        return;
    }
    mpc_value_id cdf = mpc_expand_scale(e, twice_cdf(e, x), 0.5);
    mpc_value_id exponent = mpc_expand_op2(e, MPC_OP_mul, x, mpc_expand_scale(e, x, -0.5));
    mpc_value_id pdf = mpc_expand_scale(e, mpc_expand_op1(e, MPC_OP_exp, exponent), bell_height);
    mpc_value_id slope = mpc_expand_op2(e, MPC_OP_add, cdf, mpc_expand_op2(e, MPC_OP_mul, x, pdf));
    mpc_expand_emit2(e, 0, MPC_OP_mul, dy, slope);
}
