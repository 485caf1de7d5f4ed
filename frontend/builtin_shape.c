/* Ops that move elements, and questions about shapes and lists. In a data mapping, axes and shapes are those of one
 * row: `lead` axes in front of them, the batch, stay where they are. */
#include <math.h>
#include <string.h>

#include "frontend/fe_builtins.h"

static int64_t product(const int64_t *dims, uint32_t rank) {
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, dims[i], &n)) return -1;
    return n;
}

/* One -1 stands for what is left. */
static bool infer_dim(int64_t *dims, uint32_t rank, int64_t elements) {
    int64_t known = 1;
    uint32_t open = UINT32_MAX;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0) {
            if (open != UINT32_MAX || dims[i] != -1) return false;
            open = i;
        } else if (__builtin_mul_overflow(known, dims[i], &known)) return false;
    }
    if (open == UINT32_MAX) return known == elements;
    if (known == 0 || elements % known) return false;
    dims[open] = elements / known;
    return true;
}

fe_value fe_fn_reshape(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_tensor(c, 0);
    int64_t dims[MPC_MAX_RANK];
    uint32_t row = fe_lead(e, x);
    dims[0] = e->batch;
    uint32_t n = fe_arg_ints(c, 1, dims + row, MPC_MAX_RANK - row, 1);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    n += row;
    int64_t elements = mpc_type_elements(fe_type(x));
    if (!infer_dim(dims, n, elements)) {
        if (row && c->ast[0] && product(dims, n) >= 0) {
            fe_mapping_mismatch(e, c->ast[0], x, dims, n);
            return FE_POISONED;
        }
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E026", c->at->span, "%lld values can't become %s",
                               (long long)(row && e->batch ? elements / e->batch : elements),
                               fe_dims_text(e, dims + row, n - row));
        fe_label(&r, "%s is %s", fe_arg_text(c, 0), fe_shape_text(e, x));
        fe_send(&r);
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(e, c->at, MPC_OP_reshape, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("shape", dims, n));
    return fe_op_end(&o);
}

fe_value fe_fn_flatten(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    if (c->bad) return FE_POISONED;
    const mpc_type *t = fe_type(x);
    if (t->rank < 2) {
        fe_error(c->e->d, "E027", c->at->span, "flatten keeps the batch axis and joins the others; %s has none to join",
                 fe_shape_text(c->e, x));
        return FE_POISONED;
    }
    int64_t dims[2] = {t->dims[0], product(t->dims + 1, t->rank - 1)};
    if (t->rank == 2) return x;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_reshape, c->name ? c->name : "flatten");
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("shape", dims, 2));
    return fe_op_end(&o);
}

fe_value fe_fn_transpose(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    if (c->bad) return FE_POISONED;
    uint32_t lead = fe_lead(c->e, x), rank = fe_type(x)->rank, own = rank - lead;
    int64_t perm[MPC_MAX_RANK];
    bool seen[MPC_MAX_RANK] = {false}, ok = true;
    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    if (fe_given(c, 1)) {
        uint32_t n = fe_arg_ints(c, 1, perm + lead, MPC_MAX_RANK - lead, 0);
        if (c->bad) return FE_POISONED;
        ok = n == own;
        for (uint32_t i = lead; ok && i < rank; i++) perm[i] += perm[i] < 0 ? rank : lead;
    } else if (own >= 2) {
        perm[rank - 1] = rank - 2;
        perm[rank - 2] = rank - 1;
    } else ok = false;
    for (uint32_t i = 0; ok && i < rank; i++) {
        ok = perm[i] >= 0 && perm[i] < rank && !seen[perm[i]];
        if (ok) seen[perm[i]] = true;
    }
    if (!ok) {
        fe_error(c->e->d, "E027", c->at->span, "transpose needs each axis of %s once", fe_shape_text(c->e, x));
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_transpose, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("perm", perm, rank));
    fe_value v = fe_op_end(&o);
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(c->e, v.t) : NULL;
    if (!t) return FE_POISONED;
    for (uint32_t i = 0; i < rank; i++) t->names[i] = x.t->names[perm[i]];
    v.t = t;
    return v;
}

