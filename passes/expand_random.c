/* Expansions of draws beside the uniform one. The normal draw repeats mpc_random_gauss of base/rng.c step by step, with
 * exactly rounded operations only, so every device has the same bits; change one and both must change. */
#include "base/rng.h"
#include "passes/expand_build.h"
#include "passes/rules.h"

/* Operands first and first + 1 are seed and step. */
static mpc_value_id draw(mpc_expand *e, uint32_t first, mpc_int_list shape, uint64_t sister) {
    int64_t stream = mpc_attr_int(e->from, e->node, "stream") ^ (int64_t)sister;
    mpc_attr_arg attrs[2] = {MPC_A_INTS("shape", shape.data, shape.count), MPC_A_INT("stream", stream)};
    mpc_expand_expr expr = {MPC_OP_random_uniform, e->operands + first, 2, attrs, 2};
    return mpc_expand_build(e, &expr, MPC_FMT_f32);
}

static mpc_value_id plus(mpc_expand *e, mpc_value_id a, double term) {
    return mpc_expand_op2(e, MPC_OP_add, a, mpc_expand_number(e, term));
}

/* coefficients from the highest power of z on */
static mpc_value_id polynomial(mpc_expand *e, const double *coefficients, mpc_value_id z) {
    mpc_value_id p = mpc_expand_scale(e, z, coefficients[0]);
    for (int i = 1; i < MPC_GAUSS_TERMS - 1; i++) p = mpc_expand_op2(e, MPC_OP_mul, plus(e, p, coefficients[i]), z);
    return plus(e, p, coefficients[MPC_GAUSS_TERMS - 1]);
}

/* sqrt(-2 log x) for x in (0, 1]: x is brought into [sqrt(1/2), sqrt 2) by powers of two. */
static mpc_value_id radius(mpc_expand *e, mpc_value_id x) {
    mpc_value_id exponent = mpc_expand_number(e, 0);
    for (int i = 0; i < MPC_GAUSS_SHIFTS; i++) {
        const mpc_gauss_shift *s = &mpc_gauss_shifts[i];
        mpc_value_id small = mpc_expand_op2(e, MPC_OP_lt, x, mpc_expand_number(e, s->below));
        x = mpc_expand_op3(e, MPC_OP_where, small, mpc_expand_scale(e, x, s->factor), x);
        exponent = mpc_expand_op3(e, MPC_OP_where, small, plus(e, exponent, s->exponent), exponent);
    }
    mpc_value_id t = mpc_expand_op2(e, MPC_OP_div, plus(e, x, -1), plus(e, x, 1));
    mpc_value_id log = polynomial(e, mpc_gauss_log, mpc_expand_op2(e, MPC_OP_mul, t, t));
    log = mpc_expand_op2(e, MPC_OP_mul, t, log);
    mpc_value_id bits = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_scale(e, exponent, MPC_GAUSS_LN2), log);
    return mpc_expand_op1(e, MPC_OP_sqrt, mpc_expand_scale(e, bits, 2));
}

void mpc_expand_random_normal(mpc_expand *e) {
    mpc_int_list shape = mpc_attr_ints(e->from, e->node, "shape");
    mpc_value_id u = draw(e, 0, shape, 0), w = draw(e, 0, shape, MPC_RANDOM_SISTER);
    mpc_value_id r = radius(e, mpc_expand_op2(e, MPC_OP_sub, mpc_expand_number(e, 1), u));
    mpc_value_id turn = mpc_expand_op1(e, MPC_OP_abs, plus(e, w, -0.5));
    mpc_value_id angle =
        mpc_expand_scale(e, mpc_expand_op2(e, MPC_OP_sub, mpc_expand_number(e, 0.25), turn), MPC_GAUSS_TURN);
    mpc_value_id sine = polynomial(e, mpc_gauss_sine, mpc_expand_op2(e, MPC_OP_mul, angle, angle));
    mpc_expand_emit2(e, 0, MPC_OP_mul, r, mpc_expand_op2(e, MPC_OP_mul, angle, sine));
}

void mpc_expand_bernoulli(mpc_expand *e) {
    mpc_value_id u = draw(e, 0, mpc_attr_ints(e->from, e->node, "shape"), 0);
    mpc_value_id hit =
        mpc_expand_op2(e, MPC_OP_lt, u, mpc_expand_number(e, (double)(float)mpc_attr_float(e->from, e->node, "p")));
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_as(e, hit, MPC_FMT_f32);
}

/* Rates are compared as f32, like the draw: which examples go doesn't depend on a format. */
void mpc_expand_drop_path(mpc_expand *e) {
    double rate = mpc_attr_float(e->from, e->node, "rate");
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_type t = mpc_expand_type(e, x);
    for (uint32_t i = 1; i < t.rank; i++) t.dims[i] = 1;
    mpc_value_id u = draw(e, 1, (mpc_int_list){t.dims, t.rank}, 0);
    mpc_value_id keep = mpc_expand_op2(e, MPC_OP_ge, u, mpc_expand_number(e, (double)(float)rate));
    mpc_value_id scaled = mpc_expand_op2(e, MPC_OP_div, x, mpc_expand_number(e, 1 - rate));
    mpc_expand_emit3(e, 0, MPC_OP_where, keep, scaled, mpc_expand_number(e, 0));
}
