/* What each op does to intervals, one function per family; range_rules.def says which op takes which. A rule gives true
 * bounds for real numbers; range.c adds what rounding may do. A newcomer forgets NaN: a rule that sets bounds must say
 * when the result can be none (the interval operations do so by themselves). */
#include "passes/precision/range_rules.h"

#include <float.h>
#include <math.h>

static const mpc_type *type_of_operand(const mpc_range_op *r, uint32_t i) {
    return mpc_value_type(r->g, mpc_operand(r->g, r->n, i));
}

static const mpc_type *type_of_result(const mpc_range_op *r, uint32_t i) {
    return mpc_value_type(r->g, mpc_result(r->n, i));
}

static double elements(const mpc_type *type) { return (double)mpc_type_elements(type); }

static double largest(mpc_interval a) { return fmax(fabs(a.lo), fabs(a.hi)); }

static void within(mpc_range_op *r, double lo, double hi, bool nan) {
    r->out[0] = (mpc_interval){.lo = lo, .hi = hi, .nan = nan};
    r->floor = lo;
    r->ceil = hi;
}

/* --- structure, elementwise --- */

/* The largest power of two that divides a whole number; 0 is a multiple of all. */
static double unit_of_number(double c) {
    double unit = 0x1p24;
    while (unit > 1 && fmod(c, unit) != 0) unit /= 2;
    return unit;
}

static void range_constant(mpc_range_op *r) {
    double c = mpc_attr_float(r->g, r->n, "value");
    r->out[0] = isnan(c) ? mpc_interval_unknown() : mpc_interval_of(c, c);
    r->out[0].counted = fabs(c) <= 256 && c == nearbyint(c);
    if (r->out[0].counted) r->out[0].unit = unit_of_number(c);
}

/* A whole literal of any size beside several whole numbers is one of them: 300 in ids * 300. Flags only choose it. */
static mpc_interval beside(mpc_interval a, mpc_interval other) {
    bool whole = a.lo == a.hi && fabs(a.lo) <= 0x1p20 && a.lo == nearbyint(a.lo);
    bool several = other.counted && other.lo < other.hi && largest(other) > 1;
    if (a.counted || !whole || !several) return a;
    a.counted = true;
    a.unit = unit_of_number(a.lo);
    return a;
}

static void range_indices(mpc_range_op *r) {
    double n = elements(type_of_result(r, 0));
    r->out[0] = mpc_interval_of(0, fmax(n - 1, 0));
}

static void range_same(mpc_range_op *r) { r->out[0] = r->in[0]; }
static void range_add(mpc_range_op *r) {
    r->out[0] = mpc_interval_add(beside(r->in[0], r->in[1]), beside(r->in[1], r->in[0]));
}
static void range_div(mpc_range_op *r) { r->out[0] = mpc_interval_div(r->in[0], r->in[1]); }
static void range_neg(mpc_range_op *r) { r->out[0] = mpc_interval_neg(r->in[0]); }
static void range_abs(mpc_range_op *r) { r->out[0] = mpc_interval_abs(r->in[0]); }
static void range_maximum(mpc_range_op *r) { r->out[0] = mpc_interval_max(r->in[0], r->in[1]); }
static void range_minimum(mpc_range_op *r) { r->out[0] = mpc_interval_min(r->in[0], r->in[1]); }
static void range_where(mpc_range_op *r) { r->out[0] = mpc_interval_union(r->in[1], r->in[2]); }

static bool same_operands(const mpc_range_op *r) { return mpc_operand(r->g, r->n, 0) == mpc_operand(r->g, r->n, 1); }

static void range_mul(mpc_range_op *r) {
    r->out[0] = same_operands(r) ? mpc_interval_square(r->in[0])
                                 : mpc_interval_mul(beside(r->in[0], r->in[1]), beside(r->in[1], r->in[0]));
}

/* The dims that a reduction with `keep` gives, whatever this one was told. */
static bool has_kept_dims(const mpc_graph *g, const mpc_node *reduce, const mpc_type *type) {
    const mpc_type *from = mpc_value_type(g, mpc_operand(g, reduce, 0));
    mpc_int_list axes = mpc_attr_ints(g, reduce, "axes");
    if (axes.count == from->rank) return true; /* one maximum of everything: any shape will do */
    if (type->rank != from->rank) return false;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool reduced = false;
        for (uint32_t i = 0; i < axes.count; i++) reduced = reduced || axes.data[i] == (int64_t)d;
        if (type->dims[d] != (reduced ? 1 : from->dims[d])) return false;
    }
    return true;
}

