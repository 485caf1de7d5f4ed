/* Gradients of matmuls, convolutions and pools. A gradient is one matmul on the operands as stored: `ta` and `tb` say
 * what is transposed, nothing is moved. Weights used over many rows are differentiated by one matmul over all rows, so
 * their gradient is accumulated in f32 over the whole batch and rounded at most once. */
#include <string.h>

#include "passes/grad_build.h"
#include "passes/rules.h"

typedef struct matmul_terms { /* y = op(a) op(b) */
    mpc_value_id a, b, dy;
    bool ta, tb;
    bool shared; /* b has rank 2 and serves all leading axes of a */
} matmul_terms;

static mpc_attr_arg copy_acc(mpc_grad *g) { return MPC_A_FORMAT("acc", mpc_attr_format(g->g, &g->node, "acc")); }

/* Gradient of operand i as one matmul. */
static void emit_matmul(mpc_grad *g, uint32_t i, mpc_value_id a, bool ta, mpc_value_id b, bool tb) {
    mpc_attr_arg attrs[3] = {MPC_A_BOOL("ta", ta), MPC_A_BOOL("tb", tb), copy_acc(g)};
    mpc_grad_emit(g, i, &(mpc_grad_expr){MPC_OP_matmul, (mpc_value_id[]){a, b}, 2, attrs, 3});
}

static mpc_value_id swap_last(mpc_grad *g, mpc_value_id a) {
    uint32_t rank = mpc_grad_type(g, a).rank;
    int64_t perm[MPC_MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) perm[i] = (int64_t)i;
    perm[rank - 1] = (int64_t)rank - 2;
    perm[rank - 2] = (int64_t)rank - 1;
    return mpc_grad_permute(g, a, perm);
}

/* [..., n] -> [rows, n]; a vector becomes one row. */
static mpc_value_id flatten_rows(mpc_grad *g, mpc_value_id a) {
    mpc_type t = mpc_grad_type(g, a);
    int64_t dims[2] = {1, t.rank > 0 ? t.dims[t.rank - 1] : 1};
    for (uint32_t i = 0; i + 1 < t.rank; i++) dims[0] *= t.dims[i];
    return mpc_grad_to_shape(g, a, 2, dims);
}

/* op(a)'s gradient is dy op(b)^T; it is built as it is stored. */
static void emit_left(mpc_grad *g, const matmul_terms *m) {
    if (!m->ta) {
        emit_matmul(g, 0, m->dy, false, m->b, !m->tb);
        return;
    }
    if (!m->shared) {
        emit_matmul(g, 0, m->b, m->tb, m->dy, true);
        return;
    }
    mpc_attr_arg attrs[2] = {MPC_A_BOOL("tb", !m->tb), copy_acc(g)};
    mpc_value_id plain = mpc_grad_build(g, &(mpc_grad_expr){MPC_OP_matmul, (mpc_value_id[]){m->dy, m->b}, 2, attrs, 2});
    mpc_value_id turned = mpc_grad_convert(g, plain, mpc_grad_format(g, 0));
    mpc_grad_name_for(g, 0);
    mpc_grad_put(g, 0, swap_last(g, turned));
}

static void emit_right(mpc_grad *g, const matmul_terms *m) {
    mpc_value_id a = m->a, dy = m->dy;
    bool ta = m->ta;
    if (m->shared) {
        if (ta) a = swap_last(g, a);
        ta = false;
        a = flatten_rows(g, a);
        dy = flatten_rows(g, dy);
    }
    if (m->tb) emit_matmul(g, 1, dy, true, a, ta);
    else emit_matmul(g, 1, a, !ta, dy, false);
}

void mpc_grad_matmul(mpc_grad *g) {
    matmul_terms m = {.a = mpc_grad_operand(g, 0), .b = mpc_grad_operand(g, 1), .dy = g->dresults[0]};
    m.ta = mpc_attr_bool(g->g, &g->node, "ta");
    m.tb = mpc_attr_bool(g->g, &g->node, "tb");
    m.shared = mpc_grad_type(g, m.a).rank > 2 && mpc_grad_type(g, m.b).rank == 2;
    if (g->wanted[0]) emit_left(g, &m);
    if (g->wanted[1]) emit_right(g, &m);
}

/* dy before the activation, from the stored result: it is what the activation made, so no pre-activation has to be
 * kept. */
static mpc_value_id before_act(mpc_grad *g) {
    if (strcmp(mpc_attr_str(mpc_builder_graph(g->b), &g->node, "act"), "relu") != 0) return g->dresults[0];
    mpc_value_id zero = mpc_grad_number(g, 0);
    mpc_value_id off = mpc_grad_op2(g, MPC_OP_le, mpc_grad_result(g, 0), zero);
    mpc_type y = mpc_grad_type(g, mpc_grad_result(g, 0));
    return mpc_grad_convert(g, mpc_grad_op3(g, MPC_OP_where, off, zero, g->dresults[0]), y.format);
}

static bool wants_bias(const mpc_grad *g) { return g->node.operand_count > 2 && g->wanted[2]; }

