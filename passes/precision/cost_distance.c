/* Which values have left the cache by the time they are read: those saved for the backward pass of a large model, and
 * parameters from step to step. What lies between is counted in f32, in the order of the graph, whatever formats are
 * chosen, so that terms stay independent of each other. A value that fits into the cache by itself need not be there;
 * its size says nothing about that. */
#include "passes/precision/cost_data.h"

enum { F32_BYTES = 4 };

static bool is_stored(const mpc_costs *c, mpc_value_id v) {
    if (c->storage[v] != v || !(c->elements[v] > 0)) return false;
    for (uint32_t i = c->begin[v]; i < c->begin[v + 1]; i++)
        if (c->readings[i].crosses) return true;
    return false;
}

/* Bytes that a node brings into the cache: what it stores, and the parameters of a product. */
static double brought_by(const mpc_costs *c, const mpc_node *n) {
    const mpc_graph *g = c->g;
    double elements = 0;
    bool low = mpc_op_get(g->ctx, n->op)->cls == MPC_CLASS_LOW;
    for (uint32_t i = 0; i < n->result_count && n->op != MPC_OP_state; i++)
        if (is_stored(c, mpc_result(n, i))) elements += c->elements[mpc_result(n, i)];
    for (uint32_t i = 0; i < n->operand_count && low; i++) {
        mpc_value_id v = c->storage[mpc_operand(g, n, i)];
        if (c->made[v] > MPC_MADE_BEFORE) elements += c->elements[v];
    }
    return elements * F32_BYTES;
}

typedef struct way {
    double *before; /* by node, + 1: bytes brought by all nodes before it */
    double all;
} way;

/* Inputs are there since just before the step, states since the end of the one before. */
static double distance(const mpc_costs *c, const way *w, mpc_value_id v, mpc_node_id reader) {
    const mpc_node *n = mpc_producer(c->g, v);
    if (n != NULL && n->op == MPC_OP_state) return w->all;
    double made = n == NULL ? 0 : w->before[n - c->g->nodes + 1];
    return w->before[reader] - made;
}

static void look_at_readings(mpc_costs *c, const way *w, mpc_value_id v) {
    double loops = 0, far = 0;
    for (uint32_t i = c->begin[v]; i < c->begin[v + 1]; i++) {
        const mpc_reading *r = &c->readings[i];
        bool is_far = r->reader != MPC_NONE && distance(c, w, v, r->reader) > c->profile.cache_bytes;
        if (r->crosses && is_far) c->spilled[v] = true;
        loops += r->counted;
        far += r->counted && is_far;
    }
    c->far[v] = loops > 0 ? far / loops : 0;
}

static void look_at_operands(mpc_costs *c, const way *w, mpc_node_id id) {
    const mpc_node *n = &c->g->nodes[id];
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(c->g, n, i);
        bool counts = mpc_format_is_float(mpc_value_format(c->g, v)) && !c->plan->fixed.operand[n->operand_begin + i];
        if (counts && distance(c, w, c->storage[v], id) > c->profile.cache_bytes)
            c->ops[id].far += (double)mpc_type_elements(mpc_value_type(c->g, v));
    }
}

bool mpc_costs_find_far(mpc_costs *c, mpc_arena *scratch) {
    const mpc_graph *g = c->g;
    way w = {.before = mpc_arena_alloc(scratch, ((size_t)g->node_count + 2) * sizeof *w.before)};
    c->far = mpc_arena_alloc(c->arena, ((size_t)g->value_count + 1) * sizeof *c->far);
    c->spilled = mpc_arena_alloc(c->arena, (size_t)g->value_count + 1);
    if (w.before == NULL || c->far == NULL || c->spilled == NULL) return false;
    for (mpc_node_id id = 0; id < g->node_count; id++) w.before[id + 1] = w.before[id] + brought_by(c, &g->nodes[id]);
    w.all = w.before[g->node_count];
    for (uint32_t v = 0; v < g->value_count; v++) look_at_readings(c, &w, v);
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (c->ops[id].present) look_at_operands(c, &w, id);
    return true;
}
