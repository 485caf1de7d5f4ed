/* Which elements a value has for certain. An interval bounds every element and may be far too wide; here are numbers
 * that are reached: a literal that a `where` or `pad` puts in as an element, the ends of a `range()` or of a declared
 * range of integers, and what elementwise ops make of them with literals. Whatever might leave them out (a slice of
 * positions, two ranges in one op) makes them unknown; what stands beside them (concat with anything) doesn't. */
#include <math.h>

#include "passes/precision/range.h"

typedef struct finder {
    const mpc_graph *g;
    const mpc_interval *range;
    mpc_reach *of; /* by value */
} finder;

double mpc_reach_largest(mpc_reach r) { return r.known ? fmax(fabs(r.lo), fabs(r.hi)) : 0; }
double mpc_reach_extreme(mpc_reach r) { return fabs(r.lo) > fabs(r.hi) ? r.lo : r.hi; }

static mpc_reach reach(double lo, double hi, bool literal) {
    bool known = isfinite(lo) && isfinite(hi);
    return (mpc_reach){.lo = lo, .hi = hi, .known = known, .literal = known && literal};
}

/* What is known of either is reached. */
static mpc_reach joined(mpc_reach a, mpc_reach b) {
    mpc_reach r = a.known ? a : b;
    if (a.known && b.known) {
        bool literal = mpc_reach_largest(a) >= mpc_reach_largest(b) ? a.literal : b.literal;
        r = reach(fmin(a.lo, b.lo), fmax(a.hi, b.hi), literal);
    }
    r.whole = a.steps >= b.steps ? a.whole : b.whole;
    r.steps = fmax(a.steps, b.steps);
    return r;
}

/* Flags are 0 and 1, positions and ids what was declared. */
static mpc_reach of_integer(const finder *f, mpc_value_id v) {
    if (mpc_format_get(mpc_value_format(f->g, v))->kind == MPC_FORMAT_BOOL) return reach(0, 1, false);
    mpc_interval a = f->range[v];
    return mpc_interval_largest(a) < MPC_ANY_INTEGER ? reach(a.lo, a.hi, false) : (mpc_reach){0};
}

/* Literals that are selected; what else is selected from may leave its ends to the other side. */
static mpc_reach of_where(const finder *f, const mpc_node *n) {
    mpc_reach r = {0};
    for (uint32_t i = 1; i < n->operand_count; i++) {
        mpc_reach x = f->of[mpc_operand(f->g, n, i)];
        if (x.literal) r = joined(r, x);
    }
    return r;
}

/* Nothing else is among the elements: the interval ends where what is reached ends. */
static bool is_all(mpc_reach r, mpc_interval a) {
    double slack = mpc_reach_largest(r) * 0x1p-16;
    return r.known && a.lo >= r.lo - slack && a.hi <= r.hi + slack;
}

/* One operand that varies, and literals: the ends of what comes out are those of what goes in. */
static mpc_reach of_elementwise(const finder *f, const mpc_node *n) {
    mpc_reach varying = {0};
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_reach x = f->of[mpc_operand(f->g, n, i)];
        bool all = is_all(x, f->range[mpc_operand(f->g, n, i)]);
        if (!all || (x.lo < x.hi && varying.known)) return (mpc_reach){0};
        if (x.lo < x.hi) varying = x;
    }
    mpc_interval a = f->range[mpc_result(n, 0)];
    return reach(a.lo, a.hi, varying.literal || mpc_reach_largest(varying) <= 1); /* flags choose among literals */
}

static mpc_reach of_view(const finder *f, const mpc_node *n) {
    mpc_reach r = f->of[mpc_operand(f->g, n, 0)];
    if (n->op == MPC_OP_slice && !r.literal) return (mpc_reach){0};
    for (uint32_t i = 1; i < n->operand_count; i++) r = joined(r, f->of[mpc_operand(f->g, n, i)]);
    if (n->op != MPC_OP_pad) return r;
    double c = mpc_attr_float(f->g, n, "value");
    return joined(r, reach(c, c, true));
}

static mpc_reach by_op(const finder *f, mpc_node_id id) {
    const mpc_node *n = &f->g->nodes[id];
    const mpc_op *op = mpc_node_op(f->g, id);
    mpc_value_id v = mpc_result(n, 0);
    if (n->op == MPC_OP_const) {
        double c = mpc_attr_float(f->g, n, "value");
        return reach(c, c, true);
    }
    if (!mpc_format_is_float(mpc_value_format(f->g, v)) && op->kind != MPC_KIND_VIEW) return of_integer(f, v);
    if (n->op == MPC_OP_where) return of_where(f, n);
    if (op->kind == MPC_KIND_VIEW) return of_view(f, n);
    if (n->op == MPC_OP_cast || n->op == MPC_OP_stop_gradient || n->op == MPC_OP_max || n->op == MPC_OP_min)
        return f->of[mpc_operand(f->g, n, 0)];
    return op->kind == MPC_KIND_EWISE && n->operand_count > 0 ? of_elementwise(f, n) : (mpc_reach){0};
}

static mpc_reach of_node(const finder *f, mpc_node_id id) {
    mpc_reach r = by_op(f, id);
    mpc_interval a = f->range[mpc_result(&f->g->nodes[id], 0)];
    double most = mpc_interval_largest(a);
    if (!a.counted || most >= MPC_ANY_INTEGER) return r;
    r.whole = most;
    r.steps = most / mpc_interval_unit(a);
    return r;
}

const mpc_reach *mpc_reach_find(const mpc_graph *g, const mpc_interval *range, mpc_arena *arena) {
    finder f = {.g = g, .range = range, .of = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *f.of)};
    if (f.of == NULL) return NULL;
    for (uint32_t i = 0; i < g->input_count; i++) {
        mpc_value_id v = g->inputs[i].value;
        if (!mpc_format_is_float(mpc_value_format(g, v))) f.of[v] = of_integer(&f, v);
    }
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (g->nodes[id].result_count > 0) f.of[mpc_result(&g->nodes[id], 0)] = of_node(&f, id);
    return f.of;
}