void mpc_grad_linear(mpc_grad *g) {
    mpc_value_id x = mpc_grad_operand(g, 0), w = mpc_grad_operand(g, 1), dz = before_act(g);
    bool vector = mpc_grad_type(g, x).rank == 1;
    mpc_value_id rows = dz;
    if (g->wanted[1] || vector) rows = flatten_rows(g, dz);
    if (g->wanted[0] && !vector) emit_matmul(g, 0, dz, false, w, true);
    if (g->wanted[0] && vector) emit_matmul(g, 0, rows, false, w, true);
    if (g->wanted[1]) emit_matmul(g, 1, flatten_rows(g, x), true, rows, false);
    if (!wants_bias(g)) return;
    mpc_grad_put(g, 2, dz); /* summed over the leading axes by mpc_grad_fit */
}

enum { CONV_ATTRS = 5 };

static void copy_conv_attrs(mpc_grad *g, mpc_attr_arg attrs[CONV_ATTRS]) {
    static const char *const keys[3] = {"stride", "pad", "dilation"};
    const mpc_graph *graph = mpc_builder_graph(g->b);
    for (int i = 0; i < 3; i++) {
        mpc_int_list list = mpc_attr_ints(graph, &g->node, keys[i]);
        attrs[i] = MPC_A_INTS(keys[i], list.data, list.count);
    }
    attrs[3] = MPC_A_INT("groups", mpc_attr_int(graph, &g->node, "groups"));
    attrs[4] = MPC_A_FORMAT("acc", mpc_attr_format(graph, &g->node, "acc"));
}

void mpc_grad_conv2d(mpc_grad *g) {
    mpc_value_id x = mpc_grad_operand(g, 0), w = mpc_grad_operand(g, 1), dz = before_act(g);
    mpc_type xt = mpc_grad_type(g, x), wt = mpc_grad_type(g, w);
    mpc_attr_arg attrs[CONV_ATTRS + 2];
    copy_conv_attrs(g, attrs);
    attrs[CONV_ATTRS] = MPC_A_INT("h", xt.dims[1]);
    attrs[CONV_ATTRS + 1] = MPC_A_INT("w", xt.dims[2]);
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_conv2d_grad_input, (mpc_value_id[]){dz, w}, 2, attrs, CONV_ATTRS + 2});
    attrs[CONV_ATTRS] = MPC_A_INT("kh", wt.dims[0]);
    attrs[CONV_ATTRS + 1] = MPC_A_INT("kw", wt.dims[1]);
    mpc_grad_emit(g, 1, &(mpc_grad_expr){MPC_OP_conv2d_grad_weight, (mpc_value_id[]){x, dz}, 2, attrs, CONV_ATTRS + 2});
    if (wants_bias(g)) mpc_grad_put(g, 2, dz);
}

/* dx = conv2d_grad_input(dy, w) is linear in both: what it is the gradient of gives the one's gradient, the weight
 * gradient, with image and result exchanged, the other's. */
void mpc_grad_conv2d_grad_input(mpc_grad *g) {
    mpc_value_id y = mpc_grad_operand(g, 0), w = mpc_grad_operand(g, 1), dx = g->dresults[0];
    mpc_type wt = mpc_grad_type(g, w);
    mpc_attr_arg attrs[CONV_ATTRS + 2];
    copy_conv_attrs(g, attrs);
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_conv2d, (mpc_value_id[]){dx, w}, 2, attrs, CONV_ATTRS});
    attrs[CONV_ATTRS] = MPC_A_INT("kh", wt.dims[0]);
    attrs[CONV_ATTRS + 1] = MPC_A_INT("kw", wt.dims[1]);
    mpc_grad_emit(g, 1, &(mpc_grad_expr){MPC_OP_conv2d_grad_weight, (mpc_value_id[]){dx, y}, 2, attrs, CONV_ATTRS + 2});
}

enum { POOL_ATTRS = 3 };

static void copy_pool_attrs(mpc_grad *g, mpc_attr_arg attrs[POOL_ATTRS]) {
    static const char *const keys[POOL_ATTRS] = {"kernel", "stride", "pad"};
    const mpc_graph *graph = mpc_builder_graph(g->b);
    for (int i = 0; i < POOL_ATTRS; i++) {
        mpc_int_list list = mpc_attr_ints(graph, &g->node, keys[i]);
        attrs[i] = MPC_A_INTS(keys[i], list.data, list.count);
    }
}

void mpc_grad_max_pool(mpc_grad *g) {
    mpc_attr_arg attrs[POOL_ATTRS];
    copy_pool_attrs(g, attrs);
    mpc_value_id operands[2] = {mpc_grad_operand(g, 0), g->dresults[0]};
    g->selects = true;
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_max_pool_grad, operands, 2, attrs, POOL_ATTRS});
}

void mpc_grad_avg_pool(mpc_grad *g) {
    mpc_attr_arg attrs[POOL_ATTRS + 2];
    mpc_type x = mpc_grad_type(g, mpc_grad_operand(g, 0));
    copy_pool_attrs(g, attrs);
    attrs[POOL_ATTRS] = MPC_A_INT("h", x.dims[1]);
    attrs[POOL_ATTRS + 1] = MPC_A_INT("w", x.dims[2]);
    mpc_grad_emit(g, 0, &(mpc_grad_expr){MPC_OP_avg_pool_grad, g->dresults, 1, attrs, POOL_ATTRS + 2});
}
