/* Runs eval rules over a graph and rounds what they give: to the compute format (f32, or f64 where an f64 value takes
 * part), then to the result's. That second rounding is not a mistake: devices compute in f32 and store narrower, and
 * for + - * / sqrt a double rounded to f32 is the f32 result to the bit. In f64 mode floats are not rounded at all;
 * integers and bools always hold what their format holds. */
#include "ir/eval/eval.h"

static bool takes_f64(const mpc_tensor *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].type.format == MPC_FMT_f64) return true;
    return false;
}

static void round_result(mpc_tensor *t, bool f64, bool wide) {
    mpc_format format = t->type.format;
    int64_t count = mpc_type_elements(&t->type);
    if (f64 && mpc_format_is_float(format)) return;
    bool through_f32 = mpc_format_is_float(format) && !wide;
    for (int64_t i = 0; i < count; i++) {
        double v = through_f32 ? (double)(float)t->data[i] : t->data[i];
        t->data[i] = format == MPC_FMT_f32 && through_f32 ? v : mpc_round_to(format, v);
    }
}

static mpc_status make_results(const mpc_graph *g, const mpc_node *n, mpc_arena *arena, mpc_tensor *results) {
    for (uint32_t i = 0; i < n->result_count; i++) {
        results[i] = mpc_tensor_make(arena, mpc_value_type(g, mpc_result(n, i)));
        if (results[i].data == NULL) return MPC_NO_MEMORY;
    }
    return MPC_OK;
}

mpc_status mpc_evaluate_node(const mpc_graph *g, mpc_node_id node, const mpc_tensor *operands, bool f64,
                             mpc_arena *arena, mpc_tensor *results) {
    const mpc_node *n = &g->nodes[node];
    const mpc_op *op = mpc_node_op(g, node);
    if (op->eval == NULL)
        return mpc_error(mpc_context_sink(g->ctx), "E900", "%s has no evaluation rule (value %s)", op->name,
                         n->result_count > 0 ? mpc_value_name(g, mpc_result(n, 0)) : "none");
    if (make_results(g, n, arena, results) != MPC_OK) return MPC_NO_MEMORY;
    mpc_eval e = {.graph = g,
                  .node = n,
                  .operands = operands,
                  .operand_count = n->operand_count,
                  .results = results,
                  .exact = !f64,
                  .scratch = arena};
    if (!op->eval(&e)) return MPC_NO_MEMORY;
    bool wide = takes_f64(operands, n->operand_count) || takes_f64(results, n->result_count);
    for (uint32_t i = 0; i < n->result_count; i++) round_result(&results[i], f64, wide);
    return MPC_OK;
}

typedef struct evaluation {
    const mpc_graph *g;
    mpc_state_reader read_state;
    void *user;
    const mpc_eval_options *options;
    mpc_arena *arena;
    mpc_tensor *values;
    mpc_tensor *operands; /* room for the node with the most operands */
} evaluation;

static mpc_status evaluate_at(evaluation *ev, mpc_node_id id) {
    const mpc_node *n = &ev->g->nodes[id];
    mpc_tensor *results = ev->values + n->result_begin;
    if (n->op == MPC_OP_state) {
        *results = ev->read_state(ev->user, ev->g, n);
        return results->data != NULL ? MPC_OK : MPC_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n->operand_count; i++) ev->operands[i] = ev->values[mpc_operand(ev->g, n, i)];
    return mpc_evaluate_node(ev->g, id, ev->operands, ev->options != NULL && ev->options->f64, ev->arena, results);
}

static uint32_t most_operands(const mpc_graph *g) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].operand_count > most) most = g->nodes[i].operand_count;
    return most;
}

mpc_status mpc_evaluate(const mpc_graph *g, const mpc_tensor *inputs, mpc_state_reader read_state, void *user,
                        const mpc_eval_options *options, mpc_arena *arena, mpc_tensor *values) {
    evaluation ev = {
        .g = g, .read_state = read_state, .user = user, .options = options, .arena = arena, .values = values};
    ev.operands = mpc_arena_alloc(arena, most_operands(g) * sizeof *ev.operands);
    if (ev.operands == NULL) return MPC_NO_MEMORY;
    for (uint32_t i = 0; i < g->input_count; i++) values[g->inputs[i].value] = inputs[i];
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        mpc_status status = evaluate_at(&ev, id);
        if (status != MPC_OK) return status;
        if (options != NULL && options->after != NULL &&
            !options->after(options->user, g, id, values + g->nodes[id].result_begin))
            return MPC_OK;
    }
    return MPC_OK;
}