/* `b` is the maximum of `a` along some axes, spread over it again. */
static bool is_own_maximum(const mpc_graph *g, mpc_value_id a, mpc_value_id b) {
    const mpc_node *n = mpc_producer(g, b);
    while (n != NULL && (n->op == MPC_OP_expand || n->op == MPC_OP_stop_gradient)) {
        b = mpc_operand(g, n, 0);
        n = mpc_producer(g, b);
    }
    const mpc_type *type = mpc_value_type(g, b);
    while (n != NULL && n->op == MPC_OP_reshape) n = mpc_producer(g, mpc_operand(g, n, 0));
    return n != NULL && n->op == MPC_OP_max && mpc_operand(g, n, 0) == a && has_kept_dims(g, n, type) &&
           mpc_value_format(g, mpc_result(n, 0)) == mpc_value_format(g, a);
}

static void range_sub(mpc_range_op *r) {
    r->out[0] = mpc_interval_sub(beside(r->in[0], r->in[1]), beside(r->in[1], r->in[0]));
    if (r->narrow || !is_own_maximum(r->g, mpc_operand(r->g, r->n, 0), mpc_operand(r->g, r->n, 1))) return;
    r->out[0].hi = fmin(r->out[0].hi, 0);
    r->ceil = 0;
}

static void grows(mpc_range_op *r, double (*f)(double), double floor, double ceil) {
    r->out[0] = mpc_interval_map(r->in[0], f);
    r->floor = floor;
    r->ceil = ceil;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return fmax(x, 0); }

static void range_exp(mpc_range_op *r) { grows(r, exp, 0, INFINITY); }
static void range_tanh(mpc_range_op *r) { grows(r, tanh, -1, 1); }
static void range_erf(mpc_range_op *r) { grows(r, erf, -1, 1); }
static void range_sigmoid(mpc_range_op *r) { grows(r, sigmoid, 0, 1); }

static void range_relu(mpc_range_op *r) {
    grows(r, relu, 0, INFINITY);
    r->out[0].counted = r->in[0].counted;
    r->out[0].unit = r->in[0].unit;
}

/* With 0 the result is -infinity, below it NaN. */
static void range_log(mpc_range_op *r) {
    mpc_interval a = r->in[0];
    r->error = 0x1p-20;
    r->out[0].lo = a.lo > 0 ? log(a.lo) : -INFINITY;
    r->out[0].hi = a.hi > 0 ? log(a.hi) : -INFINITY;
    r->out[0].nan = a.nan || a.lo < 0;
}

static void range_expm1(mpc_range_op *r) { grows(r, expm1, -1, INFINITY); }

static void range_log1p(mpc_range_op *r) {
    mpc_interval a = r->in[0];
    r->error = 0x1p-20;
    r->out[0].lo = a.lo > -1 ? log1p(a.lo) : -INFINITY;
    r->out[0].hi = a.hi > -1 ? log1p(a.hi) : -INFINITY;
    r->out[0].nan = a.nan || a.lo < -1;
}

static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

/* A value and what it is rounded to move together; a narrower format may have moved the value first. */
static void whole(mpc_range_op *r, double (*f)(double)) { r->out[0] = mpc_interval_map(r->in[0], f); }
static void range_sign(mpc_range_op *r) { whole(r, sign_of); }
static void range_floor(mpc_range_op *r) { whole(r, floor); }
static void range_ceil(mpc_range_op *r) { whole(r, ceil); }
static void range_round(mpc_range_op *r) { whole(r, rint); }

static void range_sqrt(mpc_range_op *r) {
    mpc_interval a = r->in[0];
    r->out[0] = (mpc_interval){.lo = sqrt(fmax(a.lo, 0)), .hi = sqrt(fmax(a.hi, 0)), .nan = a.nan || a.lo < 0};
    r->floor = 0;
}

