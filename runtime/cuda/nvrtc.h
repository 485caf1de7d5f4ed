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
/* Appends the result to `out` (a cubin is binary) and what the compiler said to `log`, with its report of registers.
 * false: `log` says why. Everything that changes the result is in `mpc_nvrtc_options`, which is part of the keys of the
 * cache. */
bool mpc_nvrtc_compile(const mpc_nvrtc_api *api, const mpc_nvrtc_source *source, int capability, mpc_nvrtc_output kind,
                       mpc_str *out, mpc_str *log);
const char *mpc_nvrtc_options(void);

/* All kernels of a program, for people to look at. */
mpc_status mpc_nvrtc_assemble(const mpc_program *program, int capability, mpc_nvrtc_output kind, mpc_str *out,
                              const mpc_sink *sink);
/* What each kernel takes of the GPU; `reports` has program->kernel_count entries. */
typedef struct mpc_kernel_report {
    uint32_t registers;                    /* per thread; 0: the compiler didn't tell */
    uint32_t stack_bytes, spill_bytes;     /* per thread; spills are stores and loads together */
    uint32_t shared_bytes, constant_bytes; /* static shared memory per block; arguments and constants */
} mpc_kernel_report;
mpc_status mpc_nvrtc_report(const mpc_program *program, int capability, mpc_kernel_report *reports,
                            const mpc_sink *sink);

#endif
