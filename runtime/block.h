/* Large zeroed memory that is touched when it is made: aligned to 64 bytes, to huge pages where it is big enough for
 * them. */
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

/* Memory that grows without moving: address space is reserved at once, pages when they are asked for. */
typedef struct mpc_growing {
    uint8_t *data;
    uint64_t touched, reserved;
} mpc_growing;

/* Makes the first `bytes` usable and touched; NULL when the system doesn't give that much. */
uint8_t *mpc_growing_need(mpc_growing *memory, uint64_t bytes);
void mpc_growing_destroy(mpc_growing *memory);

/* Every buffer starts on a cache line, which is also the widest vector. */
static inline uint64_t mpc_align64(uint64_t bytes) { return (bytes + 63u) & ~(uint64_t)63u; }

#endif