static void range_rsqrt(mpc_range_op *r) {
    mpc_interval a = r->in[0];
    r->out[0].nan = a.nan || a.lo < 0;
    if (!(a.lo > 0)) return;                   /* 1 / sqrt(-0) is -infinity */
    r->out[0].lo = (1 - 0x1p-22) / sqrt(a.hi); /* the root is rounded, then its reciprocal */
    r->out[0].hi = (1 + 0x1p-22) / sqrt(a.lo);
    r->floor = 0;
}

static void range_pow(mpc_range_op *r) {
    mpc_interval a = r->in[0], b = r->in[1];
    if (b.lo == 2 && b.hi == 2) {
        r->out[0] = mpc_interval_square(a);
        r->floor = 0;
    } else if (a.lo >= 0 && a.hi < INFINITY && b.lo > 0 && b.lo == b.hi) {
        r->out[0] = mpc_interval_of(pow(a.lo, b.lo), pow(a.hi, b.lo));
        r->out[0].nan = a.nan || b.nan;
        r->floor = 0;
    } else if (a.lo > 0 && a.hi < INFINITY && b.lo > -INFINITY && b.hi < INFINITY) {
        double x = pow(a.lo, b.lo), y = pow(a.lo, b.hi), z = pow(a.hi, b.lo), w = pow(a.hi, b.hi);
        r->out[0] = mpc_interval_of(fmin(fmin(x, y), fmin(z, w)), fmax(fmax(x, y), fmax(z, w)));
        r->out[0].nan = a.nan || b.nan;
        r->floor = 0;
    }
}

static void range_wave(mpc_range_op *r) {
    within(r, -1 - 0x1p-20, 1 + 0x1p-20, r->in[0].nan || mpc_interval_may_be_infinite(r->in[0]));
}

/* Integers truncate, flags ask whether it is 0; NaN becomes some integer. */
static void range_cast(mpc_range_op *r) {
    mpc_format from = type_of_operand(r, 0)->format, to = type_of_result(r, 0)->format;
    r->out[0] = r->in[0];
    if (!mpc_format_is_float(from)) r->out[0].counted = true;
    if (mpc_format_is_float(to)) return;
    if (r->in[0].nan || mpc_format_get(to)->kind == MPC_FORMAT_BOOL) r->out[0] = mpc_interval_unknown();
    else r->out[0] = mpc_interval_of(trunc(r->in[0].lo), trunc(r->in[0].hi));
}

/* --- sums and reductions --- */

static double terms(const mpc_range_op *r) {
    double results = elements(type_of_result(r, 0));
    return results > 0 ? elements(type_of_operand(r, 0)) / results : 0;
}

static void range_sum(mpc_range_op *r) { r->out[0] = mpc_interval_sum(r->in[0], terms(r)); }

/* Of anything between one element and all. */
static void average(mpc_range_op *r, double n) {
    mpc_interval total = mpc_interval_sum(r->in[0], fmax(n, 1));
    if (!(largest(r->in[0]) * n < FLT_MAX) || n < 1) {
        r->out[0] = mpc_interval_unknown();
        r->out[0].nan = r->in[0].nan || total.nan || n < 1;
        if (r->in[0].lo >= 0 && n >= 1) r->out[0].lo = 0;
        return;
    }
    r->out[0] = r->in[0];
    r->out[0].counted = false;
    r->error = largest(r->in[0]) * n * 0x1p-22;
}

static void range_mean(mpc_range_op *r) {
    bool pool = mpc_node_op(r->g, (mpc_node_id)(r->n - r->g->nodes))->kind == MPC_KIND_POOL;
    mpc_int_list kernel = pool ? mpc_attr_ints(r->g, r->n, "kernel") : (mpc_int_list){0};
    average(r, pool ? (double)(kernel.data[0] * kernel.data[1]) : terms(r));
}

/* No element is further from the mean than the largest from the smallest. */
static void range_var(mpc_range_op *r) {
    double n = terms(r), spread = (r->in[0].hi - r->in[0].lo) * 1.001;
    bool unbiased = mpc_attr_bool(r->g, r->n, "unbiased");
    r->floor = 0;
    r->out[0].lo = 0;
    if (!(spread < 1e18) || !(n > (unbiased ? 1 : 0)) || !(largest(r->in[0]) * n < FLT_MAX)) return;
    double error = largest(r->in[0]) * n * 0x1p-22; /* of the mean */
    double top = (spread + error) * (spread + error) * (unbiased ? n / (n - 1) : 1);
    r->out[0] = (mpc_interval){.lo = 0, .hi = top, .nan = r->in[0].nan};
}

