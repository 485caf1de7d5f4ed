/* Equal launches become one: the updates of all parameters, say. A launch joins an earlier one of the same kernel if it
 * may be moved up to it, that is, if it neither touches what the launches in between (and the other instances) write
 * nor writes what they touch. That is decided by addresses, because the planner reuses memory in the order of launches.
 */
#include <string.h>

#include "base/alloc.h"
#include "codegen/cg.h"

enum { LOOK_BACK = 256 };

typedef struct range { /* bytes of the arena */
    uint64_t begin, end;
    bool written;
} range;
typedef MPC_ARRAY(range) range_list;

typedef struct merger {
    mpc_cg *cg;
    range_list *ranges;         /* by kept launch: what it touches in the arena */
    int64_t *touched, *written; /* by state buffer: last kept launch that reads or writes, that writes it; -1 */
    size_t kept;
} merger;

static bool is_result(const mpc_launch *l, uint32_t buffer) {
    for (uint32_t i = 0; i < l->result_count; i++)
        if (l->results[i] == buffer) return true;
    return false;
}

typedef MPC_ARRAY(uint32_t) buffer_list;

static void add_buffer(merger *m, buffer_list *list, uint32_t buffer) {
    if (!mpc_array_push(list, buffer)) mpc_cg_no_memory(m->cg);
}

/* Every buffer a launch touches; written ones may come twice. */
static void list_buffers(merger *m, const mpc_launch *l, buffer_list *list) {
    list->count = 0;
    for (uint32_t i = 0; i < l->result_count; i++) add_buffer(m, list, l->results[i]);
    if (l->has_when) add_buffer(m, list, l->when.buffer);
    for (uint32_t i = 0; i < l->instance_count; i++)
        for (uint32_t j = 0; j < m->cg->kernels.data[l->kernel].pointer_count; j++)
            add_buffer(m, list, l->instances[i].pointers[j].buffer);
    const mpc_pointer matmul[] = {l->matmul.a, l->matmul.b, l->matmul.c,
                                  l->matmul.has_bias ? l->matmul.bias : l->matmul.a};
    const mpc_pointer conv[] = {l->conv.x, l->conv.w, l->conv.y, l->conv.has_bias ? l->conv.bias : l->conv.x};
    for (int i = 0; i < 4 && l->kind == MPC_LAUNCH_MATMUL; i++) add_buffer(m, list, matmul[i].buffer);
    for (int i = 0; i < 4 && l->kind == MPC_LAUNCH_CONV; i++) add_buffer(m, list, conv[i].buffer);
    if (l->kind == MPC_LAUNCH_COPY) add_buffer(m, list, l->copy_from.buffer), add_buffer(m, list, l->copy_to.buffer);
}

/* The workspace counts as one place that everybody writes. */
static range range_of(const merger *m, const mpc_launch *l, uint32_t buffer) {
    const mpc_buffer *b = &m->cg->buffers.data[buffer];
    if (buffer == m->cg->workspace) return (range){b->offset, UINT64_MAX, true};
    return (range){b->offset, b->offset + b->bytes, is_result(l, buffer)};
}

static bool meets(const range_list *list, range r) {
    for (size_t i = 0; i < list->count; i++)
        if ((r.written || list->data[i].written) && r.begin < list->data[i].end && list->data[i].begin < r.end)
            return true;
    return false;
}

/* The last kept launch before which this one may not run, as far as states go. */
static int64_t state_limit(const merger *m, const mpc_launch *l, const buffer_list *buffers) {
    int64_t limit = -1;
    for (size_t i = 0; i < buffers->count; i++) {
        uint32_t b = buffers->data[i];
        if (!m->cg->buffers.data[b].is_state) continue;
        int64_t last = is_result(l, b) ? m->touched[b] : m->written[b];
        if (last > limit) limit = last;
    }
    return limit;
}

static bool meets_launch(const merger *m, size_t at, const mpc_launch *l, const buffer_list *buffers) {
    for (size_t i = 0; i < buffers->count; i++)
        if (!m->cg->buffers.data[buffers->data[i]].is_state && meets(&m->ranges[at], range_of(m, l, buffers->data[i])))
            return true;
    return false;
}

