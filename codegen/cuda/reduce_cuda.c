/* Norms, folds and reductions without an iteration space in CUDA. */
#include "codegen/loop.h"

void mpc_cuda_norm(mpc_cg *cg, const mpc_node *n) {
    mpc_cg_fail(cg, "no CUDA kernel yet for %s", mpc_op_get(cg->g->ctx, n->op)->name);
}

void mpc_cuda_reduce(mpc_cg *cg, const mpc_node *n) {
    mpc_cg_fail(cg, "no CUDA kernel yet for %s", mpc_op_get(cg->g->ctx, n->op)->name);
}

uint32_t mpc_cuda_fold_kernel(mpc_cg *cg, const mpc_cg_fold *fold, mpc_cg_args *args) {
    (void)fold, (void)args;
    mpc_cg_fail(cg, "CUDA kernels of folds are not built yet");
    return 0;
}
