/* Open addressing with linear probing, at most half full; items are never removed. The full hash is kept beside each
 * item, so most misses need no callback and growing needs none at all. */
#include "base/hash_index.h"

#include <string.h>

#include "base/alloc.h"

enum { FIRST_CAPACITY = 32 };

/* FNV's low bits are weak for short keys: fold the high half in. */
static size_t slot_of(uint64_t hash, size_t capacity) {
    return (size_t)((hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u >> 20) & (capacity - 1);
}

uint32_t mpc_hash_index_find(const mpc_hash_index *index, uint64_t hash, mpc_hash_equal equal, const void *owner,
                             const void *key) {
    if (!index->capacity) return UINT32_MAX;
    size_t slot = slot_of(hash, index->capacity);
    for (; index->items[slot] != UINT32_MAX; slot = (slot + 1) & (index->capacity - 1))
        if (index->hashes[slot] == hash && equal(owner, index->items[slot], key)) return index->items[slot];
    return UINT32_MAX;
}

static void place(mpc_hash_index *index, uint64_t hash, uint32_t item) {
    size_t slot = slot_of(hash, index->capacity);
    while (index->items[slot] != UINT32_MAX) slot = (slot + 1) & (index->capacity - 1);
    index->items[slot] = item;
    index->hashes[slot] = hash;
}

static bool grow(mpc_hash_index *index) {
    mpc_hash_index bigger = {.capacity = index->capacity ? index->capacity * 2 : FIRST_CAPACITY, .count = index->count};
    bigger.items = mpc_alloc(bigger.capacity * sizeof *bigger.items);
    bigger.hashes = mpc_alloc(bigger.capacity * sizeof *bigger.hashes);
    if (!bigger.items || !bigger.hashes) {
        mpc_hash_index_free(&bigger);
        return false;
    }
    memset(bigger.items, 0xff, bigger.capacity * sizeof *bigger.items);
    for (size_t i = 0; i < index->capacity; i++)
        if (index->items[i] != UINT32_MAX) place(&bigger, index->hashes[i], index->items[i]);
    mpc_hash_index_free(index);
    *index = bigger;
    return true;
}

bool mpc_hash_index_add(mpc_hash_index *index, uint64_t hash, uint32_t item) {
    if (index->count * 2 >= index->capacity && !grow(index)) return false;
    place(index, hash, item);
    index->count++;
    return true;
}

void mpc_hash_index_free(mpc_hash_index *index) {
    mpc_free(index->items);
    mpc_free(index->hashes);
    *index = (mpc_hash_index){0};
}
