/* A kernel description as a CUDA kernel. */
#include "codegen/loop.h"

uint32_t mpc_cuda_loop_kernel(mpc_loop *l) {
    mpc_cg_fail(l->cg, "CUDA kernels of loops are not built yet");
    return 0;
}
