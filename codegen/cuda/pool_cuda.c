/* Pools in CUDA. */
#include "codegen/loop.h"

void mpc_cuda_pool(mpc_cg *cg, const mpc_node *n) {
    mpc_cg_fail(cg, "no CUDA kernel yet for %s", mpc_op_get(cg->g->ctx, n->op)->name);
}
