/* What a training step computes beside the model is f32 whatever a solver, a plugin or an older assignment says: the
 * data mapping, loss and reported scalars, the loss scale, everything behind the gradients. It is found here, once,
 * from what front end and passes leave in every graph (inputs' `model`, names of outputs, `scaler.scale`, origins);
 * plans, casts and checks ask mpc_fixed. A newcomer would look at the names of nodes: the model may have the same ones.
 */
#include <string.h>

#include "passes/precision/precision.h"

typedef struct holding {
    const mpc_graph *g;
    mpc_fixed *fixed;
    mpc_arena *arena;
    mpc_sym *scalar; /* by value: the reason of a scalar that is held; 0: none */
} holding;

static bool is_held(const holding *h, mpc_node_id id) { return id != MPC_NONE && h->fixed->held[id] != 0; }

/* A word of the user stands: what contradicts a hard rule is refused where words are checked (N99). */
static void hold(holding *h, mpc_node_id id, mpc_sym reason) {
    const mpc_node *n = &h->g->nodes[id];
    if (n->op == MPC_OP_cast || is_held(h, id) || mpc_format_is_low(mpc_node_prec(h->g, n))) return;
    h->fixed->held[id] = reason;
    for (uint32_t i = 0; i < n->result_count; i++) h->fixed->result[mpc_result(n, i)] = true;
}

static mpc_sym reason(const holding *h, const char *text) { return mpc_intern(h->g->ctx, text); }

/* ---- the data mapping ---- */

/* By node: it depends on fields, literals and statistics of the data only. */
static void find_data(const holding *h, bool *data) {
    const mpc_graph *g = h->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        data[id] = n->op != MPC_OP_state || strcmp(mpc_attr_str(g, n, "role"), "stat") == 0;
        for (uint32_t i = 0; i < n->operand_count && data[id]; i++) {
            mpc_node_id from = g->values[mpc_operand(g, n, i)].producer;
            data[id] = from == MPC_NONE || data[from];
        }
    }
}

/* Marks the values that the mapping gives: an input's `model` names them, separated by commas. */
static void mark_mapped(const holding *h, const bool *data, bool *mapped) {
    const mpc_graph *g = h->g;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const char *names = mpc_input_attr_str(g, &g->inputs[i], "model");
        for (size_t length; names != NULL && *names != '\0'; names += length + (names[length] == ',')) {
            length = strcspn(names, ",");
            const char *name = mpc_arena_printf(h->arena, "%.*s", (int)length, names);
            mpc_value_id v = name == NULL ? MPC_NONE : mpc_graph_find_value(g, name);
            mpc_node_id from = v == MPC_NONE ? MPC_NONE : g->values[v].producer;
            if (from != MPC_NONE && data[from]) mapped[from] = true;
        }
    }
}

static void hold_mapping(holding *h, bool *data, bool *mapped) {
    const mpc_graph *g = h->g;
    mpc_sym why = reason(h, "the data mapping is f32 under every solver");
    find_data(h, data);
    mark_mapped(h, data, mapped);
    for (mpc_node_id id = g->node_count; id-- > 0;) {
        const mpc_node *n = &g->nodes[id];
        if (!mapped[id]) continue;
        hold(h, id, why);
        for (uint32_t i = 0; i < n->operand_count; i++) {
            mpc_node_id from = g->values[mpc_operand(g, n, i)].producer;
            if (from != MPC_NONE) mapped[from] = true;
        }
    }
}

/* ---- scalars ---- */

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static mpc_sym reason_of_output(const holding *h, const char *name) {
    if (strcmp(name, "loss") == 0 || begins(name, "loss.") || begins(name, "group."))
        return reason(h, "losses are f32 scalars under every solver (N12)");
    if (strcmp(name, "count") == 0 || begins(name, "count.") || begins(name, "weight.") || begins(name, "metric."))
        return reason(h, "counts and sums of metrics are f32 under every solver (N40)");
    return 0;
}

static bool is_float_scalar(const mpc_graph *g, mpc_value_id v) {
    return mpc_value_type(g, v)->rank == 0 && mpc_format_is_float(mpc_value_format(g, v));
}

static void mark_scalar(holding *h, mpc_value_id v, mpc_sym why) {
    if (h->scalar[v] == 0 && is_float_scalar(h->g, v)) h->scalar[v] = why;
}