static void range_norm(mpc_range_op *r) {
    mpc_interval a = mpc_interval_abs(r->in[0]);
    double n = fmax(terms(r), 1), least = terms(r) > 0 ? fmax(a.lo, a.lo * sqrt(n) * (1 - n * 0x1p-22)) : 0;
    r->out[0] = (mpc_interval){.lo = least, .hi = a.hi * sqrt(n) * (1 + n * 0x1p-22), .nan = a.nan};
    r->error = least * n * 0x1p-22;
    r->floor = 0;
}

/* From one term that counts to n equal ones. */
static void range_logsumexp(mpc_range_op *r) {
    mpc_interval x = r->in[0];
    r->out[0] = (mpc_interval){.lo = x.lo, .hi = x.hi + log(fmax(terms(r), 1)), .nan = x.nan};
    r->error = isfinite(largest(x)) ? (largest(x) + 1) * 0x1p-17 : 0;
}

/* Between one term and all of them. */
static void range_cumsum(mpc_range_op *r) {
    double n = (double)type_of_operand(r, 0)->dims[mpc_attr_int(r->g, r->n, "axis")];
    r->out[0] = mpc_interval_union(mpc_interval_sum(r->in[0], fmax(n, 1)), r->in[0]);
}

static void range_top_k(mpc_range_op *r) {
    double n = (double)type_of_operand(r, 0)->dims[mpc_attr_int(r->g, r->n, "axis")];
    r->out[0] = r->in[0];
    r->out[1] = mpc_interval_of(0, fmax(n - 1, 0));
}

static void range_argmax(mpc_range_op *r) {
    const mpc_type *t = type_of_operand(r, 0);
    r->out[0] = mpc_interval_of(0, (double)t->dims[mpc_attr_int(r->g, r->n, "axis")] - 1);
}

/* --- views --- */

/* Positions behind casts, and behind rows that repeat them: element i of the last axis is i. */
static bool are_positions(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (n != NULL && (n->op == MPC_OP_cast || n->op == MPC_OP_expand)) {
        const mpc_type *to = mpc_value_type(g, v), *from = mpc_value_type(g, mpc_operand(g, n, 0));
        bool exact = to->format == MPC_FMT_f32 || !mpc_format_is_float(to->format);
        if (!exact || from->rank == 0 || from->dims[from->rank - 1] != to->dims[to->rank - 1]) return false;
        v = mpc_operand(g, n, 0);
        n = mpc_producer(g, v);
    }
    return n != NULL && n->op == MPC_OP_range;
}

static void range_slice(mpc_range_op *r) {
    r->out[0] = r->in[0];
    if (!are_positions(r->g, mpc_operand(r->g, r->n, 0))) return;
    mpc_int_list start = mpc_attr_ints(r->g, r->n, "start"), stop = mpc_attr_ints(r->g, r->n, "stop");
    uint32_t last = start.count - 1;
    if (stop.data[last] <= start.data[last]) return;
    r->out[0].lo = fmax(r->out[0].lo, (double)start.data[last]);
    r->out[0].hi = fmin(r->out[0].hi, (double)stop.data[last] - 1);
}

static void range_pad(mpc_range_op *r) {
    r->out[0] = mpc_interval_with(r->in[0], mpc_attr_float(r->g, r->n, "value"));
    r->out[0].counted = false;
}

static void range_concat(mpc_range_op *r) {
    r->out[0] = r->in[0];
    for (uint32_t i = 1; i < r->n->operand_count; i++) r->out[0] = mpc_interval_union(r->out[0], r->in[i]);
}

/* --- products --- */

/* k products added up, some of which may be missing (padding). */
static void dot(mpc_range_op *r, double k, bool padded) {
    mpc_interval p = mpc_interval_mul(r->in[0], r->in[1]);
    r->out[0] = mpc_interval_sum(padded ? mpc_interval_with(p, 0) : p, k);
}

static void epilogue(mpc_range_op *r) {
    if (r->n->operand_count > 2) r->out[0] = mpc_interval_add(r->out[0], r->in[2]);
    if (mpc_attr_str(r->g, r->n, "act")[0] == 'r') r->out[0] = mpc_interval_map(r->out[0], relu);
}

