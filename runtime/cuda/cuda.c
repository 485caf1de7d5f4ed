/* Opening the GPU: driver, device, NVRTC, then context, stream and cuBLASLt. Each thing that can be missing ends in one
 * line that says what is needed, what is there and what to change. The context is the device's primary one, because
 * cuBLASLt works in that; it is made current in the opening thread, which has to make all later calls. */
#include "runtime/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device.h"

enum {
    ATTRIBUTE_PROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    RESULT_NO_DEVICE = 100,
    STREAM_NON_BLOCKING = 1,
    NEEDED_MAJOR = 8,
};
enum { GIB_SHIFT = 30 };

static double gib(uint64_t bytes) { return (double)bytes / (double)(1ull << GIB_SHIFT); }

static void describe_result(const mpc_cuda *cuda, int result, char *out, size_t size) {
    const char *text = NULL, *name = NULL;
    if (cuda->driver.cuGetErrorString(result, &text) != 0) text = NULL;
    if (cuda->driver.cuGetErrorName(result, &name) != 0) name = NULL;
    snprintf(out, size, "%s (%s, %d)", text ? text : "unknown error", name ? name : "?", result);
}

mpc_status mpc_cuda_error(const mpc_cuda *cuda, const mpc_sink *sink, const char *call, int result) {
    char what[256];
    describe_result(cuda, result, what, sizeof what);
    return mpc_error(sink, "E624", "%s failed: %s", call, what);
}

/* ---- driver and device ---- */

static mpc_status open_driver(mpc_cuda *cuda, const mpc_sink *sink) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    static const mpc_dl_symbol symbols[] = {
#define SYMBOL(name, optional, result, arguments) {#name, offsetof(mpc_cuda_driver, name), optional},
#include "runtime/cuda/cuda_symbols.def"
#undef SYMBOL
    };
    char reason[256];
    cuda->driver_library =
        mpc_dl_open(names, symbols, sizeof symbols / sizeof *symbols, &cuda->driver, reason, sizeof reason);
    if (cuda->driver_library) return MPC_OK;
    return mpc_error(sink, "E620",
                     "the NVIDIA driver wasn't found or is too old (%s): install a newer driver, or run on a machine with an "
                     "NVIDIA GPU, or use --device cpu",
                     reason);
}

static mpc_status find_device(mpc_cuda *cuda, const mpc_sink *sink) {
    char what[256];
    int count = 0, result = cuda->driver.cuInit(0);
    if (result == 0) result = cuda->driver.cuDeviceGetCount(&count);
    if ((result == 0 && count == 0) || result == RESULT_NO_DEVICE)
        return mpc_error(sink, "E620",
                         "the NVIDIA driver is here but shows no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES, or "
                         "use --device cpu");
    if (result != 0) {
        describe_result(cuda, result, what, sizeof what);
        return mpc_error(sink, "E620", "the NVIDIA driver can't be used: %s; check nvidia-smi, or use --device cpu",
                         what);
    }
    return MPC_OK;
}

static mpc_status read_device(mpc_cuda *cuda, const mpc_sink *sink) {
    const mpc_cuda_driver *d = &cuda->driver;
    size_t total = 0;
    int result = d->cuDriverGetVersion(&cuda->driver_version);
    if (result != 0) return mpc_cuda_error(cuda, sink, "cuDriverGetVersion", result);
    if ((result = d->cuDeviceGet(&cuda->device, 0)) != 0) return mpc_cuda_error(cuda, sink, "cuDeviceGet", result);
    result = d->cuDeviceGetName(cuda->name, (int)sizeof cuda->name, cuda->device);
    if (result != 0) return mpc_cuda_error(cuda, sink, "cuDeviceGetName", result);
    cuda->name[sizeof cuda->name - 1] = 0;
    result = d->cuDeviceGetAttribute(&cuda->major, ATTRIBUTE_MAJOR, cuda->device);
    if (result == 0) result = d->cuDeviceGetAttribute(&cuda->minor, ATTRIBUTE_MINOR, cuda->device);
    if (result == 0) result = d->cuDeviceGetAttribute(&cuda->processors, ATTRIBUTE_PROCESSORS, cuda->device);
    if (result != 0) return mpc_cuda_error(cuda, sink, "cuDeviceGetAttribute", result);
    if ((result = d->cuDeviceTotalMem_v2(&total, cuda->device)) != 0)
        return mpc_cuda_error(cuda, sink, "cuDeviceTotalMem", result);
    cuda->memory_total = cuda->memory_free = total;
    return MPC_OK;
}

