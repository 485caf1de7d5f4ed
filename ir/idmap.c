/* Open addressing, at most half full, nothing removed: a graph's names and states only grow. Keys may be any number, so
 * a slot's state is kept apart from its key. */
#include "ir/idmap.h"

#include <string.h>

#include "base/alloc.h"

enum { FIRST_CAPACITY = 64 };

static size_t find_slot(const mpc_idmap *map, uint32_t key) {
    size_t slot = (size_t)(key * 0x9e3779b97f4a7c15u >> 24) & (map->capacity - 1);
    while (map->taken[slot] && map->keys[slot] != key) slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

uint32_t *mpc_idmap_find(const mpc_idmap *map, uint32_t key) {
    if (!map->capacity) return NULL;
    size_t slot = find_slot(map, key);
    return map->taken[slot] ? &map->values[slot] : NULL;
}

static void place(mpc_idmap *map, uint32_t key, uint32_t value) {
    size_t slot = find_slot(map, key);
    map->taken[slot] = true;
    map->keys[slot] = key;
    map->values[slot] = value;
}

static bool grow(mpc_idmap *map) {
    mpc_idmap bigger = {.capacity = map->capacity ? map->capacity * 2 : FIRST_CAPACITY, .count = map->count};
    bigger.keys = mpc_alloc(bigger.capacity * sizeof *bigger.keys);
    bigger.values = mpc_alloc(bigger.capacity * sizeof *bigger.values);
    bigger.taken = mpc_alloc(bigger.capacity * sizeof *bigger.taken);
    if (!bigger.keys || !bigger.values || !bigger.taken) {
        mpc_idmap_free(&bigger);
        return false;
    }
    memset(bigger.taken, 0, bigger.capacity * sizeof *bigger.taken);
    for (size_t i = 0; i < map->capacity; i++)
        if (map->taken[i]) place(&bigger, map->keys[i], map->values[i]);
    mpc_idmap_free(map);
    *map = bigger;
    return true;
}

bool mpc_idmap_add(mpc_idmap *map, uint32_t key, uint32_t value) {
    if (map->count * 2 >= map->capacity && !grow(map)) return false;
    place(map, key, value);
    map->count++;
    return true;
}

void mpc_idmap_free(mpc_idmap *map) {
    mpc_free(map->keys);
    mpc_free(map->values);
    mpc_free(map->taken);
    *map = (mpc_idmap){0};
}
