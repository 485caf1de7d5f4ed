/* First step of pass fuse; see fuse_split.c. */
#ifndef MPC_PASSES_FUSE_SPLIT_H
#define MPC_PASSES_FUSE_SPLIT_H

#include "ir/graph.h"

/* A new graph, or NULL after a diagnostic. */
mpc_graph *mpc_fuse_split(const mpc_graph *in);

#endif
