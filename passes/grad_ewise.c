/* Gradients of elementwise ops. Operands may have been broadcast: a rule gives a gradient in the shape of the result
 * and the core sums it back. Zero times a slope that is infinite or NaN must be zero, but where a value is finite only
 * sqrt and pow have such slopes; the others meet them at values that a selection further on has thrown away, so their
 * guard is built only below a selection. */
#include <math.h>

#include "passes/grad_build.h"
#include "passes/rules.h"

void mpc_grad_add(mpc_grad *g) {
    mpc_grad_put(g, 0, g->dresults[0]);
    mpc_grad_put(g, 1, g->dresults[0]);
}

void mpc_grad_sub(mpc_grad *g) {
    mpc_grad_put(g, 0, g->dresults[0]);
    if (!g->wanted[1]) return;
    /* Summed first: the negation then runs over the operand's elements only. */
    mpc_type from = mpc_grad_type(g, g->dresults[0]), to = mpc_grad_type(g, mpc_grad_operand(g, 1));
    mpc_value_id dy = g->dresults[0];
    if (mpc_type_elements(&from) != mpc_type_elements(&to)) dy = mpc_grad_fit(g, 1, dy);
    mpc_grad_name_for(g, 1);
    mpc_grad_put(g, 1, mpc_grad_op1(g, MPC_OP_neg, dy));
}

/* dy * other; a finite constant needs no guard. */
static void emit_product(mpc_grad *g, uint32_t i, mpc_value_id other) {
    double number;
    if (mpc_grad_is_const(g, other, &number) && isfinite(number))
        mpc_grad_emit2(g, i, MPC_OP_mul, g->dresults[0], other);
    else mpc_grad_emit2_guarded(g, i, MPC_OP_mul, g->dresults[0], other);
}

void mpc_grad_mul(mpc_grad *g) {
    mpc_value_id a = mpc_grad_operand(g, 0), b = mpc_grad_operand(g, 1);
    if (g->wanted[0]) emit_product(g, 0, b);
    if (a == b) g->doperands[1] = g->doperands[0]; /* a square: one product, added to itself */
    else if (g->wanted[1]) emit_product(g, 1, a);
}

void mpc_grad_div(mpc_grad *g) {
    mpc_value_id b = mpc_grad_operand(g, 1), dy = g->dresults[0];
    double number;
    bool harmless = mpc_grad_is_const(g, b, &number) && number != 0 && !isnan(number);
    if (!g->wanted[1]) {
        if (harmless) mpc_grad_emit2(g, 0, MPC_OP_div, dy, b);
        else mpc_grad_emit2_guarded(g, 0, MPC_OP_div, dy, b);
        return;
    }
    /* d(a/b)/db = -(dy / b) * y */
    mpc_grad_emit2_guarded(g, 0, MPC_OP_div, dy, b);
    mpc_value_id slope = mpc_grad_op2(g, MPC_OP_div, mpc_grad_op1(g, MPC_OP_neg, mpc_grad_result(g, 0)), b);
    mpc_grad_emit2_guarded(g, 1, MPC_OP_mul, dy, slope);
}

void mpc_grad_neg(mpc_grad *g) { mpc_grad_emit1(g, 0, MPC_OP_neg, g->dresults[0]); }

void mpc_grad_exp(mpc_grad *g) { mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], mpc_grad_result(g, 0)); }

/* By exp(x), not by the result plus 1, which a result near -1 doesn't remember. */
void mpc_grad_expm1(mpc_grad *g) {
    mpc_value_id slope = mpc_grad_op1(g, MPC_OP_exp, mpc_grad_operand(g, 0));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], slope);
}

void mpc_grad_log1p(mpc_grad *g) {
    mpc_value_id above = mpc_grad_op2(g, MPC_OP_add, mpc_grad_operand(g, 0), mpc_grad_number(g, 1));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_div, g->dresults[0], above);
}

void mpc_grad_log(mpc_grad *g) { mpc_grad_emit2_guarded(g, 0, MPC_OP_div, g->dresults[0], mpc_grad_operand(g, 0)); }

