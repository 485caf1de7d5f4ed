/* Executor of CUDA programs. */
#include "runtime/cuda/cuda.h"
#include "runtime/device.h"

mpc_exec *mpc_cuda_load(const mpc_program *program, mpc_store *store, const mpc_exec_options *options, const mpc_sink *sink) {
    (void)program, (void)store, (void)options;
    mpc_error(sink, "E620", "the cuda device is not built in");
    return NULL;
}

mpc_status mpc_cuda_compile(const mpc_program *const *programs, uint32_t count, const mpc_exec_options *options, const mpc_sink *sink) {
    (void)programs, (void)count, (void)options;
    return mpc_error(sink, "E620", "the cuda device is not built in");
}

mpc_status mpc_cuda_profile(mpc_exec *e, mpc_launch_time *times, uint32_t count) {
    (void)e, (void)times, (void)count;
    return MPC_FAILED;
}