static fe_value split_sizes(fe_call *c, fe_value x, uint32_t axis, const int64_t *sizes, uint32_t n) {
    fe_value v = fe_list_value(c->e, FE_TUPLE, n);
    int64_t at = 0;
    for (uint32_t i = 0; v.kind == FE_TUPLE && i < n; at += sizes[i++])
        v.items[i] = fe_slice(c->e, c->at, x, axis, at, at + sizes[i]);
    return v;
}

enum { MAX_PARTS = 64 };

fe_value fe_fn_split(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    const mpc_type *t = fe_arg_type(c, 0);
    uint32_t axis = fe_arg_axis(c, 3, t->rank, -1);
    if (c->bad) return FE_POISONED;
    int64_t sizes[MAX_PARTS], size = t->dims[axis], parts = fe_arg_int(c, 1, 0), total = 0;
    uint32_t n = 0;
    if (fe_given(c, 1) == fe_given(c, 2)) {
        fe_error(c->e->d, "E012", c->at->span, "split needs parts = n for equal parts, or sizes = [a, b]");
        return FE_POISONED;
    }
    if (fe_given(c, 2)) n = fe_arg_ints(c, 2, sizes, MAX_PARTS, 0);
    else if (parts > 0 && parts <= MAX_PARTS && size % parts == 0)
        for (; n < parts; n++) sizes[n] = size / parts;
    for (uint32_t i = 0; !c->bad && i < n; i++) total = sizes[i] > 0 && sizes[i] <= size ? total + sizes[i] : size + 1;
    if (!c->bad && total != size)
        fe_error(c->e->d, "E022", c->at->span, "an axis of %lld can't be split so (parts are equal, at most %d)",
                 (long long)size, MAX_PARTS);
    return c->bad || total != size ? FE_POISONED : split_sizes(c, x, axis, sizes, n);
}

fe_value fe_fn_unstack(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_tensor(c, 0);
    mpc_type t = *fe_arg_type(c, 0);
    uint32_t axis = fe_arg_axis(c, 1, t.rank, 0);
    if (c->bad) return FE_POISONED;
    if (t.dims[axis] > 1024) {
        fe_error(e->d, "E017", c->at->span, "unstack would give %lld values; it stops at 1024",
                 (long long)t.dims[axis]);
        return FE_POISONED;
    }
    fe_value v = fe_list_value(e, FE_TUPLE, (uint32_t)t.dims[axis]);
    int64_t dims[MPC_MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i != axis) dims[rank++] = t.dims[i];
    for (uint32_t i = 0; v.kind == FE_TUPLE && i < v.count; i++)
        v.items[i] = fe_reshape(e, c->at, fe_slice(e, c->at, x, axis, i, i + 1), rank, dims);
    return v;
}

/* The list of argument 0: tensors only, not empty. */
static bool tensor_list(fe_call *c) {
    fe_value list = c->v[0];
    bool ok = (list.kind == FE_LIST || list.kind == FE_TUPLE) && list.count > 0;
    for (uint32_t i = 0; ok && i < list.count; i++) ok = list.items[i].kind == FE_TENSOR;
    if (!ok)
        fe_error(c->e->d, "E014", fe_arg_span(c, 0), "%s joins a list of tensors: %s([a, b], axis = -1)", c->fn->name,
                 c->fn->name);
    return ok;
}

/* In a mapping: all become rows when one is. The axes that the text doesn't see. */
static uint32_t lift_list(fe_call *c, fe_value list) {
    uint32_t lead = 0;
    for (uint32_t i = 0; i < list.count; i++) lead = lead || fe_lead(c->e, list.items[i]);
    for (uint32_t i = 0; lead && i < list.count; i++) {
        list.items[i] = fe_lift(c->e, c->at, list.items[i]);
        c->bad = c->bad || list.items[i].kind != FE_TENSOR;
    }
    return lead;
}

