/* Launches of the stand-in. A launch keeps its parameters; when it runs, the device addresses in its argument blocks
 * are translated and it runs twice from the same memory, blocks and threads in ascending and in descending order.
 * Memory that differs afterwards means that threads raced. Only allocations that the arguments point into are compared,
 * which are all that a kernel can reach. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAM_BYTES = 32764, PAGE = 4096 };
typedef struct sim_launch {
    sim_function *function;
    uint32_t blocks, shared_bytes;
    int64_t runs; /* of this launch: a graph's node has many */
    size_t offset[3];
    char params[];
} sim_launch;

/* ---- translation ---- */
typedef struct sim_call { /* one launch while it runs */
    const sim_launch *launch;
    char *blocks; /* argument blocks with host addresses */
    uint32_t block_count;
    const uint8_t *when;
    char problem[256];
} sim_call;

/* `index` -1: `when`. */
static void reach(void *user, void **pointer, int index) {
    sim_call *call = user;
    char *host;
    if (!*pointer) return;
    sim_allocation *a = sim_allocation_at((uint64_t)(uintptr_t)*pointer, 0, &host);
    if (a) a->reached = true, *pointer = host;
    else if (!call->problem[0])
        snprintf(call->problem, sizeof call->problem, "its p[%d] is %p, which is not device memory in use", index,
                 *pointer);
}

/* Header of an argument block: units, first_block, blocks. */
typedef struct sim_block_header {
    int64_t units;
    uint32_t first_block, blocks;
} sim_block_header;

static void check_blocks(sim_call *call) {
    uint32_t next = 0;
    const uint32_t size = call->launch->function->kernel->block_bytes;
    for (uint32_t i = 0; i < call->block_count && !call->problem[0]; i++) {
        const sim_block_header *h = (const void *)(call->blocks + (size_t)i * size);
        if (h->first_block != next)
            snprintf(call->problem, sizeof call->problem, "first_block of instance %u is %u, not %u", i, h->first_block,
                     next);
        next = h->first_block + h->blocks;
    }
    if (next != call->launch->blocks && !call->problem[0])
        snprintf(call->problem, sizeof call->problem, "a grid of %u blocks for instances of %u", call->launch->blocks,
                 next);
}

static const char *find_blocks(sim_call *call) {
    const sim_launch *l = call->launch;
    const cudasim_kernel *k = l->function->kernel;
    call->block_count = 1;
    if (!k->segmented) return l->params + l->offset[0];
    uint64_t table;
    int32_t count;
    char *host;
    memcpy(&table, l->params + l->offset[0], sizeof table);
    memcpy(&count, l->params + l->offset[1], sizeof count);
    call->block_count = (uint32_t)count;
    if (count >= 1 && sim_allocation_at(table, (size_t)count * k->block_bytes, &host)) return host;
    snprintf(call->problem, sizeof call->problem, "its table of %d instances is not device memory in use", count);
    return NULL;
}

/* Copies the argument blocks and translates them. */
static int prepare(sim_call *call) {
    const cudasim_kernel *k = call->launch->function->kernel;
    const char *blocks = find_blocks(call);
    if (!blocks) return CUDASIM_ILLEGAL_ADDRESS;
    call->blocks = malloc((size_t)call->block_count * k->block_bytes);
    if (!call->blocks) return CUDASIM_OUT_OF_MEMORY;
    memcpy(call->blocks, blocks, (size_t)call->block_count * k->block_bytes);
    for (sim_allocation *a = sim_allocations(); a; a = a->next) a->reached = false;
    for (uint32_t i = 0; i < call->block_count; i++)
        k->each_pointer(call->blocks + (size_t)i * k->block_bytes, reach, call);
    void *when;
    memcpy(&when, call->launch->params + call->launch->offset[k->param_count - 1], sizeof when);
    reach(call, &when, -1);
    call->when = when;
    check_blocks(call);
    return call->problem[0] ? CUDASIM_ILLEGAL_ADDRESS : CUDASIM_SUCCESS;
}

