/* Each op with a loss: a random projection of all its results, so that a scale error can't hide. */
#ifndef MPC_TESTS_OPS_GRADIENT_GRAPH_H
#define MPC_TESTS_OPS_GRADIENT_GRAPH_H

#include "harness.h"

/* Has the case operands and results that carry a gradient, in f32? */
bool ops_gradient_exists(const ops_case *c);
/* A graph with states pa, pb, ... for the operands that carry one, inputs of these names for the others, inputs w0, ...
 * for the weights of the projection, and the output `loss`. */
mpc_graph *ops_gradient_loss(const ops_case *c);
/* Values for the inputs of such a graph, or of what passes made of it; `operands` are those of the case or others in
 * their place. */
void ops_gradient_inputs(const ops_case *c, const mpc_tensor *operands, const mpc_graph *g, mpc_tensor *inputs);
/* As mpc_evaluate wants it; user: const mpc_tensor *operands. */
mpc_tensor ops_gradient_state(void *user, const mpc_graph *g, const mpc_node *state);
double ops_gradient_weight(uint32_t result, int64_t i);

#endif
