/* The GPU as the executor sees it: three libraries opened at run time from their symbol tables, one context, one stream. Every call into
 * the driver goes through `driver`, so that a look-alike can count and fail them. All calls are made from one thread. */
#ifndef MPC_RUNTIME_CUDA_CUDA_H
#define MPC_RUNTIME_CUDA_CUDA_H

#include "ir/program.h"
#include "runtime/choices.h"

/* Handles of the driver are pointers, device addresses 64-bit integers, enums and results int (0: success). */
typedef uint64_t mpc_device_ptr;

typedef struct mpc_cuda_driver { /* libcuda.so.1 */
#define SYMBOL(name, optional, result, arguments) result(*name) arguments;
#include "runtime/cuda/cuda_symbols.def"
#undef SYMBOL
} mpc_cuda_driver;
typedef struct mpc_nvrtc_api { /* libnvrtc */
#define SYMBOL(name, optional, result, arguments) result(*name) arguments;
#include "runtime/cuda/nvrtc_symbols.def"
#undef SYMBOL
} mpc_nvrtc_api;
struct mpc_lt_algo;
struct mpc_lt_heuristic;
typedef struct mpc_cublaslt_api { /* libcublasLt */
#define SYMBOL(name, optional, result, arguments) result(*name) arguments;
#include "runtime/cuda/cublaslt_symbols.def"
#undef SYMBOL
} mpc_cublaslt_api;

typedef struct mpc_cuda { /* an opened device */
    mpc_cuda_driver driver;
    mpc_nvrtc_api nvrtc;
    mpc_cublaslt_api cublaslt;
    struct mpc_dl *driver_library, *nvrtc_library, *cublaslt_library;
    void *lt_handle; /* cublasLtHandle_t */
    uint32_t lt_epilogues_tried, lt_epilogues_good; /* one bit for each kind of fused epilogue (cublaslt_probe.c) */
    char name[128];  /* "NVIDIA H200" */
    int major, minor, processors;
    int driver_version, nvrtc_version, cublaslt_version; /* 13010: 13.1 */
    uint64_t memory_total, memory_free; /* bytes, when opened */
    int device;                          /* ordinal */
    void *context, *stream;
} mpc_cuda;

/* Library, driver, device, context and stream; errors E62x say what is missing and what to do. NULL on failure. */
mpc_cuda *mpc_cuda_open(const mpc_sink *sink);
void mpc_cuda_close(mpc_cuda *cuda); /* NULL is fine */
/* The same without context, stream and cuBLASLt: what compiling needs. Close it, too. */
mpc_cuda *mpc_cuda_open_compiler(const mpc_sink *sink);
/* Lines for people: device and libraries, or what is missing. */
void mpc_cuda_describe(mpc_str *out);
/* E624 from a driver result: "cuMemAlloc failed: out of memory (2): ...". Returns MPC_FAILED. */
mpc_status mpc_cuda_error(const mpc_cuda *cuda, const mpc_sink *sink, const char *call, int result);

/* ---- matmul by cuBLASLt (matmul_cuda.c) ---- */
typedef struct mpc_cuda_matmul mpc_cuda_matmul;
typedef struct mpc_cuda_matmul_buffers {
    mpc_device_ptr a, b, c, bias, accumulator, workspace;
    uint64_t workspace_bytes;
} mpc_cuda_matmul_buffers;
enum { MPC_CUDA_WORKSPACE = 32 << 20 }; /* bytes, shared by all matmuls of a program */
/* Descriptors and candidates for one launch: the library's epilogue where it rounds where the IR says and the library has it, else f32
 * into the accumulator for the caller's own kernel, or, without bias and relu, the plain product. NULL after a diagnostic. */
mpc_cuda_matmul *mpc_cuda_matmul_create(mpc_cuda *cuda, const mpc_launch *launch, mpc_choices *choices, const mpc_sink *sink);
void mpc_cuda_matmul_destroy(mpc_cuda_matmul *m);
/* Times the candidates on these buffers unless `choices` knows the answer (choices may be NULL), and settles on one. The candidates that
 * end in the caller's kernel are timed with `run_epilogue` (NULL where the launch has none). Outside of a capture; overwrites c. */
mpc_status mpc_cuda_matmul_tune(mpc_cuda_matmul *m, const mpc_cuda_matmul_buffers *b, int (*run_epilogue)(void *user), void *user);
/* Does the chosen candidate end in the caller's kernel? Known after tune. */
bool mpc_cuda_matmul_needs_epilogue(const mpc_cuda_matmul *m);
/* Enqueues on the device's stream (also while it is captured). */
mpc_status mpc_cuda_matmul_run(mpc_cuda_matmul *m, const mpc_cuda_matmul_buffers *b);

#endif
