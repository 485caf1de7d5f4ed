/* Gradients of reductions and of what works along an axis. The way back of a sum is an `expand` view, which costs
 * nothing; where a gradient has another format than its operand it is cast while it is small. What moves exact zeros in
 * (the losers of a maximum) is a selection. */
#include <math.h>

#include "passes/grad_build.h"
#include "passes/rules.h"

typedef struct kept_shape { /* of a reduction */
    mpc_type full, kept;    /* the operand's shape; the same with size 1 at the reduced axes */
    mpc_int_list axes;
    int64_t factor; /* elements that become one */
} kept_shape;

static kept_shape shape_kept(mpc_grad *g) {
    kept_shape s = {.full = mpc_grad_type(g, mpc_grad_operand(g, 0)), .factor = 1};
    s.axes = mpc_attr_ints(g->g, &g->node, "axes");
    s.kept = s.full;
    for (uint32_t i = 0; i < s.axes.count; i++) {
        s.factor *= s.full.dims[s.axes.data[i]];
        s.kept.dims[s.axes.data[i]] = 1;
    }
    return s;
}

/* Broadcasting adds leading axes by itself; others come back with size 1 first. */
static bool only_leading(const kept_shape *s) {
    for (uint32_t i = 0; i < s->axes.count; i++)
        if (s->axes.data[i] != (int64_t)i) return false;
    return true;
}

/* `a`, of the result's shape, over the whole operand. */
static void put_broadcast(mpc_grad *g, mpc_value_id a, const kept_shape *s) {
    mpc_value_id small = mpc_grad_convert(g, a, mpc_grad_format(g, 0));
    if (s->factor == 1) mpc_grad_name_for(g, 0);
    if (s->factor == 1 || !only_leading(s)) small = mpc_grad_to_shape(g, small, s->kept.rank, s->kept.dims);
    if (s->factor != 1) mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, mpc_grad_broadcast(g, small, s->full.rank, s->full.dims));
}

void mpc_grad_sum(mpc_grad *g) {
    kept_shape s = shape_kept(g);
    g->selects = g->selected;
    put_broadcast(g, g->dresults[0], &s);
}

/* The divisor is f32 and divides before the broadcast. */
void mpc_grad_mean(mpc_grad *g) {
    kept_shape s = shape_kept(g);
    g->selects = g->selected;
    put_broadcast(g, mpc_grad_op2(g, MPC_OP_div, g->dresults[0], mpc_grad_number(g, (double)s.factor)), &s);
}

/* Equal extrema share: dy / (their number), selected where the operand is the extremum. */
static void emit_shared(mpc_grad *g) {
    kept_shape s = shape_kept(g);
    mpc_value_id y = mpc_grad_to_shape(g, mpc_grad_result(g, 0), s.kept.rank, s.kept.dims);
    mpc_value_id dy = mpc_grad_to_shape(g, g->dresults[0], s.kept.rank, s.kept.dims);
    mpc_value_id hit = mpc_grad_op2(g, MPC_OP_eq, mpc_grad_operand(g, 0), y);
    mpc_value_id number = mpc_grad_sum_over(g, mpc_grad_convert(g, hit, MPC_FMT_f32), s.axes.data, s.axes.count);
    number = mpc_grad_to_shape(g, number, s.kept.rank, s.kept.dims);
    mpc_value_id share = mpc_grad_op2(g, MPC_OP_div, dy, number);
    g->selects = true;
    mpc_grad_emit3(g, 0, MPC_OP_where, hit, share, mpc_grad_number(g, 0));
}

void mpc_grad_max(mpc_grad *g) { emit_shared(g); }

void mpc_grad_min(mpc_grad *g) { emit_shared(g); }

/* The operand reduced over the node's axes, which stay with size 1. */
static mpc_value_id reduce_kept(mpc_grad *g, mpc_op_id op, mpc_value_id a, const kept_shape *s) {
    mpc_attr_arg attrs[2] = {MPC_A_INTS("axes", s->axes.data, s->axes.count), MPC_A_BOOL("keep", true)};
    return mpc_grad_build(g, &(mpc_grad_expr){op, &a, 1, attrs, 2});
}

/* dy factor, 0 where `dead` says so (MPC_NONE: nowhere) and, below a selection, where dy is 0. dy has size 1 at the
 * reduced axes. */
static void emit_factor(mpc_grad *g, mpc_value_id dy, mpc_value_id factor, mpc_value_id dead) {
    if (g->selected) {
        mpc_value_id none = mpc_grad_op2(g, MPC_OP_eq, dy, mpc_grad_number(g, 0));
        dead = dead == MPC_NONE ? none : mpc_grad_op2(g, MPC_OP_or, dead, none);
        g->selects = true;
    }
    if (dead == MPC_NONE) mpc_grad_emit2(g, 0, MPC_OP_mul, dy, factor);
    else mpc_grad_emit_unless(g, 0, dead, mpc_grad_op2(g, MPC_OP_mul, dy, factor));
}

