/* States on the GPU in the store's own layout: one block, moved whole (with separate buffers one block per state). The
 * first executor of a store makes it, the last one or the store itself, whoever goes later, ends it; so an executor may
 * outlive its store. Everything is enqueued on the one stream, behind the steps that were begun. */
#include "runtime/cuda/cuda_store.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "runtime/store_layout.h"

enum { RESULT_NO_MEMORY = 2 };

/* ---- memory ---- */

/* Small needs show why they don't fit, too: 31.5 MiB, 12.25 GiB. */
static const char *in_words(uint64_t bytes, char out[32]) {
    const bool small = bytes < 1ull << 30;
    snprintf(out, 32, small ? "%.1f MiB" : "%.2f GiB", (double)bytes / (small ? 1 << 20 : 1 << 30));
    return out;
}

static mpc_status tell_memory(const mpc_cuda *cuda, uint64_t bytes, const char *what, uint64_t available,
                              const mpc_sink *sink) {
    char need[32], rest[32], all[32];
    return mpc_error(sink, "E623",
                     "%s need %s of GPU memory; %s has %s free of %s: use a smaller batch with accumulate, or a lower "
                     "precision, or end other programs on the GPU",
                     what, in_words(bytes, need), cuda->name, in_words(available, rest),
                     in_words(cuda->memory_total, all));
}

/* E623 unless so much is free: `what` says for what, "values of `step`". */
static mpc_status check_memory(mpc_cuda *cuda, uint64_t bytes, const char *what, const mpc_sink *sink) {
    size_t available = 0, total = 0;
    int result = cuda->driver.cuMemGetInfo_v2(&available, &total);
    if (result != 0) return mpc_cuda_error(cuda, sink, "cuMemGetInfo", result);
    return bytes <= available ? MPC_OK : tell_memory(cuda, bytes, what, available, sink);
}

mpc_status mpc_cuda_allocate(mpc_cuda *cuda, uint64_t bytes, mpc_device_ptr *out, const mpc_sink *sink) {
    const mpc_cuda_driver *d = &cuda->driver;
    *out = 0;
    if (bytes == 0) bytes = 1;
    int result = d->cuMemAlloc_v2(out, (size_t)bytes);
    size_t available = 0, total = 0;
    if (result != 0) *out = 0;
    if (result == RESULT_NO_MEMORY && d->cuMemGetInfo_v2(&available, &total) == 0)
        return tell_memory(cuda, bytes, "a part of the step's buffers", available, sink);
    if (result != 0) return mpc_cuda_error(cuda, sink, "cuMemAlloc", result);
    result = d->cuMemsetD8Async(*out, 0, (size_t)bytes, cuda->stream);
    if (result == 0) return MPC_OK;
    (void)d->cuMemFree_v2(*out);
    *out = 0;
    return mpc_cuda_error(cuda, sink, "cuMemsetD8Async", result);
}

static void release_memory(const mpc_cuda *cuda, mpc_device_ptr p) {
    if (p) (void)cuda->driver.cuMemFree_v2(p);
}

/* ---- to and fro ---- */

static mpc_status synchronize(const mpc_cuda_store *s) {
    int result = s->cuda->driver.cuStreamSynchronize(s->cuda->stream);
    return result == 0 ? MPC_OK : mpc_cuda_error(s->cuda, s->sink, "cuStreamSynchronize", result);
}

static mpc_status to_host(void *user) {
    mpc_cuda_store *s = user;
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const mpc_cuda_piece *p = &s->pieces[i];
        int result = s->cuda->driver.cuMemcpyDtoHAsync_v2(p->host, p->device, (size_t)p->bytes, s->cuda->stream);
        if (result != 0) return mpc_cuda_error(s->cuda, s->sink, "cuMemcpyDtoHAsync", result);
    }
    return synchronize(s);
}

static mpc_status to_device(void *user) {
    mpc_cuda_store *s = user;
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const mpc_cuda_piece *p = &s->pieces[i];
        int result = s->cuda->driver.cuMemcpyHtoDAsync_v2(p->device, p->host, (size_t)p->bytes, s->cuda->stream);
        if (result != 0) return mpc_cuda_error(s->cuda, s->sink, "cuMemcpyHtoDAsync", result);
    }
    return synchronize(s);
}

/* ---- making and ending ---- */

static void destroy(mpc_cuda_store *s) {
    if (s->cuda) {
        for (uint32_t i = 0; i < s->piece_count; i++) release_memory(s->cuda, s->pieces[i].device);
        for (uint32_t i = 0; i < s->arena_count; i++) {
            release_memory(s->cuda, s->arenas[i]->data);
            mpc_free(s->arenas[i]);
        }
        release_memory(s->cuda, s->workspace);
    }
    mpc_cuda_close(s->cuda);
    mpc_free(s->pieces);
    mpc_free(s->arenas);
    mpc_free(s);
}

void mpc_cuda_store_release(mpc_cuda_store *s) {
    if (s && --s->users == 0) destroy(s);
}

