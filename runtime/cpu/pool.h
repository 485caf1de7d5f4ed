/* A small pool of threads. How work is cut into units never depends on the number of threads where it could change bits. The
 * caller is thread 0 and works too. */
#ifndef MPC_RUNTIME_CPU_POOL_H
#define MPC_RUNTIME_CPU_POOL_H

#include <stdint.h>

typedef struct mpc_pool mpc_pool;

/* Runs unit `unit` on thread `thread` (0 .. threads - 1), which may use scratch memory of its own by that number. */
typedef void (*mpc_pool_work)(void *user, int64_t unit, unsigned thread);

/* `threads` counts the caller; 0: all cores. `on_start` (may be NULL) is run once by every new thread. A pool that gets
 * fewer threads than asked for works all the same. NULL when out of memory. */
mpc_pool *mpc_pool_create(unsigned threads, void (*on_start)(void *user), void *user);
void mpc_pool_destroy(mpc_pool *pool); /* NULL is fine */
unsigned mpc_pool_threads(const mpc_pool *pool);

/* Runs units 0 .. units - 1, each once, in any order; returns when all are done. One caller at a time. units < 2^31. */
void mpc_pool_run(mpc_pool *pool, int64_t units, mpc_pool_work work, void *user);

#endif
