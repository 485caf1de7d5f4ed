/* Runs the threads of a block on one host thread. Threads run one after the other on the same stack until one must wait
 * for others; the next thread then gets another stack, so kernels that never wait need no switch. The ready thread with
 * the lowest number (the highest, when descending) goes on. When nobody can go on and not all are done, somebody waits
 * for a thread that won't come: that is reported, it doesn't hang. Kernel code calls in through the machine; `fail`
 * leaves all stacks behind. */
#include "internal.h"
#include "sim_fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, WARP = 32, MAX_WARPS = MAX_THREADS / WARP };
typedef enum thread_state { FRESH, RUNS, AT_BARRIER, TOGETHER, DONE } thread_state;
typedef struct async_copy {
    char *to;
    const void *from;
    int size, bytes;
    uint32_t group;
} async_copy;
typedef struct thread {
    thread_state state;
    sim_fiber *fiber;
    cudasim_collective what; /* TOGETHER */
    uint32_t members;
    cudasim_exchange *exchange;
    async_copy *copies;
    uint32_t copy_count, copy_capacity, groups; /* groups: committed */
} thread;
static struct {
    cudasim_machine machine;
    const sim_grid *grid;
    uint32_t ready[MAX_WARPS], together[MAX_WARPS]; /* a bit for each lane */
    uint32_t done, at_barrier;
    int start; /* the thread that a resumed idle fiber runs */
    thread threads[MAX_THREADS];
    sim_fiber caller, *fibers[MAX_THREADS + 1], *idle[MAX_THREADS + 1], *current;
    uint32_t fiber_count, idle_count;
    int result;
    char problem[240];
} run;

cudasim_machine *sim_machine(void) { return &run.machine; }

/* ---- who goes on ---- */
static int next_ready(void) {
    const int warps = (run.machine.threads + WARP - 1) / WARP;
    if (run.grid->descending) {
        for (int w = warps - 1; w >= 0; w--)
            if (run.ready[w]) return w * WARP + 31 - __builtin_clz(run.ready[w]);
    } else {
        for (int w = 0; w < warps; w++)
            if (run.ready[w]) return w * WARP + __builtin_ctz(run.ready[w]);
    }
    return -1;
}

static void set_ready(int t) { run.ready[t / WARP] |= 1u << t % WARP; }
static void clear_ready(int t) { run.ready[t / WARP] &= ~(1u << t % WARP); }

static void switch_to(sim_fiber *to) {
    sim_fiber *from = run.current;
    run.current = to;
    sim_fiber_switch(from, to);
}

static void leave(void) { switch_to(&run.caller); }

__attribute__((noreturn)) static void stop(int result, const char *format, const char *what) {
    run.result = result;
    snprintf(run.problem, sizeof run.problem, format, what, run.machine.thread, run.machine.block);
    leave();
    abort();
}

__attribute__((noreturn)) static void fail(const char *what) {
    stop(strstr(what, "misaligned") ? SIM_MISALIGNED : CUDASIM_LAUNCH_FAILED, "%s (thread %d of block %d)", what);
}

static const char *describe(int t, char text[64]) {
    const thread *at = &run.threads[t];
    if (at->state == TOGETHER) snprintf(text, 64, "%s of lanes %08x", sim_collective_names[at->what], at->members);
    else snprintf(text, 64, "%s", at->state == AT_BARRIER ? "a barrier" : "its end");
    return text;
}

/* The first thread that keeps `t` waiting; the block's number of threads if it isn't there. */
static int missing(int t) {
    const thread *w = &run.threads[t];
    int other = 0;
    if (w->state == TOGETHER) {
        const int first = t / WARP * WARP;
        for (other = first; other < first + WARP; other++) {
            const thread *o = &run.threads[other];
            const bool here = o->state == TOGETHER && o->what == w->what && o->members == w->members;
            if ((w->members >> other % WARP & 1u) && (other >= run.machine.threads || !here)) break;
        }
    } else {
        while (other < run.machine.threads && run.threads[other].state == AT_BARRIER) other++;
    }
    return other < run.machine.threads ? other : run.machine.threads;
}