/* From outputs back to where their elements are summed. A product that gives a scalar is the model's. */
static void hold_outputs(holding *h) {
    const mpc_graph *g = h->g;
    for (uint32_t i = 0; i < g->output_count; i++) {
        mpc_sym why = reason_of_output(h, mpc_sym_text(g->ctx, g->outputs[i].name));
        if (why != 0) mark_scalar(h, g->outputs[i].value, why);
    }
    for (mpc_node_id id = g->node_count; id-- > 0;) {
        const mpc_node *n = &g->nodes[id];
        mpc_sym why = 0;
        for (uint32_t i = 0; i < n->result_count && why == 0; i++) why = h->scalar[mpc_result(n, i)];
        if (why == 0 || n->origin != 0 || mpc_node_op(g, id)->cls == MPC_CLASS_LOW) continue;
        hold(h, id, why);
        for (uint32_t i = 0; i < n->operand_count; i++) mark_scalar(h, mpc_operand(g, n, i), why);
    }
}

/* A total can't be anything else, whoever asks for it. */
static void fix_total(const holding *h) {
    mpc_value_id total = mpc_graph_find_output(h->g, "loss");
    mpc_node_id id = total == MPC_NONE ? MPC_NONE : h->g->values[total].producer;
    if (id == MPC_NONE || mpc_node_op(h->g, id)->cls == MPC_CLASS_LOW) return;
    h->fixed->result[total] = true;
    h->fixed->held[id] = reason_of_output(h, "loss");
}

/* Flags and sums made of held scalars alone, as the guard's. */
static mpc_sym reason_of_scalars(const holding *h, const mpc_node *n) {
    const mpc_graph *g = h->g;
    mpc_sym why = 0;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (mpc_value_type(g, mpc_result(n, i))->rank != 0) return 0;
    for (uint32_t i = 0; i < n->operand_count && why == 0; i++) why = h->scalar[mpc_operand(g, n, i)];
    return n->origin == 0 ? why : 0;
}

/* ---- behind the gradients ---- */

/* A forward node reads no gradient; so what has no origin and reads one, or reads such a node, belongs to the update.
 */
static bool reads_gradients(const holding *h, const mpc_node *n, const bool *update) {
    const mpc_graph *g = h->g;
    for (uint32_t i = 0; i < n->operand_count && n->origin == 0; i++) {
        mpc_node_id from = g->values[mpc_operand(g, n, i)].producer;
        if (from != MPC_NONE && (g->nodes[from].origin != 0 || update[from])) return true;
    }
    return n->op == MPC_OP_unscale;
}

static bool reads(const mpc_graph *g, const mpc_node *n, mpc_value_id v) {
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (mpc_operand(g, n, i) == v) return true;
    return false;
}

static void hold_forwards(holding *h, bool *update) {
    const mpc_graph *g = h->g;
    mpc_sym scales = reason(h, "the loss scale is f32 under every solver (N64)"),
            updates = reason(h, "behind the gradients: f32 under every solver (N60)");
    mpc_value_id scale = mpc_graph_find_value(g, "scaler.scale");
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        mpc_sym why = reason_of_scalars(h, n);
        update[id] = reads_gradients(h, n, update);
        if (scale != MPC_NONE && reads(g, n, scale)) why = scales;
        else if (update[id]) why = updates;
        if (why == 0) continue;
        hold(h, id, why);
        for (uint32_t i = 0; i < n->result_count; i++) mark_scalar(h, mpc_result(n, i), why);
    }
}

bool mpc_fixed_hold(const mpc_graph *g, mpc_fixed *fixed, mpc_arena *arena) {
    size_t nodes = (size_t)g->node_count + 1;
    holding h = {.g = g, .fixed = fixed, .arena = arena};
    bool *data = mpc_arena_alloc(arena, nodes), *mapped = mpc_arena_alloc(arena, nodes),
         *update = mpc_arena_alloc(arena, nodes);
    fixed->held = mpc_arena_alloc(arena, nodes * sizeof *fixed->held);
    h.scalar = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *h.scalar);
    if (data == NULL || mapped == NULL || update == NULL || fixed->held == NULL || h.scalar == NULL) return false;
    hold_mapping(&h, data, mapped);
    hold_outputs(&h);
    fix_total(&h);
    hold_forwards(&h, update);
    return true;
}
