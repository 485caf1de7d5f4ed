/* Arithmetic of strided views. Axes of extent 1 may have any stride, so they are skipped wherever strides are compared.
 */
#include "ir/strided.h"

#include "ir/program.h"

static bool keeps_format(const mpc_graph *g, const mpc_node *n) {
    return mpc_value_format(g, mpc_operand(g, n, 0)) == mpc_value_format(g, mpc_result(n, 0));
}

bool mpc_strided_is_view(const mpc_graph *g, const mpc_node *n) {
    bool view = n->op == MPC_OP_reshape || n->op == MPC_OP_transpose || n->op == MPC_OP_slice;
    return view && keeps_format(g, n);
}

bool mpc_strided_may_share(const mpc_graph *g, const mpc_node *n) {
    return mpc_strided_is_view(g, n) || (n->op == MPC_OP_expand && keeps_format(g, n));
}

mpc_strided mpc_strided_dense(const mpc_type *type) {
    mpc_strided s = {.rank = type->rank};
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        s.dims[i] = type->dims[i];
        s.strides[i] = stride;
        stride *= type->dims[i];
    }
    return s;
}

bool mpc_strided_collapse(const mpc_strided *s, uint32_t first, uint32_t last, int64_t *stride) {
    int64_t expected = 0;
    bool any = false;
    *stride = 1;
    for (uint32_t i = last; i-- > first;) {
        if (s->dims[i] == 1) continue;
        if (!any) *stride = s->strides[i];
        else if (s->strides[i] != expected) return false;
        expected = s->strides[i] * s->dims[i];
        any = true;
    }
    return true;
}

/* Each axis of the result takes part of one axis of the operand or a run of them. */
static bool apply_reshape(const mpc_type *to, mpc_strided *s) {
    mpc_strided out = mpc_strided_dense(to);
    int64_t whole;
    out.offset = s->offset;
    if (mpc_type_elements(to) == 0) return *s = out, true;
    if (mpc_strided_collapse(s, 0, s->rank, &whole) && whole == 1) return *s = out, true;
    uint32_t from = s->rank; /* axes of the operand are used up from the right */
    int64_t left = 1, stride = 1;
    for (uint32_t i = to->rank; i-- > 0;) {
        int64_t want = to->dims[i];
        out.dims[i] = want;
        out.strides[i] = 1;
        if (want == 1) continue;
        while (left == 1 && from > 0) {
            left = s->dims[--from];
            stride = s->strides[from];
        }
        out.strides[i] = stride;
        while (left < want && from > 0) {
            from--;
            if (s->dims[from] != 1 && s->strides[from] != stride * left) return false;
            left *= s->dims[from];
        }
        if (left % want != 0) return false;
        left /= want;
        stride *= want;
    }
    *s = out;
    return true;
}

/* New axes come before the old ones; one of extent 1 repeats. */
static void apply_expand(const mpc_type *to, mpc_strided *s) {
    mpc_strided out = {.offset = s->offset, .rank = to->rank};
    uint32_t added = to->rank - s->rank;
    for (uint32_t i = 0; i < to->rank; i++) {
        out.dims[i] = to->dims[i];
        if (i >= added && s->dims[i - added] != 1) out.strides[i] = s->strides[i - added];
    }
    *s = out;
}

bool mpc_strided_apply(const mpc_graph *g, const mpc_node *view, mpc_strided *s) {
    if (view->op == MPC_OP_expand) return apply_expand(mpc_value_type(g, mpc_result(view, 0)), s), true;
    if (view->op == MPC_OP_reshape) return apply_reshape(mpc_value_type(g, mpc_result(view, 0)), s);
    mpc_strided in = *s;
    if (view->op == MPC_OP_transpose) {
        mpc_int_list perm = mpc_attr_ints(g, view, "perm");
        for (uint32_t i = 0; i < s->rank; i++) {
            s->dims[i] = in.dims[perm.data[i]];
            s->strides[i] = in.strides[perm.data[i]];
        }
        return true;
    }
    if (view->op != MPC_OP_slice) return false;
    mpc_int_list start = mpc_attr_ints(g, view, "start"), stop = mpc_attr_ints(g, view, "stop");
    for (uint32_t i = 0; i < s->rank; i++) {
        s->offset += start.data[i] * in.strides[i];
        s->dims[i] = stop.data[i] - start.data[i];
    }
    return true;
}

void mpc_strided_undo_transpose(const mpc_graph *g, const mpc_node *transpose, mpc_strided *s) {
    mpc_strided in = *s;
    mpc_int_list perm = mpc_attr_ints(g, transpose, "perm");
    for (uint32_t i = 0; i < s->rank; i++) {
        s->dims[perm.data[i]] = in.dims[i];
        s->strides[perm.data[i]] = in.strides[i];
    }
}

static bool unit_axis(const mpc_strided *s, uint32_t axis) { return s->dims[axis] == 1 || s->strides[axis] == 1; }

/* Libraries take no rows or columns that lie on each other. */
static bool repeats(const mpc_strided *s, uint32_t axis) { return s->dims[axis] != 1 && s->strides[axis] == 0; }

/* All axes but the last as the rows of one matrix. */
static bool fits_matrix(const mpc_strided *s) {
    int64_t stride;
    if (s->rank < 1 || !mpc_strided_collapse(s, 0, s->rank - 1, &stride) || stride == 0) return false;
    return !repeats(s, s->rank - 1) && (unit_axis(s, s->rank - 1) || stride == 1);
}

/* A fused attention reads q, k, v and dy [b,t,h,d] with any strides but the last. */
static bool fits_attention(const mpc_node *n, uint32_t i, const mpc_strided *s) {
    bool multiplied = i < 3 || (n->op == MPC_OP_attention_grad && i == 5);
    return multiplied && i < n->operand_count && s->rank == 4 && unit_axis(s, 3);
}

bool mpc_strided_fits_matmul(const mpc_graph *g, const mpc_node *n, uint32_t i, const mpc_strided *s) {
    if (n->op == MPC_OP_attention || n->op == MPC_OP_attention_grad) return fits_attention(n, i, s);
    if (n->op == MPC_OP_linear) {
        bool is_result = i == n->operand_count;
        return i == 2 && !is_result ? false : fits_matrix(s);
    }
    if (n->op != MPC_OP_matmul || s->rank < 2) return false;
    bool one_b = mpc_value_type(g, mpc_operand(g, n, 1))->rank == 2 && !mpc_attr_bool(g, n, "ta");
    if (one_b && i != 1) return fits_matrix(s);
    if (repeats(s, s->rank - 1) || repeats(s, s->rank - 2)) return false;
    return (unit_axis(s, s->rank - 1) || unit_axis(s, s->rank - 2)) && s->rank <= 2 + MPC_MATMUL_BATCH_DIMS;
}
