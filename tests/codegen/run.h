/* Runs programs in tests without the runtime: compiles the text, walks the launches on one thread, multiplies matrices
 * naively. Units of a launch can be run in any order and split, which must not change a bit. */
#ifndef MPC_TESTS_CODEGEN_RUN_H
#define MPC_TESTS_CODEGEN_RUN_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/numfmt.h"
#include "codegen/codegen.h"
#include "ir/eval/eval.h"
#include "tests/check.h"

typedef void (*run_kernel)(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch);

/* Programs that are compiled as one text: the prelude costs more than the kernels of a small graph. Names of kernels
 * get their program's number. */
typedef struct run_batch {
    mpc_str text;
    uint32_t programs;
    void *lib;
} run_batch;

typedef struct run {
    const mpc_program *program;
    unsigned char *arena, *states;
    void *scratch;
    run_kernel *kernels;
    bool backwards; /* units one by one, last first */
} run;

static inline void *run_aligned(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes / 64 + 2) * 64);
    if (p != NULL) memset(p, 0xa5, (bytes / 64 + 2) * 64); /* whoever reads what nobody wrote shows it */
    return p;
}

/* Gives the program's number. */
static inline uint32_t run_add(run_batch *b, const mpc_program *p) {
    if (b->programs == 0) mpc_str_append(&b->text, p->prelude);
    for (uint32_t i = 0; i < p->kernel_count; i++)
        mpc_str_printf(&b->text, "\n#define %s p%u_%s\n%s\n#undef %s\n", p->kernels[i].name, b->programs,
                       p->kernels[i].name, p->kernels[i].text, p->kernels[i].name);
    return b->programs++;
}

static inline bool run_compile(run_batch *b, const char *flags) {
    char dir[] = "/tmp/mpc-codegen-XXXXXX", path[128], command[512];
    if (mkdtemp(dir) == NULL) return false;
    snprintf(path, sizeof path, "%s/p.c", dir);
    FILE *f = fopen(path, "w");
    if (f == NULL) return false;
    fputs(mpc_str_cstr(&b->text), f);
    fclose(f);
    mpc_str_free(&b->text);
    const char *cc = getenv("MPC_CC");
    snprintf(
        command, sizeof command,
        "%s -std=gnu17 -O1 %s -ffp-contract=off -Wall -Wextra -Werror -Wno-psabi -fPIC -shared -o %s/p.so %s/p.c -lm",
        cc ? cc : "cc", flags, dir, dir);
    if (system(command) == 0) {
        snprintf(path, sizeof path, "%s/p.so", dir);
        b->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0) fprintf(stderr, "left %s\n", dir);
    return b->lib != NULL;
}

static inline void run_load(run *r, const run_batch *b, const mpc_program *program, uint32_t number) {
    *r = (run){.program = program};
    uint64_t scratch = 64;
    r->kernels = calloc(program->kernel_count + 1, sizeof *r->kernels);
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        char name[256];
        snprintf(name, sizeof name, "p%u_%s", number, program->kernels[i].name);
        *(void **)&r->kernels[i] = dlsym(b->lib, name);
        CHECK(r->kernels[i] != NULL);
        if (program->kernels[i].scratch_bytes > scratch) scratch = program->kernels[i].scratch_bytes;
    }
    r->arena = run_aligned(program->arena_bytes);
    r->states = run_aligned(program->state_bytes);
    r->scratch = run_aligned(scratch);
}

static inline void run_unload(run *r) {
    free(r->kernels);
    free(r->arena);
    free(r->states);
    free(r->scratch);
}

static inline unsigned char *run_at(const run *r, mpc_pointer p) {
    const mpc_buffer *b = &r->program->buffers[p.buffer];
    return (b->is_state ? r->states : r->arena) + b->offset + p.byte_offset;
}

static inline double run_read(const unsigned char *p, mpc_format format, int64_t i) {
    mpc_tensor t = {.type = {.format = format}, .data = &(double){0}};
    double out;
    t.data = &out;
    mpc_tensor_from_bytes(&t, p + i * (int64_t)mpc_format_get(format)->bytes);
    return out;
}

static inline void run_write(unsigned char *p, mpc_format format, int64_t i, double v) {
    mpc_tensor t = {.type = {.format = format}, .data = &v};
    v = mpc_round_to(format, (double)(float)v);
    mpc_tensor_to_bytes(&t, p + i * (int64_t)mpc_format_get(format)->bytes);
}

static inline void run_matmul_at(const run *r, const mpc_matmul *m, int64_t a, int64_t b, int64_t c) {
    for (int64_t i = 0; i < m->m; i++)
        for (int64_t j = 0; j < m->n; j++) {
            double sum = 0;
            for (int64_t k = 0; k < m->k; k++)
                sum += run_read(run_at(r, m->a), m->fa, a + i * m->a_row + k * m->a_col) *
                       run_read(run_at(r, m->b), m->fb, b + k * m->b_row + j * m->b_col);
            if (m->has_bias) sum += run_read(run_at(r, m->bias), MPC_FMT_f32, j);
            if (m->relu && sum <= 0) sum = 0;
            run_write(run_at(r, m->c), m->fc, c + i * m->c_row + j * m->c_col, sum);
        }
}

static inline void run_matmul(const run *r, const mpc_matmul *m) {
    CHECK((m->a_row == 1 || m->a_col == 1) && (m->b_row == 1 || m->b_col == 1) && (m->c_row == 1 || m->c_col == 1));
    for (int64_t x = 0; x < m->batch[0]; x++)
        for (int64_t y = 0; y < m->batch[1]; y++)
            for (int64_t z = 0; z < m->batch[2]; z++)
                run_matmul_at(r, m, x * m->a_batch[0] + y * m->a_batch[1] + z * m->a_batch[2],
                              x * m->b_batch[0] + y * m->b_batch[1] + z * m->b_batch[2],
                              x * m->c_batch[0] + y * m->c_batch[1] + z * m->c_batch[2]);
}

static inline void run_instance(const run *r, const mpc_launch *l, uint32_t index) {
    const mpc_kernel *k = &r->program->kernels[l->kernel];
    const mpc_kernel_instance *in = &l->instances[index];
    void *pointers[512];
    CHECK(k->pointer_count <= 512);
    for (uint32_t i = 0; i < k->pointer_count; i++) pointers[i] = run_at(r, in->pointers[i]);
    if (!r->backwards) r->kernels[l->kernel](pointers, in->ints, in->floats, 0, in->units, r->scratch);
    for (int64_t u = in->units; r->backwards && u-- > 0;)
        r->kernels[l->kernel](pointers, in->ints, in->floats, u, u + 1, r->scratch);
}

static inline void run_step(const run *r) {
    for (uint32_t i = 0; i < r->program->launch_count; i++) {
        const mpc_launch *l = &r->program->launches[i];
        if (l->has_when && !*run_at(r, l->when)) continue;
        if (l->kind == MPC_LAUNCH_COPY) memmove(run_at(r, l->copy_to), run_at(r, l->copy_from), l->copy_bytes);
        if (l->kind == MPC_LAUNCH_MATMUL) run_matmul(r, &l->matmul);
        for (uint32_t k = 0; l->kind == MPC_LAUNCH_KERNEL && k < l->instance_count; k++)
            run_instance(r, l, r->backwards ? l->instance_count - 1 - k : k);
        CHECK(l->kind != MPC_LAUNCH_CONV);
    }
}

#endif