/* ---- two orders ---- */
static const char *run_once(const sim_call *call, bool descending, int *result) {
    const sim_launch *l = call->launch;
    const int32_t count = (int32_t)call->block_count;
    const void *blocks = call->blocks;
    void *params[3] = {call->blocks, (void *)(uintptr_t)&call->when, NULL};
    if (l->function->kernel->segmented) {
        params[0] = (void *)(uintptr_t)&blocks;
        params[1] = (void *)(uintptr_t)&count;
        params[2] = (void *)(uintptr_t)&call->when;
    }
    return sim_run_grid(&(sim_grid){l->function->kernel, params, l->blocks, l->shared_bytes, descending}, result);
}

static bool save(void) {
    for (sim_allocation *a = sim_allocations(); a; a = a->next) {
        if (!a->reached) continue;
        if (!a->shadow) a->shadow = malloc(a->bytes);
        if (!a->shadow) return false;
        memcpy(a->shadow, a->host, a->bytes);
    }
    return true;
}

/* Memory becomes what it was; the shadow keeps what the first order made. */
static void exchange(void) {
    char page[PAGE];
    for (sim_allocation *a = sim_allocations(); a; a = a->next) {
        for (size_t at = 0; a->reached && at < a->bytes; at += PAGE) {
            const size_t n = a->bytes - at < PAGE ? a->bytes - at : PAGE;
            if (memcmp(a->host + at, a->shadow + at, n) == 0) continue;
            memcpy(page, a->host + at, n);
            memcpy(a->host + at, a->shadow + at, n);
            memcpy(a->shadow + at, page, n);
        }
    }
}

/* "p[2] + 64": the argument that starts nearest before the address. */
static void name_address(const sim_call *call, const char *address, char *name, size_t size) {
    const cudasim_kernel *k = call->launch->function->kernel;
    uint64_t best = UINT64_MAX;
    snprintf(name, size, "?");
    for (uint32_t i = 0; i < call->block_count; i++) {
        const char *block = call->blocks + (size_t)i * k->block_bytes;
        for (uint32_t p = 0; sizeof(sim_block_header) + p * sizeof(void *) + sizeof(void *) <= k->block_bytes; p++) {
            const char *at;
            memcpy(&at, block + sizeof(sim_block_header) + p * sizeof at, sizeof at);
            if ((uintptr_t)at > (uintptr_t)address || (uint64_t)(address - at) >= best) continue;
            best = (uint64_t)(address - at);
            snprintf(name, size, "p[%u] of instance %u + %llu bytes", p, i, (unsigned long long)best);
        }
    }
}

static bool differs(sim_call *call) {
    for (sim_allocation *a = sim_allocations(); a; a = a->next) {
        if (!a->reached || memcmp(a->host, a->shadow, a->bytes) == 0) continue;
        char name[96];
        size_t at = 0;
        while (a->host[at] == a->shadow[at]) at++;
        name_address(call, a->host + at, name, sizeof name);
        snprintf(call->problem, sizeof call->problem, "its threads race: the order of threads decides what is at %s",
                 name);
        return true;
    }
    return false;
}

static int run_orders(sim_call *call) {
    int result = CUDASIM_SUCCESS;
    const int64_t twice = sim_configuration()->twice;
    const bool both = (twice < 0 || call->launch->runs < twice) && save();
    const char *problem = run_once(call, false, &result);
    if (!problem && both) {
        exchange();
        problem = run_once(call, true, &result);
    }
    if (problem) snprintf(call->problem, sizeof call->problem, "%s", problem);
    else if (both && differs(call)) result = CUDASIM_LAUNCH_FAILED;
    for (sim_allocation *a = sim_allocations(); a && !result; a = a->next) {
        if (!a->reached || sim_guards_hold(a->raw, a->bytes)) continue;
        snprintf(call->problem, sizeof call->problem, "it wrote outside of an allocation of %zu bytes", a->bytes);
        result = CUDASIM_ILLEGAL_ADDRESS;
    }
    return result;
}

static int run_launch(void *data) {
    sim_launch *l = data;
    sim_call call = {.launch = l};
    if (!sim_find(SIM_FUNCTION, l->function))
        return sim_error(CUDASIM_INVALID_HANDLE, "the module of a launch was unloaded");
    int result = prepare(&call);
    if (result == CUDASIM_SUCCESS) result = run_orders(&call);
    l->runs++;
    if (call.problem[0]) fprintf(stderr, "cudasim: kernel %s: %s\n", l->function->name, call.problem);
    free(call.blocks);
    return result;
}

