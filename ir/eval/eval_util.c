/* Index arithmetic of the evaluator: broadcasting walks, strides, axis views. Everything is row-major and in elements,
 * never in bytes. */
#include "ir/eval/eval_util.h"

#include <string.h>

void mpc_dense_strides(const mpc_type *type, int64_t *strides) {
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= type->dims[i];
    }
}

static mpc_walk walk_over(const mpc_type *over) {
    mpc_walk w = {.count = mpc_type_elements(over), .rank = over->rank};
    memcpy(w.dims, over->dims, sizeof w.dims);
    return w;
}

mpc_walk mpc_walk_begin(const mpc_type *over, const mpc_tensor *tensors, uint32_t count) {
    mpc_walk w = walk_over(over);
    w.flat = true;
    for (uint32_t k = 0; k < count; k++) {
        const mpc_type *t = &tensors[k].type;
        int64_t strides[MPC_MAX_RANK], elements = mpc_type_elements(t);
        mpc_dense_strides(t, strides);
        for (uint32_t i = 0; i < t->rank; i++)
            if (t->dims[i] != 1) w.strides[k][over->rank - t->rank + i] = strides[i];
        w.step[k] = elements == w.count ? 1 : 0;
        if (elements != w.count && elements != 1) w.flat = false;
    }
    return w;
}

mpc_walk mpc_walk_strided(const mpc_type *over, const int64_t *strides) {
    mpc_walk w = walk_over(over);
    if (over->rank > 0) memcpy(w.strides[0], strides, over->rank * sizeof *strides);
    return w;
}

void mpc_walk_carry(mpc_walk *w) {
    for (uint32_t i = w->rank; i-- > 0;) {
        bool wraps = ++w->index[i] == w->dims[i];
        if (wraps) w->index[i] = 0;
        for (int k = 0; k < MPC_WALK_MAX; k++)
            w->at[k] += wraps ? -w->strides[k][i] * (w->dims[i] - 1) : w->strides[k][i];
        if (!wraps) return;
    }
}

mpc_axis_view mpc_axis_view_of(const mpc_type *type, int64_t axis) {
    mpc_axis_view v = {.outer = 1, .n = 1, .inner = 1};
    for (uint32_t i = 0; i < type->rank; i++) {
        if ((int64_t)i < axis) v.outer *= type->dims[i];
        else if ((int64_t)i == axis) v.n = type->dims[i];
        else v.inner *= type->dims[i];
    }
    return v;
}

double *mpc_eval_scratch(mpc_eval *e, int64_t count) {
    return mpc_arena_alloc(e->scratch, (size_t)(count > 0 ? count : 1) * sizeof(double));
}

mpc_draw mpc_eval_draw(const mpc_eval *e, uint32_t first) {
    return (mpc_draw){(uint64_t)(int64_t)e->operands[first].data[0], (uint64_t)mpc_attr_int(e->graph, e->node, "stream"),
                      (uint32_t)(int32_t)e->operands[first + 1].data[0]};
}
