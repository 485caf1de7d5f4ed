/* Hash map from 32-bit ids to 32-bit numbers, for names (symbols), states and the like. Internal to ir. */
#ifndef MPC_IR_IDMAP_H
#define MPC_IR_IDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mpc_idmap { /* zero-initialised: empty */
    struct mpc_idmap_entry *entries;
    size_t capacity, count;
} mpc_idmap;

/* Address of the key's value, valid until the next mpc_idmap_add; NULL: not there. */
uint32_t *mpc_idmap_find(const mpc_idmap *map, uint32_t key);
/* Adds a key that isn't there yet; false when out of memory. */
bool mpc_idmap_add(mpc_idmap *map, uint32_t key, uint32_t value);
/* Room for `count` keys in all, so that adding these doesn't grow the map; false when out of memory. */
bool mpc_idmap_reserve(mpc_idmap *map, size_t count);
void mpc_idmap_free(mpc_idmap *map);

#endif
