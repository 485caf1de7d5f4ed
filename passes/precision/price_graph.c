/* What a decided graph costs: its decisions become a plan again and the plan is priced, so that an assignment can be
 * judged after the pass is over, by whoever made it. The graph is as autocast left it, before casts are inserted. */
#include "passes/precision/cost.h"
#include "passes/precision/precision.h"

mpc_format mpc_graph_low(const mpc_graph *decided, mpc_format but) {
    for (mpc_node_id id = 0; id < decided->node_count; id++) {
        const mpc_decision *d = &decided->decisions[id];
        if (!d->present) continue;
        if (mpc_format_is_low(d->operand) && d->operand != but) return d->operand;
        if (mpc_format_is_low(d->result) && d->result != but) return d->result;
    }
    return MPC_FMT_none;
}

/* The format that the assignment narrows to; bf16 where it narrows nothing. */
static mpc_format low_of(const mpc_graph *g) {
    mpc_format low = mpc_graph_low(g, MPC_FMT_none);
    return low != MPC_FMT_none ? low : MPC_FMT_bf16;
}

static mpc_status take_decisions(mpc_plan *p) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (!mpc_is_assigned(g, id)) continue;
        if (!g->decisions[id].present)
            return mpc_error(mpc_context_sink(g->ctx), "E108", "no format has been decided for `%s`",
                             mpc_value_name(g, mpc_result(&g->nodes[id], 0)));
        p->given[id] = true;
        mpc_plan_decide(p, id, g->decisions[id], "%s", mpc_sym_text(g->ctx, g->nodes[id].why));
    }
    return MPC_OK;
}

mpc_status mpc_plan_of_graph(const mpc_graph *g, const mpc_device_profile *profile, mpc_pass_env *env, mpc_arena *arena,
                             mpc_plan *plan, const mpc_costs **costs) {
    *plan = mpc_plan_create(g, low_of(g), arena);
    if (plan->g == NULL) return MPC_NO_MEMORY;
    mpc_plan_read_backwards(plan);
    mpc_status status = take_decisions(plan);
    if (status != MPC_OK) return status;
    *costs = mpc_costs_create(plan, profile, env, arena);
    return *costs != NULL ? MPC_OK : MPC_FAILED;
}

static mpc_status price(const mpc_graph *g, const mpc_device_profile *profile, mpc_pass_env *env, mpc_arena *arena,
                        mpc_plan_cost *out) {
    mpc_plan p;
    const mpc_costs *costs;
    mpc_status status = mpc_plan_of_graph(g, profile, env, arena, &p, &costs);
    if (status == MPC_OK) *out = mpc_plan_price(&p, costs);
    return status;
}

mpc_status mpc_graph_price(const mpc_graph *decided, const mpc_device_profile *profile, mpc_pass_env *env,
                           mpc_plan_cost *out) {
    const mpc_sink *sink = mpc_context_sink(decided->ctx);
    *out = (mpc_plan_cost){0};
    if (decided->decisions == NULL) return mpc_error(sink, "E108", "a price needs the decisions of autocast");
    mpc_arena *arena = mpc_arena_create();
    mpc_status status = arena != NULL ? price(decided, profile, env, arena, out) : MPC_NO_MEMORY;
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "out of memory");
    mpc_arena_destroy(arena);
    return status;
}
