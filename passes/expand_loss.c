/* Expansions of losses and metrics. A loss comes from the log-sum-exp, so that forward and backward see the same logits
 * (N11); masked elements, and classes without weight, are selected away before they are summed, so that a NaN or an
 * infinity in them is harmless: they are never multiplied by 0. */
#include "passes/expand_lookup.h"
#include "passes/rules.h"

/* Of logits [..., k]: max [...], the distance of each class from it (logits - max, [..., k]) and
 * log(sum(exp(logits - max))) [...]. Makes result 1, the log-sum-exp. */
typedef struct log_sums {
    mpc_value_id x, max, low, rest;
    int64_t classes;
    uint32_t axis;
    double smooth;
} log_sums;

static log_sums build_log_sums(mpc_expand *e) {
    log_sums s = {.x = mpc_expand_f32(e, 0), .smooth = mpc_attr_float(e->from, e->node, "smooth")};
    mpc_type t = mpc_expand_type(e, s.x);
    s.axis = t.rank - 1;
    s.classes = t.dims[s.axis];
    s.max = mpc_expand_reduce(e, MPC_OP_max, s.x, s.axis, false);
    s.low = mpc_expand_op2(e, MPC_OP_sub, s.x, mpc_expand_column(e, s.max));
    s.rest = mpc_expand_reduce(e, MPC_OP_sum, mpc_expand_op1(e, MPC_OP_exp, s.low), s.axis, false);
    s.rest = mpc_expand_op1(e, MPC_OP_log, s.rest);
    mpc_expand_emit2(e, 1, MPC_OP_add, s.max, s.rest);
    return s;
}

/* (1 - smooth) (max - x[label]) + smooth mean(max - x): every term is at least 0, so a class at -inf gives +inf. */
static mpc_value_id smoothed_distance(mpc_expand *e, const log_sums *s, mpc_value_id label_distance) {
    mpc_value_id sum = mpc_expand_reduce(e, MPC_OP_sum, s->low, s->axis, false);
    mpc_value_id spread = mpc_expand_scale(e, sum, -s->smooth / (double)s->classes);
    if (s->smooth == 1) return spread;
    return mpc_expand_op2(e, MPC_OP_add, mpc_expand_scale(e, label_distance, 1 - s->smooth), spread);
}

/* loss = (max - x[label]) + log(sum): this order keeps the digits that (max + log(sum)) - x[label] loses at large
 * logits. */
void mpc_expand_cross_entropy(mpc_expand *e) {
    mpc_value_id labels = e->operands[1];
    log_sums s = build_log_sums(e);
    if (!e->used[0]) return;
    mpc_value_id hit = mpc_expand_hit(e, labels, s.classes, s.axis);
    mpc_value_id picked = mpc_expand_op3(e, MPC_OP_where, hit, s.x, mpc_expand_number(e, 0));
    picked = mpc_expand_reduce(e, MPC_OP_sum, picked, s.axis, false);
    mpc_value_id distance = mpc_expand_op2(e, MPC_OP_sub, s.max, picked);
    if (s.smooth > 0) distance = smoothed_distance(e, &s, distance);
    mpc_value_id loss = mpc_expand_op2(e, MPC_OP_add, distance, s.rest);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_nan_unless(e, labels, s.classes, loss);
}

/* exp(logits - lse) of operands 0 and 2 */
static mpc_value_id probabilities(mpc_expand *e, mpc_value_id x) {
    return mpc_expand_op1(e, MPC_OP_exp, mpc_expand_op2(e, MPC_OP_sub, x, mpc_expand_column(e, mpc_expand_f32(e, 2))));
}

/* (logits, labels, lse, dloss) -> (exp(logits - lse) - target) dloss */
void mpc_expand_cross_entropy_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_type t = mpc_expand_type(e, x);
    double smooth = mpc_attr_float(e->from, e->node, "smooth"), share = smooth / (double)t.dims[t.rank - 1];
    mpc_value_id dloss = mpc_expand_column(e, mpc_expand_f32(e, 3)), p = probabilities(e, x);
    mpc_value_id hit = mpc_expand_hit(e, e->operands[1], t.dims[t.rank - 1], t.rank - 1);
    mpc_value_id less = mpc_expand_op2(e, MPC_OP_sub, p, mpc_expand_number(e, 1 - smooth + share));
    if (smooth > 0) p = mpc_expand_op2(e, MPC_OP_sub, p, mpc_expand_number(e, share));
    mpc_expand_emit2(e, 0, MPC_OP_mul, mpc_expand_op3(e, MPC_OP_where, hit, less, p), dloss);
}

/* Operand 1 as it is, or mixed with the uniform distribution. */
static mpc_value_id soft_target(mpc_expand *e, double smooth, int64_t classes) {
    mpc_value_id target = mpc_expand_f32(e, 1);
    if (smooth == 0) return target;
    target = mpc_expand_scale(e, target, 1 - smooth);
    return mpc_expand_op2(e, MPC_OP_add, target, mpc_expand_number(e, smooth / (double)classes));
}

