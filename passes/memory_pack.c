/* Packing of intervals into one arena. Largest first is what makes it good: small values fall into gaps that large ones
 * leave. Placed items are kept by offset, so one scan finds the smallest gap that fits. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/memory.h"

typedef struct placed {
    uint64_t begin, end;
    uint32_t first, last;
} placed;

static int larger_first(const void *a, const void *b) {
    const mpc_memory_item *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    uint32_t lx = x->last - x->first, ly = y->last - y->first;
    if (lx != ly) return lx > ly ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static uint64_t find_offset(const placed *list, uint32_t count, const mpc_memory_item *item) {
    uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].last < item->first || list[i].first > item->last) continue;
        if (list[i].begin > top && list[i].begin - top >= item->bytes && list[i].begin - top < best_gap) {
            best_gap = list[i].begin - top;
            best = top;
        }
        if (list[i].end > top) top = list[i].end;
    }
    return best != UINT64_MAX ? best : top;
}

uint64_t mpc_memory_pack(mpc_memory_item *items, uint32_t count) {
    placed *list = mpc_alloc((count + 1) * sizeof *list);
    if (list == NULL) return UINT64_MAX;
    uint64_t size = 0;
    if (count > 0) qsort(items, count, sizeof *items, larger_first);
    for (uint32_t i = 0; i < count; i++) {
        mpc_memory_item *item = &items[i];
        item->offset = find_offset(list, i, item);
        uint32_t at = i;
        while (at > 0 && list[at - 1].begin > item->offset) at--;
        memmove(list + at + 1, list + at, (i - at) * sizeof *list);
        list[at] = (placed){item->offset, item->offset + item->bytes, item->first, item->last};
        if (item->offset + item->bytes > size) size = item->offset + item->bytes;
    }
    mpc_free(list);
    return size;
}