/* Somebody waits for what never comes. */
__attribute__((noreturn)) static void deadlock(void) {
    int waiting = 0;
    char here[64], there[64] = "not there";
    while (run.threads[waiting].state == DONE) waiting++;
    const int other = missing(waiting);
    if (other < run.machine.threads) describe(other, there);
    run.result = CUDASIM_LAUNCH_FAILED;
    snprintf(run.problem, sizeof run.problem, "thread %d of block %d waits in %s, thread %d is at %s", waiting,
             run.machine.block, describe(waiting, here), other, there);
    leave();
    abort();
}

/* ---- fibers ---- */
static void run_thread(int t) {
    run.machine.thread = t;
    run.threads[t].state = RUNS;
    run.threads[t].fiber = run.current;
    run.grid->kernel->run(run.grid->params);
    run.threads[t].state = DONE;
    run.done++;
}

static void worker(void) {
    sim_fiber_started();
    for (;;) {
        int t = run.start;
        while (t >= 0 && run.threads[t].state == FRESH) {
            clear_ready(t);
            run_thread(t);
            t = next_ready();
        }
        sim_fiber *self = run.current;
        if (t >= 0) {
            clear_ready(t);
            run.machine.thread = t;
            run.idle[run.idle_count++] = self;
            switch_to(run.threads[t].fiber);
        } else if (run.done == (uint32_t)run.machine.threads) {
            run.idle[run.idle_count++] = self;
            leave();
        } else {
            deadlock();
        }
    }
}

static sim_fiber *idle_fiber(void) {
    if (run.idle_count > 0) return run.idle[--run.idle_count];
    sim_fiber *f = run.fiber_count <= MAX_THREADS ? sim_fiber_new(worker) : NULL;
    if (f) run.fibers[run.fiber_count++] = f;
    return f;
}

/* The running thread has been marked; others run until it is its turn. */
static void give_way(void) {
    const int self = run.machine.thread, t = next_ready();
    if (t < 0) deadlock();
    if (t != self) {
        sim_fiber *to = run.threads[t].fiber;
        if (run.threads[t].state == FRESH) {
            to = idle_fiber();
            if (!to) stop(CUDASIM_OUT_OF_MEMORY, "%s for thread %d of block %d", "no stack");
            run.start = t;
        } else {
            clear_ready(t);
            run.machine.thread = t;
        }
        switch_to(to);
    } else {
        clear_ready(t);
    }
    run.machine.thread = self;
    run.threads[self].state = RUNS;
}

/* ---- what kernels call ---- */
static void barrier(void) {
    run.threads[run.machine.thread].state = AT_BARRIER;
    if (++run.at_barrier == (uint32_t)run.machine.threads) {
        run.at_barrier = 0;
        for (int t = 0; t < run.machine.threads; t++) set_ready(t);
    }
    give_way();
}

/* Have all members come to the same call? */
static bool complete(int warp, cudasim_collective what, uint32_t members) {
    if ((run.together[warp] & members) != members) return false;
    for (uint32_t rest = members; rest; rest &= rest - 1) {
        const thread *t = &run.threads[warp * WARP + __builtin_ctz(rest)];
        if (t->what != what || t->members != members) return false;
    }
    return true;
}

static void together(cudasim_collective what, unsigned members, cudasim_exchange *exchange) {
    const int t = run.machine.thread, warp = t / WARP;
    if (!(members >> t % WARP & 1u)) fail("a lane calls that is not among the members");
    thread *self = &run.threads[t];
    self->state = TOGETHER;
    self->what = what, self->members = members, self->exchange = exchange;
    run.together[warp] |= 1u << t % WARP;
    if (complete(warp, what, members)) {
        cudasim_exchange *e[WARP];
        for (int i = 0; i < WARP; i++) e[i] = members >> i & 1u ? run.threads[warp * WARP + i].exchange : NULL;
        const char *problem = sim_exchange(what, e);
        if (problem) fail(problem);
        run.together[warp] &= ~members;
        run.ready[warp] |= members;
    }
    give_way();
}