static void range_matmul(mpc_range_op *r) {
    const mpc_type *a = type_of_operand(r, 0);
    dot(r, (double)a->dims[a->rank - (mpc_attr_bool(r->g, r->n, "ta") ? 2 : 1)], false);
}

static void range_linear(mpc_range_op *r) {
    const mpc_type *x = type_of_operand(r, 0);
    dot(r, (double)x->dims[x->rank - 1], false);
    epilogue(r);
}

static void range_conv(mpc_range_op *r) {
    const mpc_type *w = type_of_operand(r, 1);
    dot(r, (double)(w->dims[0] * w->dims[1] * w->dims[2]), true);
    epilogue(r);
}

static void range_conv_grad_input(mpc_range_op *r) {
    const mpc_type *w = type_of_operand(r, 1);
    dot(r, (double)(w->dims[0] * w->dims[1] * w->dims[3]), true);
}

static void range_conv_grad_weight(mpc_range_op *r) {
    const mpc_type *dy = type_of_operand(r, 1);
    dot(r, (double)(dy->dims[0] * dy->dims[1] * dy->dims[2]), true);
}

/* An element is in at most as many windows as a window has elements. */
static void range_pool_grad(mpc_range_op *r) {
    mpc_int_list kernel = mpc_attr_ints(r->g, r->n, "kernel");
    mpc_interval dy = r->in[r->n->operand_count - 1];
    r->out[0] = mpc_interval_sum(mpc_interval_with(dy, 0), (double)(kernel.data[0] * kernel.data[1]));
    r->out[0].counted = false;
}

/* --- gather, random --- */

static void range_lookup(mpc_range_op *r) {
    bool table = r->n->op == MPC_OP_embedding;
    const mpc_type *t = type_of_operand(r, 0);
    int64_t rows = t->dims[table ? 0 : mpc_attr_int(r->g, r->n, "axis")];
    r->out[0] = r->in[0];
    r->out[0].nan = r->in[0].nan || r->in[1].lo < 0 || r->in[1].hi > (double)(rows - 1);
}

static void range_embedding_grad(mpc_range_op *r) {
    r->out[0] = mpc_interval_sum(mpc_interval_with(r->in[0], 0), elements(type_of_operand(r, 1)));
    r->out[0].counted = false;
}

static void range_flag(mpc_range_op *r) {
    within(r, 0, 1, false);
    r->out[0].counted = true;
}

static void range_fraction(mpc_range_op *r) { within(r, 0, 1, false); }

static void range_gauss(mpc_range_op *r) { within(r, -5.78, 5.78, false); }

static void range_dropout(mpc_range_op *r) {
    double keep = 1 - mpc_attr_float(r->g, r->n, "rate");
    if (!(keep > 0)) return;
    r->out[0] = mpc_interval_with(mpc_interval_mul(r->in[0], mpc_interval_of(1 / keep, 1 / keep)), 0);
    r->out[0].counted = false;
}

/* --- softmax, losses --- */

static double along(const mpc_range_op *r) {
    return (double)type_of_operand(r, 0)->dims[mpc_attr_int(r->g, r->n, "axis")];
}

static void range_softmax(mpc_range_op *r) { within(r, 0, 1, r->in[0].nan || mpc_interval_may_be_infinite(r->in[0])); }

/* y * (dy - sum(y * dy)) */
static void range_softmax_grad(mpc_range_op *r) {
    mpc_interval y = r->in[0], dy = r->in[1], total = mpc_interval_sum(mpc_interval_mul(y, dy), along(r));
    r->out[0] = mpc_interval_mul(y, mpc_interval_sub(dy, total));
    r->error = largest(r->out[0]) * 0x1p-17;
    r->out[0].counted = false;
}

static void range_log_softmax(mpc_range_op *r) {
    mpc_interval x = r->in[0];
    r->out[0] = (mpc_interval){.lo = x.lo - x.hi - log(fmax(along(r), 1)), .hi = 0};
    r->out[0].nan = x.nan || mpc_interval_may_be_infinite(x);
    if (isnan(r->out[0].lo)) r->out[0].lo = -INFINITY;
    r->error = 0x1p-18;
}

