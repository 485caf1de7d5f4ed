/* The thread pool. One 64-bit ticket holds the job's number and the units left, so that claiming a unit is one
 * compare-and-swap and a thread that wakes up late can never touch a job that is over. The job's description is read
 * only after a unit was claimed: while a claimed unit is not finished the caller waits, so the description can't change
 * underneath. Waiting is some thousand pauses, then a futex. */
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
    struct mpc_pool *pool;
    pthread_t handle;
    unsigned number;
} worker;

struct mpc_pool {
    _Alignas(64) _Atomic uint64_t ticket; /* job number << 32 | units not yet claimed */
    _Alignas(64) _Atomic uint32_t unfinished;
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t wake; /* futex of sleeping workers */
    _Atomic uint32_t sleepers;
    _Atomic bool stop;
    mpc_pool_work work;
    void *work_user;
    void (*on_start)(void *user);
    void *start_user;
    worker *workers;
    unsigned worker_count;
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

/* Claims one unit of the current job; false when none is left. */
static bool claim(mpc_pool *pool, uint32_t *unit) {
    uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
    while ((uint32_t)ticket != 0) {
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        *unit = (uint32_t)ticket - 1;
        return true;
    }
    return false;
}

static void finish_unit(mpc_pool *pool) {
    if (atomic_fetch_sub(&pool->unfinished, 1) != 1) return;
    if (atomic_load(&pool->caller_sleeps)) futex_wake(&pool->unfinished, 1);
}

static void work_off(mpc_pool *pool, unsigned thread) {
    uint32_t unit = 0;
    while (claim(pool, &unit)) {
        pool->work(pool->work_user, (int64_t)unit, thread);
        finish_unit(pool);
    }
}

static bool has_work(mpc_pool *pool) { return (uint32_t)atomic_load(&pool->ticket) != 0 || atomic_load(&pool->stop); }

static void wait_for_work(mpc_pool *pool) {
    for (int i = 0; i < SPIN_LIMIT; i++) {
        if (has_work(pool)) return;
        pause_cpu();
    }
    uint32_t seen = atomic_load(&pool->wake);
    atomic_fetch_add(&pool->sleepers, 1);
    if (!has_work(pool)) futex_wait(&pool->wake, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
}

static void *run_worker(void *argument) {
    worker *w = argument;
    mpc_pool *pool = w->pool;
    if (pool->on_start) pool->on_start(pool->start_user);
    while (!atomic_load(&pool->stop)) {
        wait_for_work(pool);
        work_off(pool, w->number);
    }
    return NULL;
}

static void wake_workers(mpc_pool *pool, int64_t wanted) {
    if (atomic_load(&pool->sleepers) == 0) return;
    atomic_fetch_add(&pool->wake, 1);
    futex_wake(&pool->wake, wanted < MAX_THREADS ? (int)wanted : MAX_THREADS);
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
    if (units <= 1 || pool->worker_count == 0) {
        for (int64_t i = 0; i < units; i++) work(user, i, 0);
        return;
    }
    pool->work = work;
    pool->work_user = user;
    atomic_store(&pool->unfinished, (uint32_t)units);
    uint64_t job = (atomic_load(&pool->ticket) >> 32) + 1;
    atomic_store(&pool->ticket, job << 32 | (uint64_t)units);
    wake_workers(pool, units - 1);
    work_off(pool, 0);
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
    for (unsigned i = 1; i < threads; i++) {
        worker *w = &pool->workers[pool->worker_count];
        *w = (worker){.pool = pool, .number = i};
        if (pthread_create(&w->handle, NULL, run_worker, w) != 0) break;
        pool->worker_count++;
    }
    return pool;
}

void mpc_pool_destroy(mpc_pool *pool) {
    if (!pool) return;
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->wake, 1);
    futex_wake(&pool->wake, MAX_THREADS);
    for (unsigned i = 0; i < pool->worker_count; i++) pthread_join(pool->workers[i].handle, NULL);
    mpc_free(pool->raw);
}

unsigned mpc_pool_threads(const mpc_pool *pool) { return pool->worker_count + 1; }