/* ---- the call ---- */
/* Where each parameter lies in a packed buffer; returns its size. */
static size_t lay_out(const cudasim_kernel *k, size_t offset[3]) {
    size_t end = 0;
    for (int i = 0; i < k->param_count; i++) {
        const size_t align = k->param_bytes[i] == 4 ? 4 : 8;
        offset[i] = (end + align - 1) / align * align;
        end = offset[i] + k->param_bytes[i];
    }
    return end;
}

/* `extra`: CU_LAUNCH_PARAM_BUFFER_POINTER (1), CU_LAUNCH_PARAM_BUFFER_SIZE (2), end (0). */
static const void *packed(void **extra, size_t size) {
    const void *buffer = NULL;
    size_t given = 0;
    for (; extra && *extra; extra += 2) {
        if (*extra == (void *)1) buffer = extra[1];
        else if (*extra == (void *)2) given = *(const size_t *)extra[1];
        else return NULL;
    }
    return given == size ? buffer : NULL;
}

static bool fill_params(sim_launch *l, size_t size, void **params, void **extra) {
    const cudasim_kernel *k = l->function->kernel;
    if ((params != NULL) == (extra != NULL)) return false;
    const char *buffer = extra ? packed(extra, size) : NULL;
    if (extra && !buffer) return false;
    for (int i = 0; i < k->param_count; i++) {
        const void *from = params ? params[i] : buffer + l->offset[i];
        if (!from) return false;
        memcpy(l->params + l->offset[i], from, k->param_bytes[i]);
    }
    return true;
}

static int check_shape(const sim_function *f, const unsigned grid[3], const unsigned block[3], unsigned shared) {
    if (grid[0] < 1 || grid[0] > 0x7fffffff || grid[1] != 1 || grid[2] != 1)
        return sim_error(CUDASIM_INVALID_VALUE, "%s: a grid of %u x %u x %u blocks", f->name, grid[0], grid[1],
                         grid[2]);
    if (block[0] != (unsigned)f->kernel->threads || block[1] != 1 || block[2] != 1)
        return sim_error(CUDASIM_INVALID_VALUE, "%s: blocks of %u x %u x %u threads, it is made for %d", f->name,
                         block[0], block[1], block[2], f->kernel->threads);
    if (shared > f->shared_limit)
        return sim_error(CUDASIM_INVALID_VALUE, "%s: %u bytes of shared memory, the limit is %u", f->name, shared,
                         f->shared_limit);
    return CUDASIM_SUCCESS;
}

static int launch(sim_function *f, const unsigned grid[3], unsigned shared, sim_stream *s, void *const arguments[2]) {
    size_t offset[3] = {0};
    const size_t size = lay_out(f->kernel, offset);
    if (size > MAX_PARAM_BYTES) return sim_error(CUDASIM_INVALID_VALUE, "%s: %zu bytes of parameters", f->name, size);
    sim_op *op = sim_op_new(SIM_OP_KERNEL, "a kernel", NULL, sizeof(sim_launch) + size);
    if (!op) return CUDASIM_OUT_OF_MEMORY;
    sim_launch *l = (void *)op->data;
    l->function = f, l->blocks = grid[0], l->shared_bytes = shared;
    memcpy(l->offset, offset, sizeof offset);
    if (!fill_params(l, size, arguments[0], arguments[1])) {
        sim_op_free(op);
        return sim_error(CUDASIM_INVALID_VALUE, "%s: its parameters are %zu bytes, given one way or the other", f->name,
                         size);
    }
    op->run = run_launch;
    return sim_put(s, op);
}

SIM_API(SIM_CONTEXT | SIM_TRACED_LATER, cuLaunchKernel,
        (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         void *stream, void **params, void **extra),
        (function, gx, gy, gz, bx, by, bz, shared, stream, params, extra)) {
    sim_function *f = sim_find(SIM_FUNCTION, function);
    sim_stream *s = sim_stream_of(stream);
    sim_trace("cuLaunchKernel", f ? f->name : "?");
    if (!f || !s) return sim_error(CUDASIM_INVALID_HANDLE, "cuLaunchKernel: not a function, or not a stream");
    const int result = check_shape(f, (unsigned[3]){gx, gy, gz}, (unsigned[3]){bx, by, bz}, shared);
    return result ? result : launch(f, (unsigned[3]){gx, gy, gz}, shared, s, (void *[2]){params, extra});
}
