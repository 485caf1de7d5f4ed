/* Modules and functions of the stand-in: an image made by the look-alike of NVRTC is a shared library for the host,
 * opened from an anonymous file. It is bound to the machine and asked for the description of each kernel (machine.h).
 * The file stays open with the module: the loader knows libraries by name, and the name holds the file's number. */
#include "internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEFAULT_SHARED = 48 * 1024 };

/* By compute capability: 8.0 has 163 KiB, 8.6 and 8.9 have 99 KiB, 9.0 and up 227 KiB. */
int sim_max_shared(void) {
    const int arch = sim_configuration()->arch;
    if (arch < 80) return 64 * 1024;
    if (arch == 80 || arch == 87) return 163 * 1024;
    if (arch < 90 || arch >= 120) return 99 * 1024;
    return 227 * 1024;
}

static int refuse_image(const sim_image *image, bool portable) {
    const int arch = sim_configuration()->arch;
    if (memcmp(image, SIM_MAGIC, sizeof image->magic) != 0)
        return sim_error(SIM_INVALID_IMAGE, "not an image of the stand-in");
    if (image->abi != CUDASIM_ABI) return sim_error(SIM_NO_BINARY, "an image of another version of the stand-in");
    if ((int)image->arch > arch || (!portable && (int)image->arch / 10 != arch / 10))
        return sim_error(SIM_NO_BINARY, "an image for sm_%u on sm_%d", image->arch, arch);
    return CUDASIM_SUCCESS;
}

static int open_library(sim_module *m, const sim_image *image) {
    char path[64];
    m->file = memfd_create("cudasim", MFD_CLOEXEC);
    if (m->file < 0) return CUDASIM_OUT_OF_MEMORY;
    const char *at = (const char *)(image + 1);
    for (uint64_t left = image->bytes; left > 0;) {
        const ssize_t n = write(m->file, at, left);
        if (n <= 0) return CUDASIM_OUT_OF_MEMORY;
        at += n, left -= (uint64_t)n;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", m->file);
    m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!m->library) return sim_error(SIM_INVALID_IMAGE, "an image can't be opened: %s", dlerror());
    int (*bind)(cudasim_machine *) = NULL;
    *(void **)&bind = dlsym(m->library, "cudasim_bind");
    if (!bind || bind(sim_machine()) != CUDASIM_ABI)
        return sim_error(SIM_NO_BINARY, "an image of another version of the stand-in");
    return CUDASIM_SUCCESS;
}

static void close_module(sim_module *m) {
    if (m->library) dlclose(m->library);
    if (m->file >= 0) close(m->file);
    sim_delete(m);
}

