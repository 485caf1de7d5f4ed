/* Op lists of other systems (published.def) and what our ops are called there (published_ops.def). Private to
 * passes/precision and its tests. */
#ifndef MPC_PASSES_PUBLISHED_H
#define MPC_PASSES_PUBLISHED_H

#include <stdbool.h>
#include <stdint.h>

typedef enum mpc_system { /* whose list; names as in published.def */
    MPC_SYSTEM_pytorch_cuda,
    MPC_SYSTEM_pytorch_cpu,
    MPC_SYSTEM_apex,
    MPC_SYSTEM_grappler,
    MPC_SYSTEM_relay,
    MPC_SYSTEM_relax,
    MPC_SYSTEM_COUNT
} mpc_system;

typedef enum mpc_listed { /* in which list; meanings at the top of published.def */
    MPC_LISTED_NOT,
    MPC_LISTED_LOW,
    MPC_LISTED_HIGH,
    MPC_LISTED_SETS,
    MPC_LISTED_FOLLOW,
    MPC_LISTED_CLEAR,
    MPC_LISTED_PROMOTE,
    MPC_LISTED_BANNED
} mpc_listed;

const char *mpc_system_name(mpc_system system);
/* In the system's own words: "allow", "infer", ... */
const char *mpc_listed_name(mpc_system system, mpc_listed listed);
/* Of a published name. */
mpc_listed mpc_published_find(mpc_system system, const char *name);
/* The names that one of our ops has there, "" when none; NULL: the op isn't in published_ops.def. */
const char *mpc_published_names(mpc_system system, const char *op);
/* Of one of our ops: the strictest list of its names. */
mpc_listed mpc_published_of(mpc_system system, const char *op);
/* Rows of published_ops.def, for tests: the op's name. NULL past the end. */
const char *mpc_published_op_at(uint32_t index);

#endif
