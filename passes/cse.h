/* `cse,dce` as one copy of the graph, for an analysis that cleans a graph of its own. */
#ifndef MPC_PASSES_CSE_H
#define MPC_PASSES_CSE_H

#include "ir/graph.h"

/* A new graph, the same as the two passes make; NULL after a diagnostic. */
mpc_graph *mpc_cse_and_dce(const mpc_graph *in);

#endif