static bool same_kernel(const mpc_launch *a, const mpc_launch *b) {
    if (a->kind != MPC_LAUNCH_KERNEL || b->kind != MPC_LAUNCH_KERNEL || a->kernel != b->kernel ||
        a->has_when != b->has_when)
        return false;
    return !a->has_when || (a->when.buffer == b->when.buffer && a->when.byte_offset == b->when.byte_offset);
}

/* The kept launch that `l` can join; `m->kept`: none. */
static size_t find_partner(const merger *m, const mpc_launch *l, const buffer_list *buffers) {
    int64_t limit = state_limit(m, l, buffers);
    for (size_t at = m->kept;
         l->kind == MPC_LAUNCH_KERNEL && at-- > 0 && (int64_t)at > limit && m->kept - at < LOOK_BACK;) {
        if (meets_launch(m, at, l, buffers)) break;
        if (same_kernel(&m->cg->launches.data[at], l)) return at;
    }
    return m->kept;
}

static void *join(mpc_cg *cg, const void *a, uint32_t na, const void *b, uint32_t nb, size_t size) {
    char *out = mpc_arena_alloc(cg->arena, (na + nb + 1) * size);
    if (out == NULL) {
        mpc_cg_no_memory(cg);
        return NULL;
    }
    if (na > 0) memcpy(out, a, na * size);
    if (nb > 0) memcpy(out + na * size, b, nb * size);
    return out;
}

static void absorb(mpc_cg *cg, mpc_launch *a, const mpc_launch *b) {
    a->instances = join(cg, a->instances, a->instance_count, b->instances, b->instance_count, sizeof *a->instances);
    a->results = join(cg, a->results, a->result_count, b->results, b->result_count, sizeof *a->results);
    a->instance_count += b->instance_count;
    a->result_count += b->result_count;
    a->flops += b->flops;
    a->bytes += b->bytes;
}

static void record(merger *m, size_t at, const mpc_launch *l, const buffer_list *buffers) {
    for (size_t i = 0; i < buffers->count; i++) {
        uint32_t b = buffers->data[i];
        if (!m->cg->buffers.data[b].is_state) {
            if (!mpc_array_push(&m->ranges[at], range_of(m, l, b))) mpc_cg_no_memory(m->cg);
            continue;
        }
        if ((int64_t)at > m->touched[b]) m->touched[b] = (int64_t)at;
        if (is_result(l, b) && (int64_t)at > m->written[b]) m->written[b] = (int64_t)at;
    }
}

static void merge_all(merger *m) {
    buffer_list buffers = {0};
    mpc_cg *cg = m->cg;
    for (size_t i = 0; i < cg->launches.count && mpc_cg_ok(cg); i++) {
        mpc_launch next = cg->launches.data[i];
        list_buffers(m, &next, &buffers);
        if (!mpc_cg_ok(cg)) break;
        size_t at = find_partner(m, &next, &buffers);
        record(m, at, &next, &buffers);
        if (at < m->kept) absorb(cg, &cg->launches.data[at], &next);
        else cg->launches.data[m->kept++] = next;
    }
    mpc_array_free(&buffers);
}

void mpc_cg_merge_launches(mpc_cg *cg) {
    size_t launches = cg->launches.count, buffers = cg->buffers.count;
    merger m = {.cg = cg,
                .ranges = mpc_arena_alloc(cg->scratch, (launches + 1) * sizeof *m.ranges),
                .touched = mpc_arena_alloc(cg->scratch, (buffers + 1) * sizeof *m.touched),
                .written = mpc_arena_alloc(cg->scratch, (buffers + 1) * sizeof *m.written)};
    if (m.ranges == NULL || m.touched == NULL || m.written == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    for (size_t i = 0; i < buffers; i++) m.touched[i] = m.written[i] = -1;
    merge_all(&m);
    for (size_t i = 0; i < launches; i++) mpc_array_free(&m.ranges[i]);
    cg->launches.count = m.kept;
}
