/* Elements beyond the format that a value is stored in: a mask's literal, what comes of positions. They are known to be
 * there (reach.c), though the rest of the value may lie anywhere. */
#include <math.h>

#include "passes/precision/lint.h"

static const char *name_of(mpc_format f) { return mpc_format_get(f)->name; }

static double top_of(mpc_format f) { return mpc_numfmt_max(&mpc_format_get(f)->fmt); }

static bool is_beyond(const mpc_lint_run *l, mpc_value_id v, mpc_format f) {
    return mpc_reach_largest(l->reach[v]) > top_of(f);
}

static bool was_passed(const mpc_lint_run *l, const mpc_node *n) {
    bool passed = false;
    for (uint32_t i = 0; i < n->operand_count; i++) passed = passed || l->passed[mpc_operand(l->g, n, i)];
    return passed;
}

static void add_stored(mpc_lint_run *l, mpc_node_id id, mpc_value_id from, mpc_format f) {
    mpc_value_id v = mpc_result(&l->g->nodes[id], 0);
    mpc_reach r = l->reach[from];
    mpc_lint_add(
        l,
        (mpc_finding){.code = r.literal ? "W180" : "W183",
                      .rule = r.literal ? "N20" : "N46",
                      .node = id,
                      .what = mpc_lint_text(l, "`%s` takes %g from %s, which overflows in %s: an infinity from then on",
                                            mpc_value_name(l->g, v), mpc_reach_extreme(r),
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
    if (!l->passed[v] && !exp && !mpc_lint_has(l, id)) add_stored(l, id, from, f);
    l->passed[v] = true;
}
