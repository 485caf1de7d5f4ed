/* CUDA C text to machine code by NVRTC. Needs the library only, neither a driver nor a GPU: `mpc compile --emit` works
 * anywhere. */
#ifndef MPC_RUNTIME_CUDA_NVRTC_H
#define MPC_RUNTIME_CUDA_NVRTC_H

#include "runtime/cuda/cuda.h"

typedef struct mpc_nvrtc_source { /* one translation unit: prelude and some kernels */
    const char *prelude, *device_header;
    const mpc_kernel *const *kernels;
    uint32_t count;
} mpc_nvrtc_source;

typedef enum mpc_nvrtc_output { MPC_NVRTC_CUBIN, MPC_NVRTC_PTX } mpc_nvrtc_output;

/* Opens the library that suits a driver of this version (0: no driver, the newest library). Fills `api` and `version`
 * (13000: 13.0). NULL: `reason` says why. */
struct mpc_dl *mpc_nvrtc_open(mpc_nvrtc_api *api, int driver_version, int *version, char *reason, size_t reason_size);
/* false: the library is too old for GPUs of this capability (90: 9.0). */
bool mpc_nvrtc_knows(const mpc_nvrtc_api *api, int capability);
typedef struct mpc_nvrtc_result { /* what is made, appended to texts of the caller; NULL: not wanted, but `log` always
                                     is */
    mpc_str *cubin;               /* binary. Without it nothing is assembled */
    mpc_str *ptx;                 /* with its final zero */
    mpc_str *log;                 /* what the compiler said, with the assembler's report of each kernel */
} mpc_nvrtc_result;

/* false: `log` says why. Everything that changes the code is in `mpc_nvrtc_options`, which is part of the keys of the
 * cache. */
bool mpc_nvrtc_compile(const mpc_nvrtc_api *api, const mpc_nvrtc_source *source, int capability, mpc_nvrtc_result *r);
const char *mpc_nvrtc_options(void);

/* All kernels of a program, for people to look at. */
mpc_status mpc_nvrtc_assemble(const mpc_program *program, int capability, mpc_nvrtc_output kind, mpc_str *out,
                              const mpc_sink *sink);

#endif
