/* NVRTC behind two functions: open the library, compile one text. Options are the same everywhere, since bits depend on
 * them: no contraction, no fast-math. The library speaks through a log; with --ptxas-options=-v it also holds, kernel
 * by kernel, the registers and spills, which is where reports come from (kernel_report.h). */
#include "runtime/cuda/nvrtc.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dl.h"

/* ---- the library ---- */

struct mpc_dl *mpc_nvrtc_open(mpc_nvrtc_api *api, int driver_version, int *version, char *reason, size_t reason_size) {
    /* Machine code of a newer major version isn't taken by an older driver. */
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib64/libnvrtc.so.12", NULL};
    static const char *const names12[] = {"libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.12", "libnvrtc.so.13",
                                          "/usr/local/cuda/lib64/libnvrtc.so.13", NULL};
    static const mpc_dl_symbol symbols[] = {
#define SYMBOL(name, optional, result, arguments) {#name, offsetof(mpc_nvrtc_api, name), optional},
#include "runtime/cuda/nvrtc_symbols.def"
#undef SYMBOL
    };
    bool old = driver_version > 0 && driver_version < 13000;
    mpc_dl *dl =
        mpc_dl_open(old ? names12 : names, symbols, sizeof symbols / sizeof *symbols, api, reason, reason_size);
    if (!dl) return NULL;
    int major = 0, minor = 0, result = api->nvrtcVersion(&major, &minor);
    *version = major * 1000 + minor * 10;
    if (result == 0) return dl;
    if (reason) snprintf(reason, reason_size, "nvrtcVersion failed: %s", api->nvrtcGetErrorString(result));
    mpc_dl_close(dl);
    return NULL;
}

bool mpc_nvrtc_knows(const mpc_nvrtc_api *api, int capability) {
    int count = 0, known[256];
    if (!api->nvrtcGetNumSupportedArchs || !api->nvrtcGetSupportedArchs) return true;
    if (api->nvrtcGetNumSupportedArchs(&count) != 0 || count < 1 || count > 256) return true;
    if (api->nvrtcGetSupportedArchs(known) != 0) return true;
    for (int i = 0; i < count; i++)
        if (known[i] == capability) return true;
    return false;
}

/* ---- one text ---- */

static const char *const fixed_options[] = {"-std=c++17", "--fmad=false", "--ptxas-options=-v"};
enum { FIXED_OPTIONS = sizeof fixed_options / sizeof *fixed_options };

const char *mpc_nvrtc_options(void) { return "-std=c++17 --fmad=false"; }

static bool write_source(const mpc_nvrtc_source *source, mpc_str *text) {
    mpc_str_append(text, source->prelude);
    mpc_str_append(text, "\n");
    for (uint32_t i = 0; i < source->count; i++) {
        mpc_str_append(text, source->kernels[i]->text);
        mpc_str_append(text, "\n");
    }
    return !text->failed;
}

static bool say(const mpc_nvrtc_api *api, const char *call, int result, mpc_str *log) {
    if (result == 0) return true;
    const char *text = api->nvrtcGetErrorString(result);
    mpc_str_printf(log, "%s failed: %s\n", call, text ? text : "unknown error");
    return false;
}

typedef struct getter { /* of a text or of bytes that the library holds */
    const char *name;
    int (*size)(void *program, size_t *bytes);
    int (*data)(void *program, char *to);
} getter;

static bool take(const mpc_nvrtc_api *api, void *program, getter g, mpc_str *out, mpc_str *log) {
    size_t bytes = 0;
    if (!say(api, g.name, g.size(program, &bytes), log)) return false;
    char *data = mpc_alloc(bytes + 1);
    if (!data) {
        mpc_str_append(log, "out of memory\n");
        return false;
    }
    bool ok = say(api, g.name, g.data(program, data), log);
    if (ok) mpc_str_append_n(out, data, bytes);
    mpc_free(data);
    return ok && !out->failed;
}

static void take_log(const mpc_nvrtc_api *api, void *program, mpc_str *log) {
    mpc_str text = {0}, ignored = {0};
    if (take(api, program, (getter){"nvrtcGetProgramLog", api->nvrtcGetProgramLogSize, api->nvrtcGetProgramLog}, &text,
             &ignored))
        mpc_str_append(log, mpc_str_cstr(&text)); /* up to its final zero */
    mpc_str_free(&text);
    mpc_str_free(&ignored);
}

