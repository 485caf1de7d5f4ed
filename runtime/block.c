/* Memory blocks of stores and executors. A block is touched at once, since the first touch of fresh memory is far
 * slower than any kernel and must not fall into the first step. The huge-page advice is only a wish: nothing here
 * depends on it. */
#include "runtime/block.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

enum { HUGE_PAGE = 2 << 20 };

/* Untouched memory is promised freely and then costs the process its life: more than there is gets refused instead. */
static uint64_t physical_bytes(void) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : SIZE_MAX / 2;
}

bool mpc_block_create(mpc_block *block, uint64_t bytes) {
    *block = (mpc_block){0};
    uint64_t align = bytes >= 2 * (uint64_t)HUGE_PAGE ? HUGE_PAGE : 64;
    if (bytes > physical_bytes()) return false;
    void *raw = mpc_alloc((size_t)(bytes + align));
    if (!raw) return false;
    uint8_t *data = (uint8_t *)(((uintptr_t)raw + align - 1) & ~(uintptr_t)(align - 1));
    if (align == HUGE_PAGE) (void)madvise(data, (size_t)bytes & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
    memset(data, 0, (size_t)bytes);
    *block = (mpc_block){.data = data, .bytes = bytes, .raw = raw};
    return true;
}

void mpc_block_destroy(mpc_block *block) {
    if (block->raw) mpc_free(block->raw);
    *block = (mpc_block){0};
}

static bool reserve(mpc_growing *memory) {
    uint64_t wanted = physical_bytes();
    void *data = mmap(NULL, (size_t)wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return false;
    *memory = (mpc_growing){.data = data, .reserved = wanted};
    return true;
}

uint8_t *mpc_growing_need(mpc_growing *memory, uint64_t bytes) {
    if (!memory->data && !reserve(memory)) return NULL;
    if (bytes > memory->reserved) return NULL;
    if (bytes > memory->touched) {
        (void)madvise(memory->data, (size_t)bytes & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
        memset(memory->data + memory->touched, 0, (size_t)(bytes - memory->touched));
        memory->touched = bytes;
    }
    return memory->data;
}

void mpc_growing_destroy(mpc_growing *memory) {
    if (memory->data) munmap(memory->data, (size_t)memory->reserved);
    *memory = (mpc_growing){0};
}
