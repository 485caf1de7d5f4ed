/* The look-alike of NVRTC 13.0: compiles CUDA text of the product's dialect with the host's C++ compiler. The header
 * "mpc_device.h" is replaced by device_sim.h, every other header is as given. A "cubin" is a sim_image: a magic word,
 * the compute capability and the bytes of a shared library. Programs are not shared between threads, and several may be
 * compiled at once. */
#include "internal.h"
#include "sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { OK, NO_MEMORY, CREATION, INVALID_INPUT, INVALID_PROGRAM, INVALID_OPTION, COMPILATION, BUILTIN, INTERNAL = 11 };
typedef struct program {
    uint64_t magic;
    char *text, *name, **headers, **header_names;
    int header_count;
    char *log, *image;
    size_t image_bytes;
    int arch;
    bool real; /* sm_XX: has a cubin */
} program;
static const uint64_t PROGRAM_MAGIC = 0x6d70636e76727463u;
static const int archs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
enum { ARCH_COUNT = sizeof archs / sizeof *archs };

static bool is_program(const program *p) { return p && p->magic == PROGRAM_MAGIC; }

#define NVRTC(name, parameters) \
    CUDASIM_EXPORT int name parameters; \
    int name parameters

/* ---- programs ---- */
static void free_program(program *p) {
    for (int i = 0; i < p->header_count; i++) {
        if (p->headers) free(p->headers[i]);
        if (p->header_names) free(p->header_names[i]);
    }
    free(p->headers);
    free(p->header_names);
    free(p->text);
    free(p->name);
    free(p->log);
    free(p->image);
    p->magic = 0;
    free(p);
}

static bool copy_headers(program *p, int count, const char *const *headers, const char *const *names) {
    p->headers = calloc((size_t)count + 1, sizeof *p->headers);
    p->header_names = calloc((size_t)count + 1, sizeof *p->header_names);
    p->header_count = count;
    bool ok = p->headers && p->header_names;
    for (int i = 0; ok && i < count; i++) {
        p->headers[i] = strdup(headers[i]);
        p->header_names[i] = strdup(names[i]);
        ok = p->headers[i] && p->header_names[i] && !strchr(names[i], '/');
    }
    return ok;
}

NVRTC(nvrtcCreateProgram, (void **result, const char *text, const char *name, int count, const char *const *headers,
                           const char *const *names)) {
    if (cudasim_call("nvrtcCreateProgram")) return NO_MEMORY;
    if (!result || !text || count < 0 || (count > 0 && (!headers || !names))) return INVALID_INPUT;
    program *p = calloc(1, sizeof *p);
    if (!p) return NO_MEMORY;
    p->magic = PROGRAM_MAGIC;
    p->text = strdup(text);
    p->name = strdup(name ? name : "default_program");
    if (!p->text || !p->name || !copy_headers(p, count, headers, names)) {
        free_program(p);
        return CREATION;
    }
    *result = p;
    return OK;
}

NVRTC(nvrtcDestroyProgram, (void **handle)) {
    if (cudasim_call("nvrtcDestroyProgram")) return INVALID_PROGRAM;
    if (!handle || !is_program(*handle)) return INVALID_PROGRAM;
    free_program(*handle);
    *handle = NULL;
    return OK;
}

/* ---- options ---- */
/* Long name, short name (or NULL), and whether a value follows, as NVRTC 13.0 takes them. */
static const struct {
    const char *name, *abbreviation;
    bool value;
} options_known[] = {
    {"--gpu-architecture", "-arch", true},
    {"--fmad", "-fmad", true},
    {"--ftz", "-ftz", true},
    {"--prec-sqrt", "-prec-sqrt", true},
    {"--prec-div", "-prec-div", true},
    {"--std", "-std", true},
    {"--maxrregcount", "-maxrregcount", true},
    {"--ptxas-options", "-Xptxas", true},
    {"--define-macro", "-D", true},
    {"--include-path", "-I", true},
    {"--diag-suppress", "-diag-suppress", true},
    {"--split-compile", "-split-compile", true},
    {"--time", "-time", true},
    {"--builtin-initializer-list", "-builtin-initializer-list", true},
    {"--dopt", "-dopt", true},
    {"--device-debug", "-G", false},
    {"--generate-line-info", "-lineinfo", false},
    {"--device-as-default-execution-space", "-default-device", false},
    {"--restrict", "-restrict", false},
    {"--disable-warnings", "-w", false},
    {"--minimal", "-minimal", false},
    {"--relocatable-device-code", "-rdc", true},
    {"--extra-device-vectorization", "-extra-device-vectorization", false},
    {"--use_fast_math", "-use_fast_math", false},
    {"--no-source-include", "-no-source-include", false},
    {"--no-cache", "-no-cache", false},
};