/* True where no gradient passes: at `value` = 0, and below a selection where dy is zero. */
static mpc_value_id dead_at_zero(mpc_grad *g, mpc_value_id value, bool also_dy) {
    mpc_value_id zero = mpc_grad_number(g, 0);
    mpc_value_id dead = mpc_grad_op2(g, MPC_OP_eq, value, zero);
    if (!also_dy) return dead;
    return mpc_grad_op2(g, MPC_OP_or, dead, mpc_grad_op2(g, MPC_OP_eq, g->dresults[0], zero));
}

/* dy / (2 y); 0 at 0 (N52, FC-057). A negative operand keeps its NaN. */
void mpc_grad_sqrt(mpc_grad *g) {
    mpc_value_id y = mpc_grad_result(g, 0);
    mpc_value_id dead = dead_at_zero(g, y, g->selected);
    mpc_grad_emit_unless(g, 0, dead, mpc_grad_op2(g, MPC_OP_div, mpc_grad_scale(g, g->dresults[0], 0.5), y));
}

/* -dy y / (2 x): y cubed would leave the range of f32 long before its product with dy does. */
void mpc_grad_rsqrt(mpc_grad *g) {
    mpc_value_id half = mpc_grad_scale(g, g->dresults[0], -0.5);
    mpc_value_id product = mpc_grad_op2(g, MPC_OP_mul, half, mpc_grad_result(g, 0));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_div, product, mpc_grad_operand(g, 0));
}

/* x to a constant: c x^(c-1), with no detour for the exponents people write. */
static void emit_power(mpc_grad *g, double c) {
    mpc_value_id x = mpc_grad_operand(g, 0), dy = g->dresults[0], slope = x;
    if (c == 1) mpc_grad_put(g, 0, dy);
    if (c == 0 || c == 1) return;
    if (c != 2) slope = mpc_grad_op2(g, MPC_OP_pow, x, mpc_grad_number(g, c - 1));
    slope = mpc_grad_scale(g, slope, c);
    if (c >= 1) {
        mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, dy, slope);
        return;
    }
    mpc_value_id dead = mpc_grad_op2(g, MPC_OP_eq, dy, mpc_grad_number(g, 0));
    mpc_grad_emit_unless(g, 0, dead, mpc_grad_op2(g, MPC_OP_mul, dy, slope));
}

/* da = dy b a^(b-1), 0 where b is; db = dy y log(a), 0 where a is 0 and y isn't infinite, that is y = 0 or b = 0
 * (FC-061). */
void mpc_grad_pow(mpc_grad *g) {
    mpc_value_id a = mpc_grad_operand(g, 0), b = mpc_grad_operand(g, 1), dy = g->dresults[0];
    double c;
    if (mpc_grad_is_const(g, b, &c)) {
        emit_power(g, c);
        return;
    }
    if (g->wanted[0]) {
        mpc_value_id lower = mpc_grad_op2(g, MPC_OP_sub, b, mpc_grad_number(g, 1));
        mpc_value_id slope = mpc_grad_op2(g, MPC_OP_mul, b, mpc_grad_op2(g, MPC_OP_pow, a, lower));
        mpc_grad_emit_unless(g, 0, dead_at_zero(g, b, true), mpc_grad_op2(g, MPC_OP_mul, dy, slope));
    }
    if (!g->wanted[1]) return;
    mpc_value_id zero = mpc_grad_number(g, 0);
    mpc_value_id rises = mpc_grad_op2(g, MPC_OP_ge, b, zero);
    mpc_value_id dead = mpc_grad_op2(g, MPC_OP_and, mpc_grad_op2(g, MPC_OP_eq, a, zero), rises);
    dead = mpc_grad_op2(g, MPC_OP_or, dead, mpc_grad_op2(g, MPC_OP_eq, dy, zero));
    mpc_value_id slope = mpc_grad_op2(g, MPC_OP_mul, mpc_grad_result(g, 0), mpc_grad_op1(g, MPC_OP_log, a));
    mpc_grad_emit_unless(g, 1, dead, mpc_grad_op2(g, MPC_OP_mul, dy, slope));
}

/* The sign by selection, 0 at 0. */
void mpc_grad_abs(mpc_grad *g) {
    mpc_value_id x = mpc_grad_operand(g, 0), dy = g->dresults[0], zero = mpc_grad_number(g, 0);
    mpc_value_id minus = mpc_grad_op1(g, MPC_OP_neg, dy);
    mpc_value_id below = mpc_grad_op3(g, MPC_OP_where, mpc_grad_op2(g, MPC_OP_lt, x, zero), minus, zero);
    mpc_grad_emit3(g, 0, MPC_OP_where, mpc_grad_op2(g, MPC_OP_gt, x, zero), dy, below);
}