/* dy - exp(y) * sum(dy) */
static void range_log_softmax_grad(mpc_range_op *r) {
    mpc_interval p = mpc_interval_map(r->in[0], exp), total = mpc_interval_sum(r->in[1], along(r));
    mpc_interval part = mpc_interval_mul(p, total);
    r->out[0] = mpc_interval_sub(r->in[1], part);
    r->error = largest(part) * 0x1p-17 + largest(r->in[1]) * 0x1p-17;
    r->out[0].counted = false;
}

static void range_gelu(mpc_range_op *r) {
    mpc_interval x = r->in[0];
    r->out[0] = mpc_interval_of(x.lo >= 0 ? 0 : fmax(x.lo, -0.1701), fmax(x.hi, 0));
    r->out[0].nan = x.nan || x.lo == -INFINITY;
}

/* The slope of gelu is in [-0.129, 1.129]. */
static void range_gelu_grad(mpc_range_op *r) {
    r->out[0] = mpc_interval_mul(mpc_interval_of(-0.13, 1.13), r->in[1]);
    r->out[0].nan = r->out[0].nan || r->in[0].nan || mpc_interval_may_be_infinite(r->in[0]);
}

static double classes(const mpc_range_op *r) {
    const mpc_type *t = type_of_operand(r, 0);
    return (double)t->dims[t->rank - 1];
}

static void range_cross_entropy(mpc_range_op *r) {
    mpc_interval x = r->in[0], k = mpc_interval_of(0, log(fmax(classes(r), 1)));
    bool outside = r->in[1].lo < 0 || r->in[1].hi > classes(r) - 1;
    mpc_interval lse = mpc_interval_add(x, k);
    lse.nan = x.nan || mpc_interval_may_be_infinite(x);
    double error = largest(x) * 0x1p-17 + 0x1p-17;
    r->out[0] = mpc_interval_of(0, x.hi - x.lo + k.hi);
    if (isnan(r->out[0].hi)) r->out[0].hi = INFINITY;
    r->out[0].nan = lse.nan || outside;
    r->error = isfinite(error) ? error : 0;
    if (!isfinite(error)) r->out[0].lo = -INFINITY;
    r->out[1] = mpc_interval_add(lse, mpc_interval_of(-error, error));
}

static void range_cross_entropy_grad(mpc_range_op *r) {
    mpc_interval p = mpc_interval_map(mpc_interval_sub(r->in[0], r->in[2]), exp);
    p.lo *= 1 - 0x1p-16;
    p.hi *= 1 + 0x1p-16;
    r->out[0] = mpc_interval_mul(mpc_interval_sub(p, mpc_interval_of(0, 1)), r->in[3]);
    r->out[0].counted = false;
    r->out[0].nan = r->out[0].nan || r->in[1].lo < 0 || r->in[1].hi > classes(r) - 1;
}

static void range_mse(mpc_range_op *r) {
    r->out[0] = mpc_interval_square(mpc_interval_sub(r->in[0], r->in[1]));
    r->floor = 0;
}

static void range_l1(mpc_range_op *r) {
    r->out[0] = mpc_interval_abs(mpc_interval_sub(r->in[0], r->in[1]));
    r->floor = 0;
}

/* At most delta |d|, and at most d^2 / 2. */
static void range_huber(mpc_range_op *r) {
    mpc_interval d = mpc_interval_abs(mpc_interval_sub(r->in[0], r->in[1]));
    double delta = mpc_attr_float(r->g, r->n, "delta");
    r->out[0] = mpc_interval_of(0, fmin(delta * d.hi, d.hi * d.hi / 2));
    r->out[0].nan = d.nan;
    r->error = isfinite(d.hi) ? delta * d.hi * 0x1p-20 : 0;
    r->floor = 0;
}

/* |z| times what the target leaves on either side, and log 2 */
static void range_bce_with_logits(mpc_range_op *r) {
    mpc_interval z = r->in[0], t = r->in[1], size = mpc_interval_abs(z);
    mpc_interval share = mpc_interval_union(t, mpc_interval_sub(mpc_interval_of(1, 1), t));
    r->out[0] = mpc_interval_add(mpc_interval_mul(size, share), mpc_interval_of(0, 1.4));
    r->out[0] = mpc_interval_union(r->out[0], mpc_interval_of(0, 1.4));
    r->out[0].nan = z.nan || t.nan || (mpc_interval_may_be_infinite(z) && (t.lo < 0 || t.hi > 1)) ||
                    mpc_interval_may_be_infinite(t);
    r->out[0].counted = false;
    r->error = isfinite(largest(r->out[0])) ? largest(r->out[0]) * 0x1p-18 : 0;
}

