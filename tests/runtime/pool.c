/* The pool runs every unit once, whatever the number of threads and units, again and again, also after its threads have
 * gone to sleep; a thread begins with its own share, the same one in every job. */
#include <stdatomic.h>
#include <time.h>

#include "base/alloc.h"
#include "runtime/cpu/pool.h"
#include "tests/check.h"

enum { MOST = 1000 };

typedef struct tally {
    _Atomic int runs[MOST];
    _Atomic int bad_thread;
    unsigned threads;
} tally;

static void count_unit(void *user, int64_t unit, unsigned thread) {
    tally *t = user;
    atomic_fetch_add(&t->runs[unit], 1);
    if (thread >= t->threads) atomic_store(&t->bad_thread, 1);
}

static void check_jobs(unsigned threads, int rounds) {
    mpc_pool *pool = mpc_pool_create(threads, NULL, NULL);
    CHECK(pool && mpc_pool_threads(pool) == threads);
    tally *t = mpc_alloc(sizeof *t);
    memset(t, 0, sizeof *t);
    t->threads = threads;
    int expected[MOST] = {0};
    for (int r = 0; r < rounds; r++) {
        int units = (r * 37) % MOST;
        mpc_pool_run(pool, units, count_unit, t);
        for (int i = 0; i < units; i++) expected[i]++;
        if (r % 500 == 499) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); /* they fall asleep */
    }
    int wrong = 0;
    for (int i = 0; i < MOST; i++) wrong += t->runs[i] != expected[i];
    CHECK_MSG(wrong == 0, "%u threads: %d units", threads, wrong);
    CHECK(t->bad_thread == 0);
    mpc_pool_destroy(pool);
    mpc_free(t);
}

enum { SHARE = 3 };

typedef struct meeting { /* of all threads, each in the first unit of a share */
    unsigned threads;
    _Atomic unsigned arrived, strangers;
} meeting;

static void meet(void *user, int64_t unit, unsigned thread) {
    meeting *m = user;
    if (unit % SHARE != 0) return;
    if ((int64_t)thread != unit / SHARE) atomic_fetch_add(&m->strangers, 1);
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->threads) nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
}

/* Nobody leaves a share's first unit before everybody is in one, so nobody can be done early and take another's. */
static void check_shares(unsigned threads) {
    mpc_pool *pool = mpc_pool_create(threads, NULL, NULL);
    unsigned strangers = 0;
    CHECK(mpc_pool_threads(pool) == threads);
    threads = mpc_pool_threads(pool); /* a missing one would be waited for */
    for (int round = 0; round < 20; round++) {
        meeting m = {.threads = threads};
        mpc_pool_run(pool, SHARE * (int64_t)threads, meet, &m);
        CHECK(m.arrived == threads);
        strangers += m.strangers;
    }
    CHECK_MSG(strangers == 0, "%u threads: %u shares begun by another thread", threads, strangers);
    mpc_pool_destroy(pool);
}

int main(void) {
    for (unsigned threads = 2; threads <= 5; threads++) check_shares(threads);
    for (unsigned threads = 1; threads <= 5; threads++) check_jobs(threads, threads <= 2 ? 2000 : 300);
    mpc_pool_destroy(NULL);
    return check_result();
}