static fe_value join(fe_call *c, const fe_value *items, uint32_t count, uint32_t axis, const char *name) {
    fe_elab *e = c->e;
    bool floats = false, same = true;
    for (uint32_t i = 0; i < count; i++) {
        floats = floats || mpc_format_is_float(fe_type(items[i])->format);
        same = same && fe_type(items[i])->format == fe_type(items[0])->format;
    }
    fe_value *in = fe_alloc(e, count * sizeof *in);
    if (!in) return FE_POISONED;
    for (uint32_t i = 0; i < count; i++) in[i] = floats && !same ? fe_to_float(e, c->at, items[i]) : items[i];
    fe_op o = fe_op_begin(e, c->at, MPC_OP_concat, name);
    o.many = in;
    o.in_count = count;
    fe_op_attr(&o, MPC_A_INT("axis", axis));
    return fe_op_end(&o);
}

fe_value fe_fn_concat(fe_call *c) {
    if (!tensor_list(c)) return FE_POISONED;
    fe_value list = c->v[0];
    uint32_t lead = lift_list(c, list);
    if (c->bad) return FE_POISONED;
    uint32_t rank = fe_type(list.items[0])->rank;
    int64_t axis = fe_arg_int(c, 1, -1);
    axis += axis < 0 ? rank : lead;
    if (!c->bad && (axis < lead || axis >= rank)) {
        fe_error(c->e->d, "E027", fe_arg_span(c, 1), "the values have no such axis: %s",
                 fe_shape_text(c->e, list.items[0]));
        return FE_POISONED;
    }
    return c->bad ? FE_POISONED : join(c, list.items, list.count, (uint32_t)axis, c->name);
}

fe_value fe_fn_stack(fe_call *c) {
    if (!tensor_list(c)) return FE_POISONED;
    fe_elab *e = c->e;
    fe_value list = c->v[0];
    uint32_t lead = lift_list(c, list);
    if (c->bad) return FE_POISONED;
    mpc_type t = *fe_type(list.items[0]);
    int64_t axis = fe_arg_int(c, 1, 0), dims[MPC_MAX_RANK];
    axis += axis < 0 ? t.rank + 1 : lead;
    if (c->bad || axis < lead || axis > t.rank || t.rank == MPC_MAX_RANK) {
        if (!c->bad) fe_error(e->d, "E027", fe_arg_span(c, 1), "the result has no such axis");
        return FE_POISONED;
    }
    for (uint32_t i = 0, k = 0; i <= t.rank; i++) dims[i] = i == (uint32_t)axis ? 1 : t.dims[k++];
    fe_value *items = fe_alloc(e, list.count * sizeof *items);
    for (uint32_t i = 0; items && i < list.count; i++) {
        const mpc_type *other = fe_type(list.items[i]);
        if (other->rank != t.rank || (t.rank && memcmp(other->dims, t.dims, t.rank * sizeof *dims) != 0)) {
            fe_error(e->d, "E020", fe_arg_span(c, 0), "stack needs values of one shape; here are %s and %s",
                     fe_shape_text(e, list.items[0]), fe_shape_text(e, list.items[i]));
            return FE_POISONED;
        }
        items[i] = fe_reshape(e, c->at, list.items[i], t.rank + 1, dims);
        if (items[i].kind != FE_TENSOR) return FE_POISONED;
    }
    return items ? join(c, items, list.count, (uint32_t)axis, c->name ? c->name : "stack") : FE_POISONED;
}

fe_value fe_fn_expand(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    int64_t dims[MPC_MAX_RANK] = {c->e->batch};
    uint32_t lead = fe_lead(c->e, x), n = fe_arg_ints(c, 1, dims + lead, MPC_MAX_RANK - lead, 1);
    if (c->bad) return FE_POISONED;
    n += lead;
    x = fe_widen_row(c->e, c->at, x, n);
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_expand, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("shape", dims, n));
    return fe_op_end(&o);
}

