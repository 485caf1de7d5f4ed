/* Expansions of the optimizer's steps, the schedule and the loss scaler: f32 throughout (N70, N71). What depends on
 * scalars only is computed once, outside the elements' loop. Bias correction 1 - beta^t is where f32 goes wrong: see
 * one_minus_power. */
#include <math.h>
#include <string.h>

#include "passes/expand_build.h"
#include "passes/rules.h"

static double attr(const mpc_expand *e, const char *key) { return mpc_attr_float(e->from, e->node, key); }

/* rate * lr */
static mpc_value_id rate_of(mpc_expand *e, uint32_t operand) {
    mpc_value_id rate = mpc_expand_f32(e, operand);
    double lr = attr(e, "lr");
    return lr == 1 ? rate : mpc_expand_scale(e, rate, lr);
}

/* w - rate * decay * w. Where some parameters decay and others don't, all get the same primitives, so that one kernel
 * updates them all; a factor of zero leaves w as it is, be it -0 or infinite. */
static mpc_value_id decayed(mpc_expand *e, mpc_value_id w, mpc_value_id rate) {
    bool decays = e->decays != NULL ? e->decays[e->node->op] : attr(e, "decay") != 0;
    if (!decays) return w;
    mpc_value_id factor = mpc_expand_scale(e, rate, attr(e, "decay"));
    mpc_value_id moves = mpc_expand_op2(e, MPC_OP_ne, factor, mpc_expand_number(e, 0));
    mpc_value_id less = mpc_expand_op2(e, MPC_OP_sub, w, mpc_expand_op2(e, MPC_OP_mul, factor, w));
    return mpc_expand_op3(e, MPC_OP_where, moves, less, w);
}

/* (w, g, m, rate) -> w', m' = momentum m + g; Nesterov's step looks one momentum ahead: g + momentum m' */
void mpc_expand_sgd(mpc_expand *e) {
    double momentum = attr(e, "momentum");
    mpc_value_id w = mpc_expand_f32(e, 0), g = mpc_expand_f32(e, 1), m = g, rate = rate_of(e, 3);
    if (momentum != 0) m = mpc_expand_keep2(e, 1, MPC_OP_add, mpc_expand_scale(e, mpc_expand_f32(e, 2), momentum), g);
    e->results[1] = m;
    mpc_value_id step = m;
    if (mpc_attr_bool(e->from, e->node, "nesterov"))
        step = mpc_expand_op2(e, MPC_OP_add, g, mpc_expand_scale(e, m, momentum));
    mpc_expand_emit2(e, 0, MPC_OP_sub, decayed(e, w, rate), mpc_expand_op2(e, MPC_OP_mul, rate, step));
}

/* 1 - beta^t. In f32, exp(t log(beta)) of 0.999 at t = 1 keeps 4 digits of the difference from 1. With h = tanh(-t
 * log(beta) / 2) it is 2 h / (1 + h), which loses nothing: a few ulp for every t, given a tanh that is accurate near 0.
 */
static mpc_value_id one_minus_power(mpc_expand *e, double beta, mpc_value_id t) {
    if (beta <= 0) return mpc_expand_number(e, 1);
    mpc_value_id h = mpc_expand_op1(e, MPC_OP_tanh, mpc_expand_scale(e, t, -0.5 * log(beta)));
    mpc_value_id below = mpc_expand_op2(e, MPC_OP_add, h, mpc_expand_number(e, 1));
    return mpc_expand_op2(e, MPC_OP_div, mpc_expand_scale(e, h, 2), below);
}

/* beta old + (1 - beta) now */
static mpc_value_id moment(mpc_expand *e, uint32_t operand, uint32_t result, double beta, mpc_value_id now) {
    mpc_value_id old = mpc_expand_scale(e, mpc_expand_f32(e, operand), beta);
    return mpc_expand_keep2(e, result, MPC_OP_add, old, mpc_expand_scale(e, now, 1 - beta));
}

/* g + decay * w: Adam's own decay goes through the moments. An infinite weight that doesn't decay adds nothing. */
static mpc_value_id with_decay(mpc_expand *e, mpc_value_id w, mpc_value_id g) {
    if (attr(e, "decay") == 0) return g;
    return mpc_expand_op2(e, MPC_OP_add, g, mpc_expand_scale(e, w, attr(e, "decay")));
}

