/* What the baseline solvers share: the lists of one system by op, the parts of a graph that no list is about, and
 * decisions that respect formats fixed by types. Private to passes/precision. */
#ifndef MPC_PASSES_BASELINE_H
#define MPC_PASSES_BASELINE_H

#include "passes/precision/precision.h"
#include "passes/precision/published.h"

/* In the reason of a decision that another system would have made low, but our op's type keeps f32. */
#define MPC_KEPT_BY_TYPE "f32 by its type"

typedef struct mpc_baseline {
    mpc_plan *p;
    mpc_system system;
    mpc_listed *listed;   /* by op id */
    mpc_node_id *forward; /* by node: the forward node that its origin names; MPC_NONE: it is forward itself */
} mpc_baseline;

/* In the plan's arena; false when out of memory (diagnostic sent). */
bool mpc_baseline_init(mpc_baseline *b, mpc_plan *p, mpc_system system);
mpc_listed mpc_baseline_listed(const mpc_baseline *b, mpc_node_id id);
/* Results whose type is fixed keep it; says so in the reason when `result` is low. */
void mpc_baseline_decide(const mpc_baseline *b, mpc_node_id id, mpc_format operand, mpc_format result, const char *why);
/* Decides what no list is about: the user's casts, and what the plan holds. false: it is the lists' turn. */
bool mpc_baseline_settle(const mpc_baseline *b, mpc_node_id id);
/* The widest format of the tensors that a node reads, as planned: scalars and constants count only if `scalars`, or if there is
 * nothing else. */
mpc_format mpc_baseline_widest(const mpc_plan *p, const mpc_node *n, bool scalars);

#endif
