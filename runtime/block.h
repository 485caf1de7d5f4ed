/* Large zeroed memory that is touched when it is made: aligned to 64 bytes, to huge pages where it is big enough for them. */
#ifndef MPC_RUNTIME_BLOCK_H
#define MPC_RUNTIME_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mpc_block {
    uint8_t *data;
    uint64_t bytes;
    void *raw; /* what is freed */
} mpc_block;

/* false when out of memory; `block` is then empty. Zero bytes give a valid block. */
bool mpc_block_create(mpc_block *block, uint64_t bytes);
void mpc_block_destroy(mpc_block *block);

/* Every buffer starts on a cache line, which is also the widest vector. */
static inline uint64_t mpc_align64(uint64_t bytes) { return (bytes + 63u) & ~(uint64_t)63u; }

#endif