static void release_from_store(void *user) { mpc_cuda_store_release(user); }

static mpc_status place_states(mpc_cuda_store *s, bool separate) {
    uint32_t count = separate ? mpc_store_count(s->store) : 1;
    s->pieces = mpc_alloc((count + 1) * sizeof *s->pieces);
    if (!s->pieces) return MPC_NO_MEMORY;
    memset(s->pieces, 0, (count + 1) * sizeof *s->pieces);
    for (uint32_t i = 0; i < count; i++) {
        mpc_cuda_piece *p = &s->pieces[i];
        const mpc_store_entry *entry = separate ? mpc_store_at(s->store, i) : NULL;
        p->host = separate ? entry->data : mpc_store_base(s->store);
        p->bytes = separate ? entry->bytes : mpc_store_bytes(s->store);
        if (p->bytes == 0) continue;
        mpc_status status = mpc_cuda_allocate(s->cuda, p->bytes, &p->device, s->sink);
        if (status != MPC_OK) return status;
        s->piece_count = i + 1;
    }
    return MPC_OK;
}

static mpc_status make(mpc_cuda_store *s, bool separate, mpc_cuda_need need) {
    s->cuda = mpc_cuda_open(s->sink);
    if (!s->cuda) return MPC_FAILED;
    uint64_t bytes = mpc_store_bytes(s->store) + MPC_CUDA_WORKSPACE + need.arena + need.own;
    mpc_status status = check_memory(s->cuda, bytes, "states and the values of a step", s->sink);
    if (status == MPC_OK) status = place_states(s, separate);
    if (status == MPC_OK) status = mpc_cuda_allocate(s->cuda, MPC_CUDA_WORKSPACE, &s->workspace, s->sink);
    return status == MPC_OK ? to_device(s) : status;
}

static mpc_cuda_arena *find_arena(const mpc_cuda_store *s, uint64_t bytes) {
    for (uint32_t i = 0; i < s->arena_count; i++)
        if (s->arenas[i]->bytes >= bytes) return s->arenas[i];
    return NULL;
}

mpc_cuda_store *mpc_cuda_store_get(mpc_store *store, bool separate, mpc_cuda_need need, const mpc_sink *sink) {
    const mpc_store_mirror *mirror = mpc_store_get_mirror(store);
    mpc_status status = MPC_NO_MEMORY;
    if (mirror) { /* the only kind of mirror there is */
        mpc_cuda_store *s = mirror->user;
        uint64_t bytes = need.own + (find_arena(s, need.arena) ? 0 : need.arena);
        if (check_memory(s->cuda, bytes, "the values of a step", sink) != MPC_OK) return NULL;
        s->users++;
        return s;
    }
    mpc_cuda_store *s = mpc_alloc(sizeof *s);
    if (s) {
        *s = (mpc_cuda_store){.store = store, .sink = sink, .users = 2};
        status = make(s, separate, need);
        if (status == MPC_OK) {
            mpc_store_set_mirror(store, (mpc_store_mirror){s, to_host, to_device, release_from_store});
            return s;
        }
        destroy(s);
    }
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "there isn't enough memory to load the program");
    return NULL;
}

mpc_device_ptr mpc_cuda_store_address(const mpc_cuda_store *s, const void *host) {
    for (uint32_t i = 0; i < s->piece_count; i++) {
        const mpc_cuda_piece *p = &s->pieces[i];
        if (p->bytes > 0 && (const uint8_t *)host >= p->host && (const uint8_t *)host < p->host + p->bytes)
            return p->device + (mpc_device_ptr)((const uint8_t *)host - p->host);
    }
    return 0;
}

/* ---- arenas ---- */

mpc_cuda_arena *mpc_cuda_store_take_arena(mpc_cuda_store *s, uint64_t bytes, const mpc_sink *sink) {
    mpc_cuda_arena *arena = find_arena(s, bytes);
    if (!arena) {
        mpc_cuda_arena **list = mpc_realloc(s->arenas, (s->arena_count + 1) * sizeof *list);
        if (list) s->arenas = list;
        arena = list ? mpc_alloc(sizeof *arena) : NULL;
        if (!arena) {
            mpc_error(sink, "E901", "there isn't enough memory to load the program");
            return NULL;
        }
        *arena = (mpc_cuda_arena){.bytes = bytes};
        if (mpc_cuda_allocate(s->cuda, bytes, &arena->data, sink) != MPC_OK) {
            mpc_free(arena);
            return NULL;
        }
        s->arenas[s->arena_count++] = arena;
    }
    arena->users++;
    return arena;
}

void mpc_cuda_store_give_arena(mpc_cuda_store *s, mpc_cuda_arena *arena) {
    if (!arena || --arena->users > 0) return;
    uint32_t i = 0;
    while (s->arenas[i] != arena) i++;
    s->arenas[i] = s->arenas[--s->arena_count];
    release_memory(s->cuda, arena->data);
    mpc_free(arena);
}