/* (w, g, m, v, rate, t) -> w', m', v' */
void mpc_expand_adamw(mpc_expand *e) {
    double beta1 = attr(e, "beta1"), beta2 = attr(e, "beta2");
    mpc_value_id w = mpc_expand_f32(e, 0), g = mpc_expand_f32(e, 1), rate = rate_of(e, 4), t = mpc_expand_f32(e, 5);
    bool coupled = mpc_attr_bool(e->from, e->node, "coupled");
    if (coupled) g = with_decay(e, w, g);
    mpc_value_id step = mpc_expand_op2(e, MPC_OP_div, rate, one_minus_power(e, beta1, t));
    mpc_value_id widen = mpc_expand_op2(e, MPC_OP_div, mpc_expand_number(e, 1), one_minus_power(e, beta2, t));
    mpc_value_id m = moment(e, 2, 1, beta1, g);
    mpc_value_id v = moment(e, 3, 2, beta2, mpc_expand_op2(e, MPC_OP_mul, g, g));
    mpc_value_id root = mpc_expand_op1(e, MPC_OP_sqrt, mpc_expand_op2(e, MPC_OP_mul, v, widen));
    mpc_value_id below = mpc_expand_op2(e, MPC_OP_add, root, mpc_expand_number(e, attr(e, "eps")));
    mpc_value_id change = mpc_expand_op2(e, MPC_OP_div, mpc_expand_op2(e, MPC_OP_mul, step, m), below);
    mpc_expand_emit2(e, 0, MPC_OP_sub, coupled ? w : decayed(e, w, rate), change);
}

/* -1, 1, or x itself where it is neither positive nor negative: 0 and NaN */
static mpc_value_id sign_of(mpc_expand *e, mpc_value_id x) {
    mpc_value_id zero = mpc_expand_number(e, 0);
    mpc_value_id low = mpc_expand_op3(e, MPC_OP_where, mpc_expand_op2(e, MPC_OP_lt, x, zero), mpc_expand_number(e, -1), x);
    return mpc_expand_op3(e, MPC_OP_where, mpc_expand_op2(e, MPC_OP_gt, x, zero), mpc_expand_number(e, 1), low);
}

/* (w, g, m, rate) -> w', m' */
void mpc_expand_lion(mpc_expand *e) {
    double beta1 = attr(e, "beta1");
    mpc_value_id w = mpc_expand_f32(e, 0), g = mpc_expand_f32(e, 1), rate = rate_of(e, 3);
    moment(e, 2, 1, attr(e, "beta2"), g);
    mpc_value_id mean = mpc_expand_op2(e, MPC_OP_add, mpc_expand_scale(e, mpc_expand_f32(e, 2), beta1),
                                       mpc_expand_scale(e, g, 1 - beta1));
    mpc_value_id change = mpc_expand_op2(e, MPC_OP_mul, rate, sign_of(e, mean));
    mpc_expand_emit2(e, 0, MPC_OP_sub, decayed(e, w, rate), change);
}

/* (1 + cos(pi done)) / 2 */
static mpc_value_id left_cosine(mpc_expand *e, mpc_value_id done) {
    mpc_value_id wave = mpc_expand_op1(e, MPC_OP_cos, mpc_expand_scale(e, done, 3.14159265358979323846));
    return mpc_expand_scale(e, mpc_expand_op2(e, MPC_OP_add, wave, mpc_expand_number(e, 1)), 0.5);
}

static mpc_value_id left_linear(mpc_expand *e, mpc_value_id done) {
    return mpc_expand_op2(e, MPC_OP_sub, mpc_expand_number(e, 1), done);
}

