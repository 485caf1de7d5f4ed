/* Indexing of tensors and lists as in Python: ranges are half-open, negative numbers count from the end, an index drops
 * its axis. Unlike Python, a range that reaches past the end is an error. */
#include <string.h>

#include "frontend/fe_elab.h"

static bool bound(fe_elab *e, const fe_ast *at, int64_t fallback, int64_t size, int64_t *out) {
    *out = fallback;
    if (!at) return true;
    fe_value v = fe_eval(e, at, NULL);
    if (v.kind == FE_POISON) return false;
    if (v.kind != FE_INT) {
        fe_error(e->d, "E014", at->span, "an index is a constant integer, this is %s", fe_kind_name(v.kind));
        return false;
    }
    *out = v.i < 0 && v.i >= -size ? v.i + size : v.i;
    return true;
}

static bool range_of(fe_elab *e, const fe_ast *sub, int64_t size, int64_t *start, int64_t *stop) {
    bool index = sub->integer == FE_SUB_INDEX;
    if (!bound(e, sub->kid[0], 0, size, start) || !bound(e, sub->kid[1], size, size, stop)) return false;
    if (index) *stop = *start + (*start < INT64_MAX);
    if (*start >= 0 && *start <= *stop && *stop <= size && (!index || *start < size)) return true;
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E027", sub->span,
                 index ? "there is no element %lld here" : "this range doesn't lie inside the axis", (long long)*start);
    fe_label(&r, "the axis has %lld element%s, 0 to %lld", (long long)size, size == 1 ? "" : "s", (long long)size - 1);
    fe_send(&r);
    return false;
}

static fe_value index_list(fe_elab *e, const fe_ast *at, fe_value list) {
    const fe_ast *sub = at->list.first;
    int64_t start = 0, stop = 0;
    if (at->list.count != 1 || sub->integer == FE_SUB_ELLIPSIS) {
        fe_error(e->d, "E027", at->span, "a list has one axis");
        return FE_POISONED;
    }
    if (!range_of(e, sub, list.count, &start, &stop)) return FE_POISONED;
    if (sub->integer == FE_SUB_INDEX) return list.items[start];
    fe_value v = fe_list_value(e, list.kind, (uint32_t)(stop - start));
    if (v.kind == FE_POISON || !v.count) return v;
    memcpy(v.items, list.items + start, v.count * sizeof *v.items);
    return v;
}

typedef struct picked {
    int64_t start[MPC_MAX_RANK], stop[MPC_MAX_RANK], dims[MPC_MAX_RANK];
    uint32_t axes[MPC_MAX_RANK]; /* kept */
    uint32_t rank;               /* of the result */
    bool cuts;
} picked;

static bool pick_axis(fe_elab *e, const fe_ast *sub, const mpc_type *t, uint32_t axis, picked *p) {
    p->start[axis] = 0;
    p->stop[axis] = t->dims[axis];
    if (sub && !range_of(e, sub, t->dims[axis], &p->start[axis], &p->stop[axis])) return false;
    p->cuts = p->cuts || p->start[axis] != 0 || p->stop[axis] != t->dims[axis];
    if (sub && sub->integer == FE_SUB_INDEX) return true;
    p->dims[p->rank] = p->stop[axis] - p->start[axis];
    p->axes[p->rank++] = axis;
    return true;
}

static bool pick(fe_elab *e, const fe_ast *at, const mpc_type *t, uint32_t lead, picked *p) {
    uint32_t named = 0, ellipses = 0;
    for (const fe_ast *s = at->list.first; s; s = s->next) *(s->integer == FE_SUB_ELLIPSIS ? &ellipses : &named) += 1;
    uint32_t rank = t->rank - lead;
    if (named > rank || ellipses > 1) {
        fe_error(e->d, "E027", at->span,
                 ellipses > 1 ? "`...` may stand once" : "this has %u indices, the value %u axes", named, rank);
        return false;
    }
    uint32_t axis = 0;
    while (axis < lead)
        if (!pick_axis(e, NULL, t, axis++, p)) return false;
    for (const fe_ast *s = at->list.first; s; s = s->next) {
        uint32_t skip = s->integer == FE_SUB_ELLIPSIS ? rank - named : 0;
        for (uint32_t i = 0; i < skip; i++)
            if (!pick_axis(e, NULL, t, axis++, p)) return false;
        if (s->integer != FE_SUB_ELLIPSIS && !pick_axis(e, s, t, axis++, p)) return false;
    }
    while (axis < t->rank)
        if (!pick_axis(e, NULL, t, axis++, p)) return false;
    return true;
}

static fe_value index_tensor(fe_elab *e, const fe_ast *at, fe_value x, const char *name) {
    const mpc_type *t = fe_type(x);
    picked p = {0};
    if (!pick(e, at, t, fe_lead(e, x), &p)) return FE_POISONED;
    fe_value v = x;
    if (p.cuts) {
        fe_op o = fe_op_begin(e, at, MPC_OP_slice, p.rank == t->rank ? name : NULL);
        fe_op_in(&o, x);
        fe_op_attr(&o, MPC_A_INTS("start", p.start, t->rank));
        fe_op_attr(&o, MPC_A_INTS("stop", p.stop, t->rank));
        v = fe_op_end(&o);
    }
    if (v.kind != FE_TENSOR || p.rank == t->rank) return v;
    fe_op o = fe_op_begin(e, at, MPC_OP_reshape, name);
    fe_op_in(&o, v);
    fe_op_attr(&o, MPC_A_INTS("shape", p.dims, p.rank));
    v = fe_op_end(&o);
    fe_tensor *copy = v.kind == FE_TENSOR ? fe_tensor_copy(e, v.t) : NULL;
    if (!copy) return FE_POISONED;
    for (uint32_t i = 0; i < p.rank; i++) copy->names[i] = p.dims[i] == t->dims[p.axes[i]] ? x.t->names[p.axes[i]] : 0;
    v.t = copy;
    return v;
}

fe_value fe_eval_index(fe_elab *e, const fe_ast *at, const char *name) {
    if (e->mapping && fe_is_field_name(e, at)) return fe_eval_field(e, at);
    fe_value v = fe_eval(e, at->kid[0], NULL);
    if (v.kind == FE_POISON) return v;
    if (v.kind == FE_LIST || v.kind == FE_TUPLE) return index_list(e, at, v);
    if (v.kind == FE_TENSOR) return index_tensor(e, at, v, name);
    fe_error(e->d, "E014", at->span, "%s can't be indexed", fe_kind_name(v.kind));
    return FE_POISONED;
}
