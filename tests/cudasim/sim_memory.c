/* Memory of the stand-in's device and page-locked memory: each allocation is one of its own between guards, filled with
 * bytes 0xff, so that a number nobody wrote is NaN. Device addresses carry a tag bit and can't be dereferenced on the
 * host. Guards are checked after every launch; with AddressSanitizer a kernel stops at the very access. */
#include "internal.h"
#include "sanitized.h"

#include <stdlib.h>
#include <string.h>

#if !defined(__SANITIZE_ADDRESS__)
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { GUARD_BYTE = 0xa5, UNWRITTEN = 0xff };
static struct {
    sim_allocation *first;
    uint64_t used; /* bytes of the device's memory */
} memory;

static size_t padded(size_t bytes) { return (bytes + SIM_GUARD - 1) / SIM_GUARD * SIM_GUARD; }

char *sim_guarded_alloc(size_t bytes, char **raw) {
    const size_t whole = padded(bytes) + 2 * (size_t)SIM_GUARD;
    *raw = whole > bytes ? aligned_alloc(SIM_GUARD, whole) : NULL;
    if (!*raw) return NULL;
    memset(*raw, GUARD_BYTE, SIM_GUARD);
    memset(*raw + SIM_GUARD, UNWRITTEN, bytes);
    memset(*raw + SIM_GUARD + bytes, GUARD_BYTE, whole - SIM_GUARD - bytes);
    ASAN_POISON_MEMORY_REGION(*raw, SIM_GUARD);
    ASAN_POISON_MEMORY_REGION(*raw + SIM_GUARD + bytes, whole - SIM_GUARD - bytes);
    return *raw + SIM_GUARD;
}

void sim_guarded_free(char *raw, size_t bytes) {
    ASAN_UNPOISON_MEMORY_REGION(raw, padded(bytes) + 2 * (size_t)SIM_GUARD);
    free(raw);
}

bool sim_guards_hold(const char *raw, size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    (void)raw, (void)bytes;
#else
    const size_t after = padded(bytes) - bytes + SIM_GUARD;
    const unsigned char *before = (const unsigned char *)raw, *behind = before + SIM_GUARD + bytes;
    for (size_t i = 0; i < SIM_GUARD; i++)
        if (before[i] != GUARD_BYTE) return false;
    for (size_t i = 0; i < after; i++)
        if (behind[i] != GUARD_BYTE) return false;
#endif
    return true;
}

sim_allocation *sim_allocations(void) { return memory.first; }

sim_allocation *sim_pinned_at(const void *host, size_t bytes) {
    const char *at = host;
    for (sim_allocation *a = memory.first; a; a = a->next)
        if (!a->device && at >= a->host && bytes <= a->bytes && at <= a->host + (a->bytes - bytes)) return a;
    return NULL;
}

sim_allocation *sim_allocation_at(uint64_t address, size_t bytes, char **host) {
    const uint64_t plain = address & ~SIM_TAG;
    *host = (char *)(uintptr_t)plain;
    if (!(address & SIM_TAG)) return sim_pinned_at(*host, bytes);
    for (sim_allocation *a = memory.first; a; a = a->next)
        if (a->device && *host >= a->host && bytes <= a->bytes && *host <= a->host + (a->bytes - bytes)) return a;
    return NULL;
}

void *cudasim_host(uint64_t device, size_t bytes) {
    char *host;
    if (sim_allocation_at(device, bytes, &host)) return host;
    if (device) cudasim_say("%zu bytes at %llx are not in one allocation", bytes, (unsigned long long)device);
    return NULL;
}

static sim_allocation *allocate(size_t bytes, bool device) {
    sim_allocation *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->host = sim_guarded_alloc(bytes, &a->raw);
    if (!a->host) {
        free(a);
        return NULL;
    }
    a->bytes = bytes, a->device = device;
    a->next = memory.first;
    memory.first = a;
    if (device) memory.used += padded(bytes);
    return a;
}

