/* Growable arrays as a macro: `MPC_ARRAY(int) xs = {0};`, `if (!mpc_array_push(&xs, 3)) ...`.
 * The storage is mpc_realloc'ed; mpc_array_free releases it. */
#ifndef MPC_BASE_ARRAY_H
#define MPC_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#define MPC_ARRAY(type) \
    struct { \
        type *data; \
        size_t count, capacity; \
    }

/* Makes room for `extra` more elements of `size` bytes; false when out of memory. */
bool mpc_array_reserve_(void **data, size_t *capacity, size_t count, size_t extra, size_t size);

#define mpc_array_reserve(a, extra) \
    mpc_array_reserve_((void **)&(a)->data, &(a)->capacity, (a)->count, (extra), sizeof *(a)->data)
/* true on success; the value is evaluated after the reservation */
#define mpc_array_push(a, ...) \
    (mpc_array_reserve((a), 1) ? ((a)->data[(a)->count++] = (__VA_ARGS__), true) : false)
#define mpc_array_free(a) (mpc_free((a)->data), (a)->data = NULL, (a)->count = (a)->capacity = 0)

#endif
