/* Runs the CUDA text of a program on the host: tests/cudasim's primitives on a small machine of its own, whose threads
 * are contexts that take turns. No stream, no graph, no library: a launch is a call. */
#ifndef MPC_TESTS_CODEGEN_CUDA_MACHINE_H
#define MPC_TESTS_CODEGEN_CUDA_MACHINE_H

#include <ucontext.h>

#include "run.h"
#include "tests/cudasim/machine.h"

enum { MACHINE_THREADS = 1024, MACHINE_STACK = 65536, MACHINE_SHARED = 98304, MACHINE_POINTERS = 512 };

typedef enum machine_wait { MACHINE_READY, MACHINE_AT_BARRIER, MACHINE_TOGETHER, MACHINE_DONE } machine_wait;
typedef struct machine_thread {
    ucontext_t context;
    char *stack;
    machine_wait wait;
    cudasim_collective what;
    unsigned members;
    cudasim_exchange *exchange;
} machine_thread;

typedef struct machine {
    cudasim_machine face;
    ucontext_t scheduler;
    machine_thread thread[MACHINE_THREADS];
    int live, at_barrier;
    const cudasim_kernel *kernel;
    void *params[3];
    bool stuck;
    uint32_t most_blocks; /* run that many of a launch, its first and its last; 0: all */
} machine;

static machine *machine_now; /* contexts take no argument */

static inline void machine_yield(machine_wait wait) {
    machine_thread *t = &machine_now->thread[machine_now->face.thread];
    t->wait = wait;
    swapcontext(&t->context, &machine_now->scheduler);
}

static inline void machine_barrier(void) {
    machine_now->at_barrier++;
    machine_yield(MACHINE_AT_BARRIER);
}

/* The last lane to come does it for all. */
static inline void machine_together(cudasim_collective what, unsigned members, cudasim_exchange *e) {
    machine *m = machine_now;
    int lane = m->face.thread % 32, first = m->face.thread - lane;
    machine_thread *own = &m->thread[m->face.thread];
    CHECK(members >> lane & 1);
    CHECK(what == CUDASIM_SYNC_WARP || what == CUDASIM_SHUFFLE || what == CUDASIM_SHUFFLE_XOR);
    own->what = what, own->members = members, own->exchange = e;
    for (int i = 0; i < 32; i++) {
        const machine_thread *t = &m->thread[first + i];
        if (i == lane || !(members >> i & 1)) continue;
        if (t->wait == MACHINE_TOGETHER && t->what == what && t->members == members) continue;
        machine_yield(MACHINE_TOGETHER);
        return;
    }
    for (int i = 0; i < 32; i++) {
        if (!(members >> i & 1)) continue;
        machine_thread *t = &m->thread[first + i];
        int from = what == CUDASIM_SHUFFLE ? (int)t->exchange->in[1] & 31 : i ^ (int)t->exchange->in[1];
        if (what != CUDASIM_SYNC_WARP) {
            CHECK(members >> from & 1);
            t->exchange->out[0] = m->thread[first + from].exchange->in[0];
        }
    }
    for (int i = 0; i < 32; i++)
        if (members >> i & 1 && i != lane) m->thread[first + i].wait = MACHINE_READY;
}

__attribute__((noreturn)) static inline void machine_fail(const char *what) {
    fprintf(stderr, "kernel fails: %s\n", what);
    abort();
}

static inline void machine_entry(void) {
    machine_now->kernel->run(machine_now->params);
    machine_now->live--;
    machine_yield(MACHINE_DONE);
}

/* Apart, because compilers warn of loops around getcontext. */
__attribute__((noinline)) static void machine_start_thread(machine_thread *t) {
    if (t->stack == NULL) t->stack = malloc(MACHINE_STACK);
    t->wait = MACHINE_READY;
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = MACHINE_STACK;
    makecontext(&t->context, machine_entry, 0);
}

static inline void machine_start_block(machine *m, int block) {
    m->face.block = block;
    m->live = m->kernel->threads;
    m->at_barrier = 0;
    memset(m->face.shared, 0xff, MACHINE_SHARED); /* NaN */
    for (int i = 0; i < m->kernel->threads; i++) machine_start_thread(&m->thread[i]);
}

