/* Asks the shape rules which formats are not up to a decision: every float operand is offered as bf16, an operand that
 * the rule refuses is fixed, and a result that stays f32 all the same is fixed too. So no table of "f32 statistics" has
 * to be kept in step with the ops, and a plugin's op is covered by its own rule. What a step computes beside the model is
 * fixed as well, by its place in the graph (step_arithmetic.c). */
#include "ir/infer.h"
#include "passes/precision/precision.h"

enum { MAX_OPERANDS = 16 }; /* beyond it (concat, global_norm) operands are alike and none is fixed */

typedef struct trial {
    const mpc_graph *g;
    const mpc_node *n;
    mpc_type_id types[MAX_OPERANDS];
    mpc_infer infer;
} trial;

static bool is_float(const mpc_graph *g, mpc_value_id v) { return mpc_format_is_float(mpc_value_format(g, v)); }

static bool infer_once(trial *t, const mpc_op *op) {
    t->infer = (mpc_infer){.ctx = t->g->ctx,
                           .op = op,
                           .operands = t->types,
                           .operand_count = t->n->operand_count,
                           .attrs = t->g->attrs + t->n->attr_begin,
                           .attr_count = t->n->attr_count,
                           .bad_operand = MPC_NONE};
    return mpc_infer_types(&t->infer);
}

/* Gives a refused operand its own type back until the rule is content. */
static bool infer_narrowed(trial *t, const mpc_op *op, bool *fixed) {
    for (uint32_t i = 0; i < t->n->operand_count; i++) {
        mpc_value_id v = mpc_operand(t->g, t->n, i);
        t->types[i] = t->g->values[v].type;
        fixed[i] = !is_float(t->g, v);
        if (!fixed[i]) t->types[i] = mpc_type_with_format(t->g->ctx, t->types[i], MPC_FMT_bf16);
    }
    while (!infer_once(t, op)) {
        uint32_t bad = t->infer.bad_operand;
        if (bad >= t->n->operand_count || fixed[bad]) return false;
        fixed[bad] = true;
        t->types[bad] = t->g->values[mpc_operand(t->g, t->n, bad)].type;
    }
    return true;
}

static void fix_results(const mpc_node *n, mpc_fixed *fixed) {
    for (uint32_t i = 0; i < n->result_count; i++) fixed->result[mpc_result(n, i)] = true;
}

static void analyze_node(const mpc_graph *g, mpc_node_id id, mpc_fixed *fixed) {
    const mpc_node *n = &g->nodes[id];
    const mpc_op *op = mpc_node_op(g, id);
    trial t = {.g = g, .n = n};
    bool *operands = fixed->operand + n->operand_begin;
    for (uint32_t i = 0; i < n->operand_count; i++) operands[i] = !is_float(g, mpc_operand(g, n, i));
    for (uint32_t i = 0; i < n->result_count; i++) fixed->result[mpc_result(n, i)] = !is_float(g, mpc_result(n, i));
    if (op->kind == MPC_KIND_STRUCT || op->cls == MPC_CLASS_NONE) fix_results(n, fixed);
    else if (op->kind != MPC_KIND_EWISE && n->operand_count <= MAX_OPERANDS && infer_narrowed(&t, op, operands))
        for (uint32_t i = 0; i < n->result_count; i++)
            if (mpc_type_get(g->ctx, t.infer.results[i])->format != MPC_FMT_bf16)
                fixed->result[mpc_result(n, i)] = true;
}

mpc_fixed mpc_fixed_formats(const mpc_graph *g, mpc_arena *arena) {
    mpc_fixed fixed = {.operand = mpc_arena_alloc(arena, g->operand_total + 1),
                       .result = mpc_arena_alloc(arena, g->value_count + 1)};
    if (fixed.operand == NULL || fixed.result == NULL) return (mpc_fixed){0};
    for (uint32_t i = 0; i < g->input_count; i++) fixed.result[g->inputs[i].value] = true;
    for (mpc_node_id i = 0; i < g->node_count; i++) analyze_node(g, i, &fixed);
    return mpc_fixed_hold(g, &fixed, arena) ? fixed : (mpc_fixed){0};
}
