/* Random graphs of exactly rounded ops: elementwise, selections, conversions, views, maxima, over shapes that broadcast
 * and three float formats. What a lowering or a device makes of one must be equal to the bit. */
#ifndef MPC_TESTS_OPS_RANDOM_GRAPH_H
#define MPC_TESTS_OPS_RANDOM_GRAPH_H

#include "ir/builder.h"
#include "ir/eval/eval.h"

/* About `size` nodes. The same for the same seed. NULL when out of memory. */
mpc_graph *ops_random_graph(mpc_context *ctx, uint64_t seed, uint32_t size);
/* Values for its inputs, in `arena`. */
void ops_random_inputs(const mpc_graph *g, uint64_t seed, mpc_arena *arena, mpc_tensor *inputs);
/* Outputs of the graph in exact mode; false: evaluation failed. */
bool ops_graph_outputs(const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena, mpc_tensor *outputs);

#endif