fe_value fe_fn_gather(fe_call *c) {
    fe_arg_tensor(c, 0);
    fe_arg_tensor(c, 1);
    fe_lift_arguments(c, 0, 1);
    fe_value x = c->v[0], index = c->v[1];
    uint32_t axis = fe_arg_axis(c, 2, fe_arg_type(c, 0)->rank, -1);
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_gather, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, index);
    fe_op_attr(&o, MPC_A_INT("axis", axis));
    return fe_op_end(&o);
}

/* Positions that were counted in floats, such as running sums of a mask, are ids too. */
fe_value fe_fn_one_hot(fe_call *c) {
    fe_value ids = fe_arg_tensor(c, 0);
    int64_t depth = fe_arg_int(c, 1, 1);
    if (c->bad) return FE_POISONED;
    if (mpc_format_is_float(fe_type(ids)->format)) ids = fe_cast(c->e, c->at, ids, MPC_FMT_i32, "user");
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_one_hot, c->name);
    fe_op_in(&o, ids);
    fe_op_attr(&o, MPC_A_INT("depth", depth));
    return fe_op_end(&o);
}

fe_value fe_fn_filled(fe_call *c) {
    int64_t dims[MPC_MAX_RANK];
    uint32_t n = fe_arg_ints(c, 0, dims, MPC_MAX_RANK, 1);
    if (c->bad) return FE_POISONED;
    mpc_type_id type = mpc_type_make(c->e->ctx, MPC_FMT_f32, n, dims);
    return fe_typed(c->e, c->at, MPC_OP_const, type, strcmp(c->fn->name, "ones") == 0, c->name ? c->name : c->fn->name);
}

/* range(n), or range(start, stop): half-open, as everywhere. */
fe_value fe_fn_range(fe_call *c) {
    fe_elab *e = c->e;
    int64_t start = fe_given(c, 1) ? fe_arg_int(c, 0, 0) : 0, stop = fe_arg_int(c, fe_given(c, 1) ? 1 : 0, 1), n;
    if (c->bad || !fe_want_builder(e, c->at)) return FE_POISONED;
    bool fits = !__builtin_sub_overflow(stop, start, &n) && start >= INT32_MIN && stop - 1 <= INT32_MAX;
    if (!fits || n < 1 || n > INT32_MAX) {
        fe_error(e->d, "E017", fe_arg_span(c, 0),
                 fe_given(c, 1) ? "range(start, stop) needs 32-bit integers and a stop above the start"
                                : "range needs a count from 1 to 2147483647");
        return FE_POISONED;
    }
    const char *name = c->name ? c->name : "range";
    mpc_type_id type = mpc_type_make(e->ctx, MPC_FMT_i32, 1, &n);
    fe_value v = fe_typed(e, c->at, MPC_OP_range, type, 0, start ? "range" : name);
    return start && v.kind == FE_TENSOR ? fe_binary(e, c->at, "+", v, fe_int(start), name) : v;
}

fe_value fe_fn_shape(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    return c->bad ? FE_POISONED : fe_shape_list(c->e, x.t);
}

fe_value fe_fn_len(fe_call *c) {
    if (c->v[0].kind == FE_LIST || c->v[0].kind == FE_TUPLE) return fe_int(c->v[0].count);
    fe_error(c->e->d, "E014", fe_arg_span(c, 0), "len counts the elements of a list; a tensor's sizes are x.shape");
    return FE_POISONED;
}

fe_value fe_fn_int(fe_call *c) {
    if (c->v[0].kind == FE_TENSOR) return fe_cast(c->e, c->at, c->v[0], MPC_FMT_i32, "user");
    double x = fe_arg_float(c, 0, 0);
    if (c->bad) return FE_POISONED;
    if (c->v[0].kind == FE_INT) return c->v[0];
    if (x > -9e18 && x < 9e18) return fe_int((int64_t)x);
    fe_error(c->e->d, "E017", c->at->span, "this doesn't fit in a 64-bit integer");
    return FE_POISONED;
}

fe_value fe_fn_float(fe_call *c) {
    if (c->v[0].kind == FE_TENSOR) return fe_to_float(c->e, c->at, c->v[0]);
    double x = fe_arg_float(c, 0, 0);
    return c->bad ? FE_POISONED : fe_float(x);
}
