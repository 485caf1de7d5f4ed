/* Which elements a value has for certain, and what follows where they lie beyond a format. An interval bounds every
 * element and may be far too wide; here are numbers that are reached: a literal that a `where` or `pad` puts in as an
 * element, the ends of a `range()` or of a declared range of integers, and what elementwise ops make of them with
 * literals. Whatever might leave them out (a slice of positions, two ranges in one op) makes them unknown. */
#include <math.h>

#include "passes/precision/lint.h"

/* Bounds from here on are those of a type, not of the values. */
#define ANY_INTEGER (0x1p31 - 1)

typedef struct finder {
    const mpc_graph *g;
    const mpc_interval *range;
    mpc_reach *of; /* by value */
} finder;

double mpc_reach_largest(mpc_reach r) { return r.known ? fmax(fabs(r.lo), fabs(r.hi)) : 0; }

static mpc_reach reach(double lo, double hi, bool literal) {
    bool known = isfinite(lo) && isfinite(hi);
    return (mpc_reach){.lo = lo, .hi = hi, .known = known, .literal = known && literal};
}

/* What is known of either is reached. */
static mpc_reach joined(mpc_reach a, mpc_reach b) {
    if (!a.known || !b.known) return a.known ? a : b;
    double size_a = mpc_reach_largest(a), size_b = mpc_reach_largest(b);
    bool literal = size_a >= size_b ? a.literal : b.literal;
    return reach(fmin(a.lo, b.lo), fmax(a.hi, b.hi), literal);
}

/* Flags are 0 and 1, positions and ids what was declared. */
static mpc_reach of_integer(const finder *f, mpc_value_id v) {
    if (mpc_format_get(mpc_value_format(f->g, v))->kind == MPC_FORMAT_BOOL) return reach(0, 1, false);
    mpc_interval a = f->range[v];
    return mpc_interval_largest(a) < ANY_INTEGER ? reach(a.lo, a.hi, false) : (mpc_reach){0};
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

/* One operand that varies, and literals: the ends of what comes out are those of what goes in. */
static mpc_reach of_elementwise(const finder *f, const mpc_node *n) {
    bool varies = false, literal = true;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_reach x = f->of[mpc_operand(f->g, n, i)];
        if (!x.known || (x.lo < x.hi && varies)) return (mpc_reach){0};
        if (x.lo < x.hi) {
            varies = true;
            literal = x.literal;
        }
    }
    mpc_interval a = f->range[mpc_result(n, 0)];
    return reach(a.lo, a.hi, literal);
}

static mpc_reach of_view(const finder *f, const mpc_node *n) {
    mpc_reach r = f->of[mpc_operand(f->g, n, 0)];
    if (n->op == MPC_OP_slice && !r.literal) return (mpc_reach){0};
    for (uint32_t i = 1; i < n->operand_count; i++) r = joined(r, f->of[mpc_operand(f->g, n, i)]);
    if (n->op != MPC_OP_pad) return r;
    double c = mpc_attr_float(f->g, n, "value");
    return joined(r, reach(c, c, true));
}

static mpc_reach of_node(const finder *f, mpc_node_id id) {
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

const mpc_reach *mpc_lint_find_reach(const mpc_graph *g, const mpc_interval *range, mpc_arena *arena) {
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

/* --- what is stored (N20, N45, N46) --- */

static const char *name_of(mpc_format f) { return mpc_format_get(f)->name; }

static double top_of(mpc_format f) { return mpc_numfmt_max(&mpc_format_get(f)->fmt); }

static bool is_beyond(const mpc_lint_run *l, mpc_value_id v, mpc_format f) {
    return mpc_reach_largest(l->reach[v]) > top_of(f);
}

static double extreme(mpc_reach r) { return fabs(r.lo) > fabs(r.hi) ? r.lo : r.hi; }

static bool was_passed(const mpc_lint_run *l, const mpc_node *n) {
    bool passed = false;
    for (uint32_t i = 0; i < n->operand_count; i++) passed = passed || l->passed[mpc_operand(l->g, n, i)];
    return passed;
}

static void add_stored(mpc_lint_run *l, mpc_node_id id, mpc_value_id from, mpc_format f) {
    mpc_value_id v = mpc_result(&l->g->nodes[id], 0);
    mpc_reach r = l->reach[from];
    mpc_lint_add(l, (mpc_finding){.code = r.literal ? "W180" : "W183",
                                  .rule = r.literal ? "N20" : "N46",
                                  .node = id,
                                  .what = mpc_lint_text(l, "`%s` takes %g from %s, which overflows in %s: an infinity from then on",
                                                        mpc_value_name(l->g, v), extreme(r),
                                                        r.literal ? "a literal" : "whole numbers", name_of(f)),
                                  .fix = mpc_lint_text(l, "put `@f32` before the statement, or keep it within %g", top_of(f))});
}

/* An element beyond the format that is stored as it is, or in a sum with something. */
void mpc_lint_reach(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    mpc_value_id v = mpc_result(n, 0);
    mpc_format f = mpc_lint_stored(l, v);
    l->passed[v] = was_passed(l, n);
    if (n->op == MPC_OP_const || !mpc_format_is_low(f)) return;
    bool exp = n->op == MPC_OP_exp || n->op == MPC_OP_expm1; /* mpc_lint_exp says so */
    mpc_value_id from = is_beyond(l, v, f) ? v : MPC_NONE;
    bool carries = n->op == MPC_OP_add || n->op == MPC_OP_sub;
    for (uint32_t i = 0; carries && from == MPC_NONE && i < n->operand_count; i++) {
        mpc_value_id x = mpc_operand(l->g, n, i);
        if (l->reach[x].literal && is_beyond(l, x, f)) from = x;
    }
    if (from == MPC_NONE) return;
    if (!l->passed[v] && !exp) add_stored(l, id, from, f);
    l->passed[v] = true;
}
