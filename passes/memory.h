/* Between the files of the memory pass: which values share storage, and the packing of the rest. */
#ifndef MPC_PASSES_MEMORY_H
#define MPC_PASSES_MEMORY_H

#include "ir/graph.h"

typedef struct mpc_memory_item {
    uint32_t id;          /* the caller's */
    uint32_t first, last; /* launches between which it lives, both included */
    uint64_t bytes;       /* multiple of the alignment */
    uint64_t offset;      /* out */
} mpc_memory_item;

/* Best fit, largest first: every item goes into the smallest gap that is free during its whole life. Returns the
 * arena's size; UINT64_MAX when out of memory. Reorders the items. */
uint64_t mpc_memory_pack(mpc_memory_item *items, uint32_t count);

/* Values whose storage is another's, before states: reshapes, and transposes and slices that only matmuls read or make.
 * root[v] = v for the rest. */
void mpc_memory_find_roots(const mpc_graph *g, const mpc_uses *uses, mpc_value_id *root);

#endif
