/* The rules of `mpc lint`. Each compares what a value is (a literal, an interval, a pattern of nodes) with the format
 * it is stored in; a value that the assignment keeps in f32 is no hazard, and is reported only where the source can be
 * written better. */
#include <math.h>
#include <string.h>

#include "passes/precision/lint.h"

static const char *name_of(mpc_format f) { return mpc_format_get(f)->name; }

static const char *value_name(const mpc_lint_run *l, mpc_node_id id) {
    return mpc_value_name(l->g, mpc_result(&l->g->nodes[id], 0));
}

bool mpc_lint_literal(const mpc_lint_run *l, const mpc_node *n, uint32_t i, double *c) {
    const mpc_node *operand = mpc_lint_origin_of(l->g, mpc_operand(l->g, n, i));
    if (operand == NULL || operand->op != MPC_OP_const) return false;
    *c = mpc_attr_float(l->g, operand, "value");
    return true;
}

/* --- literals (N20, N32, N45) --- */

static const char *advice(mpc_lint_run *l, const mpc_node *n, const char *what, mpc_format f) {
    const mpc_numfmt *fmt = &mpc_format_get(f)->fmt;
    if (strcmp(what, "overflows") != 0)
        return mpc_lint_text(l, "put `@f32` before the statement, or take a literal that %s holds", name_of(f));
    if (n->op == MPC_OP_where || n->op == MPC_OP_add)
        return mpc_lint_text(l, "hide scores by attention(mask = ...), or by where() with a literal within %g",
                             mpc_numfmt_max(fmt));
    return mpc_lint_text(l, "put `@f32` before the statement, or keep the literal within %g", mpc_numfmt_max(fmt));
}

void mpc_lint_add_literal(mpc_lint_run *l, mpc_node_id id, double c, const char *what, mpc_format f, bool kept) {
    const mpc_node *n = &l->g->nodes[id];
    bool overflow = strcmp(what, "overflows") == 0;
    const char *then = kept ? ", so the op stays f32" : overflow ? ": an infinity from then on" : "";
    int digits = mpc_constant_digits(what);
    bool eps = strcmp(what, "becomes 0") == 0 && (n->op == MPC_OP_add || n->op == MPC_OP_maximum);
    mpc_lint_add(
        l, (mpc_finding){.code = overflow ? "W180" : "W181",
                         .rule = overflow && n->op == MPC_OP_where ? "N20"
                                 : eps                             ? "N32"
                                                                   : "N45",
                         .node = id,
                         .kept_f32 = kept,
                         .what = mpc_lint_text(l, "the literal %.*g %s in %s, the format of `%s` (%s)%s", digits, c,
                                               what, name_of(f), value_name(l, id),
                                               mpc_op_get(l->g->ctx, n->op)->name, then),
                         .fix = advice(l, n, what, f)});
}

/* x + c where every x is so large that c is below half a step of its format. */
static void look_for_absorbed(mpc_lint_run *l, mpc_node_id id, uint32_t i, double c, mpc_format f) {
    const mpc_node *n = &l->g->nodes[id];
    if ((n->op != MPC_OP_add && n->op != MPC_OP_sub) || c == 0) return;
    mpc_value_id x = mpc_operand(l->g, n, 1 - i);
    mpc_interval a = l->range[x];
    double least = a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0;
    if (!isfinite(least) || mpc_lint_stored(l, x) != f) return;
    if (fabs(c) >= ldexp(least, -mpc_format_get(f)->fmt.fraction_bits - 2)) return;
    mpc_lint_add(l,
                 (mpc_finding){.code = "W181",
                               .rule = "N32",
                               .node = id,
                               .what = mpc_lint_text(l,
                                                     "%g is lost beside values of %g and more in %s: `%s` is what it "
                                                     "was before",
                                                     c, least, name_of(f), value_name(l, id)),
                               .fix = "leave it out, or add it before the larger term"});
}

static bool takes_literals(const mpc_lint_run *l, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(l->g, id);
    return op->kind == MPC_KIND_EWISE && op->cls != MPC_CLASS_CLEAR && op->cls != MPC_CLASS_NONE;
}

/* In f32 because of its literal. */
static bool is_kept(const mpc_lint_run *l, mpc_node_id id) {
    return mpc_lint_kept(l, id, "N45") || (mpc_lint_kept(l, id, "N32") && !mpc_lint_is_builtins(l, id));
}

static void look_at_literal(mpc_lint_run *l, mpc_node_id id, double c) {
    mpc_format f = mpc_lint_stored(l, mpc_result(&l->g->nodes[id], 0));
    if (!mpc_format_is_float(f) || f == MPC_FMT_f64) return;
    const char *what = mpc_constant_loss(c, f);
    if (what != NULL) mpc_lint_add_literal(l, id, c, what, f, false);
    else if (mpc_format_is_low(l->low) && is_kept(l, id)) {
        what = mpc_constant_loss(c, l->low);
        if (what != NULL) mpc_lint_add_literal(l, id, c, what, l->low, true);
    }
}