/* dy 2 (x - mean) / n: what the mean itself passes on adds up to nothing. */
void mpc_grad_var(mpc_grad *g) {
    kept_shape s = shape_kept(g);
    double n = (double)s.factor - (mpc_attr_bool(g->g, &g->node, "unbiased") ? 1 : 0);
    mpc_value_id x = mpc_grad_operand(g, 0);
    mpc_value_id dy = mpc_grad_to_shape(g, g->dresults[0], s.kept.rank, s.kept.dims);
    mpc_value_id centred = mpc_grad_op2(g, MPC_OP_sub, x, reduce_kept(g, MPC_OP_mean, x, &s));
    emit_factor(g, mpc_grad_scale(g, dy, 2 / n), centred, MPC_NONE);
}

/* dy (x / y), 0 where y is (FC-057): a part of a norm is at most the norm, so nothing overflows. */
void mpc_grad_norm(mpc_grad *g) {
    kept_shape s = shape_kept(g);
    mpc_value_id y = mpc_grad_to_shape(g, mpc_grad_result(g, 0), s.kept.rank, s.kept.dims);
    mpc_value_id dy = mpc_grad_to_shape(g, g->dresults[0], s.kept.rank, s.kept.dims);
    mpc_value_id part = mpc_grad_op2(g, MPC_OP_div, mpc_grad_operand(g, 0), y);
    emit_factor(g, dy, part, mpc_grad_op2(g, MPC_OP_eq, y, mpc_grad_number(g, 0)));
}

/* dy softmax(x), from x itself: exp(x - y) would take over the rounding of a large y. 0 at -infinity, where a row of
 * nothing else has no softmax. */
void mpc_grad_logsumexp(mpc_grad *g) {
    kept_shape s = shape_kept(g);
    mpc_value_id x = mpc_grad_operand(g, 0), max = reduce_kept(g, MPC_OP_max, x, &s);
    mpc_value_id dy = mpc_grad_to_shape(g, g->dresults[0], s.kept.rank, s.kept.dims);
    mpc_value_id finite = mpc_grad_op1(g, MPC_OP_is_finite, max);
    mpc_value_id shift = mpc_grad_op3(g, MPC_OP_where, finite, max, mpc_grad_number(g, 0));
    mpc_value_id part = mpc_grad_op1(g, MPC_OP_exp, mpc_grad_op2(g, MPC_OP_sub, x, shift));
    part = mpc_grad_op2(g, MPC_OP_div, part, reduce_kept(g, MPC_OP_sum, part, &s));
    emit_factor(g, dy, part, mpc_grad_op2(g, MPC_OP_eq, x, mpc_grad_number(g, -HUGE_VAL)));
}

/* An element is in every sum from it on: the sums of dy from the other end. */
void mpc_grad_cumsum(mpc_grad *g) {
    mpc_attr_arg attrs[2] = {MPC_A_INT("axis", mpc_attr_int(g->g, &g->node, "axis")),
                             MPC_A_BOOL("reverse", !mpc_attr_bool(g->g, &g->node, "reverse"))};
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_cumsum, g->dresults, 1, attrs, 2});
}

/* [outer, n, k, inner]: dy where element n is the k-th largest, added up over k; all others get a selected 0. */
void mpc_grad_top_k(mpc_grad *g) {
    int64_t axis = mpc_attr_int(g->g, &g->node, "axis"), over = 2;
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    int64_t n = x.dims[axis], k = mpc_attr_int(g->g, &g->node, "k"), dims[4] = {1, 1, k, 1};
    if (g->dresults[0] == MPC_NONE) return;
    for (int64_t i = 0; i < x.rank; i++)
        if (i != axis) dims[i < axis ? 0 : 3] *= x.dims[i];
    mpc_value_id index = mpc_grad_to_shape(g, mpc_grad_result(g, 1), 4, dims);
    mpc_value_id dy = mpc_grad_to_shape(g, g->dresults[0], 4, dims);
    mpc_value_id at = mpc_grad_to_shape(g, mpc_grad_range(g, n), 3, (const int64_t[]){n, 1, 1});
    mpc_value_id hit = mpc_grad_op2(g, MPC_OP_eq, at, index);
    mpc_value_id part = mpc_grad_op3(g, MPC_OP_where, hit, dy, mpc_grad_number(g, 0));
    g->selects = true;
    mpc_value_id sum = mpc_grad_convert(g, mpc_grad_sum_over(g, part, &over, 1), mpc_grad_format(g, 0));
    mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, mpc_grad_to_shape(g, sum, x.rank, x.dims));
}
