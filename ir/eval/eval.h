/* The reference evaluator: slow, obvious, every format. Elements are doubles that hold exactly what the format holds.
 * The oracle for every device (exact mode: per-op rounding through f32) and for accuracy (f64 mode: no rounding of
 * floats at all). */
#ifndef MPC_IR_EVAL_H
#define MPC_IR_EVAL_H

#include "ir/graph.h"

typedef struct mpc_tensor {
    mpc_type type;
    double *data; /* row-major; ints and bools as numbers */
} mpc_tensor;

/* In `arena`, zero-filled; data NULL when out of memory. */
mpc_tensor mpc_tensor_make(mpc_arena *arena, const mpc_type *type);
/* Conversion from and to a device's storage bytes. */
void mpc_tensor_from_bytes(mpc_tensor *t, const void *bytes);
void mpc_tensor_to_bytes(const mpc_tensor *t, void *bytes);
/* A value rounded to the format (ints truncate, saturating; bool: != 0). */
double mpc_round_to(mpc_format format, double value);

typedef struct mpc_eval { /* what an op's eval rule sees */
    const mpc_graph *graph;
    const mpc_node *node;
    const mpc_tensor *operands;
    uint32_t operand_count;
    mpc_tensor *results; /* allocated, types set; write unrounded doubles: the caller rounds to the compute format, then
                            to the result's */
    bool exact;          /* false: f64 mode */
    mpc_arena *scratch;
} mpc_eval;

typedef struct mpc_eval_options {
    bool f64; /* no rounding of float formats narrower than f64 (casts by the user included) */
    /* Called after each node; may be NULL. Return false to stop. `results` lie among `values`, at the node's
     * result_begin, so results - result_begin is what was computed so far. */
    bool (*after)(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results);
    void *user;
} mpc_eval_options;

/* Evaluates the whole graph. `inputs` by input index; `states` by node order of the state nodes: get_state is called
 * for each. Results of all values are left in `values` (value_count entries, in `arena`). */
typedef mpc_tensor (*mpc_state_reader)(void *user, const mpc_graph *g, const mpc_node *state);
mpc_status mpc_evaluate(const mpc_graph *g, const mpc_tensor *inputs, mpc_state_reader read_state, void *user,
                        const mpc_eval_options *options, mpc_arena *arena, mpc_tensor *values);

/* One node on given operands: what the harness and `fold` use. */
mpc_status mpc_evaluate_node(const mpc_graph *g, mpc_node_id node, const mpc_tensor *operands, bool f64,
                             mpc_arena *arena, mpc_tensor *results);
#endif