/* Whoever can go on goes on; a barrier opens when all that live are there. Odd blocks start with the last thread. */
static inline void machine_run_block(machine *m, int block) {
    machine_start_block(m, block);
    while (m->live > 0) {
        bool ran = false;
        for (int k = 0; k < m->kernel->threads; k++) {
            int i = block % 2 ? m->kernel->threads - 1 - k : k;
            if (m->thread[i].wait != MACHINE_READY) continue;
            m->face.thread = i;
            swapcontext(&m->scheduler, &m->thread[i].context);
            ran = true;
        }
        if (m->live > 0 && m->at_barrier == m->live) {
            for (int i = 0; i < m->kernel->threads; i++)
                if (m->thread[i].wait == MACHINE_AT_BARRIER) m->thread[i].wait = MACHINE_READY;
            m->at_barrier = 0;
        } else if (!ran) {
            CHECK_MSG(false, "block %d waits for threads that never come", block);
            m->stuck = true;
            return;
        }
    }
}

static inline machine *machine_create(void *lib) {
    machine *m = calloc(1, sizeof *m);
    int (*bind)(cudasim_machine *) = NULL;
    *(void **)&bind = dlsym(lib, "cudasim_bind");
    m->face = (cudasim_machine){.shared = aligned_alloc(128, MACHINE_SHARED),
                                .barrier = machine_barrier,
                                .together = machine_together,
                                .fail = machine_fail};
    CHECK(bind != NULL && bind(&m->face) == CUDASIM_ABI);
    return m;
}

static inline void machine_destroy(machine *m) {
    for (int i = 0; i < MACHINE_THREADS; i++) free(m->thread[i].stack);
    free(m->face.shared);
    free(m);
}

/* The argument block of an instance, as ir/program.h lays it out. */
static inline size_t machine_pack(const run *r, const mpc_launch *l, uint32_t index, uint32_t first, char *to) {
    const mpc_kernel *k = &r->program->kernels[l->kernel];
    const mpc_kernel_instance *in = &l->instances[index];
    uint32_t p = k->pointer_count ? k->pointer_count : 1, n = k->int_count ? k->int_count : 1,
             f = k->float_count ? k->float_count : 1;
    size_t size = (16 + 8 * (size_t)p + 8 * (size_t)n + 4 * (size_t)f + 7) / 8 * 8;
    if (to == NULL) return size;
    memset(to, 0, size);
    memcpy(to, &in->units, 8);
    memcpy(to + 8, &first, 4);
    memcpy(to + 12, &in->blocks, 4);
    for (uint32_t i = 0; i < k->pointer_count; i++) {
        void *at = run_at(r, in->pointers[i]);
        memcpy(to + 16 + 8 * i, &at, 8);
    }
    if (k->int_count > 0) memcpy(to + 16 + 8 * p, in->ints, 8 * (size_t)k->int_count);
    if (k->float_count > 0) memcpy(to + 16 + 8 * p + 8 * n, in->floats, 4 * (size_t)k->float_count);
    return size;
}

static inline void machine_launch(machine *m, const run *r, const mpc_launch *l, void *lib, uint32_t number) {
    const mpc_kernel *k = &r->program->kernels[l->kernel];
    char name[128];
    snprintf(name, sizeof name, "cudasim_kernel_p%u_%s", number, k->name);
    m->kernel = dlsym(lib, name);
    CHECK_MSG(m->kernel != NULL, "%s", name);
    if (m->kernel == NULL) return;
    size_t size = machine_pack(r, l, 0, 0, NULL);
    char *table = calloc(l->instance_count + 1, size);
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < l->instance_count; i++) {
        CHECK(machine_pack(r, l, i, blocks, table + i * size) == m->kernel->block_bytes);
        blocks += l->instances[i].blocks;
    }
    const uint8_t *when = l->has_when ? run_at(r, l->when) : NULL;
    int32_t count = (int32_t)l->instance_count;
    if (k->segmented) m->params[0] = &table, m->params[1] = &count, m->params[2] = &when;
    else m->params[0] = table, m->params[1] = &when;
    m->face.threads = m->kernel->threads;
    m->face.shared_bytes = k->shared_bytes;
    machine_now = m;
    for (uint32_t b = 0; b < blocks && !m->stuck; b++)
        if (m->most_blocks == 0 || b < m->most_blocks / 2 || b + m->most_blocks / 2 >= blocks)
            machine_run_block(m, (int)b);
    free(table);
}

static inline void machine_step(machine *m, const run *r, void *lib, uint32_t number) {
    for (uint32_t i = 0; i < r->program->launch_count && !m->stuck; i++) {
        const mpc_launch *l = &r->program->launches[i];
        if (l->kind == MPC_LAUNCH_COPY) memmove(run_at(r, l->copy_to), run_at(r, l->copy_from), l->copy_bytes);
        CHECK(l->kind == MPC_LAUNCH_COPY || l->kind == MPC_LAUNCH_KERNEL);
        if (l->kind == MPC_LAUNCH_KERNEL) machine_launch(m, r, l, lib, number);
    }
}

#endif
