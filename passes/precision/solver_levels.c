/* Apex's levels O0, O2 and O3 (O1 is a list, solver_published.c). O0: f32. O2: the model in the low format, its outputs
 * f32 for the loss, norms with f32 parameters and statistics, masters f32. O3: the loss low too, as far as types
 * allow: moments, statistics and losses are f32 by type here, and the reason says so. That O3 has no masters isn't decided
 * here: the front end sets `weights = none` under it. */
#include "passes/precision/baseline.h"

typedef enum level { LEVEL_O0, LEVEL_O2, LEVEL_O3 } level;

static bool is_view(const mpc_graph *g, mpc_node_id id) { return mpc_node_op(g, id)->kind == MPC_KIND_VIEW; }

static void decide_f32(const mpc_baseline *b, mpc_node_id id) {
    bool exact = mpc_node_op(b->p->g, id)->cls == MPC_CLASS_LOW || is_view(b->p->g, id);
    mpc_baseline_decide(b, id, exact ? MPC_FMT_f32 : MPC_FMT_none, MPC_FMT_f32, "O0: f32");
}

/* Behind a loss: its first result is f32 by type, or it reads such a value and no tensor besides. */
static void mark_losses(const mpc_baseline *b, bool *loss) {
    const mpc_graph *g = b->p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        bool float_result = mpc_format_is_float(mpc_value_format(g, mpc_result(n, 0)));
        loss[id] = mpc_is_assigned(g, id) && float_result && b->p->fixed.result[mpc_result(n, 0)] &&
                   b->p->fixed.held[id] == 0;
        for (uint32_t i = 0; i < n->operand_count && n->origin == 0; i++) {
            mpc_node_id from = g->values[mpc_operand(g, n, i)].producer;
            loss[id] = loss[id] || (from != MPC_NONE && g->nodes[from].origin == 0 && loss[from] &&
                                    mpc_node_op(g, from)->cls == MPC_CLASS_HIGH);
        }
    }
}

static void decide_low(const mpc_baseline *b, mpc_node_id id, level at, bool loss) {
    const mpc_graph *g = b->p->g;
    mpc_class cls = mpc_node_op(g, id)->cls;
    mpc_format low = b->p->low;
    if (loss && at == LEVEL_O2)
        mpc_baseline_decide(b, id, cls == MPC_CLASS_LOW || is_view(g, id) ? MPC_FMT_f32 : MPC_FMT_none, MPC_FMT_f32,
                            "O2: the model's outputs are f32 for the loss");
    else mpc_baseline_decide(b, id, low, low, at == LEVEL_O2 ? "O2: all of the model is low" : "O3: everything is low");
}

static mpc_status solve_level(mpc_plan *p, level at) {
    mpc_baseline b;
    bool *loss = mpc_arena_alloc(p->arena, (size_t)p->g->node_count + 1);
    if (loss == NULL) return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    if (!mpc_baseline_init(&b, p, MPC_SYSTEM_apex)) return MPC_NO_MEMORY;
    mark_losses(&b, loss);
    for (mpc_node_id id = 0; id < p->g->node_count; id++) {
        if (!mpc_is_assigned(p->g, id) || p->given[id] || mpc_baseline_settle(&b, id)) continue;
        if (at == LEVEL_O0) decide_f32(&b, id);
        else decide_low(&b, id, at, loss[id]);
    }
    return MPC_OK;
}

mpc_status mpc_solver_o0(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_level(p, LEVEL_O0);
}

mpc_status mpc_solver_o2(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_level(p, LEVEL_O2);
}

mpc_status mpc_solver_o3(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    return solve_level(p, LEVEL_O3);
}