void mpc_lint_literals(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    double c;
    if (n->op == MPC_OP_pad) look_at_literal(l, id, mpc_attr_float(l->g, n, "value"));
    if (mpc_node_has_attr(l->g, n, "eps")) {
        c = mpc_attr_float(l->g, n, "eps");
        const char *what = mpc_constant_loss(c, MPC_FMT_f32);
        if (what != NULL) mpc_lint_add_literal(l, id, c, what, MPC_FMT_f32, false);
    }
    for (uint32_t i = 0; takes_literals(l, id) && i < n->operand_count; i++) {
        if (!mpc_lint_literal(l, n, i, &c)) continue;
        look_at_literal(l, id, c);
        if (n->operand_count == 2) look_for_absorbed(l, id, i, c, mpc_lint_stored(l, mpc_result(n, 0)));
    }
}

/* --- whole numbers (N44) --- */

void mpc_lint_whole_numbers(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    mpc_value_id v = mpc_result(n, 0);
    mpc_format f = mpc_lint_stored(l, v);
    double most = l->reach[v].whole;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id x = mpc_operand(l->g, n, i);
        l->told[v] = l->told[v] || (l->told[x] && l->reach[x].whole > 0);
    }
    if (l->told[v] || !mpc_format_is_low(f) || !(l->reach[v].steps > mpc_exact_integers(f))) return;
    l->told[v] = true;
    mpc_lint_add(
        l, (mpc_finding){.code = "W182",
                         .rule = "N44",
                         .node = id,
                         .what = mpc_lint_text(l, "`%s` holds whole numbers up to %g in %s, which is exact only to %g",
                                               value_name(l, id), most, name_of(f), mpc_exact_integers(f)),
                         .fix = "keep ids, positions and counts as integers, or write cast(..., f32) and "
                                "narrow what comes of them"});
}

/* --- ranges (N40, N46) --- */

/* What the largest result of the node lies in: the last of running sums, which are no sum of one term to n. */
static mpc_interval reached(const mpc_lint_run *l, const mpc_node *n, uint32_t i) {
    if (n->op != MPC_OP_cumsum) return l->range[mpc_result(n, i)];
    const mpc_type *type = mpc_value_type(l->g, mpc_result(n, 0));
    mpc_interval a = l->range[mpc_operand(l->g, n, 0)];
    double terms = (double)type->dims[mpc_attr_int(l->g, n, "axis")];
    a.lo *= terms;
    a.hi *= terms;
    return a;
}

static bool was_outside(const mpc_lint_run *l, const mpc_node *n) {
    for (uint32_t k = 0; k < n->operand_count; k++) {
        mpc_interval in = l->range[mpc_operand(l->g, n, k)];
        if (in.lo == INFINITY || in.hi == -INFINITY) return true;
    }
    return false;
}

void mpc_lint_range(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    if (n->op == MPC_OP_const) return;
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        mpc_format f = mpc_lint_stored(l, v);
        if (!mpc_format_is_float(f) || f == MPC_FMT_f64) continue;
        mpc_interval a = reached(l, n, i);
        double top = mpc_numfmt_max(&mpc_format_get(f)->fmt);
        if (was_outside(l, n) || !(a.lo > top || a.hi < -top)) continue;
        bool sum = n->op == MPC_OP_sum || n->op == MPC_OP_mean || n->op == MPC_OP_norm || n->op == MPC_OP_cumsum;
        mpc_lint_add(l, (mpc_finding){.code = "W183",
                                      .rule = sum ? "N40" : "N46",
                                      .node = id,
                                      .what = mpc_lint_text(l, "%s `%s` lies beyond %s: from %g to %g",
                                                            n->op == MPC_OP_cumsum ? "the end of" : "all of",
                                                            mpc_value_name(l->g, v), name_of(f), a.lo, a.hi),
                                      .fix = "scale the values before, or put `@f32` before the statement"});
    }
}

static bool operand_was_infinite(const mpc_lint_run *l, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_observed *o = mpc_observations_find(l->seen, mpc_value_name(l->g, mpc_operand(l->g, n, i)));
        if (o != NULL && o->infinite + o->nan > 0) return true;
    }
    return false;
}

