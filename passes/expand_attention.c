/* Expansions of attention: [b,t,h,d] is read as [b,h,t,d] (transposes that a matmul absorbs as strides), scores and
 * statistics are f32, probabilities are rounded once, to v's format (N22). A mask selects; it is never added (N20). A
 * query that sees no key gets zeros, forward and backward (N21): its log-sum-exp is -inf, and no element of its row is
 * ever selected. Where `share` query heads read one head of keys, products run over [b,kv,share,t,d] and keys that are
 * expanded to it: strides again, nothing is repeated in memory. */
#include "passes/expand_build.h"
#include "passes/rules.h"

enum { FUSED_HEAD = 128 };

static bool is_fused_format(mpc_format format) {
    return format == MPC_FMT_f32 || format == MPC_FMT_bf16 || format == MPC_FMT_f16;
}

static bool is_stored_as(const mpc_graph *g, mpc_value_id v, mpc_format format) {
    return mpc_value_format(g, v) == MPC_FMT_f32 || mpc_value_format(g, v) == format;
}

bool mpc_attention_fuses(const mpc_graph *g, const mpc_node *n) {
    bool backward = n->op == MPC_OP_attention_grad;
    if (n->op != MPC_OP_attention && !backward) return false;
    const mpc_type *q = mpc_value_type(g, mpc_operand(g, n, 0));
    if (!is_fused_format(q->format) || mpc_attr_format(g, n, "acc") != MPC_FMT_f32) return false;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        bool multiplied = i < 3 || (backward && i == 5);
        if (multiplied && mpc_value_format(g, mpc_operand(g, n, i)) != q->format) return false;
    }
    if (backward && !is_stored_as(g, mpc_operand(g, n, 3), q->format)) return false;
    for (uint32_t r = 0; r < n->result_count; r++)
        if (!is_stored_as(g, mpc_result(n, r), q->format)) return false;
    return mpc_type_elements(q) > 0 && q->dims[3] <= FUSED_HEAD;
}

static const double lowest = -3.4028234663852886e38; /* of f32: -inf - -inf would be NaN */

typedef struct heads { /* q [b,h,t,d], k and v [b,h,s,d]; with share > 1 [b,kv,share,t,d] and [b,kv,share,s,d] */
    mpc_value_id q, k, v;
    int64_t b, t, s, h, kv, share, d;
    mpc_value_id visible; /* bool, broadcasts to [b,h,t,s]; MPC_NONE: all */
    bool may_be_blind;    /* a query may see no key */
} heads;

static mpc_value_id swap_heads(mpc_expand *e, mpc_value_id a) {
    return mpc_expand_permute(e, a, (int64_t[]){0, 2, 1, 3});
}

static mpc_value_id both(mpc_expand *e, mpc_value_id a, mpc_value_id b) {
    return a == MPC_NONE ? b : mpc_expand_op2(e, MPC_OP_and, b, a);
}

/* 0: none, or so wide that it hides nothing. */
static int64_t window_of(const mpc_expand *e, const heads *a) {
    int64_t window = mpc_attr_int(e->from, e->node, "window");
    return window < a->t || window < a->s ? window : 0;
}

/* Key j is visible to query i when j <= i, j is within the window, and the mask says so. */
static mpc_value_id visible_keys(mpc_expand *e, const heads *a, uint32_t mask) {
    mpc_value_id seen = e->operand_count > mask ? e->operands[mask] : MPC_NONE;
    bool causal = mpc_attr_bool(e->from, e->node, "causal");
    int64_t window = window_of(e, a);
    if (!causal && window == 0) return seen;
    mpc_value_id keys = mpc_expand_positions(e, a->s, 4, 3), queries = mpc_expand_positions(e, a->t, 4, 2);
    if (causal) seen = both(e, seen, mpc_expand_op2(e, MPC_OP_le, keys, queries));
    if (window == 0) return seen;
    mpc_value_id size = mpc_expand_int(e, window);
    seen = both(e, seen, mpc_expand_op2(e, MPC_OP_lt, queries, mpc_expand_op2(e, MPC_OP_add, keys, size)));
    if (causal) return seen;
    return both(e, seen, mpc_expand_op2(e, MPC_OP_lt, keys, mpc_expand_op2(e, MPC_OP_add, queries, size)));
}

/* Of queries: [b,t,h,d] as stored. */
static mpc_value_id split_queries(mpc_expand *e, const heads *a, mpc_value_id q) {
    if (a->share == 1) return swap_heads(e, q);
    q = mpc_expand_to_shape(e, q, 5, (int64_t[]){a->b, a->t, a->kv, a->share, a->d});
    return mpc_expand_permute(e, q, (int64_t[]){0, 2, 3, 1, 4});
}