static bool matches(const char *option, const char *name, bool value, const char **given, bool *separate) {
    const size_t n = name ? strlen(name) : 0;
    if (!n || strncmp(option, name, n) != 0) return false;
    *separate = value && option[n] == 0;
    *given = option[n] == '=' ? option + n + 1 : option + n;
    return option[n] == 0 || (value && (option[n] == '=' || n == 2)); /* -DX, -IX */
}

static int take_arch(program *p, const char *text) {
    int arch = 0;
    p->real = strncmp(text, "sm_", 3) == 0;
    const char *digits = strchr(text, '_');
    if (p->real || strncmp(text, "compute_", 8) == 0) arch = atoi(digits + 1);
    for (int i = 0; i < ARCH_COUNT; i++)
        if (archs[i] == arch) return p->arch = arch, OK;
    return INVALID_OPTION;
}

static void set_log(program *p, const char *format, const char *detail) {
    const size_t size = strlen(format) + strlen(detail) + 1;
    free(p->log);
    p->log = malloc(size);
    if (p->log) snprintf(p->log, size, format, detail);
}

static int read_options(program *p, int count, const char *const *options) {
    p->arch = 75, p->real = false;
    for (int i = 0; i < count; i++) {
        const char *option = options[i], *value = "";
        bool known = false, separate = false, arch = false;
        for (size_t k = 0; !known && k < sizeof options_known / sizeof *options_known; k++) {
            known = matches(option, options_known[k].name, options_known[k].value, &value, &separate) ||
                    matches(option, options_known[k].abbreviation, options_known[k].value, &value, &separate);
            arch = known && k == 0;
        }
        if (separate && i + 1 < count) value = options[++i];
        if (known && (!arch || take_arch(p, value) == OK)) continue;
        set_log(p,
                known ? "nvrtc: error: invalid value for --gpu-architecture (-arch): %s\n"
                      : "nvrtc: error: unrecognized option %s found\n",
                known ? value : option);
        return INVALID_OPTION;
    }
    return OK;
}

/* ---- compiling ---- */
static bool write_file(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    const bool ok = fwrite(text, 1, strlen(text), file) == strlen(text);
    return fclose(file) == 0 && ok;
}

/* With `extra` bytes before it; NUL-terminated. */
static char *read_file(const char *folder, const char *name, size_t extra, size_t *bytes) {
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    char *text = fstat(file, &st) == 0 ? calloc(1, extra + (size_t)st.st_size + 1) : NULL;
    *bytes = 0;
    for (ssize_t n = 1; text && n > 0;) {
        n = read(file, text + extra + *bytes, (size_t)st.st_size - *bytes);
        if (n > 0) *bytes += (size_t)n;
    }
    close(file);
    return text;
}

static bool write_sources(const program *p, const char *folder) {
    bool ok = write_file(folder, "program.cpp", p->text);
    for (int i = 0; ok && i < p->header_count; i++)
        ok = write_file(folder, p->header_names[i],
                        strcmp(p->header_names[i], "mpc_device.h") == 0 ? "#include \"" CUDASIM_HEADER "\"\n"
                                                                        : p->headers[i]);
    return ok;
}

/* Errors go to the file "log". */
static int run_compiler(const char *folder) {
    char log[512], source[512], output[512], include[512];
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(source, sizeof source, "%s/program.cpp", folder);
    snprintf(output, sizeof output, "%s/program.so", folder);
    snprintf(include, sizeof include, "-I%s", folder);
    const char *arguments[] = {
        CUDASIM_CXX,
        "-std=c++17",
        "-O1",
        "-march=native",
        "-ffp-contract=off",
        "-fno-strict-aliasing",
        "-fno-exceptions",
        "-fno-rtti",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fvisibility=hidden",
        "-fPIC",
        "-shared",
        "-w",
        "-fmax-errors=20",
        "-Wl,--as-needed",
#if defined(__SANITIZE_ADDRESS__)
        "-fsanitize=address",
        "-g",
#endif
        include,
        "-o",
        output,
        source,
        NULL
    };
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions) != 0) return -1;
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    if (posix_spawn(&child, CUDASIM_CXX, &actions, NULL, (char *const *)(uintptr_t)arguments, environ) == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
    posix_spawn_file_actions_destroy(&actions);
    return status;
}

static int take_output(program *p, const char *folder) {
    size_t bytes = 0;
    free(p->image);
    p->image = read_file(folder, "program.so", sizeof(sim_image), &bytes);
    if (!p->image) return NO_MEMORY;
    sim_image header = {.abi = CUDASIM_ABI, .arch = (uint32_t)p->arch, .bytes = bytes};
    memcpy(header.magic, SIM_MAGIC, sizeof header.magic);
    memcpy(p->image, &header, sizeof header);
    p->image_bytes = sizeof header + bytes;
    return OK;
}

