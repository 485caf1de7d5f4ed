/* Which values cross a border between kernels: the fusion grouping of the uncast graph, seen from the graph before lowering.
 * Private to passes/precision. */
#ifndef MPC_PASSES_GROUPING_H
#define MPC_PASSES_GROUPING_H

#include "passes/pass.h"

typedef struct mpc_crossing { /* a group that reads a value it doesn't make */
    mpc_value_id value; /* storage, of the graph that was asked about */
    mpc_node_id reader; /* whose lowering reads it */
    uint32_t group;
    bool kernel; /* the reader is a matmul or a convolution, not a loop */
} mpc_crossing;

typedef struct mpc_grouping {
    bool ok;
    uint32_t *begin; /* by value, + 1: into `crossings` */
    mpc_crossing *crossings;
    mpc_value_id *storage; /* by value: the one whose bytes it shares (reshapes); itself mostly */
    bool *loop; /* by value: made by a loop, which can write it in several formats at once */
    mpc_value_id *folded; /* by value: the result of a LOW op that writes this one instead (an activation in its epilogue); MPC_NONE */
    double *inner; /* by node: elements that the products inside a composite read from one another */
    uint32_t group_count;
} mpc_grouping;

/* Arrays in `arena`. ok is false after a diagnostic. */
mpc_grouping mpc_group_uncast(const mpc_graph *g, bool keep_attention, mpc_pass_env *env, mpc_arena *arena);

#endif