/* Of keys: [b,s,kv,d] as stored. */
static mpc_value_id spread_keys(mpc_expand *e, const heads *a, mpc_value_id k) {
    k = swap_heads(e, k);
    if (a->share == 1) return k;
    k = mpc_expand_to_shape(e, k, 5, (int64_t[]){a->b, a->kv, 1, a->s, a->d});
    return mpc_expand_broadcast(e, k, 5, (int64_t[]){a->b, a->kv, a->share, a->s, a->d});
}

static heads read_heads(mpc_expand *e, uint32_t mask) {
    mpc_type q = mpc_expand_type(e, e->operands[0]), k = mpc_expand_type(e, e->operands[1]);
    heads a = {.b = q.dims[0], .t = q.dims[1], .s = k.dims[1], .h = q.dims[2], .kv = k.dims[2], .d = q.dims[3]};
    a.share = a.kv > 0 ? a.h / a.kv : 1;
    a.q = split_queries(e, &a, e->operands[0]);
    a.k = spread_keys(e, &a, e->operands[1]);
    a.v = spread_keys(e, &a, e->operands[2]);
    a.visible = visible_keys(e, &a, mask);
    int64_t window = window_of(e, &a);
    a.may_be_blind = e->operand_count > mask || (window > 0 && a.s + window <= a.t);
    return a;
}

typedef struct product {
    mpc_value_id a, b;
    bool ta, tb;
} product;

static mpc_value_id multiply(mpc_expand *e, product p, mpc_format format) {
    mpc_attr_arg attrs[3] = {MPC_A_BOOL("ta", p.ta), MPC_A_BOOL("tb", p.tb),
                             MPC_A_FORMAT("acc", mpc_attr_format(e->from, e->node, "acc"))};
    return mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_matmul, (mpc_value_id[]){p.a, p.b}, 2, attrs, 3}, format);
}

/* f32 [b,h,t,s] of a product, and back: other names of it. */
static mpc_value_id rows_of_heads(mpc_expand *e, const heads *a, mpc_value_id v) {
    return mpc_expand_to_shape(e, v, 4, (int64_t[]){a->b, a->h, a->t, a->s});
}

static mpc_value_id rows_of_shares(mpc_expand *e, const heads *a, mpc_value_id v) {
    if (a->share == 1) return v;
    return mpc_expand_to_shape(e, v, 5, (int64_t[]){a->b, a->kv, a->share, a->t, a->s});
}

static double scale_of(const mpc_expand *e) { return mpc_attr_float(e->from, e->node, "scale"); }

/* f32 [b,h,t,s], scaled after the product */
static mpc_value_id scores(mpc_expand *e, const heads *a) {
    mpc_value_id raw = rows_of_heads(e, a, multiply(e, (product){.a = a->q, .b = a->k, .tb = true}, MPC_FMT_f32));
    return mpc_expand_scale(e, raw, scale_of(e));
}

static mpc_value_id select_visible(mpc_expand *e, const heads *a, mpc_value_id value, double hidden) {
    if (a->visible == MPC_NONE) return value;
    return mpc_expand_op3(e, MPC_OP_where, a->visible, value, mpc_expand_number(e, hidden));
}

/* Result r [b,t,h,d] is the product of `rows` [b,h,t,s] with keys. */
static void emit_queries(mpc_expand *e, uint32_t r, const heads *a, mpc_value_id rows, mpc_value_id keys) {
    product p = {.a = rows_of_shares(e, a, rows), .b = keys};
    mpc_value_id y = multiply(e, p, mpc_expand_result_type(e, r).format);
    if (a->share > 1) y = mpc_expand_permute(e, y, (int64_t[]){0, 3, 1, 2, 4});
    mpc_expand_name_result(e, r);
    e->results[r] = a->share > 1 ? mpc_expand_to_shape(e, y, 4, (int64_t[]){a->b, a->t, a->h, a->d}) : swap_heads(e, y);
}

/* Result r [b,s,kv,d]: `rows` [b,h,t,s] transposed times `queries` [b,t,h,d]. The queries of all heads that share one
 * of keys are the rows of one product, whose f32 accumulator sums over them; for that they are copied. */
