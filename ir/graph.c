/* Reading a graph: values, attributes with their defaults, who uses what. Nothing here changes a graph; writing is the
 * builder's. The graph struct lies in its own arena, so destroying the arena is destroying the graph. */
#include "ir/graph.h"

#include <string.h>

#include "ir/attrs.h"
#include "ir/context_internal.h"

void mpc_graph_destroy(mpc_graph *graph) {
    if (graph) mpc_arena_destroy(graph->arena);
}

const mpc_type *mpc_value_type(const mpc_graph *g, mpc_value_id value) {
    return mpc_type_get(g->ctx, g->values[value].type);
}
mpc_format mpc_value_format(const mpc_graph *g, mpc_value_id value) { return mpc_value_type(g, value)->format; }
const char *mpc_value_name(const mpc_graph *g, mpc_value_id value) {
    return mpc_sym_text(g->ctx, g->values[value].name);
}
const mpc_op *mpc_node_op(const mpc_graph *g, mpc_node_id node) { return mpc_op_get(g->ctx, g->nodes[node].op); }

const mpc_node *mpc_producer(const mpc_graph *g, mpc_value_id value) {
    mpc_node_id producer = g->values[value].producer;
    return producer == MPC_NONE ? NULL : &g->nodes[producer];
}

mpc_value_id mpc_graph_find_value(const mpc_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->value_count; i++)
        if (strcmp(mpc_value_name(g, i), name) == 0) return i;
    return MPC_NONE;
}

mpc_value_id mpc_graph_find_output(const mpc_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->output_count; i++)
        if (strcmp(mpc_sym_text(g->ctx, g->outputs[i].name), name) == 0) return g->outputs[i].value;
    return MPC_NONE;
}

mpc_value_id mpc_graph_next_of(const mpc_graph *g, mpc_value_id state) {
    for (uint32_t i = 0; i < g->next_count; i++)
        if (g->nexts[i].state == state) return g->nexts[i].value;
    return MPC_NONE;
}

static const mpc_attr *get(const mpc_graph *g, const mpc_node *n, const char *key, mpc_attr_kind kind) {
    return mpc_attr_resolve(g->ctx, mpc_op_get(g->ctx, n->op), g->attrs + n->attr_begin, n->attr_count, key, kind);
}

int64_t mpc_attr_int(const mpc_graph *g, const mpc_node *n, const char *key) { return get(g, n, key, MPC_ATTR_INT)->i; }
double mpc_attr_float(const mpc_graph *g, const mpc_node *n, const char *key) {
    return get(g, n, key, MPC_ATTR_FLOAT)->f;
}
bool mpc_attr_bool(const mpc_graph *g, const mpc_node *n, const char *key) { return get(g, n, key, MPC_ATTR_BOOL)->b; }
const char *mpc_attr_str(const mpc_graph *g, const mpc_node *n, const char *key) {
    return mpc_sym_text(g->ctx, get(g, n, key, MPC_ATTR_STR)->s);
}
mpc_format mpc_attr_format(const mpc_graph *g, const mpc_node *n, const char *key) {
    return get(g, n, key, MPC_ATTR_FORMAT)->format;
}
mpc_int_list mpc_attr_ints(const mpc_graph *g, const mpc_node *n, const char *key) {
    return get(g, n, key, MPC_ATTR_INTS)->ints;
}

static const mpc_attr *get_input_attr(const mpc_graph *g, const mpc_input *in, const char *key,
                                      const mpc_attr **fallback) {
    uint32_t count;
    const mpc_attr_spec *specs = mpc_input_attr_specs(g->ctx, &count);
    const mpc_attr_spec *spec = mpc_attr_spec_find(g->ctx, specs, count, key);
    *fallback = spec ? &spec->fallback : NULL;
    return spec ? mpc_attr_stored(g->attrs + in->attr_begin, in->attr_count, spec->key) : NULL;
}

const char *mpc_input_attr_str(const mpc_graph *g, const mpc_input *in, const char *key) {
    const mpc_attr *fallback, *attr = get_input_attr(g, in, key, &fallback);
    if (!attr) attr = fallback;
    return attr && attr->kind == MPC_ATTR_STR ? mpc_sym_text(g->ctx, attr->s) : "";
}

/* An input stores its attributes even when they equal the default: a range 0 to 0 is a statement, no range is none. */
bool mpc_input_attr_int(const mpc_graph *g, const mpc_input *in, const char *key, int64_t *value) {
    const mpc_attr *fallback, *attr = get_input_attr(g, in, key, &fallback);
    *value = attr && attr->kind == MPC_ATTR_INT ? attr->i : 0;
    return attr && attr->kind == MPC_ATTR_INT;
}

mpc_uses mpc_graph_uses(const mpc_graph *g, mpc_arena *arena) {
    mpc_uses uses = {.begin = mpc_arena_alloc(arena, ((size_t)g->value_count + 2) * sizeof *uses.begin)};
    uses.users = mpc_arena_alloc(arena, ((size_t)g->operand_total + 1) * sizeof *uses.users);
    if (!uses.begin || !uses.users) return (mpc_uses){0};
    uint32_t *end = uses.begin + 1; /* first counts, shifted by one, then ends that grow while users are filled in */
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t j = 0; j < g->nodes[i].operand_count; j++) {
            mpc_value_id value = mpc_operand(g, &g->nodes[i], j);
            if (value + 2 <= g->value_count) end[value + 1]++;
        }
    for (uint32_t v = 1; v <= g->value_count; v++) end[v] += end[v - 1];
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t j = 0; j < g->nodes[i].operand_count; j++) uses.users[end[mpc_operand(g, &g->nodes[i], j)]++] = i;
    return uses;
}
