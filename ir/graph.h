/* The IR: a graph of tensor operations in SSA form and topological order. Arrays and typed 32-bit ids; one arena per graph.
 * A step is a pure function: inputs and states in, named outputs and the states' next values out. A finished graph is const;
 * a pass writes a new one through a builder (ir/builder.h). */
#ifndef MPC_IR_GRAPH_H
#define MPC_IR_GRAPH_H

#include "ir/context.h"
#include "ir/op.h"

typedef uint32_t mpc_value_id;
typedef uint32_t mpc_node_id;
#define MPC_NONE UINT32_MAX

typedef struct mpc_loc {
    mpc_sym file; /* 0: none */
    uint32_t line, column; /* 1-based */
} mpc_loc;

typedef struct mpc_value {
    mpc_type_id type;
    mpc_sym name; /* unique in the graph */
    mpc_node_id producer; /* MPC_NONE: a graph input */
    uint32_t index; /* which result of the producer, or which input */
} mpc_value;

typedef struct mpc_node {
    mpc_op_id op;
    uint32_t operand_begin, operand_count; /* into graph->operands */
    mpc_value_id result_begin; /* results have consecutive ids */
    uint32_t result_count;
    uint32_t attr_begin, attr_count; /* into graph->attrs, sorted by the op's attribute order; defaults are not stored */
    mpc_loc loc;
    mpc_sym origin; /* name of the forward value it derives from; 0: it is forward itself */
    mpc_sym why; /* the rule or decision behind its formats, "N10: ..."; 0: none */
} mpc_node;

/* What autocast decided for one node; formats are types only after insert-casts. */
typedef struct mpc_decision {
    bool present;
    mpc_format operand; /* format that float operands are read in; none: each as it is */
    mpc_format compute;
    mpc_format acc; /* none where there is no accumulator */
    mpc_format result; /* storage format of float results; none: as typed */
} mpc_decision;

/* Where a value lives (pass `memory`). */
typedef enum mpc_place_kind { MPC_PLACE_NONE, MPC_PLACE_ARENA, MPC_PLACE_IN_VALUE } mpc_place_kind;
typedef struct mpc_place {
    mpc_place_kind kind;
    uint64_t offset, bytes; /* ARENA: byte range */
    mpc_value_id value; /* IN_VALUE: shares the storage of this state, input or value (views, in-place next) */
} mpc_place;

typedef struct mpc_input {
    mpc_value_id value;
    uint32_t attr_begin, attr_count; /* keys of mpc_input_attrs: source:str lo:int hi:int ... */
} mpc_input;

typedef struct mpc_next {
    mpc_value_id state, value;
} mpc_next;

typedef struct mpc_output {
    mpc_sym name; /* "loss", "loss.ce", "acc.num" */
    mpc_value_id value;
} mpc_output;

typedef struct mpc_graph {
    mpc_context *ctx;
    mpc_arena *arena;
    mpc_sym name;
    mpc_node *nodes;
    mpc_value *values;
    mpc_value_id *operands;
    mpc_attr *attrs;
    mpc_input *inputs;
    mpc_next *nexts;
    mpc_output *outputs;
    uint32_t node_count, value_count, operand_total, attr_total, input_count, next_count, output_count;
    uint32_t capacity[7];
    mpc_decision *decisions; /* by node id; NULL before autocast */
    uint32_t *groups; /* by node id, fusion group (0: none; V14), groups are contiguous after `schedule`; NULL before fuse */
    mpc_place *places; /* by value id; NULL before memory */
    uint64_t arena_bytes; /* after memory */
    bool unnamed; /* a copy that an analysis makes for itself: a value that nobody named, or whose name is taken, has none (0) */
} mpc_graph;

void mpc_graph_destroy(mpc_graph *graph);

static inline mpc_value_id mpc_operand(const mpc_graph *g, const mpc_node *n, uint32_t i) {
    return g->operands[n->operand_begin + i];
}
static inline mpc_value_id mpc_result(const mpc_node *n, uint32_t i) { return n->result_begin + i; }
const mpc_type *mpc_value_type(const mpc_graph *g, mpc_value_id value);
mpc_format mpc_value_format(const mpc_graph *g, mpc_value_id value);
const char *mpc_value_name(const mpc_graph *g, mpc_value_id value);
const mpc_op *mpc_node_op(const mpc_graph *g, mpc_node_id node);
/* The node that makes the value, or NULL for an input. */
const mpc_node *mpc_producer(const mpc_graph *g, mpc_value_id value);
mpc_value_id mpc_graph_find_value(const mpc_graph *g, const char *name); /* MPC_NONE; linear */
mpc_value_id mpc_graph_find_output(const mpc_graph *g, const char *name);
/* Next value bound to a state, or MPC_NONE. */
mpc_value_id mpc_graph_next_of(const mpc_graph *g, mpc_value_id state);

/* Attributes; the op's declared default when not stored. Asking for an undeclared key asserts. */
int64_t mpc_attr_int(const mpc_graph *g, const mpc_node *n, const char *key);
double mpc_attr_float(const mpc_graph *g, const mpc_node *n, const char *key);
bool mpc_attr_bool(const mpc_graph *g, const mpc_node *n, const char *key);
const char *mpc_attr_str(const mpc_graph *g, const mpc_node *n, const char *key); /* "" when none */
mpc_format mpc_attr_format(const mpc_graph *g, const mpc_node *n, const char *key);
mpc_int_list mpc_attr_ints(const mpc_graph *g, const mpc_node *n, const char *key);
/* Of a graph input: keys source, lo, hi, ... (declared in ir/op.h, MPC_INPUT_ATTRS). */
const char *mpc_input_attr_str(const mpc_graph *g, const mpc_input *in, const char *key);
bool mpc_input_attr_int(const mpc_graph *g, const mpc_input *in, const char *key, int64_t *value);

/* Who reads each value: offsets into `users` (node ids, in order, once per operand). */
typedef struct mpc_uses {
    uint32_t *begin; /* value_count + 1 */
    mpc_node_id *users;
} mpc_uses;
/* In `arena`. NULL fields when out of memory. */
mpc_uses mpc_graph_uses(const mpc_graph *g, mpc_arena *arena);

/* Structural equality: same nodes in the same order, same names, types, attributes, decisions, groups, places, locations. */
bool mpc_graph_equal(const mpc_graph *a, const mpc_graph *b);

/* Text form (docs/ir.md). `flags` for people; MPC_PRINT_ALL round-trips: parse(print(g)) equals g. */
enum { MPC_PRINT_LOC = 1, MPC_PRINT_ORIGIN = 2, MPC_PRINT_WHY = 4, MPC_PRINT_ALL = 7 };
void mpc_graph_print(const mpc_graph *g, unsigned flags, mpc_str *out);
/* NULL on error (diagnostics sent, codes E5xx, with spans into `file` of the context's sources). */
mpc_graph *mpc_graph_parse(mpc_context *ctx, uint32_t file);

/* Checks every invariant (listed with codes V01.. at the top of ir/verify.c). */
mpc_status mpc_graph_verify(const mpc_graph *g);

#endif
