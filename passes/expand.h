/* What an expansion rule sees: a composite node; it builds primitives and gives the values that replace the results.
 * Inside, values are f32 unless a rounding is part of the op's definition; results are cast to the node's result
 * formats by the rule's caller. */
#ifndef MPC_PASSES_EXPAND_H
#define MPC_PASSES_EXPAND_H

#include "ir/builder.h"

typedef struct mpc_expand {
    mpc_builder *b;
    const mpc_graph *from;        /* graph that holds the composite */
    const mpc_node *node;         /* in `from`, for attributes and result types */
    const mpc_value_id *operands; /* in the new graph, as stored (maybe low); mpc_expand_f32 widens */
    uint32_t operand_count;
    mpc_value_id *results; /* out, MPC_NONE for a result that nobody uses and the rule left out */
    const bool *used;      /* per result */
    const bool *decays;    /* by op: some node of it has a `decay` that isn't 0; NULL: each for itself */
    mpc_format prec;       /* given to primitives that have `prec`; none once formats are types */
    struct mpc_expand_memo *memo; /* scalars that were made before (passes/expand_build.c); NULL: all are made anew */
    bool named;            /* of the helpers in passes/expand_build.h: the next node has got its name */
} mpc_expand;

/* Operand i widened to f32 (a cast that fusion keeps in registers). */
mpc_value_id mpc_expand_f32(mpc_expand *e, uint32_t i);

#endif