/* dy (1 - y^2) */
void mpc_grad_tanh(mpc_grad *g) {
    mpc_value_id y = mpc_grad_result(g, 0);
    mpc_value_id slope = mpc_grad_op2(g, MPC_OP_sub, mpc_grad_number(g, 1), mpc_grad_op2(g, MPC_OP_mul, y, y));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], slope);
}

/* dy y (1 - y) */
void mpc_grad_sigmoid(mpc_grad *g) {
    mpc_value_id y = mpc_grad_result(g, 0);
    mpc_value_id slope = mpc_grad_op2(g, MPC_OP_mul, y, mpc_grad_op2(g, MPC_OP_sub, mpc_grad_number(g, 1), y));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], slope);
}

/* By the stored result, so that the operand needn't live; a NaN isn't <= 0 and lets dy through. */
void mpc_grad_relu(mpc_grad *g) {
    mpc_value_id off = mpc_grad_op2(g, MPC_OP_le, mpc_grad_result(g, 0), mpc_grad_number(g, 0));
    g->selects = true;
    mpc_grad_emit_unless(g, 0, off, g->dresults[0]);
}

/* dy 2/sqrt(pi) exp(-x^2) */
void mpc_grad_erf(mpc_grad *g) {
    mpc_value_id x = mpc_grad_operand(g, 0);
    mpc_value_id bell = mpc_grad_op1(g, MPC_OP_exp, mpc_grad_op1(g, MPC_OP_neg, mpc_grad_op2(g, MPC_OP_mul, x, x)));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], mpc_grad_scale(g, bell, 1.1283791670955126));
}

void mpc_grad_cos(mpc_grad *g) {
    mpc_value_id slope = mpc_grad_op1(g, MPC_OP_neg, mpc_grad_op1(g, MPC_OP_sin, mpc_grad_operand(g, 0)));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], slope);
}

void mpc_grad_sin(mpc_grad *g) {
    mpc_value_id slope = mpc_grad_op1(g, MPC_OP_cos, mpc_grad_operand(g, 0));
    mpc_grad_emit2_guarded(g, 0, MPC_OP_mul, g->dresults[0], slope);
}

/* The winner takes dy, both take half of it at a tie. `wins`: the compare that says so of the first operand. */
static void emit_extremum(mpc_grad *g, mpc_op_id wins, mpc_op_id loses) {
    mpc_value_id a = mpc_grad_operand(g, 0), b = mpc_grad_operand(g, 1), dy = g->dresults[0];
    mpc_value_id tie = mpc_grad_op2(g, MPC_OP_eq, a, b), zero = mpc_grad_number(g, 0);
    mpc_value_id share = mpc_grad_op3(g, MPC_OP_where, tie, mpc_grad_scale(g, dy, 0.5), zero);
    g->selects = true;
    if (g->wanted[0]) mpc_grad_emit3(g, 0, MPC_OP_where, mpc_grad_op2(g, wins, a, b), dy, share);
    if (g->wanted[1]) mpc_grad_emit3(g, 1, MPC_OP_where, mpc_grad_op2(g, loses, a, b), dy, share);
}

void mpc_grad_maximum(mpc_grad *g) { emit_extremum(g, MPC_OP_gt, MPC_OP_lt); }

void mpc_grad_minimum(mpc_grad *g) { emit_extremum(g, MPC_OP_lt, MPC_OP_gt); }

/* The zero of the branch not taken is selected, never made by a product (N52). */
void mpc_grad_where(mpc_grad *g) {
    mpc_value_id c = mpc_grad_operand(g, 0), dy = g->dresults[0];
    mpc_value_id zero = mpc_grad_number(g, 0);
    g->selects = true;
    mpc_grad_emit3(g, 1, MPC_OP_where, c, dy, zero);
    mpc_grad_emit3(g, 2, MPC_OP_where, c, zero, dy);
}

/* Back to the operand's format: mpc_grad_fit casts. */
void mpc_grad_cast(mpc_grad *g) { mpc_grad_put(g, 0, g->dresults[0]); }
