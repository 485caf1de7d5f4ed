/* The insides of a builder, for builder.c, build_node.c, build_copy.c and the parser. */
#ifndef MPC_IR_BUILDER_INTERNAL_H
#define MPC_IR_BUILDER_INTERNAL_H

#include "base/array.h"
#include "ir/builder.h"
#include "ir/idmap.h"
#include "ir/infer.h"

/* Which array of the graph grows: the index into mpc_graph.capacity. */
enum {
    MPC_GROW_NODES,
    MPC_GROW_VALUES,
    MPC_GROW_OPERANDS,
    MPC_GROW_ATTRS,
    MPC_GROW_INPUTS,
    MPC_GROW_NEXTS,
    MPC_GROW_OUTPUTS
};

struct mpc_builder {
    mpc_context *ctx;
    mpc_graph *graph;
    bool failed;
    mpc_idmap names;          /* name symbol of a value -> last suffix that made it unique */
    uint64_t *taken;          /* the same for a graph with `unnamed`: a bit per symbol, for names need no suffix */
    uint32_t taken_words;
    mpc_idmap op_numbers;     /* op -> number of nodes named after it */
    mpc_idmap nexts, outputs; /* state value, output name -> index in the graph's array */
    mpc_loc loc;
    mpc_sym origin, why;
    mpc_sym pending_name;
    uint32_t decision_capacity;
    MPC_ARRAY(mpc_type_id) types; /* operand types of the node being built */
};

/* Room for `extra` more elements of one array; false (sticky) when out of memory. */
bool mpc_builder_grow(mpc_builder *b, int which, void **data, uint32_t count, uint32_t extra, size_t size);
#define mpc_builder_grow_array(b, which, field, count, extra) \
    ((!(b)->failed && (extra) <= (b)->graph->capacity[which] - (b)->graph->count) || \
     mpc_builder_grow((b), (which), (void **)&(b)->graph->field, (b)->graph->count, (extra), sizeof *(b)->graph->field))

void mpc_builder_no_memory(mpc_builder *b);
/* `name` if it is free, else with a suffix; registers it. 0 after a failure, and for a name that is taken in a graph
 * with `unnamed`: who comes later is nobody. */
mpc_sym mpc_builder_unique_name(mpc_builder *b, const char *name);
mpc_sym mpc_builder_unique_sym(mpc_builder *b, mpc_sym name);
/* The node's fields, apart from results and attributes, are set by the caller; operands and attributes are already
 * appended. Adds `count` values of the given types and names. First value. */
mpc_value_id mpc_builder_add_node(mpc_builder *b, const mpc_node *node, const mpc_type_id *types, const mpc_sym *names,
                                  uint32_t count);
bool mpc_builder_add_operands(mpc_builder *b, const mpc_value_id *operands, uint32_t count);
/* Appends attributes, with lists copied into the graph's arena; their first index in *begin. */
bool mpc_builder_add_attrs(mpc_builder *b, const mpc_attr *attrs, uint32_t count, uint32_t *begin);
/* A graph input with ready attributes. */
mpc_value_id mpc_builder_add_input(mpc_builder *b, mpc_sym name, mpc_type_id type, const mpc_attr *attrs,
                                   uint32_t count);

#endif
