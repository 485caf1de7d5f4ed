/* Why one node of a decided graph has its format: what the other format would cost with everything else as it is, and
 * who stands in its way by the class rules. Solvers that weigh costs say more about their choices (mpc_plan_choices);
 * this is what can be said of any assignment, and all there is to say of the solver `list`. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/precision/cost.h"
#include "passes/precision/precision.h"

/* --- the alternative --- */

static mpc_decision flipped(const mpc_plan *p, mpc_node_id id, mpc_format to) {
    mpc_decision d = p->decisions[id];
    mpc_class cls = mpc_node_op(p->g, id)->cls;
    if (cls == MPC_CLASS_LOW || cls == MPC_CLASS_CLEAR || d.operand != MPC_FMT_none) d.operand = to;
    d.result = to;
    return d;
}

/* Is a low format ruled out by the types of its results? */
static bool is_fixed(const mpc_plan *p, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (!p->fixed.result[mpc_result(n, i)]) return false;
    return true;
}

bool mpc_is_decided_low(const mpc_graph *g, mpc_node_id id) {
    const mpc_decision *d = &g->decisions[id];
    if (mpc_node_op(g, id)->cls == MPC_CLASS_LOW && d->operand != MPC_FMT_none) return mpc_format_is_low(d->operand);
    return mpc_format_is_low(d->result != MPC_FMT_none ? d->result : mpc_value_format(g, mpc_result(&g->nodes[id], 0)));
}

static double price_of(const mpc_plan *p, mpc_node_id id, mpc_format to, const mpc_costs *costs) {
    mpc_plan other;
    if (!mpc_plan_copy(p, &other)) return NAN;
    mpc_plan_decide(&other, id, flipped(p, id, to), "other");
    return mpc_plan_price(&other, costs).seconds;
}

/* --- who blocks --- */

static void add_value(mpc_explained *out, mpc_value_id v) {
    out->kind = MPC_BLOCK_VALUE;
    if (out->blocker_count < MPC_MOST_BLOCKERS) out->blockers[out->blocker_count++] = v;
}

/* A node that follows its operands: all wide ones make it wide; while none is, any could. */
static void block_by_operands(const mpc_plan *p, const mpc_node *n, bool low, mpc_explained *out) {
    int64_t elements = mpc_type_elements(mpc_value_type(p->g, mpc_result(n, 0)));
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        if (!mpc_has_a_say(p->g, v, elements) || mpc_format_is_low(p->format[v]) != low) continue;
        if (low && out->blocker_count > 0) return;
        add_value(out, v);
    }
}

static void block_high(const mpc_plan *p, mpc_node_id id, bool low, mpc_explained *out) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_value_id y = mpc_result(n, 0);
    bool by_reader = p->only_wanted[y] && p->read[y];
    if (!mpc_node_stores_low(p->g, id) || p->wanted_by[y] == MPC_NONE || n->operand_count == 0 || by_reader) return;
    if (mpc_format_is_low(p->format[mpc_operand(p->g, n, 0)]) == low) add_value(out, mpc_operand(p->g, n, 0));
}

/* ---- whose word ---- */

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* Of a node with `prec`, or of one whose group agrees, or by `precision = f32`; what standardizes data has its format
 * from no user. */
static bool is_by_word(const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    const char *why = mpc_sym_text(g->ctx, n->why);
    if (begins(why, "policy ") || begins(why, "precision ")) return true;
    return mpc_node_prec(g, n) != MPC_FMT_none && (begins(why, "user: ") || begins(why, "prec: "));
}

static bool cites(const char *why, const char *rule) { return strstr(why, rule) != NULL; }

static void find_blockers(const mpc_plan *p, mpc_node_id id, mpc_explained *out) {
    const mpc_node *n = &p->g->nodes[id];
    bool low = mpc_is_decided_low(p->g, id);
    mpc_class cls = mpc_node_op(p->g, id)->cls;
    const char *why = mpc_sym_text(p->g->ctx, n->why);
    out->kind = is_by_word(p->g, id) ? MPC_BLOCK_USER : MPC_BLOCK_RULE;
    if (out->kind == MPC_BLOCK_USER || mpc_node_prec(p->g, n) != MPC_FMT_none || is_fixed(p, n) || n->origin != 0)
        return;
    if (cls == MPC_CLASS_FOLLOW && !cites(why, "N40") && !cites(why, "N45") && !cites(why, "N60"))
        block_by_operands(p, n, low, out);
    else if (cls == MPC_CLASS_CLEAR && n->op != MPC_OP_cast && n->operand_count > 0) {
        if (mpc_node_op(p->g, id)->kind == MPC_KIND_VIEW && n->operand_count > 1) block_by_operands(p, n, low, out);
        else add_value(out, mpc_operand(p->g, n, 0));
    } else if (cls == MPC_CLASS_HIGH) block_high(p, id, low, out);
}

/* What is held says why; an op with types of its own may cite a rule in its documentation, elementwise ones have none. */
static void find_rule(const mpc_plan *p, mpc_node_id id, mpc_explained *out) {
    const mpc_op *op = mpc_node_op(p->g, id);
    bool fixed = is_fixed(p, &p->g->nodes[id]);
    mpc_sym held = p->fixed.held[id];
    if (held != 0 && mpc_find_rule(mpc_sym_text(p->g->ctx, held), out->rule)) return;
    if (mpc_find_rule(mpc_sym_text(p->g->ctx, p->g->nodes[id].why), out->rule)) return;
    if (fixed && op->kind != MPC_KIND_EWISE && mpc_find_rule(op->doc, out->rule)) return;
    snprintf(out->rule, sizeof out->rule, fixed ? "type" : "class");
}

static mpc_status explain(const mpc_graph *g, mpc_node_id id, mpc_format other, mpc_pass_env *env, mpc_arena *arena,
                          mpc_explained *out) {
    mpc_plan p;
    const mpc_costs *costs;
    mpc_status status = mpc_plan_of_graph(g, env->profile, env, arena, &p, &costs);
    if (status != MPC_OK || !mpc_is_assigned(g, id)) return status;
    bool low = mpc_is_decided_low(g, id);
    out->present = true;
    out->total = mpc_plan_price(&p, costs).seconds;
    out->other = other;
    out->seconds = HUGE_VAL;
    if (low || !is_fixed(&p, &g->nodes[id])) out->seconds = price_of(&p, id, other, costs) - out->total;
    find_blockers(&p, id, out);
    find_rule(&p, id, out);
    return MPC_OK;
}

mpc_status mpc_graph_explain(const mpc_graph *decided, mpc_node_id id, mpc_format low, mpc_pass_env *env,
                             mpc_explained *out) {
    *out = (mpc_explained){.present = false};
    if (decided->decisions == NULL || !decided->decisions[id].present) return MPC_OK;
    mpc_format other = mpc_is_decided_low(decided, id) ? MPC_FMT_f32 : low;
    mpc_arena *arena = mpc_arena_create();
    mpc_status status = arena != NULL ? explain(decided, id, other, env, arena, out) : MPC_NO_MEMORY;
    if (status == MPC_NO_MEMORY) mpc_error(mpc_context_sink(decided->ctx), "E901", "out of memory");
    mpc_arena_destroy(arena);
    return status;
}
