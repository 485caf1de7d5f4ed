/* CUDA text on a host compiler: programs' kernels as one library. Whoever includes this links the texts of
 * tests/cudasim (CMakeLists.txt). */
#ifndef MPC_TESTS_CODEGEN_CUDA_TEXT_HOST_H
#define MPC_TESTS_CODEGEN_CUDA_TEXT_HOST_H

#include "run.h"

extern const char *const mpc_text_device_sim_h, *const mpc_text_machine_h;

typedef struct host_batch {
    mpc_str text;
} host_batch;

/* Names of kernels get the program's number. */
static inline void host_add(host_batch *b, const mpc_program *p, uint32_t number) {
    if (b->text.length == 0) mpc_str_append(&b->text, p->prelude);
    for (uint32_t k = 0; k < p->kernel_count; k++) {
        const char *name = strstr(p->kernels[k].text, p->kernels[k].name);
        mpc_str_append_n(&b->text, p->kernels[k].text, (size_t)(name - p->kernels[k].text));
        mpc_str_printf(&b->text, "p%u_%s\n", number, name);
    }
}

static inline bool host_write_file(const char *dir, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    if (f == NULL) return false;
    fputs(text, f);
    return fclose(f) == 0;
}

/* The library, NULL: it can't be made. Frees the text. */
static inline void *host_compile(host_batch *b) {
    char dir[] = "/tmp/mpc-cuda-XXXXXX", command[512], path[128];
    bool made = mkdtemp(dir) != NULL && host_write_file(dir, "k.cpp", mpc_str_cstr(&b->text)) &&
                host_write_file(dir, "mpc_device.h", mpc_text_device_sim_h) &&
                host_write_file(dir, "machine.h", mpc_text_machine_h);
    mpc_str_free(&b->text);
    const char *cxx = getenv("MPC_CXX");
    snprintf(command, sizeof command,
             "%s -std=c++17 -O1 -march=native -ffp-contract=off -Wno-unused -fPIC -shared -o %s/k.so %s/k.cpp",
             cxx ? cxx : "c++", dir, dir);
    void *lib = NULL;
    if (made && system(command) == 0) {
        snprintf(path, sizeof path, "%s/k.so", dir);
        lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (getenv("MPC_TEST_KEEP") == NULL && system(command) != 0) fprintf(stderr, "left %s\n", dir);
    return lib;
}

#endif
