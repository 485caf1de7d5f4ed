/* Hash map from byte strings to 32-bit values. Keys are copied. Iteration is in insertion order. */
#ifndef MPC_BASE_MAP_H
#define MPC_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mpc_map mpc_map;

mpc_map *mpc_map_create(void);
void mpc_map_destroy(mpc_map *map);
bool mpc_map_get(const mpc_map *map, const char *key, uint32_t *value);
/* Adds or replaces; false when out of memory. */
bool mpc_map_set(mpc_map *map, const char *key, uint32_t value);
size_t mpc_map_count(const mpc_map *map);
const char *mpc_map_key(const mpc_map *map, size_t index); /* in insertion order */
uint32_t mpc_map_value(const mpc_map *map, size_t index);

#endif