void mpc_lint_profile(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    mpc_value_id v = mpc_result(n, 0);
    mpc_format f = mpc_lint_stored(l, v);
    const mpc_observed *o = l->seen != NULL ? mpc_observations_find(l->seen, mpc_value_name(l->g, v)) : NULL;
    if (o == NULL || n->op == MPC_OP_const || !mpc_format_is_float(f)) return;
    double top = mpc_numfmt_max(&mpc_format_get(f)->fmt);
    mpc_finding found = {.code = "W183", .rule = "N46", .node = id};
    if (o->infinite + o->nan > 0 && !operand_was_infinite(l, n)) {
        found.what = mpc_lint_text(l, "the profile saw %llu infinities and %llu NaNs in `%s`",
                                   (unsigned long long)o->infinite, (unsigned long long)o->nan, value_name(l, id));
        found.fix = "look at what goes into this op: `mpc profile` has the exponents of every value";
    } else if (o->largest > top) {
        found.what = mpc_lint_text(l, "the profile saw %.4g in `%s`, which is stored in %s (to %g)", o->largest,
                                   value_name(l, id), name_of(f), top);
        found.fix = "put `@f32` before the statement, or scale the values";
    }
    mpc_lint_add(l, found);
}

/* --- exp (N10) --- */

/* A reader of `v` of this op, as operand `slot` (or any, when negative), through casts and views. */
static const mpc_node *reader(const mpc_lint_run *l, mpc_value_id v, mpc_op_id op, int slot, int depth) {
    for (uint32_t i = l->uses.begin[v]; i < l->uses.begin[v + 1]; i++) {
        const mpc_node *n = &l->g->nodes[l->uses.users[i]];
        if (n->op == op && (slot < 0 || mpc_operand(l->g, n, (uint32_t)slot) == v)) return n;
        bool carries = n->op == MPC_OP_cast || mpc_op_get(l->g->ctx, n->op)->kind == MPC_KIND_VIEW;
        const mpc_node *found = carries && depth > 0 ? reader(l, mpc_result(n, 0), op, slot, depth - 1) : NULL;
        if (found != NULL) return found;
    }
    return NULL;
}

/* exp(x) / sum(exp(x)), or log(sum(exp(x))). */
static bool is_softmax_by_hand(const mpc_lint_run *l, mpc_value_id e) {
    const mpc_node *sum = reader(l, e, MPC_OP_sum, -1, 3);
    if (sum == NULL || sum->origin != 0) return false;
    mpc_value_id s = mpc_result(sum, 0);
    return reader(l, s, MPC_OP_log, -1, 3) != NULL || reader(l, s, MPC_OP_div, 1, 3) != NULL;
}

void mpc_lint_exp(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    if (n->op != MPC_OP_exp && n->op != MPC_OP_expm1) return;
    mpc_interval x = l->range[mpc_operand(l->g, n, 0)];
    mpc_format f = mpc_lint_stored(l, mpc_result(n, 0));
    double limit = log(mpc_numfmt_max(&mpc_format_get(f)->fmt));
    bool bounded = x.hi < MPC_ANY_INTEGER && x.hi > -INFINITY;
    mpc_finding found = {.code = "W184", .rule = "N10", .node = id};
    if (bounded && x.hi > limit) {
        found.rule = "N41";
        found.what = mpc_lint_text(l, "%s of values up to %g overflows %s above %.4g",
                                   mpc_op_get(l->g->ctx, n->op)->name, x.hi, name_of(f), limit);
        found.fix = mpc_lint_text(l, "bound its argument by %.4g%s", floor(limit * 10) / 10,
                                  f == MPC_FMT_f16 ? ", or put `@f32` before the statement" : "");
    } else if (!bounded && is_softmax_by_hand(l, mpc_result(n, 0))) {
        found.what = mpc_lint_text(l, "exp without a subtracted maximum: a value above %.4g overflows the sum in %s",
                                   limit, name_of(f));
        found.fix = "write softmax(x) or log_softmax(x), or subtract max(x, keep = true) first";
    }
    mpc_lint_add(l, found);
}

/* --- division by what has vanished (N32) --- */

void mpc_lint_vanished(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    bool divides = n->op == MPC_OP_div;
    bool root = n->op == MPC_OP_rsqrt || n->op == MPC_OP_sqrt; /* the slope of a root at 0 is infinite */
    if (!divides && !root && n->op != MPC_OP_log) return;
    uint32_t slot = divides ? 1 : 0;
    mpc_value_id v = mpc_operand(l->g, n, slot);
    mpc_format f = mpc_lint_read(l, id, slot);
    mpc_interval a = l->range[v];
    if (!mpc_format_is_float(f)) return;
    const mpc_numfmt *fmt = &mpc_format_get(f)->fmt;
    const char *op = mpc_op_get(l->g->ctx, n->op)->name;
    mpc_finding found = {.code = "W185", .rule = "N32", .node = id};
    if (a.lo == 0 && a.hi == 0) found.what = mpc_lint_text(l, "the operand of `%s` is 0", op);
    else if (a.lo > 0 && mpc_numfmt_round(fmt, a.lo) == 0)
        found.what =
            mpc_lint_text(l, "%g keeps the operand of `%s` off 0, and is 0 itself in %s", a.lo, op, name_of(f));
    found.fix = "put `@f32` before the statements that make and use it, or take a larger eps";
    mpc_lint_add(l, found);
}