static mpc_status check_capability(const mpc_cuda *cuda, const mpc_sink *sink) {
    if (cuda->major >= NEEDED_MAJOR) return MPC_OK;
    return mpc_error(
        sink, "E622",
        "%s has compute capability %d.%d, with f32 and %s; the cuda device needs %d.0 (A100, RTX 30) or later: use "
        "another GPU (CUDA_VISIBLE_DEVICES), or --device cpu",
        cuda->name, cuda->major, cuda->minor, cuda->major >= 7 ? "f16, but without bf16" : "without 16-bit products",
        NEEDED_MAJOR);
}

/* ---- NVRTC and cuBLASLt ---- */

static mpc_status open_nvrtc(mpc_cuda *cuda, const mpc_sink *sink) {
    char reason[256];
    int driver = cuda->driver_version, capability = cuda->major * 10 + cuda->minor;
    cuda->nvrtc_library = mpc_nvrtc_open(&cuda->nvrtc, driver, &cuda->nvrtc_version, reason, sizeof reason);
    if (!cuda->nvrtc_library)
        return mpc_error(sink, "E620",
                         "NVRTC, the compiler of CUDA kernels, wasn't found (libnvrtc.so.13 or .12; %s): install the "
                         "CUDA toolkit or put it "
                         "on the loader's path (LD_LIBRARY_PATH)",
                         reason);
    int nvrtc = cuda->nvrtc_version;
    if (driver / 1000 < nvrtc / 1000)
        return mpc_error(sink, "E621",
                         "the NVIDIA driver is made for CUDA %d.%d, NVRTC is %d.%d, and its code needs a driver for "
                         "CUDA %d.0 or later: "
                         "install a newer driver, or put libnvrtc.so.%d on the loader's path (LD_LIBRARY_PATH)",
                         driver / 1000, driver % 1000 / 10, nvrtc / 1000, nvrtc % 1000 / 10, nvrtc / 1000,
                         driver / 1000);
    if (mpc_nvrtc_knows(&cuda->nvrtc, capability)) return MPC_OK;
    return mpc_error(sink, "E621",
                     "NVRTC %d.%d doesn't know compute capability %d.%d of %s: put a newer libnvrtc on the loader's "
                     "path (LD_LIBRARY_PATH)",
                     nvrtc / 1000, nvrtc % 1000 / 10, cuda->major, cuda->minor, cuda->name);
}

static mpc_status open_cublaslt(mpc_cuda *cuda, const mpc_sink *sink) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                        "/usr/local/cuda/lib64/libcublasLt.so.13",
                                        "/usr/local/cuda/lib64/libcublasLt.so.12", NULL};
    static const char *const names12[] = {"libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12", NULL};
    static const mpc_dl_symbol symbols[] = {
#define SYMBOL(name, optional, result, arguments) {#name, offsetof(mpc_cublaslt_api, name), optional},
#include "runtime/cuda/cublaslt_symbols.def"
#undef SYMBOL
    };
    char reason[256];
    const char *const *wanted = cuda->driver_version < 13000 ? names12 : names;
    cuda->cublaslt_library =
        mpc_dl_open(wanted, symbols, sizeof symbols / sizeof *symbols, &cuda->cublaslt, reason, sizeof reason);
    if (!cuda->cublaslt_library)
        return mpc_error(sink, "E620",
                         "cuBLASLt, the library of matrix products, wasn't found (%s; %s): install the CUDA toolkit or "
                         "put it on the "
                         "loader's path (LD_LIBRARY_PATH)",
                         wanted == names ? "libcublasLt.so.13 or .12" : "libcublasLt.so.12 for this driver", reason);
    size_t version = cuda->cublaslt.cublasLtGetVersion(); /* 12 and 13: 130100 is 13.1.0 */
    cuda->cublaslt_version = (int)(version / 10000 * 1000 + version / 100 % 100 * 10);
    return MPC_OK;
}

static mpc_status create_lt_handle(mpc_cuda *cuda, const mpc_sink *sink) {
    int result = cuda->cublaslt.cublasLtCreate(&cuda->lt_handle);
    if (result == 0) return MPC_OK;
    cuda->lt_handle = NULL;
    const char *text = cuda->cublaslt.cublasLtGetStatusString ? cuda->cublaslt.cublasLtGetStatusString(result) : NULL;
    return mpc_error(sink, "E624", "cublasLtCreate failed: %s (%d)", text ? text : "unknown error", result);
}

/* ---- context ---- */

