/* The frame of a pass that copies a graph with changes: builder, map from old values to new ones, scratch memory. The builder's
 * sticky error covers every failure, so a pass calls straight through and returns what mpc_rewrite_finish gives. */
#ifndef MPC_PASSES_REWRITE_H
#define MPC_PASSES_REWRITE_H

#include "ir/builder.h"

typedef struct mpc_rewrite {
    const mpc_graph *in;
    mpc_builder *b;
    mpc_arena *scratch; /* until mpc_rewrite_finish */
    mpc_value_id *map; /* by value of `in`; MPC_NONE: not made yet */
    mpc_value_id *operands; /* room for the node with the most operands */
} mpc_rewrite;

/* Copies the inputs. False when out of memory (diagnostic sent, nothing to release). */
bool mpc_rewrite_begin(mpc_rewrite *rw, const mpc_graph *in);
/* The node's operands through the map, in rw->operands. */
const mpc_value_id *mpc_rewrite_operands(mpc_rewrite *rw, const mpc_node *n);
/* Results of the old node are the `count` results from `first` on. */
void mpc_rewrite_map_results(mpc_rewrite *rw, const mpc_node *n, mpc_value_id first);
void mpc_rewrite_copy_node(mpc_rewrite *rw, mpc_node_id id);
/* A node made anew with other operands and attributes keeps place, origin, reason and name of `n`. */
void mpc_rewrite_dress(mpc_rewrite *rw, const mpc_node *n);
/* The graph, or NULL after a diagnostic. Copies nexts and outputs unless the pass has bound some itself. Releases everything else. */
mpc_graph *mpc_rewrite_finish(mpc_rewrite *rw);
/* Scratch memory for `count` elements, zeroed; NULL after failing the builder. */
void *mpc_rewrite_scratch(mpc_rewrite *rw, size_t count, size_t size);

/* An attribute as an argument for mpc_build; `args` needs n->attr_count entries. */
void mpc_rewrite_attrs(const mpc_graph *g, const mpc_node *n, mpc_attr_arg *args);

/* Kinds of state that passes make: name, skip and role, and a constant initial value. */
mpc_value_id mpc_rewrite_state(mpc_rewrite *rw, const char *name, mpc_type_id type, const char *skip, const char *role, double init);
mpc_type_id mpc_scalar_type(mpc_context *ctx, mpc_format format);
/* E108 unless the graph has a scalar output of this name and format (or, if optional, none of the name). */
mpc_status mpc_check_scalar_output(const mpc_graph *g, const char *pass, const char *name, mpc_format format, bool optional);

#endif
