/* Writes a graph. A builder carries a sticky error: after the first failure (out of memory, a shape rule that refuses)
 * every call returns MPC_NONE and does nothing, so rules need no error plumbing; mpc_builder_finish reports. */
#ifndef MPC_IR_BUILDER_H
#define MPC_IR_BUILDER_H

#include "ir/graph.h"

typedef struct mpc_builder mpc_builder;

mpc_builder *mpc_builder_create(mpc_context *ctx, const char *graph_name);
/* Takes the graph, NULL after an error (sent to the sink). Destroys the builder. Checks nothing but the sticky error. */
mpc_graph *mpc_builder_finish(mpc_builder *b);
void mpc_builder_destroy(mpc_builder *b); /* abandons the graph; NULL is fine */
bool mpc_builder_failed(const mpc_builder *b);
mpc_status mpc_builder_fail(mpc_builder *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The graph as written so far; pointers into its arrays move with the next call. */
const mpc_graph *mpc_builder_graph(const mpc_builder *b);
mpc_context *mpc_builder_context(const mpc_builder *b);

/* Location, origin and reason that following nodes get. */
void mpc_builder_set_loc(mpc_builder *b, mpc_loc loc);
void mpc_builder_set_origin(mpc_builder *b, mpc_sym origin);
void mpc_builder_set_why(mpc_builder *b, mpc_sym why);
/* Name of the first result of the next node (other results get suffixes .1, .2 ...); made unique by a suffix if taken.
 * Without it: the op's name, numbered. */
void mpc_builder_set_name(mpc_builder *b, const char *name);
/* The same, after a value of another graph of this context. */
void mpc_builder_set_name_of(mpc_builder *b, const mpc_graph *from, mpc_value_id value);
/* Before anything is built: room for as much as `like` holds, and names only where it has any (mpc_graph.unnamed). */
void mpc_builder_reserve(mpc_builder *b, const mpc_graph *like);

typedef struct mpc_attr_arg { /* an attribute to set: fill key and kind's field, see the MPC_A_* macros */
    const char *key;
    mpc_attr_kind kind;
    int64_t i;
    double f;
    const char *s;
    mpc_format format;
    const int64_t *ints;
    uint32_t count;
} mpc_attr_arg;
#define MPC_A_INT(k, v) ((mpc_attr_arg){.key = (k), .kind = MPC_ATTR_INT, .i = (v)})
#define MPC_A_FLOAT(k, v) ((mpc_attr_arg){.key = (k), .kind = MPC_ATTR_FLOAT, .f = (v)})
#define MPC_A_BOOL(k, v) ((mpc_attr_arg){.key = (k), .kind = MPC_ATTR_BOOL, .i = (v)})
#define MPC_A_STR(k, v) ((mpc_attr_arg){.key = (k), .kind = MPC_ATTR_STR, .s = (v)})
#define MPC_A_FORMAT(k, v) ((mpc_attr_arg){.key = (k), .kind = MPC_ATTR_FORMAT, .format = (v)})
#define MPC_A_INTS(k, v, n) ((mpc_attr_arg){.key = (k), .kind = MPC_ATTR_INTS, .ints = (v), .count = (n)})

mpc_value_id mpc_build_input(mpc_builder *b, const char *name, mpc_type_id type, const mpc_attr_arg *attrs, uint32_t attr_count);

/* The general form; result types are inferred. First result. An attribute equal to its default isn't stored. */
mpc_value_id mpc_build(mpc_builder *b, mpc_op_id op, const mpc_value_id *operands, uint32_t operand_count,
                       const mpc_attr_arg *attrs, uint32_t attr_count);
/* Same, but float results get `format` (MPC_FMT_none: inferred). */
mpc_value_id mpc_build_as(mpc_builder *b, mpc_op_id op, const mpc_value_id *operands, uint32_t operand_count,
                          const mpc_attr_arg *attrs, uint32_t attr_count, mpc_format format);
/* Of an op whose type isn't inferred (state, const, range): `type` is the first result's. */
mpc_value_id mpc_build_typed(mpc_builder *b, mpc_op_id op, mpc_type_id type, const mpc_attr_arg *attrs, uint32_t attr_count);
mpc_value_id mpc_build1(mpc_builder *b, mpc_op_id op, mpc_value_id a); /* no attributes */
mpc_value_id mpc_build2(mpc_builder *b, mpc_op_id op, mpc_value_id a, mpc_value_id c);
mpc_value_id mpc_build3(mpc_builder *b, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d);
mpc_value_id mpc_build_const(mpc_builder *b, double value, mpc_format format); /* a scalar */
mpc_value_id mpc_build_cast(mpc_builder *b, mpc_value_id a, mpc_format to, const char *by); /* `a` itself if it has the format */
mpc_value_id mpc_build_reshape(mpc_builder *b, mpc_value_id a, uint32_t rank, const int64_t *dims); /* `a` if same */
mpc_value_id mpc_build_transpose(mpc_builder *b, mpc_value_id a, const int64_t *perm);
mpc_value_id mpc_build_reduce(mpc_builder *b, mpc_op_id op, mpc_value_id a, const int64_t *axes, uint32_t axis_count, bool keep);
/* state node by name, with its attributes */
mpc_value_id mpc_build_state(mpc_builder *b, const char *name, mpc_type_id type, const mpc_attr_arg *attrs, uint32_t attr_count);
void mpc_build_next(mpc_builder *b, mpc_value_id state, mpc_value_id value); /* replaces an earlier next of the same state */
void mpc_build_output(mpc_builder *b, const char *name, mpc_value_id value); /* replaces an earlier one of that name */

/* Copies a node of another graph with new operands: same op, attributes, result types and names, location, origin, reason. First result. */
mpc_value_id mpc_build_copy(mpc_builder *b, const mpc_graph *from, mpc_node_id node, const mpc_value_id *operands);
/* Copies the inputs of `from`; map[old value] = new value. */
void mpc_build_copy_inputs(mpc_builder *b, const mpc_graph *from, mpc_value_id *map);
/* Copies nexts and outputs through the map. */
void mpc_build_copy_ends(mpc_builder *b, const mpc_graph *from, const mpc_value_id *map);
/* A whole copy as a start: nodes, inputs, nexts, outputs. */
void mpc_build_copy_all(mpc_builder *b, const mpc_graph *from, mpc_value_id *map);
/* Decision of the node that produces `value` (side table; grows as needed). */
void mpc_build_decision(mpc_builder *b, mpc_value_id value, const mpc_decision *decision);

const mpc_type *mpc_builder_type(const mpc_builder *b, mpc_value_id value);

#endif
