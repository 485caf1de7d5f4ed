/* The probing part of a hash table: finds 32-bit item numbers by hash. Keys and items stay with the owner, who says by
 * a callback whether an item has the key. For interning (strings, types) and for mpc_map. */
#ifndef MPC_BASE_HASH_INDEX_H
#define MPC_BASE_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mpc_hash_index {
    uint32_t *items; /* capacity entries, UINT32_MAX: free */
    uint64_t *hashes;
    size_t capacity, count; /* capacity is a power of two, or 0 */
} mpc_hash_index;

typedef bool (*mpc_hash_equal)(const void *owner, uint32_t item, const void *key);

/* UINT32_MAX: not there. */
uint32_t mpc_hash_index_find(const mpc_hash_index *index, uint64_t hash, mpc_hash_equal equal, const void *owner,
                             const void *key);
/* Adds an item that isn't there yet; false when out of memory. */
bool mpc_hash_index_add(mpc_hash_index *index, uint64_t hash, uint32_t item);
void mpc_hash_index_free(mpc_hash_index *index);

#endif
