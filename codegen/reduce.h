/* Reductions over axes that no loop kernel takes: kept and reduced axes, for both targets. */
#ifndef MPC_CODEGEN_REDUCE_H
#define MPC_CODEGEN_REDUCE_H

#include "codegen/cg.h"

/* Axes of one kind, outermost first, neighbours joined; steps of the operand in elements. */
typedef struct mpc_axis_run {
    uint32_t count;
    int64_t dims[MPC_MAX_RANK], strides[MPC_MAX_RANK];
} mpc_axis_run;
void mpc_reduce_split_axes(const mpc_cg *cg, const mpc_node *n, mpc_axis_run *kept, mpc_axis_run *gone);

#endif