/* Each class: its weight times lse - logit, which is at least 0. */
static void range_soft_cross_entropy(mpc_range_op *r) {
    double k = classes(r), most = r->in[0].hi - r->in[0].lo + log(fmax(k, 1));
    mpc_interval weights = mpc_interval_sum(mpc_interval_with(r->in[1], 0), k);
    weights = mpc_interval_union(weights, mpc_interval_of(0, 1));
    range_cross_entropy(r);
    bool nan = r->in[0].nan || r->in[1].nan || mpc_interval_may_be_infinite(r->in[0]) ||
               mpc_interval_may_be_infinite(r->in[1]);
    r->out[0] = isnan(most) ? mpc_interval_unknown() : mpc_interval_mul(weights, mpc_interval_of(0, most));
    r->out[0].nan = r->out[0].nan || nan;
    r->out[0].counted = false;
    r->error = isfinite(largest(r->out[0])) ? largest(r->out[0]) * 0x1p-16 : r->error;
}

/* Mean of the elements that count, 0 where none does, and how many did. */
static void range_loss_mean(mpc_range_op *r) {
    double n = elements(type_of_operand(r, 0));
    bool empty = r->n->operand_count > 1 || n == 0;
    average(r, fmax(n, 1));
    if (empty) r->out[0] = mpc_interval_with(r->out[0], 0);
    r->out[1] = mpc_interval_of(0, n);
    r->out[1].counted = n < 0x1p24;
}

static void range_loss_mean_grad(mpc_range_op *r) {
    mpc_interval count = mpc_interval_max(r->in[1], mpc_interval_of(1, 1));
    r->out[0] = mpc_interval_with(mpc_interval_div(r->in[0], count), 0);
    r->out[0].counted = false;
}

/* --- recurrent layers --- */

/* Every step adds at most 1 to a cell state, whose weight is at most 1. */
static void range_lstm(mpc_range_op *r) {
    double steps = (double)type_of_operand(r, 0)->dims[1], error = steps * 0x1p-20;
    mpc_interval c = mpc_interval_with(r->in[5], 0);
    bool nan = false;
    for (uint32_t i = 0; i < r->n->operand_count; i++)
        nan = nan || r->in[i].nan || mpc_interval_may_be_infinite(r->in[i]);
    within(r, -1, 1, nan);
    r->out[1] = (mpc_interval){.lo = c.lo - steps - error, .hi = c.hi + steps + error, .nan = nan};
    r->out[2] = r->out[0];
}

/* The state moves towards numbers between -1 and 1. */
static void range_gru(mpc_range_op *r) {
    bool nan = false;
    for (uint32_t i = 0; i < r->n->operand_count; i++)
        nan = nan || r->in[i].nan || mpc_interval_may_be_infinite(r->in[i]);
    mpc_interval h = mpc_interval_union(r->in[5], mpc_interval_of(-1, 1));
    r->out[0] = r->out[1] = (mpc_interval){.lo = h.lo * (h.lo < 0 ? 1.001 : 0.999), .hi = h.hi * 1.001, .nan = nan};
}

/* --- norms --- */

/* gamma * x^ + beta: of n numbers none is more than sqrt(n) standard deviations off their mean. */
static void normalise(mpc_range_op *r, double n) {
    mpc_interval x = r->in[0];
    double most = sqrt(fmax(n, 1)) * 1.001;
    mpc_interval hat = mpc_interval_of(-most, most);
    hat.nan = x.nan || !(largest(x) < 1e18) || n < 1;
    r->out[0] = mpc_interval_add(mpc_interval_mul(hat, r->in[1]), r->in[2]);
    r->error = largest(mpc_interval_mul(hat, r->in[1])) * 0x1p-17;
    double eps = mpc_attr_float(r->g, r->n, "eps"), error = largest(x) * n * 0x1p-22;
    r->out[1] = x;
    r->out[1].counted = false;
    r->out[1].lo -= error;
    r->out[1].hi += error;
    if (hat.nan) r->out[1] = mpc_interval_unknown();
    r->out[2] = (mpc_interval){.lo = 0, .hi = eps > 0 ? 1.001 / sqrt(eps) : INFINITY, .nan = hat.nan};
}