static bool take_results(const mpc_nvrtc_api *api, void *program, mpc_nvrtc_result *r) {
    const getter cubin = {"nvrtcGetCUBIN", api->nvrtcGetCUBINSize, api->nvrtcGetCUBIN};
    const getter ptx = {"nvrtcGetPTX", api->nvrtcGetPTXSize, api->nvrtcGetPTX};
    if (r->cubin && !take(api, program, cubin, r->cubin, r->log)) return false;
    return !r->ptx || take(api, program, ptx, r->ptx, r->log);
}

static bool compile_program(const mpc_nvrtc_api *api, void *program, int capability, mpc_nvrtc_result *r) {
    char architecture[48];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", r->cubin ? "sm" : "compute", capability);
    const char *options[FIXED_OPTIONS + 1] = {architecture};
    int count = 1;
    for (int i = 0; i < FIXED_OPTIONS; i++)
        if (r->cubin || strncmp(fixed_options[i], "--ptxas", 7) != 0) options[count++] = fixed_options[i];
    int result = api->nvrtcCompileProgram(program, count, options);
    take_log(api, program, r->log);
    return say(api, "nvrtcCompileProgram", result, r->log) && take_results(api, program, r);
}

bool mpc_nvrtc_compile(const mpc_nvrtc_api *api, const mpc_nvrtc_source *source, int capability, mpc_nvrtc_result *r) {
    mpc_str text = {0};
    void *program = NULL;
    bool ok = write_source(source, &text);
    if (!ok) mpc_str_append(r->log, "out of memory\n");
    const char *headers[] = {source->device_header}, *names[] = {"mpc_device.h"};
    int header_count = source->device_header ? 1 : 0;
    ok = ok && say(api, "nvrtcCreateProgram",
                   api->nvrtcCreateProgram(&program, mpc_str_cstr(&text), "kernels.cu", header_count, headers, names),
                   r->log);
    ok = ok && compile_program(api, program, capability, r);
    if (program) (void)api->nvrtcDestroyProgram(&program);
    mpc_str_free(&text);
    return ok;
}

/* ---- whole programs, for people ---- */

static mpc_status compile_all(const mpc_program *program, int capability, mpc_nvrtc_output kind, const mpc_sink *sink,
                              mpc_str *out, mpc_str *log) {
    char reason[256];
    mpc_nvrtc_api api = {0};
    int version = 0;
    mpc_dl *dl = mpc_nvrtc_open(&api, 0, &version, reason, sizeof reason);
    if (!dl)
        return mpc_error(sink, "E620", "NVRTC, the compiler of CUDA kernels, wasn't found (libnvrtc.so.13 or .12): %s",
                         reason);
    const mpc_kernel **kernels = mpc_alloc((program->kernel_count + 1) * sizeof *kernels);
    mpc_status status = kernels ? MPC_OK : MPC_NO_MEMORY;
    for (uint32_t i = 0; kernels && i < program->kernel_count; i++) kernels[i] = &program->kernels[i];
    mpc_nvrtc_source source = {program->prelude, program->device_header, kernels, program->kernel_count};
    mpc_nvrtc_result result = {.log = log};
    if (kind == MPC_NVRTC_PTX) result.ptx = out;
    else result.cubin = out;
    if (status == MPC_OK && !mpc_nvrtc_compile(&api, &source, capability, &result)) {
        const char *said = mpc_str_cstr(log);
        status = mpc_error(
            sink, "E625", "NVRTC %d.%d refused generated kernels for compute capability %d.%d; it said: %.*s",
            version / 1000, version % 1000 / 10, capability / 10, capability % 10, (int)strnlen(said, 600), said);
    }
    mpc_free(kernels);
    mpc_dl_close(dl);
    return status;
}

mpc_status mpc_nvrtc_assemble(const mpc_program *program, int capability, mpc_nvrtc_output kind, mpc_str *out,
                              const mpc_sink *sink) {
    mpc_str log = {0};
    mpc_status status = compile_all(program, capability, kind, sink, out, &log);
    while (kind == MPC_NVRTC_PTX && out->length > 0 && out->data[out->length - 1] == 0)
        out->length--; /* it counts its final zero */
    mpc_str_free(&log);
    return status;
}
