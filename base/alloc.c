/* The one gate to the C heap. It counts calls and can be told to fail, which is how tests prove that every allocation
 * failure is handled and that a training step allocates nothing. The counters are the only process-wide state of the
 * library; threads may allocate at the same time. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_uint_least64_t call_count;
static atomic_uint_least64_t fail_at; /* call number from which calls fail; 0: never */

static int refuses(void) {
    uint64_t call = atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed) + 1;
    uint64_t limit = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return limit != 0 && call >= limit;
}

void *mpc_alloc(size_t size) {
    if (refuses()) return NULL;
    return malloc(size ? size : 1);
}

void *mpc_realloc(void *old, size_t size) {
    if (refuses()) return NULL;
    return realloc(old, size ? size : 1);
}

void mpc_free(void *p) { free(p); }

uint64_t mpc_alloc_count(void) { return atomic_load_explicit(&call_count, memory_order_relaxed); }

void mpc_alloc_fail_after(uint64_t n) {
    uint64_t now = atomic_load_explicit(&call_count, memory_order_relaxed);
    atomic_store_explicit(&fail_at, n ? now + n : 0, memory_order_relaxed);
}
