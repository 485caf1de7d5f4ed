/* Where all of mpc's own memory comes from. One process-wide hook exists for tests only: it counts
 * calls (to prove that a step allocates nothing) and makes the n-th allocation fail. */
#ifndef MPC_BASE_ALLOC_H
#define MPC_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/* NULL on failure. `size` 0 gives a valid pointer. */
void *mpc_alloc(size_t size);
void *mpc_realloc(void *old, size_t size);
void mpc_free(void *p);

/* Number of mpc_alloc and mpc_realloc calls since the process began. */
uint64_t mpc_alloc_count(void);

/* From now on the n-th allocation (1 = the next) fails, and all after it; 0 switches this off. */
void mpc_alloc_fail_after(uint64_t n);

#endif
