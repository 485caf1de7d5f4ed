/* Ops that move elements and are made of views: padding, rolling, flipping, enlarging images. Nothing is computed, so
 * formats and values stay what they were. Axes are those that the text sees. */
#include "frontend/fe_builtins.h"

static fe_value transpose(fe_call *c, fe_value x, const int64_t *perm) {
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_transpose, NULL);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("perm", perm, fe_type(x)->rank));
    return fe_op_end(&o);
}

/* Counts of argument i for `count` axes; zeros when it isn't given. */
static void read_counts(fe_call *c, uint32_t i, int64_t *out, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) out[k] = 0;
    if (!fe_given(c, i) || c->bad) return;
    uint32_t n = fe_arg_ints(c, i, out, MPC_MAX_RANK, 1);
    bool fits = c->bad || n == count;
    for (uint32_t k = 0; fits && !c->bad && k < n; k++) fits = out[k] >= 0 && out[k] <= INT32_MAX;
    if (fits) return;
    fe_error(c->e->d, "E017", fe_arg_span(c, i), "pad needs a count, 0 or more, for each of %u ax%cs here", count,
             count == 1 ? 'i' : 'e');
    c->bad = true;
}

/* Which axes argument i names, in the order given; all when it isn't given. */
static uint32_t read_axes(fe_call *c, uint32_t i, fe_value x, int64_t *axes) {
    uint32_t lead = fe_lead(c->e, x), rank = fe_type(x)->rank - lead;
    for (uint32_t k = 0; k < rank; k++) axes[k] = k;
    uint32_t n = fe_given(c, i) ? fe_arg_ints(c, i, axes, MPC_MAX_RANK, 1) : rank;
    unsigned seen = 0;
    for (uint32_t k = 0; !c->bad && k < n; k++) {
        axes[k] += axes[k] < 0 ? rank : 0;
        bool ok = axes[k] >= 0 && axes[k] < rank && !(seen >> axes[k] & 1);
        if (!ok) {
            fe_error(c->e->d, "E027", fe_arg_span(c, i), "%s has no such axis, or it stands here twice",
                     fe_shape_text(c->e, x));
            c->bad = true;
            return 0;
        }
        seen |= 1u << axes[k];
        axes[k] += lead;
    }
    return c->bad ? 0 : n;
}

fe_value fe_fn_pad(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    double value = fe_arg_float(c, 4, 0);
    if (c->bad) return FE_POISONED;
    int64_t axes[MPC_MAX_RANK], low[MPC_MAX_RANK], high[MPC_MAX_RANK], before[MPC_MAX_RANK] = {0},
                                                                       after[MPC_MAX_RANK] = {0};
    uint32_t count = read_axes(c, 3, x, axes);
    read_counts(c, 1, low, count);
    read_counts(c, 2, high, count);
    if (c->bad) return FE_POISONED;
    if (!fe_given(c, 1) && !fe_given(c, 2)) {
        fe_error(c->e->d, "E012", c->at->span, "pad needs `before`, `after` or both: pad(%s, axis = 1, before = 1)",
                 fe_arg_text(c, 0));
        return FE_POISONED;
    }
    for (uint32_t k = 0; k < count; k++) {
        before[axes[k]] = low[k];
        after[axes[k]] = high[k];
    }
    uint32_t rank = fe_type(x)->rank;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_pad, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("before", before, rank));
    fe_op_attr(&o, MPC_A_INTS("after", after, rank));
    if (fe_given(c, 4)) fe_op_attr(&o, MPC_A_FLOAT("value", value));
    return fe_op_end(&o);
}