static void remove_folder(const program *p, const char *folder) {
    static const char *const own[] = {"program.cpp", "program.so", "log"};
    char path[512];
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, own[i]);
        unlink(path);
    }
    for (int i = 0; i < p->header_count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, p->header_names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static int compile(program *p) {
    char folder[256];
    const char *temporary = getenv("TMPDIR");
    size_t bytes = 0;
    snprintf(folder, sizeof folder, "%s/cudasim.XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return INTERNAL;
    int result = write_sources(p, folder) ? OK : INTERNAL;
    if (result == OK && run_compiler(folder) != 0) result = COMPILATION;
    char *log = read_file(folder, "log", 0, &bytes);
    set_log(p, "%s", log ? log : "");
    free(log);
    if (result == OK) result = take_output(p, folder);
    remove_folder(p, folder);
    return result;
}

NVRTC(nvrtcCompileProgram, (void *handle, int count, const char *const *options)) {
    program *p = handle;
    const bool fails = cudasim_call("nvrtcCompileProgram");
    if (!is_program(p)) return INVALID_PROGRAM;
    if (fails) set_log(p, "%s: error: MPC_CUDASIM_FAIL asks for it\n", p->name);
    if (fails) return COMPILATION;
    const int result = read_options(p, count, options);
    return result == OK ? compile(p) : result;
}

/* ---- results ---- */
NVRTC(nvrtcGetProgramLogSize, (void *handle, size_t *bytes)) {
    const program *p = handle;
    if (cudasim_call("nvrtcGetProgramLogSize")) return INTERNAL;
    if (!is_program(p)) return INVALID_PROGRAM;
    *bytes = (p->log ? strlen(p->log) : 0) + 1;
    return OK;
}
NVRTC(nvrtcGetProgramLog, (void *handle, char *log)) {
    const program *p = handle;
    if (cudasim_call("nvrtcGetProgramLog")) return INTERNAL;
    if (!is_program(p)) return INVALID_PROGRAM;
    strcpy(log, p->log ? p->log : "");
    return OK;
}
NVRTC(nvrtcGetCUBINSize, (void *handle, size_t *bytes)) {
    const program *p = handle;
    if (cudasim_call("nvrtcGetCUBINSize")) return INTERNAL;
    if (!is_program(p)) return INVALID_PROGRAM;
    *bytes = p->real ? p->image_bytes : 0;
    return OK;
}
NVRTC(nvrtcGetCUBIN, (void *handle, char *cubin)) {
    const program *p = handle;
    if (cudasim_call("nvrtcGetCUBIN")) return INTERNAL;
    if (!is_program(p)) return INVALID_PROGRAM;
    if (!p->real || !p->image) return INVALID_INPUT;
    memcpy(cubin, p->image, p->image_bytes);
    return OK;
}

/* Text, as PTX is: it names the stand-in, and the image follows in hexadecimal. */
static const char ptx_head[] = "// mpc CUDA stand-in, no PTX\n.version 9.0\n.image ";
NVRTC(nvrtcGetPTXSize, (void *handle, size_t *bytes)) {
    const program *p = handle;
    if (cudasim_call("nvrtcGetPTXSize")) return INTERNAL;
    if (!is_program(p) || !p->image) return INVALID_PROGRAM;
    *bytes = sizeof ptx_head + 2 * p->image_bytes;
    return OK;
}
NVRTC(nvrtcGetPTX, (void *handle, char *ptx)) {
    const program *p = handle;
    if (cudasim_call("nvrtcGetPTX")) return INTERNAL;
    if (!is_program(p) || !p->image) return INVALID_PROGRAM;
    memcpy(ptx, ptx_head, sizeof ptx_head);
    char *at = ptx + sizeof ptx_head - 1;
    for (size_t i = 0; i < p->image_bytes; i++) {
        *at++ = "0123456789abcdef"[(unsigned char)p->image[i] >> 4];
        *at++ = "0123456789abcdef"[(unsigned char)p->image[i] & 15];
    }
    *at = 0;
    return OK;
}

NVRTC(nvrtcVersion, (int *major, int *minor)) {
    if (cudasim_call("nvrtcVersion")) return INTERNAL;
    *major = 13, *minor = 99; /* as the driver says */
    return OK;
}
NVRTC(nvrtcGetNumSupportedArchs, (int *count)) {
    if (cudasim_call("nvrtcGetNumSupportedArchs")) return INTERNAL;
    *count = ARCH_COUNT;
    return OK;
}
NVRTC(nvrtcGetSupportedArchs, (int *list)) {
    if (cudasim_call("nvrtcGetSupportedArchs")) return INTERNAL;
    memcpy(list, archs, sizeof archs);
    return OK;
}

CUDASIM_EXPORT const char *nvrtcGetErrorString(int result);
const char *nvrtcGetErrorString(int result) {
    static const char *const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"};
    if (result == INTERNAL) return "NVRTC_ERROR_INTERNAL_ERROR";
    return result >= 0 && result <= BUILTIN ? names[result] : "NVRTC_ERROR unknown";
}
