/* The store's states in GPU memory, and what all executors of a store share there: the opened device, the library's
 * workspace, arenas. */
#ifndef MPC_RUNTIME_CUDA_STORE_H
#define MPC_RUNTIME_CUDA_STORE_H

#include "runtime/cuda/cuda.h"
#include "runtime/device.h"

/* Values of one step; executors run one at a time, so they may lie in the same memory. */
typedef struct mpc_cuda_arena {
    mpc_device_ptr data;
    uint64_t bytes;
    uint32_t users;
} mpc_cuda_arena;

typedef struct mpc_cuda_piece { /* of the states: the same bytes here and there */
    mpc_device_ptr device;
    uint8_t *host;
    uint64_t bytes;
} mpc_cuda_piece;

typedef struct mpc_cuda_store {
    mpc_cuda *cuda;
    mpc_store *store;
    const mpc_sink *sink;
    uint32_t users; /* executors, and the store itself */
    mpc_cuda_piece *pieces;
    uint32_t piece_count;
    mpc_device_ptr workspace; /* MPC_CUDA_WORKSPACE bytes */
    mpc_cuda_arena **arenas;  /* those in use */
    uint32_t arena_count;
} mpc_cuda_store;

typedef struct mpc_cuda_need { /* bytes that an executor is going to allocate: an arena, and what is its own */
    uint64_t arena, own;
} mpc_cuda_need;

/* The mirror of `store`, made by the first call (with states as they are in the store) and given to the store; adds a
 * user. `separate`: each state has an allocation of its own. Release with mpc_cuda_store_release. NULL after a
 * diagnostic. */
mpc_cuda_store *mpc_cuda_store_get(mpc_store *store, bool separate, mpc_cuda_need need, const mpc_sink *sink);
void mpc_cuda_store_release(mpc_cuda_store *s);
/* Where the state at this place of the store is on the device. */
mpc_device_ptr mpc_cuda_store_address(const mpc_cuda_store *s, const void *host);
/* An arena of at least this size, zeroed or used before. NULL after a diagnostic. */
mpc_cuda_arena *mpc_cuda_store_take_arena(mpc_cuda_store *s, uint64_t bytes, const mpc_sink *sink);
void mpc_cuda_store_give_arena(mpc_cuda_store *s, mpc_cuda_arena *arena);
/* One allocation, zeroed; E623, E624. */
mpc_status mpc_cuda_allocate(mpc_cuda *cuda, uint64_t bytes, mpc_device_ptr *out, const mpc_sink *sink);

#endif
