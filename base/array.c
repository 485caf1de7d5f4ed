/* Growth of MPC_ARRAY: capacity doubles, so a sequence of pushes is linear. On failure the old storage stays valid and
 * unchanged; pointers into it are lost with every successful growth. */
#include "base/array.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

bool mpc_array_reserve_(void **data, size_t *capacity, size_t count, size_t extra, size_t size) {
    if (extra <= *capacity - count) return true;
    if (extra > SIZE_MAX - count) return false;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < count + extra) {
        if (wanted > SIZE_MAX / 2) return false;
        wanted *= 2;
    }
    if (wanted > SIZE_MAX / size) return false;
    void *grown = mpc_realloc(*data, wanted * size);
    if (!grown) return false;
    *data = grown;
    *capacity = wanted;
    return true;
}