/* sum of target (lse - logits) over the classes that have a weight (FC-047) */
void mpc_expand_soft_cross_entropy(mpc_expand *e) {
    log_sums s = build_log_sums(e);
    if (!e->used[0]) return;
    mpc_value_id target = soft_target(e, s.smooth, s.classes);
    mpc_value_id distance = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_column(e, s.rest), s.low);
    mpc_value_id zero = mpc_expand_number(e, 0), none = mpc_expand_op2(e, MPC_OP_eq, target, zero);
    mpc_value_id term = mpc_expand_op2(e, MPC_OP_mul, target, distance);
    term = mpc_expand_op3(e, MPC_OP_where, none, zero, term);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_reduce(e, MPC_OP_sum, term, s.axis, false);
}

/* (logits, target, lse, dloss) -> (exp(logits - lse) sum(target) - target) dloss */
void mpc_expand_soft_cross_entropy_grad(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_type t = mpc_expand_type(e, x);
    double smooth = mpc_attr_float(e->from, e->node, "smooth");
    mpc_value_id dloss = mpc_expand_column(e, mpc_expand_f32(e, 3)), p = probabilities(e, x);
    mpc_value_id target = soft_target(e, smooth, t.dims[t.rank - 1]);
    mpc_value_id all = mpc_expand_reduce(e, MPC_OP_sum, target, t.rank - 1, true);
    mpc_value_id slope = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_op2(e, MPC_OP_mul, p, all), target);
    mpc_expand_emit2(e, 0, MPC_OP_mul, slope, dloss);
}

/* --- value by value --- */

static mpc_value_id difference(mpc_expand *e) {
    return mpc_expand_op2(e, MPC_OP_sub, mpc_expand_f32(e, 0), mpc_expand_f32(e, 1));
}

void mpc_expand_mse(mpc_expand *e) {
    mpc_value_id d = difference(e);
    mpc_expand_emit2(e, 0, MPC_OP_mul, d, d);
}

void mpc_expand_l1(mpc_expand *e) { mpc_expand_emit1(e, 0, MPC_OP_abs, difference(e)); }

void mpc_expand_huber(mpc_expand *e) {
    double delta = mpc_attr_float(e->from, e->node, "delta");
    mpc_value_id d = mpc_expand_op1(e, MPC_OP_abs, difference(e)), limit = mpc_expand_number(e, delta);
    mpc_value_id near = mpc_expand_op2(e, MPC_OP_mul, d, mpc_expand_scale(e, d, 0.5));
    mpc_value_id far = mpc_expand_op2(e, MPC_OP_sub, d, mpc_expand_number(e, delta / 2));
    far = mpc_expand_op2(e, MPC_OP_mul, far, limit);
    mpc_expand_emit3(e, 0, MPC_OP_where, mpc_expand_op2(e, MPC_OP_le, d, limit), near, far);
}

/* max(side, 0) share, 0 where the target leaves nothing of that side: an infinite logit there is no 0 * inf (FC-046) */
static mpc_value_id one_side(mpc_expand *e, mpc_value_id side, mpc_value_id share, double nothing_at) {
    mpc_value_id off = mpc_expand_op2(e, MPC_OP_eq, mpc_expand_f32(e, 1), mpc_expand_number(e, nothing_at));
    mpc_value_id cost = mpc_expand_op2(e, MPC_OP_mul, mpc_expand_op1(e, MPC_OP_relu, side), share);
    return mpc_expand_op3(e, MPC_OP_where, off, mpc_expand_number(e, 0), cost);
}

/* max(z, 0) (1 - t) + max(-z, 0) t + log(1 + exp(-|z|)) */
void mpc_expand_bce_with_logits(mpc_expand *e) {
    mpc_value_id z = mpc_expand_f32(e, 0), t = mpc_expand_f32(e, 1), one = mpc_expand_number(e, 1);
    mpc_value_id away = mpc_expand_op1(e, MPC_OP_neg, mpc_expand_op1(e, MPC_OP_abs, z));
    mpc_value_id tail = mpc_expand_op1(e, MPC_OP_log1p, mpc_expand_op1(e, MPC_OP_exp, away));
    mpc_value_id above = one_side(e, z, mpc_expand_op2(e, MPC_OP_sub, one, t), 1);
    mpc_value_id below = one_side(e, mpc_expand_op1(e, MPC_OP_neg, z), t, 0);
    mpc_expand_emit2(e, 0, MPC_OP_add, mpc_expand_op2(e, MPC_OP_add, above, below), tail);
}

