/* The thread pool. Every thread has a share of a job, a contiguous run of its units, and takes from the others' shares
 * only when its own is done: what it wrote in the last job is in its own cache, and the same share of the next job
 * mostly reads that. One 64-bit ticket per thread holds the job's number and the units left of its share, so that
 * claiming a unit is one compare-and-swap and a thread that wakes up late can never touch a job that is over. The job's
 * description is read only after a unit was claimed: while a claimed unit is not finished the caller waits, so the
 * description can't change underneath. Waiting is some thousand pauses, then a futex. */
#include "runtime/cpu/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"

enum { SPIN_LIMIT = 2000, MAX_THREADS = 256 };

typedef struct worker {
    _Alignas(64) _Atomic uint64_t ticket; /* job number << 32 | units of its share not yet claimed */
    struct mpc_pool *pool;
    pthread_t handle;
    unsigned number;
} worker;

struct mpc_pool {
    _Alignas(64) _Atomic uint32_t unfinished;
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t job; /* number of the last one; futex of sleeping workers */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    mpc_pool_work work;
    void *work_user;
    int64_t units;
    void (*on_start)(void *user);
    void *start_user;
    worker *workers; /* [threads]; number 0 is the caller's */
    unsigned threads;
    void *raw; /* what is freed */
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* First unit of a thread's share. */
static int64_t share_begin(int64_t units, unsigned thread, unsigned threads) { return units * thread / threads; }

/* Claims one unit of that worker's share of the job; false when none is left, or the job is over. */
static bool claim(const mpc_pool *pool, uint32_t job, worker *from, int64_t *unit) {
    uint64_t ticket = atomic_load_explicit(&from->ticket, memory_order_acquire);
    while ((uint32_t)ticket != 0 && ticket >> 32 == job) {
        if (!atomic_compare_exchange_weak_explicit(&from->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        *unit = share_begin(pool->units, from->number + 1, pool->threads) - (int64_t)(uint32_t)ticket;
        return true;
    }
    return false;
}

static void finish_unit(mpc_pool *pool) {
    if (atomic_fetch_sub(&pool->unfinished, 1) != 1) return;
    if (atomic_load(&pool->caller_sleeps)) futex_wake(&pool->unfinished, 1);
}

static void work_off(mpc_pool *pool, uint32_t job, unsigned thread) {
    int64_t unit = 0;
    for (unsigned i = 0; i < pool->threads; i++)
        while (claim(pool, job, &pool->workers[(thread + i) % pool->threads], &unit)) {
            pool->work(pool->work_user, unit, thread);
            finish_unit(pool);
        }
}

/* Until there is a job after the one numbered `seen`, or the end. */
static uint32_t wait_for_job(mpc_pool *pool, uint32_t seen) {
    for (int i = 0; i < SPIN_LIMIT; i++) {
        uint32_t job = atomic_load(&pool->job);
        if (job != seen) return job;
        pause_cpu();
    }
    atomic_fetch_add(&pool->sleepers, 1);
    uint32_t job = atomic_load(&pool->job);
    for (; job == seen; job = atomic_load(&pool->job)) futex_wait(&pool->job, seen); /* signals end a wait too */
    atomic_fetch_sub(&pool->sleepers, 1);
    return job;
}

static void *run_worker(void *argument) {
    worker *w = argument;
    mpc_pool *pool = w->pool;
    if (pool->on_start) pool->on_start(pool->start_user);
    for (uint32_t job = 0; !atomic_load(&pool->stop);) {
        job = wait_for_job(pool, job);
        work_off(pool, job, w->number);
    }
    return NULL;
}

/* Tells the workers that there is something new. */
static void announce(mpc_pool *pool, int64_t wanted) {
    atomic_fetch_add(&pool->job, 1);
    if (atomic_load(&pool->sleepers) == 0) return;
    futex_wake(&pool->job, wanted < MAX_THREADS ? (int)wanted : MAX_THREADS);
}

static void wait_for_units(mpc_pool *pool) {
    for (int i = 0; i < SPIN_LIMIT; i++) {
        if (atomic_load_explicit(&pool->unfinished, memory_order_acquire) == 0) return;
        pause_cpu();
    }
    atomic_store(&pool->caller_sleeps, 1);
    for (;;) {
        uint32_t left = atomic_load(&pool->unfinished);
        if (left == 0) break;
        futex_wait(&pool->unfinished, left);
    }
    atomic_store(&pool->caller_sleeps, 0);
}

void mpc_pool_run(mpc_pool *pool, int64_t units, mpc_pool_work work, void *user) {
    if (units <= 1 || pool->threads == 1) {
        for (int64_t i = 0; i < units; i++) work(user, i, 0);
        return;
    }
    pool->work = work;
    pool->work_user = user;
    pool->units = units;
    atomic_store(&pool->unfinished, (uint32_t)units);
    uint32_t job = atomic_load(&pool->job) + 1;
    for (unsigned i = 0; i < pool->threads; i++) {
        int64_t share = share_begin(units, i + 1, pool->threads) - share_begin(units, i, pool->threads);
        atomic_store_explicit(&pool->workers[i].ticket, (uint64_t)job << 32 | (uint64_t)share, memory_order_release);
    }
    announce(pool, units - 1);
    work_off(pool, job, 0);
    wait_for_units(pool);
}

static unsigned core_count(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (unsigned)n;
}

mpc_pool *mpc_pool_create(unsigned threads, void (*on_start)(void *user), void *user) {
    if (threads == 0) threads = core_count();
    if (threads > MAX_THREADS) threads = MAX_THREADS;
    size_t size = sizeof(mpc_pool) + threads * sizeof(worker);
    void *raw = mpc_alloc(size + 64);
    if (!raw) return NULL;
    mpc_pool *pool = (mpc_pool *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
    memset(pool, 0, size);
    pool->raw = raw;
    pool->on_start = on_start;
    pool->start_user = user;
    pool->workers = (worker *)(pool + 1);
    for (pool->threads = 1; pool->threads < threads; pool->threads++) {
        worker *w = &pool->workers[pool->threads];
        w->pool = pool;
        w->number = pool->threads;
        if (pthread_create(&w->handle, NULL, run_worker, w) != 0) break;
    }
    return pool;
}

void mpc_pool_destroy(mpc_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stop, true);
    announce(pool, MAX_THREADS);
    for (unsigned i = 1; i < pool->threads; i++) pthread_join(pool->workers[i].handle, NULL);
    mpc_free(pool->raw);
}

unsigned mpc_pool_threads(const mpc_pool *pool) { return pool->threads; }
