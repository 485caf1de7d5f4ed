/* What solvers that stand for other systems share. The lists of those systems know ops, not training steps, so what the
 * plan holds in f32 isn't shown to them; a format that our ops' types fix stays, and the reason says what the other
 * system would have done. */
#include "passes/precision/baseline.h"

#include <stdio.h>
#include <string.h>

/* By symbol: the node whose result has this name; for origins. */
static mpc_node_id *nodes_by_name(const mpc_graph *g, mpc_arena *arena, mpc_sym *last) {
    *last = 0;
    for (uint32_t v = 0; v < g->value_count; v++)
        if (g->values[v].name > *last) *last = g->values[v].name;
    mpc_node_id *by_name = mpc_arena_alloc(arena, ((size_t)*last + 1) * sizeof *by_name);
    if (by_name == NULL) return NULL;
    for (mpc_sym s = 0; s <= *last; s++) by_name[s] = MPC_NONE;
    for (uint32_t v = 0; v < g->value_count; v++) by_name[g->values[v].name] = g->values[v].producer;
    return by_name;
}

bool mpc_baseline_init(mpc_baseline *b, mpc_plan *p, mpc_system system) {
    const mpc_graph *g = p->g;
    uint32_t ops = mpc_op_count(g->ctx);
    size_t nodes = (size_t)g->node_count + 1;
    mpc_sym last;
    mpc_node_id *by_name = nodes_by_name(g, p->arena, &last);
    *b = (mpc_baseline){.p = p,
                        .system = system,
                        .listed = mpc_arena_alloc(p->arena, (ops + 1) * sizeof *b->listed),
                        .forward = mpc_arena_alloc(p->arena, nodes * sizeof *b->forward)};
    if (by_name == NULL || b->listed == NULL || b->forward == NULL) {
        mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
        return false;
    }
    for (mpc_op_id op = 0; op < ops; op++) b->listed[op] = mpc_published_of(system, mpc_op_get(g->ctx, op)->name);
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        b->forward[id] = n->origin != 0 && n->origin <= last ? by_name[n->origin] : MPC_NONE;
    }
    return true;
}

mpc_listed mpc_baseline_listed(const mpc_baseline *b, mpc_node_id id) { return b->listed[b->p->g->nodes[id].op]; }

void mpc_baseline_decide(const mpc_baseline *b, mpc_node_id id, mpc_format operand, mpc_format result,
                         const char *why) {
    mpc_plan *p = b->p;
    const mpc_node *n = &p->g->nodes[id];
    mpc_value_id y = mpc_result(n, 0);
    mpc_decision d = {.present = true, .operand = operand, .compute = MPC_FMT_f32, .result = result};
    bool kept = p->fixed.result[y] && mpc_format_is_float(mpc_value_format(p->g, y));
    if (kept) d.result = mpc_value_format(p->g, y);
    else if (p->fixed.result[y]) d.result = MPC_FMT_none;
    if (mpc_node_has_attr(p->g, n, "acc")) d.acc = mpc_attr_format(p->g, n, "acc");
    mpc_plan_decide(p, id, d, "%s%s", why, kept && mpc_format_is_low(result) ? "; " MPC_KEPT_BY_TYPE : "");
}

bool mpc_baseline_settle(const mpc_baseline *b, mpc_node_id id) {
    const mpc_graph *g = b->p->g;
    const mpc_node *n = &g->nodes[id];
    if (n->op == MPC_OP_cast) {
        mpc_baseline_decide(b, id, MPC_FMT_none, mpc_attr_format(g, n, "to"), "a cast as written");
        return true;
    }
    mpc_sym held = b->p->fixed.held[id];
    if (held == 0) return false;
    bool exact = mpc_node_op(g, id)->kind == MPC_KIND_VIEW || mpc_node_op(g, id)->cls == MPC_CLASS_LOW;
    mpc_baseline_decide(b, id, exact ? MPC_FMT_f32 : MPC_FMT_none, MPC_FMT_f32, mpc_sym_text(g->ctx, held));
    return true;
}

static bool is_scalar(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return mpc_value_type(g, v)->rank == 0 || (n != NULL && n->op == MPC_OP_const);
}

mpc_format mpc_baseline_widest(const mpc_plan *p, const mpc_node *n, bool scalars) {
    mpc_format tensors = MPC_FMT_none, all = MPC_FMT_none;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        if (!mpc_format_is_float(p->format[v]) || p->fixed.operand[n->operand_begin + i]) continue;
        all = mpc_format_join(all, p->format[v]);
        if (!is_scalar(p->g, v)) tensors = mpc_format_join(tensors, p->format[v]);
    }
    if (scalars || tensors == MPC_FMT_none) tensors = all;
    return tensors == MPC_FMT_none ? MPC_FMT_f32 : tensors;
}