/* Elements move to higher indices by `shift`; those that leave come in again on the other side. */
fe_value fe_fn_roll(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_tensor(c, 0);
    int64_t shift = fe_arg_int(c, 1, 0);
    uint32_t axis = fe_arg_axis(c, 2, fe_arg_type(c, 0)->rank, -1);
    if (c->bad) return FE_POISONED;
    int64_t n = fe_type(x)->dims[axis];
    shift = n > 0 ? (shift % n + n) % n : 0;
    if (shift == 0) return x;
    fe_value parts[2] = {fe_slice(e, c->at, x, axis, n - shift, n), fe_slice(e, c->at, x, axis, 0, n - shift)};
    fe_op o = fe_op_begin(e, c->at, MPC_OP_concat, c->name ? c->name : "roll");
    o.many = parts;
    o.in_count = 2;
    fe_op_attr(&o, MPC_A_INT("axis", axis));
    return parts[0].kind == FE_TENSOR && parts[1].kind == FE_TENSOR ? fe_op_end(&o) : FE_POISONED;
}

/* n-1, ..., 0 */
static fe_value descending(fe_call *c, int64_t n) {
    fe_value up = fe_typed(c->e, c->at, MPC_OP_range, mpc_type_make(c->e->ctx, MPC_FMT_i32, 1, &n), 0, "range");
    return up.kind == FE_TENSOR ? fe_binary(c->e, c->at, "-", fe_int(n - 1), up, NULL) : FE_POISONED;
}

/* The axis first, as rows of a table that is read backwards. */
fe_value fe_fn_flip(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    uint32_t axis = fe_arg_axis(c, 1, fe_arg_type(c, 0)->rank, -1);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    mpc_type t = *fe_type(x);
    int64_t perm[MPC_MAX_RANK], back[MPC_MAX_RANK], moved[MPC_MAX_RANK], table[2] = {t.dims[axis], 1};
    for (uint32_t i = 0, k = 1; i < t.rank; i++) {
        perm[i == axis ? 0 : k++] = i;
        if (i != axis) table[1] *= t.dims[i];
    }
    for (uint32_t i = 0; i < t.rank; i++) {
        moved[i] = t.dims[perm[i]];
        back[perm[i]] = i;
    }
    fe_value rows = axis ? transpose(c, x, perm) : x;
    if (rows.kind != FE_TENSOR) return FE_POISONED;
    rows = fe_reshape(e, c->at, rows, 2, table);
    fe_value ids = descending(c, table[0]);
    if (rows.kind != FE_TENSOR || ids.kind != FE_TENSOR) return FE_POISONED;
    fe_value v = fe_emit2(e, c->at, MPC_OP_embedding, rows, ids, NULL);
    if (v.kind != FE_TENSOR) return FE_POISONED;
    v = fe_reshape(e, c->at, v, t.rank, moved);
    if (axis && v.kind == FE_TENSOR) v = transpose(c, v, back);
    return fe_lead(e, x) ? fe_mark_row(e, v) : v;
}

/* Nearest neighbour: each pixel becomes a block of equal ones. */
fe_value fe_fn_upsample(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_tensor(c, 0);
    int64_t factor[2] = {1, 1};
    fe_arg_ints(c, 1, factor, 2, 2);
    if (c->bad) return FE_POISONED;
    mpc_type t = *fe_type(x);
    if (t.rank != 4 || factor[0] < 1 || factor[1] < 1 || factor[0] > INT32_MAX || factor[1] > INT32_MAX) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E027", c->at->span,
                               "upsample takes images [n, h, w, c] and a factor of 1 or more, or [down, across]");
        fe_second(&r, fe_arg_span(c, 0), "%s", fe_shape_text(e, x));
        fe_send(&r);
        return FE_POISONED;
    }
    int64_t n = t.dims[0], h = t.dims[1], w = t.dims[2], k = t.dims[3];
    fe_value v = fe_reshape(e, c->at, x, 6, (const int64_t[]){n, h, 1, w, 1, k});
    if (v.kind == FE_TENSOR) v = fe_expand(e, c->at, v, 6, (const int64_t[]){n, h, factor[0], w, factor[1], k});
    if (v.kind != FE_TENSOR) return FE_POISONED;
    fe_op o = fe_op_begin(e, c->at, MPC_OP_reshape, c->name ? c->name : "upsample");
    fe_op_in(&o, v);
    fe_op_attr(&o, MPC_A_INTS("shape", ((const int64_t[]){n, h * factor[0], w * factor[1], k}), 4));
    return fe_op_end(&o);
}