static mpc_status make_context(mpc_cuda *cuda, const mpc_sink *sink) {
    const mpc_cuda_driver *d = &cuda->driver;
    int result = d->cuDevicePrimaryCtxRetain(&cuda->context, cuda->device);
    if (result != 0) {
        cuda->context = NULL;
        return mpc_cuda_error(cuda, sink, "cuDevicePrimaryCtxRetain", result);
    }
    if ((result = d->cuCtxSetCurrent(cuda->context)) != 0) return mpc_cuda_error(cuda, sink, "cuCtxSetCurrent", result);
    size_t available = 0, total = 0;
    if ((result = d->cuMemGetInfo_v2(&available, &total)) != 0)
        return mpc_cuda_error(cuda, sink, "cuMemGetInfo", result);
    cuda->memory_free = available;
    cuda->memory_total = total;
    result = d->cuStreamCreate(&cuda->stream, STREAM_NON_BLOCKING);
    if (result == 0) return MPC_OK;
    cuda->stream = NULL;
    return mpc_cuda_error(cuda, sink, "cuStreamCreate", result);
}

static mpc_cuda *open_parts(const mpc_sink *sink, bool all) {
    mpc_cuda *cuda = mpc_alloc(sizeof *cuda);
    if (!cuda) {
        mpc_error(sink, "E901", "there isn't enough memory to open the GPU");
        return NULL;
    }
    memset(cuda, 0, sizeof *cuda);
    mpc_status status = open_driver(cuda, sink);
    if (status == MPC_OK) status = find_device(cuda, sink);
    if (status == MPC_OK) status = read_device(cuda, sink);
    if (status == MPC_OK) status = check_capability(cuda, sink);
    if (status == MPC_OK) status = open_nvrtc(cuda, sink);
    if (status == MPC_OK && all) status = open_cublaslt(cuda, sink);
    if (status == MPC_OK && all) status = make_context(cuda, sink);
    if (status == MPC_OK && all) status = create_lt_handle(cuda, sink);
    if (status == MPC_OK) return cuda;
    mpc_cuda_close(cuda);
    return NULL;
}

mpc_cuda *mpc_cuda_open(const mpc_sink *sink) { return open_parts(sink, true); }

mpc_cuda *mpc_cuda_open_compiler(const mpc_sink *sink) { return open_parts(sink, false); }

/* Results are of no use here: after a fault every call reports it once more. */
void mpc_cuda_close(mpc_cuda *cuda) {
    if (!cuda) return;
    if (cuda->lt_handle) (void)cuda->cublaslt.cublasLtDestroy(cuda->lt_handle);
    if (cuda->stream) (void)cuda->driver.cuStreamDestroy_v2(cuda->stream);
    if (cuda->context) {
        (void)cuda->driver.cuCtxSetCurrent(NULL);
        (void)cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->device);
    }
    mpc_dl_close(cuda->cublaslt_library);
    mpc_dl_close(cuda->nvrtc_library);
    mpc_dl_close(cuda->driver_library);
    mpc_free(cuda);
}

bool mpc_cuda_available(const mpc_sink *sink) {
    mpc_cuda *cuda = open_parts(sink, false);
    bool available = cuda && open_cublaslt(cuda, sink) == MPC_OK;
    mpc_cuda_close(cuda);
    return available;
}

/* ---- for people ---- */

typedef struct first_line { /* of the diagnostics */
    mpc_str *out;
    bool heard;
} first_line;

static void hear(void *user, const mpc_diag *diag) {
    first_line *l = user;
    if (!l->heard) mpc_str_printf(l->out, "cuda: not available: %s\n", diag->message);
    l->heard = true;
}

void mpc_cuda_describe(mpc_str *out) {
    first_line line = {.out = out};
    const mpc_sink sink = {.emit = hear, .user = &line};
    mpc_cuda *cuda = open_parts(&sink, false);
    if (!cuda) return;
    mpc_str_printf(out, "cuda: %s, compute capability %d.%d, %d SMs, %.0f GiB\n", cuda->name, cuda->major, cuda->minor,
                   cuda->processors, gib(cuda->memory_total));
    mpc_str_printf(out, "cuda: driver for CUDA %d.%d, NVRTC %d.%d", cuda->driver_version / 1000,
                   cuda->driver_version % 1000 / 10, cuda->nvrtc_version / 1000, cuda->nvrtc_version % 1000 / 10);
    if (open_cublaslt(cuda, NULL) == MPC_OK)
        mpc_str_printf(out, ", cuBLASLt %d.%d\n", cuda->cublaslt_version / 1000, cuda->cublaslt_version % 1000 / 10);
    else mpc_str_append(out, "\n");
    if (!cuda->cublaslt_library) (void)open_cublaslt(cuda, &sink);
    mpc_cuda_close(cuda);
}
