/* From range evidence to the plan: which values may not be held in the low format. Every case rests on a literal, an
 * integer range, an interval that lies wholly outside, or something seen in a profile; an unbounded value is never
 * forced. Only f32 values of nodes that are still open are forced: what the user wrote stands (N99). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/precision/precision.h"
#include "passes/precision/range.h"

typedef struct forcing {
    mpc_plan *p;
    const mpc_interval *range;
    const mpc_reach *reach;
    const mpc_observations *seen;
    mpc_sym *out; /* by value: forced_f32 or forced_also */
    mpc_format format;
    const mpc_numfmt *low;
    const char *name; /* of the low format */
} forcing;

static bool may_force(const forcing *f, mpc_value_id v) {
    const mpc_value *value = &f->p->g->values[v];
    if (mpc_value_format(f->p->g, v) != MPC_FMT_f32 || f->out[v] != 0) return false;
    return value->producer == MPC_NONE || !f->p->given[value->producer];
}

static void force(forcing *f, mpc_value_id v, const char *reason) {
    if (may_force(f, v)) f->out[v] = mpc_intern(f->p->g->ctx, reason);
}

/* --- what the value itself says --- */

static void force_by_interval(forcing *f, mpc_value_id v) {
    char text[160];
    mpc_interval a = f->range[v];
    double top = mpc_numfmt_max(f->low), exact = mpc_exact_integers(f->format), most = mpc_interval_largest(a);
    bool counted = a.counted && isfinite(a.lo) && isfinite(a.hi); /* of a type as well; NaN or not: a lookup may go wrong */
    bool beside = f->reach[v].steps > exact, runs_together = counted && most / mpc_interval_unit(a) > exact;
    if (beside || runs_together) {
        snprintf(text, sizeof text, MPC_RANGE_REASON "whole numbers up to %g, %s is exact to %g (N44)",
                 runs_together ? most : f->reach[v].whole, f->name, exact);
        force(f, v, text);
    } else if (a.lo > top || a.hi < -top) {
        snprintf(text, sizeof text, MPC_RANGE_REASON "from %g to %g, all beyond %s (N45)", a.lo, a.hi, f->name);
        force(f, v, text);
    }
}

/* A mask's literal is an element as much as any other, and so are the ends of an integer range. */
static void force_by_reach(forcing *f, mpc_value_id v) {
    char text[160];
    mpc_reach r = f->reach[v];
    double most = mpc_reach_extreme(r);
    if (!(mpc_reach_largest(r) > mpc_numfmt_max(f->low))) return;
    if (r.literal) snprintf(text, sizeof text, MPC_RANGE_REASON "the constant %g overflows in %s (N45)", most, f->name);
    else snprintf(text, sizeof text, MPC_RANGE_REASON "it comes to %g, beyond %s (N45)", most, f->name);
    force(f, v, text);
}

/* Gradients are seen without the loss scale that f16 gives them, so only forward values are judged. */
static void force_by_profile(forcing *f, mpc_value_id v) {
    char text[160];
    const mpc_graph *g = f->p->g;
    const mpc_node *n = mpc_producer(g, v);
    const mpc_observed *o = f->seen != NULL ? mpc_observations_find(f->seen, mpc_value_name(g, v)) : NULL;
    if (o == NULL || (n != NULL && n->origin != 0) || !(o->largest > mpc_numfmt_max(f->low))) return;
    snprintf(text, sizeof text, MPC_RANGE_REASON "the profile saw %.4g, beyond %s (N46)", o->largest, f->name);
    force(f, v, text);
}

/* --- what its reader does with it --- */

static bool rounds_to_zero(const forcing *f, double x) { return x > 0 && mpc_numfmt_round(f->low, x) == 0; }

/* A divisor, or what goes into a logarithm or root, that f32 keeps off 0 and the low format doesn't. */
static void force_off_zero(forcing *f, const mpc_node *n) {
    char text[160];
    bool divides = n->op == MPC_OP_div;
    if (!divides && n->op != MPC_OP_log && n->op != MPC_OP_rsqrt && n->op != MPC_OP_sqrt) return;
    mpc_value_id v = mpc_operand(f->p->g, n, divides ? 1 : 0);
    if (!rounds_to_zero(f, f->range[v].lo)) return;
    snprintf(text, sizeof text, MPC_RANGE_REASON "%g keeps it off 0 for `%s`, and is 0 in %s (N32)", f->range[v].lo,
             mpc_op_get(f->p->g->ctx, n->op)->name, f->name);
    force(f, v, text);
}

/* Angles whose rounding error is a part of the circle. */
static void force_angle(forcing *f, const mpc_node *n) {
    char text[160];
    if (n->op != MPC_OP_sin && n->op != MPC_OP_cos) return;
    mpc_value_id v = mpc_operand(f->p->g, n, 0);
    double most = mpc_interval_largest(f->range[v]);
    if (!mpc_interval_is_finite(f->range[v]) || ldexp(most, -f->low->fraction_bits - 1) <= 0x1p-5) return;
    snprintf(text, sizeof text, MPC_RANGE_REASON "an angle of up to %g, and %s has steps of %g there (N41)", most, f->name,
             ldexp(1, ilogb(most) - f->low->fraction_bits));
    force(f, v, text);
}

/* --- scores (N22) --- */

