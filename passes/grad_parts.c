/* Puts the contributions to a gradient together. The common case of parts is one projection that is sliced into
 * queries, keys and values: three tensors of zeros and two sums, if each part were padded by itself; one concatenation
 * here. */
#include "passes/grad_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 512 };

static mpc_type type_of(const mpc_rewrite *rw, mpc_value_id value) { return *mpc_builder_type(rw->b, value); }

static void name_sum(mpc_rewrite *rw, const char *format, mpc_value_id value) {
    char name[NAME_SIZE];
    snprintf(name, sizeof name, format, mpc_value_name(mpc_builder_graph(rw->b), value));
    mpc_builder_set_name(rw->b, name);
}

/* The only axis along which a part is shorter than the value; -1: none or several. */
static int split_axis(const mpc_type *part, const mpc_type *whole) {
    int axis = -1;
    for (uint32_t i = 0; i < whole->rank; i++) {
        if (part->dims[i] == whole->dims[i]) continue;
        if (axis >= 0) return -1;
        axis = (int)i;
    }
    return axis;
}

typedef struct piece { /* sorted by where it begins */
    int64_t begin, end;
    mpc_value_id gradient;
} piece;

static int compare_pieces(const void *a, const void *b) {
    const piece *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool read_piece(const mpc_rewrite *rw, const mpc_contribution *c, const mpc_type *whole, int axis, piece *out) {
    mpc_type t = type_of(rw, c->gradient);
    if (!c->is_part || split_axis(&t, whole) != axis) return false;
    *out = (piece){c->start[axis], c->start[axis] + t.dims[axis], c->gradient};
    return true;
}

static bool tiles(const piece *pieces, uint32_t count, int64_t extent) {
    for (uint32_t i = 0; i < count; i++)
        if (pieces[i].begin != (i == 0 ? 0 : pieces[i - 1].end)) return false;
    return pieces[count - 1].end == extent;
}

/* Pieces without gap or overlap, in order; NULL: they aren't. */
static piece *read_tiling(mpc_rewrite *rw, const mpc_type *whole, const mpc_contribution *first, uint32_t count,
                          int *axis) {
    mpc_type t = type_of(rw, first->gradient);
    *axis = first->is_part ? split_axis(&t, whole) : -1;
    piece *pieces = *axis >= 0 ? mpc_rewrite_scratch(rw, count, sizeof *pieces) : NULL;
    if (pieces == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++, first = first->next)
        if (!read_piece(rw, first, whole, *axis, &pieces[i])) return NULL;
    qsort(pieces, count, sizeof *pieces, compare_pieces);
    return tiles(pieces, count, whole->dims[*axis]) ? pieces : NULL;
}

static mpc_value_id join(mpc_rewrite *rw, mpc_value_id value, const piece *pieces, uint32_t count, int axis) {
    mpc_value_id *operands = mpc_rewrite_scratch(rw, count, sizeof *operands);
    mpc_attr_arg attr = MPC_A_INT("axis", axis);
    if (operands == NULL) return MPC_NONE;
    for (uint32_t i = 0; i < count; i++) operands[i] = pieces[i].gradient;
    name_sum(rw, "d.%s", value);
    return mpc_build(rw->b, MPC_OP_concat, operands, count, &attr, 1);
}

/* A part becomes a gradient of the whole value. */
static void pad_part(mpc_rewrite *rw, mpc_value_id value, mpc_contribution *c, bool alone) {
    mpc_type whole = type_of(rw, value), part = type_of(rw, c->gradient);
    int64_t after[MPC_MAX_RANK];
    char name[NAME_SIZE];
    const mpc_graph *g = mpc_builder_graph(rw->b);
    for (uint32_t i = 0; i < whole.rank; i++) after[i] = whole.dims[i] - c->start[i] - part.dims[i];
    mpc_attr_arg attrs[2] = {MPC_A_INTS("before", c->start, whole.rank), MPC_A_INTS("after", after, whole.rank)};
    snprintf(name, sizeof name, alone ? "d.%s" : "d.%s.via.%s", mpc_value_name(g, value), mpc_value_name(g, c->via));
    mpc_builder_set_name(rw->b, name);
    c->gradient = mpc_build(rw->b, MPC_OP_pad, &c->gradient, 1, attrs, 2);
    c->is_part = false;
}

static mpc_value_id add_up(mpc_rewrite *rw, mpc_value_id value, const mpc_contribution *c, mpc_format prec) {
    mpc_attr_arg attr = MPC_A_FORMAT("prec", prec);
    mpc_value_id sum = c->gradient;
    for (c = c->next; c != NULL && sum != MPC_NONE; c = c->next) {
        name_sum(rw, c->next != NULL ? "d.%s.sum" : "d.%s", value);
        sum = mpc_build(rw->b, MPC_OP_add, (mpc_value_id[]){sum, c->gradient}, 2, &attr, prec != MPC_FMT_none ? 1 : 0);
    }
    return sum;
}

mpc_value_id mpc_grad_gather_contributions(mpc_rewrite *rw, mpc_value_id value, mpc_contribution *first,
                                           mpc_format prec, bool *selected) {
    uint32_t count = 0;
    int axis;
    if (first == NULL || mpc_builder_failed(rw->b)) return MPC_NONE;
    for (const mpc_contribution *c = first; c != NULL; c = c->next) count++;
    mpc_type whole = type_of(rw, value);
    const piece *pieces = read_tiling(rw, &whole, first, count, &axis);
    if (pieces != NULL) return join(rw, value, pieces, count, axis);
    for (mpc_contribution *c = first; c != NULL && !mpc_builder_failed(rw->b); c = c->next) {
        if (!c->is_part) continue;
        pad_part(rw, value, c, count == 1);
        *selected = true;
    }
    return mpc_builder_failed(rw->b) ? MPC_NONE : add_up(rw, value, first, prec);
}