/* rate (final + (1 - final) left(done)), done = (t - warmup) / (total - warmup) up to 1 */
static mpc_value_id falling_rate(mpc_expand *e, mpc_value_id t, mpc_value_id (*left)(mpc_expand *, mpc_value_id)) {
    double rate = attr(e, "rate"), warmup = attr(e, "warmup"), total = attr(e, "total"), final = attr(e, "final");
    if (total <= warmup) return mpc_expand_number(e, rate * final);
    mpc_value_id past = mpc_expand_op2(e, MPC_OP_sub, t, mpc_expand_number(e, warmup));
    mpc_value_id done = mpc_expand_op2(e, MPC_OP_div, past, mpc_expand_number(e, total - warmup));
    done = mpc_expand_op2(e, MPC_OP_minimum, done, mpc_expand_number(e, 1));
    mpc_value_id part = mpc_expand_scale(e, left(e, done), 1 - final);
    return mpc_expand_scale(e, mpc_expand_op2(e, MPC_OP_add, part, mpc_expand_number(e, final)), rate);
}

/* rate factor^floor(applied / every). The quotient is exact enough for floor: below 2^23 steps it is a whole number, or
 * further from one than its rounding. A conversion to integers cuts off. */
static mpc_value_id stepped_rate(mpc_expand *e, mpc_value_id applied) {
    double every = attr(e, "every");
    if (every <= 0) return mpc_expand_number(e, attr(e, "rate"));
    mpc_value_id periods = mpc_expand_op2(e, MPC_OP_div, applied, mpc_expand_number(e, every));
    periods = mpc_expand_as(e, mpc_expand_as(e, periods, MPC_FMT_i32), MPC_FMT_f32);
    mpc_value_id power = mpc_expand_op2(e, MPC_OP_pow, mpc_expand_number(e, attr(e, "factor")), periods);
    return mpc_expand_scale(e, power, attr(e, "rate"));
}

/* (applied steps) -> rate of the next one */
void mpc_expand_schedule(mpc_expand *e) {
    double rate = attr(e, "rate"), warmup = attr(e, "warmup");
    const char *kind = mpc_attr_str(e->from, e->node, "kind");
    mpc_value_id applied = mpc_expand_f32(e, 0), t = mpc_expand_op2(e, MPC_OP_add, applied, mpc_expand_number(e, 1));
    mpc_value_id later = strcmp(kind, "cosine") == 0   ? falling_rate(e, t, left_cosine)
                         : strcmp(kind, "linear") == 0 ? falling_rate(e, t, left_linear)
                         : strcmp(kind, "step") == 0   ? stepped_rate(e, applied)
                                                       : mpc_expand_number(e, rate);
    e->results[0] = later;
    if (warmup <= 0) return;
    mpc_value_id edge = mpc_expand_number(e, warmup);
    mpc_value_id rising = mpc_expand_op2(e, MPC_OP_div, mpc_expand_scale(e, t, rate), edge);
    mpc_expand_emit3(e, 0, MPC_OP_where, mpc_expand_op2(e, MPC_OP_le, t, edge), rising, later);
}

/* (scale, clean steps, overflow, clean) -> scale', clean steps' */
void mpc_expand_scaler_update(mpc_expand *e) {
    mpc_value_id scale = mpc_expand_f32(e, 0), steps = e->operands[1], overflow = e->operands[2],
                 clean = e->operands[3];
    mpc_value_id zero = mpc_expand_int(e, 0), more = mpc_expand_op2(e, MPC_OP_add, steps, mpc_expand_int(e, 1));
    mpc_value_id full =
        mpc_expand_op2(e, MPC_OP_ge, more, mpc_expand_int(e, mpc_attr_int(e->from, e->node, "interval")));
    mpc_value_id grow = mpc_expand_op2(e, MPC_OP_and, clean, full);
    if (e->used[0]) {
        mpc_value_id larger = mpc_expand_scale(e, scale, attr(e, "growth"));
        larger = mpc_expand_op2(e, MPC_OP_minimum, larger, mpc_expand_number(e, attr(e, "max")));
        mpc_value_id next = mpc_expand_op3(e, MPC_OP_where, grow, larger, scale);
        mpc_expand_emit3(e, 0, MPC_OP_where, overflow, mpc_expand_scale(e, scale, attr(e, "backoff")), next);
    }
    mpc_value_id counted = mpc_expand_op3(e, MPC_OP_where, clean, more, steps);
    mpc_value_id restart = mpc_expand_op2(e, MPC_OP_or, overflow, grow);
    mpc_expand_emit3(e, 1, MPC_OP_where, restart, zero, counted);
}