static const mpc_node *behind_views(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (n != NULL && mpc_op_get(g->ctx, n->op)->kind == MPC_KIND_VIEW) n = mpc_producer(g, mpc_operand(g, n, 0));
    return n;
}

/* x * c or x / c that makes x smaller: the operand that is x; MPC_NONE otherwise. */
static mpc_value_id scaled_down(const mpc_graph *g, const mpc_node *n) {
    bool div = n->op == MPC_OP_div;
    for (uint32_t i = div ? 1 : 0; (div || n->op == MPC_OP_mul) && i < 2; i++) {
        const mpc_node *c = behind_views(g, mpc_operand(g, n, i));
        if (c == NULL || c->op != MPC_OP_const) continue;
        double size = fabs(mpc_attr_float(g, c, "value"));
        return (div ? size > 1 : size < 1) ? mpc_operand(g, n, 1 - i) : MPC_NONE;
    }
    return MPC_NONE;
}

enum { SCORES_DEPTH = 4 };

/* From a softmax back through masks, biases and views to a product that is scaled only after it was stored (FC-039). */
static void force_scores(forcing *f, mpc_value_id v, int depth) {
    const mpc_graph *g = f->p->g;
    const mpc_node *n = behind_views(g, v);
    if (n == NULL || depth == 0) return;
    mpc_value_id product = scaled_down(g, n);
    const mpc_node *made = product != MPC_NONE ? behind_views(g, product) : NULL;
    if (made != NULL && made->op == MPC_OP_matmul) {
        const char *why = MPC_RANGE_REASON "scores that are scaled after the product may pass f16 before (N22)";
        force(f, mpc_result(made, 0), why);
        for (mpc_value_id w = product; w != mpc_result(made, 0); w = mpc_operand(g, mpc_producer(g, w), 0))
            force(f, w, why);
        return;
    }
    uint32_t first = n->op == MPC_OP_where ? 1 : 0;
    bool joins = n->op == MPC_OP_where || n->op == MPC_OP_add || n->op == MPC_OP_sub;
    for (uint32_t i = first; joins && i < n->operand_count; i++) force_scores(f, mpc_operand(g, n, i), depth - 1);
}

static void force_all(forcing *f, mpc_format format, mpc_sym *out) {
    const mpc_graph *g = f->p->g;
    f->format = format;
    f->out = out;
    f->low = &mpc_format_get(format)->fmt;
    f->name = mpc_format_get(format)->name;
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        force_by_interval(f, v);
        force_by_reach(f, v);
        force_by_profile(f, v);
    }
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        force_off_zero(f, &g->nodes[id]);
        force_angle(f, &g->nodes[id]);
        if (format == MPC_FMT_f16 && g->nodes[id].op == MPC_OP_softmax && g->nodes[id].origin == 0)
            force_scores(f, mpc_operand(g, &g->nodes[id], 0), SCORES_DEPTH);
    }
}

mpc_status mpc_range_force(mpc_plan *p, const mpc_observations *seen) {
    if (!mpc_format_is_low(p->low)) return MPC_OK;
    mpc_range_options options = {.low = MPC_FMT_f32};
    forcing f = {.p = p, .range = mpc_range_analyze(p->g, &options, p->arena), .seen = seen};
    f.reach = f.range != NULL ? mpc_reach_find(p->g, f.range, p->arena) : NULL;
    if (f.reach == NULL) return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    force_all(&f, p->low, p->forced_f32);
    if (p->forced_also != NULL) force_all(&f, p->also, p->forced_also);
    return MPC_OK;
}

/* --- carrying it out --- */

static mpc_sym forced_operand(const mpc_plan *p, const mpc_node *n, mpc_format format) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_sym why = mpc_plan_forced(p, mpc_operand(p->g, n, i), format);
        if (why != 0 && !p->fixed.operand[n->operand_begin + i]) return why;
    }
    return 0;
}

static mpc_sym forced_result(const mpc_plan *p, const mpc_node *n, mpc_format format) {
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_sym why = mpc_plan_forced(p, mpc_result(n, i), format);
        if (why != 0 && !p->fixed.result[mpc_result(n, i)]) return why;
    }
    return 0;
}

/* A solver that was told of the evidence has kept f32 by itself, and leaves it to this file to say why. */
static bool cites_range(const mpc_plan *p, mpc_node_id id) {
    return p->why[id] != 0 && strstr(mpc_sym_text(p->g->ctx, p->why[id]), "(range)") != NULL;
}

mpc_decision mpc_range_keep(mpc_plan *p, mpc_node_id id, mpc_decision d) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_sym operand = forced_operand(p, n, d.operand), result = forced_result(p, n, d.result);
    bool low_operand = operand != 0 && mpc_format_is_low(d.operand);
    bool low_result = result != 0 && mpc_format_is_low(d.result);
    bool view = mpc_node_op(p->g, id)->cls == MPC_CLASS_CLEAR; /* one format for all that it moves */
    if (!low_operand && !low_result && !cites_range(p, id)) return d;
    if (low_operand || (view && low_result)) d.operand = MPC_FMT_f32;
    if (low_result || (view && low_operand)) d.result = MPC_FMT_f32;
    if (low_result || (!low_operand && result != 0)) p->why[id] = result;
    else if (operand != 0) p->why[id] = operand;
    return d;
}
