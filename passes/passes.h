/* Declares every pass of passes/passes.def. A pass returns a new graph, or NULL after a diagnostic; its input stays as it was. */
#ifndef MPC_PASSES_PASSES_H
#define MPC_PASSES_PASSES_H

#include "passes/pass.h"

#define PASS(id, ...) mpc_graph *mpc_pass_##id(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env);
#include "passes/passes.def"
#undef PASS

#endif
