/* The range analysis: one interval per value, in topological order. The rules of range_rules.c give bounds for real
 * numbers; here each is moved outwards by what a device's arithmetic may be off, then rounded to every format that the
 * value may be stored in (rounding is monotone, so it suffices to round the bounds). Nothing is assumed about states:
 * what is unbounded stays unknown. */
#include "passes/precision/range.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "passes/precision/range_rules.h"

typedef struct analysis {
    const mpc_graph *g;
    const mpc_range_options *options;
    mpc_interval *of; /* by value */
    mpc_interval *in; /* room for the node with the most operands */
} analysis;

/* --- what a type holds --- */

static double integer_limit(mpc_format f, bool high) {
    if (mpc_format_get(f)->kind == MPC_FORMAT_BOOL) return high ? 1 : 0;
    double top = f == MPC_FMT_u8 ? 255 : f == MPC_FMT_i32 ? 0x1p31 - 1 : 0x1p63;
    return high ? top : f == MPC_FMT_u8 ? 0 : f == MPC_FMT_i32 ? -0x1p31 : -0x1p63;
}

static mpc_interval of_type(mpc_format f) {
    if (mpc_format_is_float(f)) return mpc_interval_unknown();
    return (mpc_interval){.lo = integer_limit(f, false), .hi = integer_limit(f, true), .counted = true};
}

/* What leaves an integer's range may wrap. */
static mpc_interval as_integer(mpc_interval a, mpc_format f) {
    mpc_interval all = of_type(f);
    if (a.nan || !(a.lo >= all.lo) || !(a.hi <= all.hi)) return all;
    a.unit = mpc_interval_unit(a);
    a.counted = true;
    return a;
}

/* --- rounding --- */

static void widen(mpc_interval *a, double relative, double absolute) {
    if (isfinite(a->lo)) a->lo -= fabs(a->lo) * relative + absolute;
    if (isfinite(a->hi)) a->hi += fabs(a->hi) * relative + absolute;
}

static double rounded(double x, mpc_format f) { return f == MPC_FMT_f64 ? x : mpc_round_to(f, (double)(float)x); }

static void round_into(mpc_interval *a, mpc_format f) {
    a->lo = rounded(a->lo, f);
    a->hi = rounded(a->hi, f);
}

/* Stored as typed, or in `low`. */
static mpc_interval as_float(mpc_interval a, mpc_format f, mpc_format low, const mpc_range_op *r, bool exact) {
    if (isnan(a.lo) || isnan(a.hi) || a.lo > a.hi) return mpc_interval_unknown();
    if (exact && !a.counted && a.lo != a.hi) widen(&a, DBL_EPSILON, 0);
    if (!exact && !a.counted) widen(&a, 0x1p-17, FLT_MIN);
    if (r != NULL) {
        widen(&a, 0, r->error);
        a.lo = fmax(a.lo, r->floor);
        a.hi = fmin(a.hi, r->ceil);
    }
    if (a.lo > a.hi) return mpc_interval_unknown();
    round_into(&a, f);
    if (!mpc_format_is_low(low) || f != MPC_FMT_f32) return a;
    mpc_interval narrow = a;
    round_into(&narrow, low);
    a.lo = fmin(a.lo, narrow.lo);
    a.hi = fmax(a.hi, narrow.hi);
    return a;
}

/* An input or a state, of which `a` is known. */
static mpc_interval of_end(const analysis *an, mpc_value_id v, mpc_interval a) {
    mpc_format f = mpc_value_format(an->g, v);
    return mpc_format_is_float(f) ? as_float(a, f, an->options->low, NULL, true) : as_integer(a, f);
}

/* --- nodes --- */

static void analyze_node(analysis *an, mpc_node_id id) {
    const mpc_graph *g = an->g;
    const mpc_node *n = &g->nodes[id];
    mpc_interval *out = an->of + n->result_begin;
    mpc_range_rule rule = mpc_range_rule_of(n->op);
    mpc_range_op r = {.g = g, .n = n, .in = an->in, .out = out, .floor = -INFINITY, .ceil = INFINITY};
    r.narrow = mpc_format_is_low(an->options->low);
    for (uint32_t i = 0; i < n->operand_count; i++) an->in[i] = an->of[mpc_operand(g, n, i)];
    for (uint32_t i = 0; i < n->result_count; i++) out[i] = of_type(mpc_value_format(g, mpc_result(n, i)));
    if (n->op == MPC_OP_state && an->options->states != NULL)
        *out = of_end(an, n->result_begin, an->options->states[n->result_begin]);
    if (rule == NULL) return;
    rule(&r);
    bool exact = (mpc_node_op(g, id)->flags & MPC_OPF_EXACT) != 0;
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_format f = mpc_value_format(g, mpc_result(n, i));
        out[i] = mpc_format_is_float(f) ? as_float(out[i], f, an->options->low, i == 0 ? &r : NULL, exact)
                                        : as_integer(out[i], f);
    }
}

/* lo and hi are half-open; equal: none were declared. */
static mpc_interval of_input(const mpc_graph *g, uint32_t i) {
    mpc_format f = mpc_value_format(g, g->inputs[i].value);
    int64_t lo = 0, hi = 0;
    if (!mpc_input_attr_int(g, &g->inputs[i], "lo", &lo)) lo = 0;
    if (!mpc_input_attr_int(g, &g->inputs[i], "hi", &hi) || hi <= lo) return of_type(f);
    return as_integer(mpc_interval_of((double)lo, (double)(hi - 1)), f);
}

static void analyze_inputs(analysis *an) {
    const mpc_graph *g = an->g;
    for (uint32_t i = 0; i < g->input_count; i++) {
        mpc_value_id v = g->inputs[i].value;
        an->of[v] = of_end(an, v, an->options->inputs != NULL ? an->options->inputs[i] : of_input(g, i));
    }
}

mpc_interval *mpc_range_analyze(const mpc_graph *g, const mpc_range_options *options, mpc_arena *arena) {
    uint32_t most = 1;
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (g->nodes[id].operand_count > most) most = g->nodes[id].operand_count;
    analysis an = {.g = g,
                   .options = options,
                   .of = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *an.of),
                   .in = mpc_arena_alloc(arena, most * sizeof *an.in)};
    if (an.of == NULL || an.in == NULL) return NULL;
    analyze_inputs(&an);
    for (mpc_node_id id = 0; id < g->node_count; id++) analyze_node(&an, id);
    return an.of;
}

/* --- what a format does to numbers --- */

const char *mpc_constant_loss(double c, mpc_format f) {
    const mpc_numfmt *fmt = &mpc_format_get(f)->fmt;
    double r = mpc_numfmt_round(fmt, c);
    if (isfinite(c) && (!isfinite(r) || fabs(c) > mpc_numfmt_max(fmt))) return "overflows";
    if (c != 0 && r == 0) return "becomes 0";
    return fabs(c) != 1 && fabs(r) == 1 ? "becomes 1" : NULL;
}

int mpc_constant_digits(const char *loss) { return strcmp(loss, "becomes 1") == 0 ? 9 : 6; }

double mpc_exact_integers(mpc_format f) { return ldexp(1, mpc_format_get(f)->fmt.fraction_bits + 1); }