static void range_layer_norm(mpc_range_op *r) { normalise(r, classes(r)); }

static void range_group_norm(mpc_range_op *r) {
    const mpc_type *x = type_of_operand(r, 0);
    normalise(r, elements(x) / fmax((double)(x->dims[0] * mpc_attr_int(r->g, r->n, "groups")), 1));
}

/* Of n numbers none is more than sqrt(n) times their root mean square. */
static void range_rms_norm(mpc_range_op *r) {
    mpc_interval x = r->in[0];
    double n = classes(r), most = sqrt(fmax(n, 1)) * 1.001, eps = mpc_attr_float(r->g, r->n, "eps");
    mpc_interval hat = mpc_interval_of(-most, most);
    hat.nan = x.nan || !(largest(x) < 1e18) || n < 1;
    r->out[0] = mpc_interval_mul(hat, r->in[1]);
    r->error = largest(r->out[0]) * 0x1p-17;
    r->out[1] = (mpc_interval){.lo = 0, .hi = eps > 0 ? 1.001 / sqrt(eps) : INFINITY, .nan = hat.nan};
}

/* (1 - momentum) * old + momentum * new */
static mpc_interval moved(const mpc_range_op *r, mpc_interval old, mpc_interval now) {
    double m = mpc_attr_float(r->g, r->n, "momentum");
    mpc_interval out = mpc_interval_add(mpc_interval_mul(old, mpc_interval_of(1 - m, 1 - m)),
                                        mpc_interval_mul(now, mpc_interval_of(m, m)));
    double error = (largest(old) + largest(now)) * 0x1p-17;
    out.lo -= error;
    out.hi += error;
    return isnan(out.lo) || isnan(out.hi) ? mpc_interval_unknown() : out;
}

static void range_batch_norm(mpc_range_op *r) {
    double n = elements(type_of_operand(r, 0)) / fmax(classes(r), 1);
    normalise(r, n);
    mpc_interval x = r->in[0];
    double spread = (x.hi - x.lo) * 1.01;
    mpc_interval var = {.lo = 0, .hi = spread * spread * (n > 1 ? n / (n - 1) : 1), .nan = r->out[1].nan};
    if (isnan(var.hi)) var.hi = INFINITY;
    r->out[3] = moved(r, r->in[3], r->out[1]);
    r->out[4] = moved(r, r->in[4], var);
}

static void range_batch_norm_eval(mpc_range_op *r) {
    double eps = mpc_attr_float(r->g, r->n, "eps");
    mpc_interval var = mpc_interval_add(r->in[4], mpc_interval_of(eps, eps));
    if (!(var.lo > 0)) return;
    mpc_interval rstd = {.lo = 1 / sqrt(var.hi), .hi = 1 / sqrt(var.lo), .nan = var.nan};
    mpc_interval scaled = mpc_interval_mul(mpc_interval_mul(mpc_interval_sub(r->in[0], r->in[3]), rstd), r->in[1]);
    r->out[0] = mpc_interval_add(scaled, r->in[2]);
    r->error = largest(scaled) * 0x1p-17;
    r->out[0].counted = false;
}

/* Weights of a row add up to 1, each rounded to v's format, or are all 0. */
static void range_attention(mpc_range_op *r) {
    mpc_interval v = mpc_interval_mul(mpc_interval_with(r->in[2], 0), mpc_interval_of(1.02, 1.02));
    v.nan = r->in[2].nan || mpc_interval_may_be_infinite(r->in[2]);
    for (uint32_t i = 0; i < 2; i++) v.nan = v.nan || r->in[i].nan || !(largest(r->in[i]) < 1e15);
    r->out[0] = v;
    r->out[0].counted = false;
}

static void range_positive(mpc_range_op *r) {
    r->out[0].lo = 0;
    r->floor = 0;
}

static const mpc_range_rule rules[MPC_OP_builtin_count] = {
#define RANGE(op, rule) [MPC_OP_##op] = range_##rule,
#include "passes/precision/range_rules.def"
#undef RANGE
};

mpc_range_rule mpc_range_rule_of(mpc_op_id op) { return op < MPC_OP_builtin_count ? rules[op] : NULL; }