static void discard(sim_allocation *a) {
    sim_allocation **link = &memory.first;
    while (*link != a) link = &(*link)->next;
    *link = a->next;
    if (a->device) memory.used -= padded(a->bytes);
    if (!sim_guards_hold(a->raw, a->bytes))
        sim_error(0, "the guard of an allocation of %zu bytes was overwritten", a->bytes);
    sim_guarded_free(a->raw, a->bytes);
    free(a->shadow);
    free(a);
}

void sim_release_memory(void) {
    uint32_t count = 0;
    for (; memory.first; count++) discard(memory.first);
    if (count) cudasim_say("%u allocations were left when the context was released", count);
}

SIM_API(SIM_SYNCHRONISES, cuMemAlloc_v2, (uint64_t * address, size_t bytes), (address, bytes)) {
    if (bytes == 0 || !address) return sim_error(CUDASIM_INVALID_VALUE, "cuMemAlloc of 0 bytes");
    const uint64_t total = sim_configuration()->memory;
    if (bytes > total || memory.used + padded(bytes) > total)
        return sim_error(CUDASIM_OUT_OF_MEMORY, "cuMemAlloc of %zu bytes: %llu of %llu are used", bytes,
                         (unsigned long long)memory.used, (unsigned long long)total);
    const sim_allocation *a = allocate(bytes, true);
    if (!a) return CUDASIM_OUT_OF_MEMORY;
    *address = (uint64_t)(uintptr_t)a->host | SIM_TAG;
    return CUDASIM_SUCCESS;
}

/* All work is finished first, as the driver does it. */
SIM_API(SIM_SYNCHRONISES, cuMemFree_v2, (uint64_t address), (address)) {
    if (!address) return CUDASIM_SUCCESS;
    char *host;
    const int result = sim_drain(NULL);
    sim_allocation *a = (address & SIM_TAG) ? sim_allocation_at(address, 0, &host) : NULL;
    if (!a || host != a->host)
        return sim_error(CUDASIM_INVALID_VALUE, "cuMemFree of %llx, which no allocation starts at",
                         (unsigned long long)address);
    discard(a);
    return result;
}

SIM_API(SIM_CONTEXT, cuMemGetInfo_v2, (size_t * free_bytes, size_t *total), (free_bytes, total)) {
    *total = sim_configuration()->memory;
    *free_bytes = *total - memory.used;
    return CUDASIM_SUCCESS;
}

static int alloc_host(void **host, size_t bytes) {
    if (bytes == 0 || !host) return sim_error(CUDASIM_INVALID_VALUE, "page-locked memory of 0 bytes");
    const sim_allocation *a = allocate(bytes, false);
    if (!a) return CUDASIM_OUT_OF_MEMORY;
    *host = a->host;
    return CUDASIM_SUCCESS;
}

SIM_API(SIM_SYNCHRONISES, cuMemHostAlloc, (void **host, size_t bytes, unsigned flags), (host, bytes, flags)) {
    return flags > 7 ? CUDASIM_INVALID_VALUE : alloc_host(host, bytes);
}
SIM_API(SIM_SYNCHRONISES, cuMemAllocHost_v2, (void **host, size_t bytes), (host, bytes)) {
    return alloc_host(host, bytes);
}

SIM_API(SIM_SYNCHRONISES, cuMemFreeHost, (void *host), (host)) {
    const int result = sim_drain(NULL);
    sim_allocation *a = sim_pinned_at(host, 0);
    if (!a || a->host != (char *)host)
        return sim_error(CUDASIM_INVALID_VALUE, "cuMemFreeHost of %p, which no allocation starts at", host);
    discard(a);
    return result;
}

SIM_API(SIM_CONTEXT, cuMemHostGetDevicePointer_v2, (uint64_t * address, void *host, unsigned flags),
        (address, host, flags)) {
    if (flags || !sim_pinned_at(host, 0)) return CUDASIM_INVALID_VALUE;
    *address = (uint64_t)(uintptr_t)host;
    return CUDASIM_SUCCESS;
}