static void emit_keys(mpc_expand *e, uint32_t r, const heads *a, mpc_value_id rows, mpc_value_id queries) {
    product p = {.a = rows, .ta = true, .b = swap_heads(e, queries)};
    if (a->share > 1) {
        int64_t all = a->share * a->t;
        p.a = mpc_expand_to_shape(e, rows, 4, (int64_t[]){a->b, a->kv, all, a->s});
        p.b = mpc_expand_to_shape(e, p.b, 4, (int64_t[]){a->b, a->kv, all, a->d});
    }
    mpc_value_id y = multiply(e, p, mpc_expand_result_type(e, r).format);
    mpc_expand_name_result(e, r);
    e->results[r] = swap_heads(e, y);
}

/* (q, k, v, mask?) -> y, lse */
void mpc_expand_attention(mpc_expand *e) {
    heads a = read_heads(e, 3);
    mpc_value_id s = select_visible(e, &a, scores(e, &a), lowest);
    mpc_value_id max = mpc_expand_reduce(e, MPC_OP_max, s, 3, false);
    mpc_value_id low = mpc_expand_op2(e, MPC_OP_sub, s, mpc_expand_column(e, max));
    mpc_value_id numerator = mpc_expand_op1(e, MPC_OP_exp, low), divisor;
    /* Where every query sees a key, hidden ones are 0 by now: exp(lowest - max). */
    if (a.may_be_blind) numerator = select_visible(e, &a, numerator, 0);
    mpc_value_id sum = divisor = mpc_expand_reduce(e, MPC_OP_sum, numerator, 3, false);
    if (e->used[1]) mpc_expand_emit2(e, 1, MPC_OP_add, max, mpc_expand_op1(e, MPC_OP_log, sum));
    if (!e->used[0]) return;
    if (a.may_be_blind) {
        mpc_value_id blind = mpc_expand_op2(e, MPC_OP_eq, sum, mpc_expand_number(e, 0));
        divisor = mpc_expand_op3(e, MPC_OP_where, blind, mpc_expand_number(e, 1), sum);
    }
    mpc_value_id parts[2] = {numerator, mpc_expand_column(e, divisor)};
    mpc_format format = mpc_expand_type(e, a.v).format;
    mpc_value_id p = mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_div, parts, 2, NULL, 0}, format);
    emit_queries(e, 0, &a, p, a.v);
}

/* sum(dy y) over d, as [b,h,t,1] */
static mpc_value_id kept_share(mpc_expand *e) {
    mpc_value_id shares = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_f32(e, 5), mpc_expand_f32(e, 3));
    mpc_value_id delta = mpc_expand_reduce(e, MPC_OP_sum, shares, 3, false);
    return mpc_expand_column(e, mpc_expand_permute(e, delta, (int64_t[]){0, 2, 1}));
}

/* ds = scale p (dy v^T - delta), in the operands' format. */
static mpc_value_id score_grad(mpc_expand *e, const heads *a, mpc_value_id p, mpc_value_id dp) {
    mpc_value_id ds = mpc_expand_op2(e, MPC_OP_mul, p, mpc_expand_op2(e, MPC_OP_sub, dp, kept_share(e)));
    mpc_value_id factors[2] = {ds, mpc_expand_number(e, scale_of(e))};
    mpc_format format = mpc_expand_type(e, a->q).format;
    return mpc_expand_build(e, &(mpc_expand_expr){MPC_OP_mul, factors, 2, NULL, 0}, format);
}

/* (q, k, v, y, lse, dy, mask?) -> dq, dk, dv. Both f32 products come first: then p, recomputed from the log-sum-exp,
 * its rounded form and ds are elementwise in one row of nodes, and f32 p need not be stored. */
void mpc_expand_attention_grad(mpc_expand *e) {
    heads a = read_heads(e, 6);
    bool wants_ds = e->used[0] || e->used[1];
    mpc_value_id dy = split_queries(e, &a, e->operands[5]), s = scores(e, &a), dp = MPC_NONE, ds = MPC_NONE,
                 rounded = MPC_NONE;
    if (wants_ds) dp = rows_of_heads(e, &a, multiply(e, (product){.a = dy, .b = a.v, .tb = true}, MPC_FMT_f32));
    mpc_value_id low = mpc_expand_op2(e, MPC_OP_sub, s, mpc_expand_column(e, mpc_expand_f32(e, 4)));
    mpc_value_id p = select_visible(e, &a, mpc_expand_op1(e, MPC_OP_exp, low), 0);
    if (e->used[2]) rounded = mpc_expand_as(e, p, mpc_expand_type(e, a.v).format);
    if (wants_ds) ds = score_grad(e, &a, p, dp);
    if (e->used[2]) emit_keys(e, 2, &a, rounded, e->operands[5]);
    if (e->used[0]) emit_queries(e, 0, &a, ds, a.k);
    if (e->used[1]) emit_keys(e, 1, &a, ds, e->operands[0]);
}
