/* The pool runs every unit once, whatever the number of threads and units, again and again, also after its threads have
 * gone to sleep. */
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

int main(void) {
    for (unsigned threads = 1; threads <= 5; threads++) check_jobs(threads, threads <= 2 ? 2000 : 300);
    mpc_pool_destroy(NULL);
    return check_result();
}
