/* What a gradient rule sees: the forward node and the gradients of its results; it adds gradients of operands. Rules
 * build with the helpers of passes/grad_build.h, which take care of names, formats and `prec`; plain ir/builder.h calls
 * work too. */
#ifndef MPC_PASSES_GRAD_H
#define MPC_PASSES_GRAD_H

#include "ir/builder.h"

typedef struct mpc_grad {
    mpc_builder *b;               /* the new graph, in which the forward node has been copied */
    const mpc_graph *g;           /* the builder's graph (refresh with mpc_builder_graph after building) */
    mpc_node node;                /* the forward node, ids of the new graph */
    const mpc_value_id *dresults; /* gradient per result, MPC_NONE: zero */
    /* out: gradient per operand, in its shape (see mpc_grad_sum_to); MPC_NONE: none */
    mpc_value_id *doperands;
    const bool *wanted; /* per operand: somebody needs its gradient */
    const bool *shared; /* per operand: other nodes contribute to its gradient too */
    mpc_format prec;    /* the forward node's `prec`; every gradient node whose op has one gets it */
    /* a selection (where, maximum, ...) further on may have made exact zeros of parts of dresults */
    bool selected;
    bool selects; /* out: this rule makes such zeros itself */
    /* out: if any, doperands[0] is only for the part of operand 0 that begins here, one number an axis */
    mpc_int_list part;
    bool named; /* of the helpers: the next node has got its name */
} mpc_grad;

/* Sums a gradient over the axes that broadcasting added, to the shape of `like`. */
mpc_value_id mpc_grad_sum_to(mpc_builder *b, mpc_value_id gradient, mpc_value_id like);

#endif