/* --- log of a probability (N11, N13) --- */

/* p of 1 - p, or of the -p that log1p takes; MPC_NONE otherwise. */
static mpc_value_id complement_of(const mpc_lint_run *l, mpc_value_id v, bool plus_one) {
    const mpc_node *n = mpc_lint_origin_of(l->g, v);
    double c;
    if (n == NULL) return MPC_NONE;
    if (plus_one) return n->op == MPC_OP_neg ? mpc_operand(l->g, n, 0) : MPC_NONE;
    return n->op == MPC_OP_sub && mpc_lint_literal(l, n, 0, &c) && c == 1 ? mpc_operand(l->g, n, 1) : MPC_NONE;
}

static const mpc_node *probability(const mpc_lint_run *l, mpc_value_id v, bool plus_one) {
    mpc_value_id p = complement_of(l, v, plus_one);
    if (p == MPC_NONE && plus_one) return NULL;
    const mpc_node *n = mpc_lint_origin_of(l->g, p != MPC_NONE ? p : v);
    return n != NULL && (n->op == MPC_OP_sigmoid || n->op == MPC_OP_softmax) ? n : NULL;
}

/* p of log(1 - p) beside log(p): the two halves of a binary cross entropy. MPC_NONE: no such pair. */
static mpc_value_id half_of_entropy(const mpc_lint_run *l, mpc_value_id v, bool plus_one) {
    mpc_value_id p = complement_of(l, v, plus_one);
    return p != MPC_NONE && reader(l, p, MPC_OP_log, -1, 3) != NULL ? p : MPC_NONE;
}

/* Stored in 16 bits, or read so by some op of the model. */
static bool is_rounded(const mpc_lint_run *l, mpc_value_id v) {
    if (mpc_format_is_low(mpc_lint_stored(l, v))) return true;
    for (uint32_t u = l->uses.begin[v]; u < l->uses.begin[v + 1]; u++) {
        mpc_node_id id = l->uses.users[u];
        const mpc_node *n = &l->g->nodes[id];
        for (uint32_t i = 0; n->origin == 0 && i < n->operand_count; i++)
            if (mpc_operand(l->g, n, i) == v && mpc_format_is_low(mpc_lint_read(l, id, i))) return true;
    }
    return false;
}

static void lint_probability(mpc_lint_run *l, mpc_node_id id, mpc_value_id p, bool softmax) {
    mpc_lint_add(l, (mpc_finding){.code = "W186",
                                  .rule = softmax ? "N11" : "N13",
                                  .node = id,
                                  .what = mpc_lint_text(l,
                                                        "`%s` rounds to exactly 0 or 1 in %s, where its logarithm is "
                                                        "infinite",
                                                        mpc_value_name(l->g, p), name_of(mpc_lint_stored(l, p))),
                                  .fix = softmax ? "write log_softmax(x), or cross_entropy(x, labels) for a loss"
                                                 : "write bce_with_logits(z, target) for a loss, -softplus(-z) for "
                                                   "log(sigmoid(z))"});
}

void mpc_lint_log_odds(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    bool plus_one = n->op == MPC_OP_log1p;
    if (n->op != MPC_OP_log && !plus_one) return;
    const mpc_node *p = probability(l, mpc_operand(l->g, n, 0), plus_one);
    if (p != NULL) {
        lint_probability(l, id, mpc_result(p, 0), p->op == MPC_OP_softmax);
        return;
    }
    mpc_value_id half = half_of_entropy(l, mpc_operand(l->g, n, 0), plus_one);
    if (half != MPC_NONE && is_rounded(l, half)) lint_probability(l, id, half, false);
}

/* --- angles (N41) --- */

void mpc_lint_angle(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    if (n->op != MPC_OP_sin && n->op != MPC_OP_cos) return;
    mpc_value_id v = mpc_operand(l->g, n, 0);
    mpc_format f = mpc_lint_read(l, id, 0);
    mpc_interval a = l->range[v];
    int bits = mpc_format_get(f)->fmt.fraction_bits;
    double most = mpc_interval_largest(a);
    if (!mpc_format_is_low(f) || !mpc_interval_is_finite(a) || ldexp(most, -bits - 1) <= 0x1p-5) return;
    mpc_lint_add(l, (mpc_finding){.code = "W187",
                                  .rule = "N41",
                                  .node = id,
                                  .what = mpc_lint_text(l, "an angle of up to %g in %s, which has steps of %g there",
                                                        most, name_of(f), ldexp(1, ilogb(most) - bits)),
                                  .fix = "compute positions times frequencies, sin and cos in an `@f32 { }` region"});
}