/* (log p, q) -> q (log q - log p), 0 where q is */
void mpc_expand_kl(mpc_expand *e) {
    mpc_value_id log_p = mpc_expand_f32(e, 0), q = mpc_expand_f32(e, 1), zero = mpc_expand_number(e, 0);
    mpc_value_id cost = mpc_expand_op2(e, MPC_OP_sub, mpc_expand_op1(e, MPC_OP_log, q), log_p);
    cost = mpc_expand_op2(e, MPC_OP_mul, q, cost);
    mpc_expand_emit3(e, 0, MPC_OP_where, mpc_expand_op2(e, MPC_OP_eq, q, zero), zero, cost);
}

/* --- metrics --- */

void mpc_expand_accuracy(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0);
    mpc_value_id best = mpc_expand_first_max(e, x, mpc_expand_type(e, x).rank - 1);
    mpc_value_id right = mpc_expand_op2(e, MPC_OP_eq, best, mpc_expand_as(e, e->operands[1], MPC_FMT_i32));
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_as(e, right, MPC_FMT_f32);
}

/* Counts the classes that come before the label's: larger, not comparable (NaN), or as large and earlier. A label out
 * of range finds NaN, which everything comes before. */
void mpc_expand_top_k_accuracy(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), labels = e->operands[1];
    mpc_type t = mpc_expand_type(e, x);
    uint32_t axis = t.rank - 1;
    int64_t n = t.dims[axis];
    mpc_value_id hit = mpc_expand_hit(e, labels, n, axis);
    mpc_value_id own = mpc_expand_op3(e, MPC_OP_where, hit, x, mpc_expand_number(e, 0));
    own = mpc_expand_nan_unless(e, labels, n, mpc_expand_reduce(e, MPC_OP_sum, own, axis, false));
    own = mpc_expand_column(e, own);
    mpc_value_id at = mpc_expand_column(e, mpc_expand_as(e, labels, MPC_FMT_i32));
    mpc_value_id earlier = mpc_expand_op2(e, MPC_OP_lt, mpc_expand_positions(e, n, t.rank, axis), at);
    mpc_value_id tie = mpc_expand_op2(e, MPC_OP_and, mpc_expand_op2(e, MPC_OP_eq, x, own), earlier);
    mpc_value_id above = mpc_expand_op1(e, MPC_OP_not, mpc_expand_op2(e, MPC_OP_le, x, own));
    mpc_value_id before = mpc_expand_as(e, mpc_expand_op2(e, MPC_OP_or, above, tie), MPC_FMT_f32);
    before = mpc_expand_reduce(e, MPC_OP_sum, before, axis, false);
    mpc_value_id k = mpc_expand_number(e, (double)mpc_attr_int(e->from, e->node, "k"));
    mpc_value_id right = mpc_expand_op2(e, MPC_OP_lt, before, k);
    mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_as(e, right, MPC_FMT_f32);
}

/* --- the mean --- */

static mpc_value_id sum_all(mpc_expand *e, mpc_value_id a) {
    return mpc_expand_sum_axes(e, a, mpc_expand_type(e, a).rank);
}

/* An empty or fully masked batch has mean 0 (FC-125). */
void mpc_expand_loss_mean(mpc_expand *e) {
    mpc_value_id x = mpc_expand_f32(e, 0), count;
    mpc_type t = mpc_expand_type(e, x);
    double all = (double)mpc_type_elements(&t);
    if (e->operand_count == 1) {
        if (e->used[1]) mpc_expand_name_result(e, 1);
        e->results[1] = count = mpc_expand_number(e, all);
        mpc_expand_emit2(e, 0, MPC_OP_div, sum_all(e, x), all > 0 ? count : mpc_expand_number(e, 1));
        return;
    }
    mpc_value_id ones = mpc_expand_as(e, e->operands[1], MPC_FMT_f32);
    x = mpc_expand_op3(e, MPC_OP_where, e->operands[1], x, mpc_expand_number(e, 0));
    if (e->used[1] && t.rank > 0) mpc_expand_name_result(e, 1);
    e->results[1] = count = sum_all(e, ones);
    mpc_value_id divisor = mpc_expand_op2(e, MPC_OP_maximum, count, mpc_expand_number(e, 1));
    mpc_expand_emit2(e, 0, MPC_OP_div, sum_all(e, x), divisor);
}

/* (dmean, count, mask?) -> where(mask, dmean / max(count, 1), 0) */
void mpc_expand_loss_mean_grad(mpc_expand *e) {
    mpc_type to = mpc_expand_result_type(e, 0);
    mpc_value_id divisor = mpc_expand_op2(e, MPC_OP_maximum, mpc_expand_f32(e, 1), mpc_expand_number(e, 1));
    mpc_value_id share = mpc_expand_op2(e, MPC_OP_div, mpc_expand_f32(e, 0), divisor);
    if (e->operand_count > 2) {
        mpc_expand_emit3(e, 0, MPC_OP_where, e->operands[2], share, mpc_expand_number(e, 0));
        return;
    }
    share = mpc_expand_as(e, share, to.format);
    if (to.rank > 0) mpc_expand_name_result(e, 0);
    e->results[0] = mpc_expand_broadcast(e, share, to.rank, to.dims);
}
