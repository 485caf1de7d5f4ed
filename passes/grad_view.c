/* Gradients of reductions and of ops that move elements. The way back of a sum is an `expand` view, which costs
 * nothing; where a gradient has another format than its operand it is cast while it is small. What moves exact zeros in
 * (the rest of a slice, the losers of a maximum) is a selection. */
#include <string.h>

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

void mpc_grad_reshape(mpc_grad *g) {
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, mpc_grad_to_shape(g, g->dresults[0], x.rank, x.dims));
}

void mpc_grad_transpose(mpc_grad *g) {
    mpc_int_list perm = mpc_attr_ints(g->g, &g->node, "perm");
    int64_t inverse[MPC_MAX_RANK];
    for (uint32_t i = 0; i < perm.count; i++) inverse[perm.data[i]] = (int64_t)i;
    mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, mpc_grad_permute(g, g->dresults[0], inverse));
}

/* A view with two lists of `rank` numbers, named as the gradient of operand i. */
static void emit_window(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_attr_arg first, mpc_attr_arg second) {
    mpc_attr_arg attrs[2] = {first, second};
    mpc_grad_emit_view(g, i, &(mpc_grad_expr){op, g->dresults, 1, attrs, 2});
}

/* A part of the operand's gradient. */
void mpc_grad_slice(mpc_grad *g) {
    g->part = mpc_attr_ints(g->g, &g->node, "start");
    mpc_grad_put(g, 0, g->dresults[0]);
}

void mpc_grad_pad(mpc_grad *g) {
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    mpc_int_list before = mpc_attr_ints(g->g, &g->node, "before");
    int64_t stop[MPC_MAX_RANK];
    for (uint32_t i = 0; i < x.rank; i++) stop[i] = before.data[i] + x.dims[i];
    emit_window(g, 0, MPC_OP_slice, MPC_A_INTS("start", before.data, x.rank), MPC_A_INTS("stop", stop, x.rank));
}

void mpc_grad_concat(mpc_grad *g) {
    int64_t axis = mpc_attr_int(g->g, &g->node, "axis"), at = 0;
    for (uint32_t k = 0; k < g->node.operand_count; k++) {
        mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, k));
        int64_t start[MPC_MAX_RANK] = {0}, stop[MPC_MAX_RANK];
        memcpy(stop, x.dims, sizeof stop);
        start[axis] = at;
        at = stop[axis] = at + x.dims[axis];
        if (g->wanted[k] && g->node.operand_count == 1) mpc_grad_put(g, k, g->dresults[0]);
        if (g->wanted[k] && g->node.operand_count > 1)
            emit_window(g, k, MPC_OP_slice, MPC_A_INTS("start", start, x.rank), MPC_A_INTS("stop", stop, x.rank));
    }
}

/* mpc_grad_fit sums over what was broadcast. */
void mpc_grad_expand(mpc_grad *g) { mpc_grad_put(g, 0, g->dresults[0]); }
