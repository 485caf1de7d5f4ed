/* String keys to 32-bit values: entries in insertion order in an array, found through a hash index. Nothing is ever
 * removed; a second set of a key replaces its value and keeps its position. */
#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/array.h"
#include "base/hash_index.h"
#include "base/str.h"

typedef struct entry {
    const char *key;
    uint32_t value;
} entry;

struct mpc_map {
    mpc_arena *keys;
    MPC_ARRAY(entry) entries;
    mpc_hash_index index;
};

mpc_map *mpc_map_create(void) {
    mpc_map *map = mpc_alloc(sizeof *map);
    if (!map) return NULL;
    *map = (mpc_map){.keys = mpc_arena_create()};
    if (map->keys) return map;
    mpc_free(map);
    return NULL;
}

void mpc_map_destroy(mpc_map *map) {
    if (!map) return;
    mpc_arena_destroy(map->keys);
    mpc_array_free(&map->entries);
    mpc_hash_index_free(&map->index);
    mpc_free(map);
}

static bool has_key(const void *owner, uint32_t item, const void *key) {
    const mpc_map *map = owner;
    return strcmp(map->entries.data[item].key, key) == 0;
}

static uint32_t find(const mpc_map *map, const char *key, uint64_t hash) {
    return mpc_hash_index_find(&map->index, hash, has_key, map, key);
}

bool mpc_map_get(const mpc_map *map, const char *key, uint32_t *value) {
    uint32_t item = find(map, key, mpc_hash_str(key));
    if (item == UINT32_MAX) return false;
    if (value) *value = map->entries.data[item].value;
    return true;
}

bool mpc_map_set(mpc_map *map, const char *key, uint32_t value) {
    uint64_t hash = mpc_hash_str(key);
    uint32_t item = find(map, key, hash);
    if (item != UINT32_MAX) {
        map->entries.data[item].value = value;
        return true;
    }
    if (map->entries.count >= UINT32_MAX - 1 || !mpc_array_reserve(&map->entries, 1)) return false;
    char *copy = mpc_arena_strdup(map->keys, key);
    if (!copy || !mpc_hash_index_add(&map->index, hash, (uint32_t)map->entries.count)) return false;
    return mpc_array_push(&map->entries, (entry){copy, value});
}

size_t mpc_map_count(const mpc_map *map) { return map->entries.count; }
const char *mpc_map_key(const mpc_map *map, size_t index) { return map->entries.data[index].key; }
uint32_t mpc_map_value(const mpc_map *map, size_t index) { return map->entries.data[index].value; }