static void copy_async(void *shared, const void *global, int size, int bytes) {
    thread *t = &run.threads[run.machine.thread];
    char *to = shared;
    if (((uintptr_t)to | (uintptr_t)global) & (unsigned)(size - 1)) fail("misaligned address of an asynchronous copy");
    if (to < run.machine.shared || to + size > run.machine.shared + run.machine.shared_bytes)
        fail("an asynchronous copy to outside of shared memory");
    if (bytes < 0 || bytes > size) fail("an asynchronous copy of a wrong number of bytes");
    if (t->copy_count == t->copy_capacity) {
        const uint32_t capacity = t->copy_capacity ? 2 * t->copy_capacity : 32;
        async_copy *copies = realloc(t->copies, capacity * sizeof *copies);
        if (!copies) fail("no memory for asynchronous copies");
        t->copies = copies, t->copy_capacity = capacity;
    }
    memset(to, 0xff, (size_t)size);
    t->copies[t->copy_count++] = (async_copy){to, global, size, bytes, t->groups};
}

static void copy_commit(void) { run.threads[run.machine.thread].groups++; }

static void copy_wait(int pending) {
    thread *t = &run.threads[run.machine.thread];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->copy_count; i++) {
        const async_copy *c = &t->copies[i];
        if ((int64_t)c->group >= (int64_t)t->groups - pending) {
            t->copies[kept++] = *c;
            continue;
        }
        if (c->bytes) memcpy(c->to, c->from, (size_t)c->bytes);
        memset(c->to + c->bytes, 0, (size_t)(c->size - c->bytes));
    }
    t->copy_count = kept;
}

/* ---- blocks ---- */
static void run_block(int block) {
    run.machine.block = block;
    run.done = run.at_barrier = 0;
    memset(run.machine.shared, 0xff, run.machine.shared_bytes);
    for (int t = 0; t < run.machine.threads; t++) {
        run.threads[t].state = FRESH;
        run.threads[t].copy_count = run.threads[t].groups = 0;
        set_ready(t);
    }
    run.start = next_ready();
    sim_fiber *f = idle_fiber();
    run.current = &run.caller;
    if (f) switch_to(f);
    else run.result = CUDASIM_OUT_OF_MEMORY, snprintf(run.problem, sizeof run.problem, "no memory for a stack");
}

static void abandon(void) {
    memset(run.ready, 0, sizeof run.ready);
    memset(run.together, 0, sizeof run.together);
    run.idle_count = 0;
    for (uint32_t i = 0; i < run.fiber_count; i++) {
        sim_fiber_reset(run.fibers[i], worker);
        run.idle[run.idle_count++] = run.fibers[i];
    }
}

static void set_machine(const sim_grid *grid) {
    run.grid = grid;
    run.result = CUDASIM_SUCCESS;
    run.problem[0] = 0;
    run.machine.threads = grid->kernel->threads;
    run.machine.shared_bytes = grid->shared_bytes;
    run.machine.barrier = barrier;
    run.machine.together = together;
    run.machine.copy_async = copy_async;
    run.machine.copy_commit = copy_commit;
    run.machine.copy_wait = copy_wait;
    run.machine.fail = fail;
}

const char *sim_run_grid(const sim_grid *grid, int *result) {
    char *raw;
    set_machine(grid);
    run.machine.shared = sim_guarded_alloc(grid->shared_bytes, &raw);
    *result = CUDASIM_OUT_OF_MEMORY;
    if (!run.machine.shared || grid->kernel->threads > MAX_THREADS) return "no memory for a block";
    for (uint32_t i = 0; i < grid->blocks && !run.problem[0]; i++) {
        run_block((int)(grid->descending ? grid->blocks - 1 - i : i));
        if (!run.problem[0] && (i == 0 || i + 1 == grid->blocks) && !sim_guards_hold(raw, grid->shared_bytes)) {
            run.result = CUDASIM_ILLEGAL_ADDRESS;
            snprintf(run.problem, sizeof run.problem, "it wrote outside of its %u bytes of shared memory",
                     grid->shared_bytes);
        }
    }
    if (run.problem[0]) abandon();
    sim_guarded_free(raw, grid->shared_bytes);
    *result = run.result;
    return run.problem[0] ? run.problem : NULL;
}
