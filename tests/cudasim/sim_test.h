/* What the tests of the stand-in share: the functions of its libraries, which the tests are linked to, kernels from
 * text, memory. The declarations come from the product's symbol tables where they have the function. */
#ifndef MPC_TESTS_CUDASIM_SIM_TEST_H
#define MPC_TESTS_CUDASIM_SIM_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "tests/check.h"

typedef uint64_t mpc_device_ptr;
#define SYMBOL(name, optional, result, arguments) result name arguments;
#include "runtime/cuda/cuda_symbols.def"
#include "runtime/cuda/nvrtc_symbols.def"
#undef SYMBOL
int cuMemcpyDtoH_v2(void *to, mpc_device_ptr from, size_t bytes);
int cuMemcpyHtoD_v2(mpc_device_ptr to, const void *from, size_t bytes);
int cuCtxSynchronize(void);
int cuStreamQuery(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuGraphExecUpdate_v2(void *exec, void *graph, void *info);
void cudasim_reload(void);

enum { OUT_OF_MEMORY = 2, INVALID_VALUE = 1, INVALID_HANDLE = 400, NOT_READY = 600, LAUNCH_FAILED = 719 };

static inline void setting(const char *name, const char *value) {
    if (value) setenv(name, value, 1);
    else unsetenv(name);
    cudasim_reload();
}

static inline void open_device(void) {
    void *context = NULL;
    CHECK(cuInit(0) == 0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0);
    CHECK(cuCtxSetCurrent(context) == 0);
}
static inline void close_device(void) { CHECK(cuDevicePrimaryCtxRelease_v2(0) == 0); }

/* The image of a text in the product's dialect, behind the product's prelude; NULL after printing the log. The caller
 * frees. */
static inline char *image_of(const char *text) {
    static const char *const options[] = {"--gpu-architecture=sm_90", "--fmad=false", "--std=c++17"};
    static const char *const header = "", *const header_name = "mpc_device.h";
    enum { MOST = 1 << 20 };
    char *whole = calloc(1, MOST), *image = NULL, log[4096] = "";
    void *program = NULL;
    size_t bytes = 0;
    FILE *file = fopen("codegen/cuda/prelude.h", "rb");
    CHECK(file && whole);
    if (!file || !whole) return NULL;
    const size_t n = fread(whole, 1, MOST - strlen(text) - 1, file);
    memcpy(whole + n, text, strlen(text) + 1);
    fclose(file);
    CHECK(nvrtcCreateProgram(&program, whole, "test.cu", 1, &header, &header_name) == 0);
    free(whole);
    const int result = nvrtcCompileProgram(program, 3, options);
    CHECK(nvrtcGetProgramLogSize(program, &bytes) == 0);
    if (bytes < sizeof log) nvrtcGetProgramLog(program, log);
    CHECK_MSG(result == 0, "%s", log);
    CHECK(nvrtcGetCUBINSize(program, &bytes) == 0);
    if (result == 0) image = malloc(bytes);
    if (image) CHECK(nvrtcGetCUBIN(program, image) == 0);
    CHECK(nvrtcDestroyProgram(&program) == 0);
    return image;
}

static inline void *load(const char *image) {
    void *module = NULL;
    CHECK(cuModuleLoadData(&module, image) == 0);
    return module;
}

static inline void *kernel_of(void *module, const char *name) {
    void *function = NULL;
    CHECK(cuModuleGetFunction(&function, module, name) == 0);
    return function;
}

static inline mpc_device_ptr device_copy(const void *from, size_t bytes) {
    mpc_device_ptr at = 0;
    CHECK(cuMemAlloc_v2(&at, bytes) == 0);
    if (from) CHECK(cuMemcpyHtoD_v2(at, from, bytes) == 0);
    return at;
}

/* An argument block of P, N, F = 4, 2, 1. */
typedef struct block_args {
    int64_t units;
    uint32_t first_block, blocks;
    mpc_device_ptr p[4];
    int64_t n[2];
    float f[2];
} block_args;

static inline int launch(void *function, block_args args, unsigned threads, unsigned shared, void *stream) {
    mpc_device_ptr when = 0;
    void *params[] = {&args, &when};
    return cuLaunchKernel(function, args.blocks, 1, 1, threads, 1, 1, shared, stream, params, NULL);
}

#endif
