/* Plugins' solvers: what they see of a plan and how they decide. The plan's own invariants are kept here: only open
 * nodes are decided, formats fixed by types stay, and a solver that leaves a node open has failed. */
#include "passes/plugins/plugin_functions.h"

mpc_status mpc_plugin_run_solver(mpc_plan *plan, const mpc_solver_env *env) {
    const mpc_plugin_solver_row *row = (const mpc_plugin_solver_row *)env->solver;
    mpc_call c = {.kind = MPC_CALL_SOLVE,
                  .ctx = env->pass->ctx,
                  .who = row->who,
                  .g = plan->g,
                  .plan = plan,
                  .costs = env->costs};
    row->theirs->solve(&mpc_plugin_functions, &c);
    for (mpc_node_id id = 0; id < plan->g->node_count && !c.failed; id++)
        if (mpc_is_assigned(plan->g, id) && !plan->decisions[id].present)
            mpc_call_fail(&c, "`%s` (%s) was left undecided",
                          mpc_value_name(plan->g, mpc_result(&plan->g->nodes[id], 0)), mpc_node_op(plan->g, id)->name);
    mpc_call_end(&c);
    return c.failed ? MPC_FAILED : MPC_OK;
}

static bool in_solver(mpc_call *c) {
    if (c->kind != MPC_CALL_SOLVE) mpc_call_fail(c, "only a solver can do this");
    return c->kind == MPC_CALL_SOLVE && !c->failed;
}

static bool has_node(mpc_call *c, mpc_id node) {
    if (in_solver(c) && node >= c->g->node_count) mpc_call_fail(c, "%u is no node here", node);
    return !c->failed;
}

static bool has_value(mpc_call *c, mpc_id value) {
    if (in_solver(c) && value >= c->g->value_count) mpc_call_fail(c, "%u is no value here", value);
    return !c->failed;
}

const char *mpc_api_low(mpc_call *c) { return in_solver(c) ? mpc_call_format_name(c->plan->low) : "f32"; }

bool mpc_api_open(mpc_call *c, mpc_id node) {
    return has_node(c, node) && mpc_is_assigned(c->g, node) && !c->plan->given[node];
}

bool mpc_api_wanted_low(mpc_call *c, mpc_id value) {
    return has_value(c, value) && c->plan->wanted_by[value] != MPC_NONE;
}

bool mpc_api_only_f32(mpc_call *c, mpc_id value) { return has_value(c, value) && c->plan->only_f32[value]; }

/* Inputs and states have no decision either. */
bool mpc_api_fixed(mpc_call *c, mpc_id value) { return has_value(c, value) && c->plan->fixed.result[value]; }

const char *mpc_api_planned(mpc_call *c, mpc_id value) {
    return has_value(c, value) ? mpc_call_format_name(c->plan->format[value]) : "f32";
}

static bool is_float_or_none(mpc_call *c, mpc_format format) {
    if (format == MPC_FMT_none || mpc_format_is_float(format)) return true;
    mpc_call_fail(c, "`%s` is no format of floats", mpc_call_format_name(format));
    return false;
}

void mpc_api_decide(mpc_call *c, mpc_id node, const mpc_plugin_decision *d, const char *reason) {
    if (!has_node(c, node)) return;
    if (!mpc_api_open(c, node)) {
        mpc_call_fail(c, "node %u isn't open", node);
        return;
    }
    mpc_decision out = {.present = true,
                        .operand = mpc_call_format(c, d->operand),
                        .compute = mpc_call_format(c, d->compute),
                        .result = mpc_call_format(c, d->result)};
    if (out.compute == MPC_FMT_none) out.compute = MPC_FMT_f32;
    if (mpc_node_has_attr(c->g, &c->g->nodes[node], "acc")) out.acc = mpc_attr_format(c->g, &c->g->nodes[node], "acc");
    if (c->failed || !is_float_or_none(c, out.operand) || !is_float_or_none(c, out.compute) ||
        !is_float_or_none(c, out.result))
        return;
    mpc_plan_decide(c->plan, node, out, "%s", reason == NULL ? c->who : reason);
}

void mpc_api_decide_by_class(mpc_call *c, mpc_id node) {
    if (!has_node(c, node)) return;
    if (mpc_api_open(c, node)) mpc_solve_list(c->plan, node);
    else mpc_call_fail(c, "node %u isn't open", node);
}

/* --- prices --- */

double mpc_api_price_op(mpc_call *c, mpc_id node, const char *format) {
    mpc_format f = mpc_call_format(c, format);
    if (!has_node(c, node) || c->costs == NULL) return 0;
    return mpc_cost_op(c->costs, node, f);
}

double mpc_api_price_value(mpc_call *c, mpc_id value, const char *format) {
    mpc_format f = mpc_call_format(c, format);
    if (!has_value(c, value) || c->costs == NULL) return 0;
    return mpc_cost_value(c->costs, value, f);
}

double mpc_api_price_cast(mpc_call *c, mpc_id value, const char *from, const char *to) {
    mpc_format a = mpc_call_format(c, from), b = mpc_call_format(c, to);
    if (!has_value(c, value) || c->costs == NULL) return 0;
    return mpc_cost_cast(c->costs, value, a, b);
}