/* "PTX": text that ends in the image in hexadecimal. NULL: other text, or no memory. */
static sim_image *decode(const char *text) {
    const char *at = strstr(text, ".image ");
    const size_t digits = at ? strlen(at + 7) : 0;
    unsigned char *image = digits / 2 > sizeof(sim_image) ? malloc(digits / 2) : NULL;
    for (size_t i = 0; image && i < digits / 2; i++) {
        const char pair[3] = {at[7 + 2 * i], at[8 + 2 * i], 0};
        image[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return (sim_image *)(void *)image;
}

static int load_image(void **module, const sim_image *image, bool portable) {
    int result = refuse_image(image, portable);
    if (result) return result;
    sim_module *m = sim_new(SIM_MODULE, sizeof *m);
    if (!m) return CUDASIM_OUT_OF_MEMORY;
    result = open_library(m, image);
    if (result) close_module(m);
    else *module = m;
    return result;
}

static int load_module(void **module, const void *image) {
    if (!module || !image) return CUDASIM_INVALID_VALUE;
    if (strncmp(image, "//", 2) != 0) return load_image(module, image, false);
    sim_image *decoded = decode(image);
    const int result =
        decoded ? load_image(module, decoded, true) : sim_error(SIM_INVALID_PTX, "not the PTX of the stand-in");
    free(decoded);
    return result;
}
SIM_API(SIM_SYNCHRONISES, cuModuleLoadData, (void **module, const void *image), (module, image)) {
    return load_module(module, image);
}
SIM_API(SIM_SYNCHRONISES, cuModuleLoadDataEx,
        (void **module, const void *image, unsigned count, int *options, void **values),
        (module, image, count, options, values)) {
    (void)count, (void)options, (void)values;
    return load_module(module, image);
}

static void delete_functions(const sim_module *m) {
    for (sim_function *f = sim_next(SIM_FUNCTION, NULL), *next; f; f = next) {
        next = sim_next(SIM_FUNCTION, f);
        if (f->module != m) continue;
        free(f->name);
        sim_delete(f);
    }
}

/* Work under way is finished first. */
SIM_API(SIM_SYNCHRONISES, cuModuleUnload, (void *module), (module)) {
    sim_module *m = sim_find(SIM_MODULE, module);
    if (!m) return sim_error(CUDASIM_INVALID_HANDLE, "cuModuleUnload of no module");
    const int result = sim_drain(NULL);
    delete_functions(m);
    close_module(m);
    return result;
}

static sim_function *known_function(const sim_module *m, const char *name) {
    for (sim_function *f = sim_next(SIM_FUNCTION, NULL); f; f = sim_next(SIM_FUNCTION, f))
        if (f->module == m && strcmp(f->name, name) == 0) return f;
    return NULL;
}

SIM_API(SIM_CONTEXT, cuModuleGetFunction, (void **function, void *module, const char *name), (function, module, name)) {
    char symbol[256];
    sim_module *m = sim_find(SIM_MODULE, module);
    if (!m || !function || !name) return sim_error(CUDASIM_INVALID_HANDLE, "cuModuleGetFunction: no module");
    *function = known_function(m, name);
    if (*function) return CUDASIM_SUCCESS;
    snprintf(symbol, sizeof symbol, "cudasim_kernel_%s", name);
    const cudasim_kernel *kernel = dlsym(m->library, symbol);
    if (!kernel) return sim_error(SIM_NOT_FOUND, "the module has no kernel %s", name);
    sim_function *f = sim_new(SIM_FUNCTION, sizeof *f);
    if (!f) return CUDASIM_OUT_OF_MEMORY;
    f->name = strdup(name);
    if (!f->name) {
        sim_delete(f);
        return CUDASIM_OUT_OF_MEMORY;
    }
    f->kernel = kernel, f->module = m, f->shared_limit = DEFAULT_SHARED;
    *function = f;
    return CUDASIM_SUCCESS;
}

/* CUfunction_attribute: 0 threads, 1 static shared, 3 local, 4 registers, 8 dynamic shared. */
SIM_API(SIM_CONTEXT, cuFuncGetAttribute, (int *value, int attribute, void *function), (value, attribute, function)) {
    const sim_function *f = sim_find(SIM_FUNCTION, function);
    if (!f || !value) return CUDASIM_INVALID_HANDLE;
    if (attribute < 0 || attribute > 15) return CUDASIM_INVALID_VALUE;
    *value = 0;
    if (attribute == 0) *value = f->kernel->threads;
    if (attribute == 4) *value = 32;
    if (attribute == 5 || attribute == 6) *value = sim_configuration()->arch;
    if (attribute == 8) *value = (int)f->shared_limit;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuFuncSetAttribute, (void *function, int attribute, int value), (function, attribute, value)) {
    sim_function *f = sim_find(SIM_FUNCTION, function);
    if (!f) return sim_error(CUDASIM_INVALID_HANDLE, "cuFuncSetAttribute of no function");
    if (attribute == 9)
        return value < -1 || value > 100 ? CUDASIM_INVALID_VALUE : CUDASIM_SUCCESS; /* preferred carve-out */
    if (attribute != 8 || value < 0 || value > sim_max_shared())
        return sim_error(CUDASIM_INVALID_VALUE, "cuFuncSetAttribute %d to %d (at most %d bytes)", attribute, value,
                         sim_max_shared());
    f->shared_limit = (uint32_t)value;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_CONTEXT, cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (int *blocks, void *function, int threads, size_t shared), (blocks, function, threads, shared)) {
    const sim_function *f = sim_find(SIM_FUNCTION, function);
    if (!f) return CUDASIM_INVALID_HANDLE;
    if (threads < 1) return CUDASIM_INVALID_VALUE;
    const size_t by_threads = 2048 / (size_t)threads, by_shared = ((size_t)sim_max_shared() + 1024) / (shared + 1024);
    size_t most = by_threads < by_shared ? by_threads : by_shared;
    if (most > 32) most = 32;
    if (threads > f->kernel->threads || shared > f->shared_limit) most = 0;
    *blocks = (int)most;
    return CUDASIM_SUCCESS;
}
