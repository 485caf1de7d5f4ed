/* What a gradient rule sees: the forward node and the gradients of its results; it adds gradients of operands. */
#ifndef MPC_PASSES_GRAD_H
#define MPC_PASSES_GRAD_H

#include "ir/builder.h"

typedef struct mpc_grad {
    mpc_builder *b; /* the new graph, in which the forward node has been copied */
    const mpc_graph *g; /* the builder's graph (refresh with mpc_builder_graph after building) */
    mpc_node node; /* the forward node, ids of the new graph */
    const mpc_value_id *dresults; /* gradient per result, MPC_NONE: zero */
    mpc_value_id *doperands; /* out: gradient per operand, MPC_NONE: none. Same shape as the operand; see mpc_grad_sum_to */
    const bool *wanted; /* per operand: somebody needs its gradient */
} mpc_grad;

/* Sums a gradient over the axes that broadcasting added, to the shape of `like`. */
mpc_value_id mpc_grad_sum_to(mpc_builder *b, mpc_value_id gradient, mpc_value_id like);

#endif
