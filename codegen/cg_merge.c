/* Equal neighbours become one launch: the updates of all parameters, say. Instances of one launch run at the same time, so no instance may
 * write a byte that another reads or writes; that is decided by addresses, because the planner reuses memory in the order of launches. */
#include <string.h>

#include "codegen/cg.h"

typedef struct range { /* bytes of one region: 0 arena and workspace, 1 + buffer for a state */
    uint32_t region;
    uint64_t begin, end;
} range;

static range range_of(const mpc_cg *cg, uint32_t buffer, uint64_t offset) {
    const mpc_buffer *b = &cg->buffers.data[buffer];
    if (buffer == cg->workspace) return (range){1 + buffer, offset, offset + 1};
    if (b->is_state) return (range){1 + buffer, 0, b->bytes};
    return (range){0, b->offset, b->offset + b->bytes};
}

static bool meets(range a, range b) { return a.region == b.region && a.begin < b.end && b.begin < a.end; }

static bool is_written(const mpc_cg *cg, const mpc_launch *l, uint32_t buffer) {
    for (uint32_t i = 0; i < l->result_count; i++)
        if (l->results[i] == buffer) return true;
    return buffer == cg->workspace;
}

/* Does `next` touch what an instance of `l` writes, or write what one touches? */
static bool depends(const mpc_cg *cg, const mpc_launch *l, const mpc_launch *next) {
    uint32_t pointers = cg->kernels.data[l->kernel].pointer_count;
    for (uint32_t i = 0; i < l->instance_count; i++)
        for (uint32_t j = 0; j < pointers; j++) {
            mpc_pointer a = l->instances[i].pointers[j];
            bool written = is_written(cg, l, a.buffer);
            range ra = range_of(cg, a.buffer, a.byte_offset);
            for (uint32_t k = 0; k < pointers; k++) {
                mpc_pointer b = next->instances[0].pointers[k];
                if (!written && !is_written(cg, next, b.buffer)) continue;
                if (meets(ra, range_of(cg, b.buffer, b.byte_offset))) return true;
            }
        }
    return false;
}

static bool same_condition(const mpc_launch *a, const mpc_launch *b) {
    if (a->has_when != b->has_when) return false;
    return !a->has_when || (a->when.buffer == b->when.buffer && a->when.byte_offset == b->when.byte_offset);
}

static bool can_join(const mpc_cg *cg, const mpc_launch *a, const mpc_launch *b) {
    return a->kind == MPC_LAUNCH_KERNEL && b->kind == MPC_LAUNCH_KERNEL && a->kernel == b->kernel && same_condition(a, b) &&
           b->instance_count == 1 && !depends(cg, a, b);
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

void mpc_cg_merge_launches(mpc_cg *cg) {
    size_t kept = 0;
    for (size_t i = 0; i < cg->launches.count && mpc_cg_ok(cg); i++) {
        mpc_launch *next = &cg->launches.data[i];
        if (kept > 0 && can_join(cg, &cg->launches.data[kept - 1], next)) absorb(cg, &cg->launches.data[kept - 1], next);
        else cg->launches.data[kept++] = *next;
    }
    cg->launches.count = kept;
}
