/* Open addressing, at most half full, nothing removed: a graph's names and states only grow. Keys may be any number, so
 * a slot's state is kept apart from its key, but beside it: a look-up of a large map misses the cache once. */
#include "ir/idmap.h"

#include <string.h>

#include "base/alloc.h"

enum { FIRST_CAPACITY = 64 };

typedef struct mpc_idmap_entry {
    uint32_t key, value;
    uint32_t taken;
} entry;

static entry *find_slot(const mpc_idmap *map, uint32_t key) {
    size_t slot = (size_t)(key * 0x9e3779b97f4a7c15u >> 24) & (map->capacity - 1);
    while (map->entries[slot].taken && map->entries[slot].key != key) slot = (slot + 1) & (map->capacity - 1);
    return &map->entries[slot];
}

uint32_t *mpc_idmap_find(const mpc_idmap *map, uint32_t key) {
    if (!map->capacity) return NULL;
    entry *e = find_slot(map, key);
    return e->taken ? &e->value : NULL;
}

static bool grow_to(mpc_idmap *map, size_t capacity) {
    mpc_idmap bigger = {.entries = mpc_alloc(capacity * sizeof(entry)), .capacity = capacity, .count = map->count};
    if (!bigger.entries) return false;
    memset(bigger.entries, 0, capacity * sizeof(entry));
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].taken) *find_slot(&bigger, map->entries[i].key) = map->entries[i];
    mpc_idmap_free(map);
    *map = bigger;
    return true;
}

bool mpc_idmap_reserve(mpc_idmap *map, size_t count) {
    size_t capacity = map->capacity ? map->capacity : FIRST_CAPACITY;
    while (capacity < count * 2) capacity *= 2;
    return capacity <= map->capacity || grow_to(map, capacity);
}

bool mpc_idmap_add(mpc_idmap *map, uint32_t key, uint32_t value) {
    if (map->count * 2 >= map->capacity && !mpc_idmap_reserve(map, map->count + 1)) return false;
    *find_slot(map, key) = (entry){key, value, true};
    map->count++;
    return true;
}

void mpc_idmap_free(mpc_idmap *map) {
    mpc_free(map->entries);
    *map = (mpc_idmap){0};
}
