/* Copies and fills of the stand-in. Host memory of an asynchronous copy is touched when the copy runs if it is
 * page-locked; pageable memory is read at the call, and a copy into it is finished at the call, as with the driver. A
 * newcomer's trap: the synchronous calls run on the legacy stream, which does not wait for streams made with the
 * non-blocking flag. */
#include "internal.h"

#include <string.h>

typedef struct sim_copy {
    uint64_t to, from; /* device addresses are tagged; from 0: the bytes follow */
    size_t bytes;
} sim_copy;
typedef struct sim_set {
    uint64_t at;
    size_t count;
    uint32_t value, width; /* bytes of one element */
} sim_set;

static char *address_of(uint64_t at, size_t bytes) {
    return at & SIM_TAG ? cudasim_host(at, bytes) : (char *)(uintptr_t)at;
}

static int run_copy(void *data) {
    const sim_copy *c = data;
    char *to = address_of(c->to, c->bytes);
    const char *from = c->from ? address_of(c->from, c->bytes) : (const char *)(c + 1);
    if (!to || !from)
        return sim_error(CUDASIM_ILLEGAL_ADDRESS, "a copy of %zu bytes: memory was freed since", c->bytes);
    memmove(to, from, c->bytes);
    return CUDASIM_SUCCESS;
}

enum { NOWHERE, DEVICE, PINNED, PAGEABLE };
static int place_of(uint64_t at, size_t bytes) {
    char *host;
    if (sim_allocation_at(at, bytes, &host)) return at & SIM_TAG ? DEVICE : PINNED;
    return !at || (at & SIM_TAG) || sim_allocation_at(at, 0, &host) ? NOWHERE : PAGEABLE;
}

static int copy(uint64_t to, uint64_t from, size_t bytes, void *handle, bool wait) {
    sim_stream *s = sim_stream_of(handle);
    if (!s) return sim_error(CUDASIM_INVALID_HANDLE, "a copy on no stream");
    if (bytes == 0) return CUDASIM_SUCCESS;
    const int to_place = place_of(to, bytes), from_place = place_of(from, bytes);
    if (to_place == NOWHERE || from_place == NOWHERE)
        return sim_error(CUDASIM_INVALID_VALUE, "a copy of %zu bytes from %llx to %llx leaves an allocation", bytes,
                         (unsigned long long)from, (unsigned long long)to);
    const bool pageable = to_place == PAGEABLE || from_place == PAGEABLE, inlined = from_place == PAGEABLE && !wait;
    if (s->capture && pageable) return sim_error(SIM_CAPTURE_UNSUPPORTED, "a copy of pageable memory in a capture");
    sim_op *op = sim_op_new(SIM_OP_COPY, "copy", NULL, sizeof(sim_copy) + (inlined ? bytes : 0));
    if (!op) return CUDASIM_OUT_OF_MEMORY;
    memcpy(op->data, &(sim_copy){to, inlined ? 0 : from, bytes}, sizeof(sim_copy));
    if (inlined) memcpy(op->data + sizeof(sim_copy), (const void *)(uintptr_t)from, bytes);
    op->run = run_copy;
    op->host_bytes = bytes;
    if (to_place == PINNED) op->written = (char *)(uintptr_t)to;
    if (from_place == PINNED) op->read = (char *)(uintptr_t)from;
    const int result = sim_put(s, op);
    return result || !(wait || to_place == PAGEABLE) ? result : sim_drain(s);
}

/* One of the two must be a device address: the other is then what the name of the call says. */
static int checked(bool to_device, bool from_device, uint64_t to, uint64_t from) {
    if (to_device == ((to & SIM_TAG) != 0) && from_device == ((from & SIM_TAG) != 0)) return CUDASIM_SUCCESS;
    return sim_error(CUDASIM_INVALID_VALUE, "a host address where a device address is needed, or the other way round");
}
#define COPY(needs, name, to_type, from_type, to_device, from_device, wait) \
    SIM_API(needs, name, (to_type to, from_type from, size_t bytes), (to, from, bytes)) { \
        const int result = bytes ? checked(to_device, from_device, (uint64_t)to, (uint64_t)from) : CUDASIM_SUCCESS; \
        return result ? result : copy((uint64_t)to, (uint64_t)from, bytes, NULL, wait); \
    }
#define COPY_ASYNC(name, to_type, from_type, to_device, from_device) \
    SIM_API(SIM_CONTEXT, name, (to_type to, from_type from, size_t bytes, void *stream), (to, from, bytes, stream)) { \
        const int result = bytes ? checked(to_device, from_device, (uint64_t)to, (uint64_t)from) : CUDASIM_SUCCESS; \
        return result ? result : copy((uint64_t)to, (uint64_t)from, bytes, stream, false); \
    }
COPY(SIM_SYNCHRONISES, cuMemcpyHtoD_v2, uint64_t, const void *, true, false, true)
COPY(SIM_SYNCHRONISES, cuMemcpyDtoH_v2, void *, uint64_t, false, true, true)
COPY(SIM_SYNCHRONISES, cuMemcpyDtoD_v2, uint64_t, uint64_t, true, true, false)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, uint64_t, const void *, true, false)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, uint64_t, false, true)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, uint64_t, uint64_t, true, true)
SIM_API(SIM_SYNCHRONISES, cuMemcpy, (uint64_t to, uint64_t from, size_t bytes), (to, from, bytes)) {
    return copy(to, from, bytes, NULL, true);
}
SIM_API(SIM_CONTEXT, cuMemcpyAsync, (uint64_t to, uint64_t from, size_t bytes, void *stream),
        (to, from, bytes, stream)) {
    return copy(to, from, bytes, stream, false);
}

/* ---- fills ---- */
static int run_set(void *data) {
    const sim_set *set = data;
    char *to = cudasim_host(set->at, set->count * set->width);
    if (!to) return CUDASIM_ILLEGAL_ADDRESS;
    if (set->width == 1) memset(to, (int)set->value, set->count);
    else
        for (size_t i = 0; i < set->count; i++) memcpy(to + i * set->width, &set->value, set->width);
    return CUDASIM_SUCCESS;
}

static int fill(sim_set set, void *handle) {
    sim_stream *s = sim_stream_of(handle);
    if (!s) return sim_error(CUDASIM_INVALID_HANDLE, "a fill on no stream");
    if (set.count == 0) return CUDASIM_SUCCESS;
    if (!(set.at & SIM_TAG) || set.at % set.width || !cudasim_host(set.at, set.count * set.width))
        return sim_error(CUDASIM_INVALID_VALUE, "a fill at %llx: misaligned, or outside of an allocation",
                         (unsigned long long)set.at);
    sim_op *op = sim_op_new(SIM_OP_SET, "fill", &set, sizeof set);
    if (!op) return CUDASIM_OUT_OF_MEMORY;
    op->run = run_set;
    return sim_put(s, op);
}
#define SET(name, type, width) \
    SIM_API(SIM_SYNCHRONISES, name##_v2, (uint64_t at, type value, size_t count), (at, value, count)) { \
        return fill((sim_set){at, count, value, width}, NULL); \
    } \
    SIM_API(SIM_CONTEXT, name##Async, (uint64_t at, type value, size_t count, void *stream), \
            (at, value, count, stream)) { \
        return fill((sim_set){at, count, value, width}, stream); \
    }
SET(cuMemsetD8, unsigned char, 1)
SET(cuMemsetD16, unsigned short, 2)
SET(cuMemsetD32, unsigned, 4)
