/* einsum, rearrange and reduce. All three become ordinary ops: an operand is taken apart by reshape, moved by transpose
 * and put together by reshape; einsum multiplies two operands at a time, by matmul where an axis is contracted. So
 * autodiff, precision and every device know nothing of the notation. */
#include <string.h>

#include "frontend/fe_axes.h"
#include "frontend/fe_builtins.h"

typedef struct arguments {
    fe_pattern *p;
    fe_value v[FE_MAX_TERMS];
    const fe_ast *at[FE_MAX_TERMS];
} arguments;

static bool read_arguments(fe_call *c, arguments *a) {
    a->p = fe_parse_pattern(c);
    return a->p && fe_pattern_arguments(c, a->p, a->v, a->at) && fe_pattern_sizes(c, a->p, a->v, a->at);
}

/* --- rearrange and reduce --- */

static void report_lost(fe_call *c, const fe_pattern *p, uint32_t axis) {
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E028", p->axes[axis].span, "the axis `%s` is not in the result",
                           p->axes[axis].word);
    fe_help(&r, "rearrange only moves values; reduce(\"...\", x, op = mean) takes an axis away");
    fe_send(&r);
}

fe_value fe_fn_rearrange(fe_call *c) {
    arguments a = {0};
    if (!read_arguments(c, &a)) return FE_POISONED;
    fe_pattern *p = a.p;
    for (uint32_t i = 0; i < p->in[0].axis_count; i++) {
        if (fe_find_axis(&p->out, p->in[0].axes[i]) != UINT32_MAX) continue;
        report_lost(c, p, p->in[0].axes[i]);
        return FE_POISONED;
    }
    return fe_axes_join(c, p, fe_axes_split(c, p, 0, a.v[0]), c->name);
}

/* Takes the axes away that `gone` names. */
static fe_labelled take_away(fe_call *c, fe_labelled x, mpc_op_id op, const bool *gone, const char *name) {
    int64_t axes[MPC_MAX_RANK];
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < x.count; i++) {
        if (gone[x.axes[i]]) axes[count++] = i;
        else x.axes[kept++] = x.axes[i];
    }
    if (!count || x.v.kind != FE_TENSOR) return x;
    x.count = kept;
    fe_op o = fe_op_begin(c->e, c->at, op, name);
    fe_op_in(&o, x.v);
    fe_op_attr(&o, MPC_A_INTS("axes", axes, count));
    x.v = fe_op_end(&o);
    return x;
}

static bool reduction(fe_call *c, mpc_op_id *op) {
    static const struct {
        const char *name;
        mpc_op_id op;
    } rows[] = {{"sum", MPC_OP_sum}, {"mean", MPC_OP_mean}, {"max", MPC_OP_max}, {"min", MPC_OP_min}};
    *op = MPC_OP_sum;
    if (!fe_given(c, 2)) return true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (c->v[2].kind != FE_STRING || strcmp(rows[i].name, c->v[2].s) != 0) continue;
        *op = rows[i].op;
        return true;
    }
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E014", fe_arg_span(c, 2), "reduce can't be done with this");
    fe_help(&r, "op = sum, mean, max or min");
    fe_send(&r);
    return false;
}

fe_value fe_fn_reduce_axes(fe_call *c) {
    arguments a = {0};
    mpc_op_id op;
    if (!reduction(c, &op) || !read_arguments(c, &a)) return FE_POISONED;
    fe_pattern *p = a.p;
    bool gone[FE_MAX_AXES] = {false}, floats = op == MPC_OP_sum || op == MPC_OP_mean;
    for (uint32_t i = 0; i < p->in[0].axis_count; i++)
        gone[p->in[0].axes[i]] = fe_find_axis(&p->out, p->in[0].axes[i]) == UINT32_MAX;
    fe_value x = floats ? fe_to_float(c->e, a.at[0], a.v[0]) : a.v[0];
    if (x.kind != FE_TENSOR) return FE_POISONED;
    fe_labelled whole = fe_axes_split(c, p, 0, x), left = take_away(c, whole, op, gone, c->name);
    return fe_axes_join(c, p, left, left.count == whole.count ? c->name : NULL);
}

/* --- einsum --- */

typedef struct sum_state {
    fe_call *c;
    const fe_pattern *p;
    fe_labelled x[FE_MAX_TERMS]; /* operands still to be multiplied */
    uint32_t count;
} sum_state;

/* Does somebody else need the axis: the result, or an operand other than a and b? */
static bool needed(const sum_state *s, uint32_t axis, uint32_t a, uint32_t b) {
    if (fe_find_axis(&s->p->out, axis) != UINT32_MAX) return true;
    for (uint32_t i = 0; i < s->count; i++)
        if (i != a && i != b && fe_axes_has(&s->x[i], axis)) return true;
    return false;
}

/* Sums over the axes that only operand i has. */
static void sum_own(sum_state *s, uint32_t i, const char *name) {
    bool gone[FE_MAX_AXES] = {false};
    for (uint32_t k = 0; k < s->x[i].count; k++) gone[s->x[i].axes[k]] = !needed(s, s->x[i].axes[k], i, i);
    s->x[i] = take_away(s->c, s->x[i], MPC_OP_sum, gone, name);
}

typedef struct axis_list {
    uint32_t axes[2 * FE_MAX_AXES];
    uint32_t count;
} axis_list;

static void append(axis_list *l, const axis_list *more) {
    memcpy(l->axes + l->count, more->axes, more->count * sizeof *l->axes);
    l->count += more->count;
}

typedef struct product { /* of two operands; lists in the order of the first one that has the axis */
    axis_list batch, left, right, inner;
} product;

/* Axes of a result stand in the pattern's order, so that it needs no transpose at the end. */
static uint32_t rank_of(const sum_state *s, uint32_t axis) {
    uint32_t at = fe_find_axis(&s->p->out, axis);
    return at == UINT32_MAX ? FE_MAX_AXES + axis : at;
}

static void push_sorted(const sum_state *s, axis_list *l, uint32_t axis) {
    uint32_t k = l->count++;
    for (; k > 0 && rank_of(s, l->axes[k - 1]) > rank_of(s, axis); k--) l->axes[k] = l->axes[k - 1];
    l->axes[k] = axis;
}

static product sort_axes(const sum_state *s, uint32_t a, uint32_t b) {
    product r = {0};
    const fe_labelled *x = &s->x[a], *y = &s->x[b];
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t axis = x->axes[i];
        if (!fe_axes_has(y, axis)) push_sorted(s, &r.left, axis);
        else if (needed(s, axis, a, b)) push_sorted(s, &r.batch, axis);
        else r.inner.axes[r.inner.count++] = axis;
    }
    for (uint32_t i = 0; i < y->count; i++)
        if (!fe_axes_has(x, y->axes[i])) push_sorted(s, &r.right, y->axes[i]);
    return r;
}

static int64_t extent(const fe_pattern *p, const axis_list *l) {
    int64_t n = 1;
    for (uint32_t i = 0; i < l->count; i++)
        if (__builtin_mul_overflow(n, p->axes[l->axes[i]].size, &n)) return INT64_MAX;
    return n;
}

static uint32_t list_dims(const fe_pattern *p, const axis_list *l, int64_t *dims) {
    for (uint32_t i = 0; i < l->count; i++) dims[i] = p->axes[l->axes[i]].size;
    return l->count;
}

static fe_value reshape(sum_state *s, fe_value v, uint32_t rank, const int64_t *dims) {
    if (v.kind != FE_TENSOR) return v;
    if (rank <= MPC_MAX_RANK) return fe_reshape(s->c->e, s->c->at, v, rank, dims);
    fe_error(s->c->e->d, "E017", fe_arg_span(s->c, 0), "a product here would have %u axes; tensors have at most %d",
             rank, MPC_MAX_RANK);
    return FE_POISONED;
}

/* No axis is contracted: both with the axes of the product, 1 where they have none. */
static fe_labelled multiply(sum_state *s, const fe_labelled *x, const fe_labelled *y, const char *name) {
    fe_labelled out = {.v = FE_POISONED}, in[2] = {*x, *y};
    axis_list all = {0};
    for (uint32_t i = 0; i < x->count; i++) push_sorted(s, &all, x->axes[i]);
    for (uint32_t i = 0; i < y->count; i++)
        if (!fe_axes_has(x, y->axes[i])) push_sorted(s, &all, y->axes[i]);
    for (int k = 0; k < 2; k++) {
        int64_t dims[2 * FE_MAX_AXES];
        axis_list own = {0};
        for (uint32_t i = 0; i < all.count; i++) {
            bool has = fe_axes_has(&in[k], all.axes[i]);
            dims[i] = has ? s->p->axes[all.axes[i]].size : 1;
            if (has) own.axes[own.count++] = all.axes[i];
        }
        in[k] = fe_axes_order(s->c, in[k], own.axes, NULL);
        in[k].v = reshape(s, in[k].v, all.count, dims);
        if (in[k].v.kind != FE_TENSOR) return out;
    }
    memcpy(out.axes, all.axes, all.count * sizeof *all.axes);
    out.count = all.count;
    out.v = fe_emit2(s->c->e, s->c->at, MPC_OP_mul, in[0].v, in[1].v, name);
    return out;
}

/* One operand as a stack of matrices: batch axes, then rows and columns of one axis each. `flat`: rows keep their axes.
 */
static fe_value as_matrices(sum_state *s, const fe_labelled *x, const axis_list *batch, const axis_list *rows,
                            const axis_list *columns, bool flat) {
    axis_list order = *batch;
    append(&order, rows);
    append(&order, columns);
    int64_t dims[2 * FE_MAX_AXES];
    uint32_t rank = list_dims(s->p, batch, dims);
    if (flat && rows->count) {
        int64_t *first = dims + rank;
        rank += list_dims(s->p, rows, first);
    } else dims[rank++] = extent(s->p, rows);
    dims[rank++] = extent(s->p, columns);
    return reshape(s, fe_axes_order(s->c, *x, order.axes, NULL).v, rank, dims);
}

static fe_labelled contract(sum_state *s, const fe_labelled *x, const fe_labelled *y, const product *r,
                            const char *name) {
    bool flat = r->batch.count == 0;
    fe_value a = as_matrices(s, x, &r->batch, &r->left, &r->inner, flat);
    fe_value b = as_matrices(s, y, &r->batch, &r->inner, &r->right, false);
    fe_labelled out = {.v = FE_POISONED};
    if (a.kind != FE_TENSOR || b.kind != FE_TENSOR) return out;
    axis_list all = r->batch;
    append(&all, &r->left);
    append(&all, &r->right);
    if (all.count > FE_MAX_AXES) return out;
    int64_t dims[2 * FE_MAX_AXES];
    list_dims(s->p, &all, dims);
    memcpy(out.axes, all.axes, all.count * sizeof *all.axes);
    out.count = all.count;
    out.v = reshape(s, fe_emit2(s->c->e, s->c->at, MPC_OP_matmul, a, b, name), all.count, dims);
    return out;
}

/* The right operand's axes come first in the result: b times a needs no transpose. */
static bool stands_first(const sum_state *s, const product *r) {
    return r->left.count && r->right.count && rank_of(s, r->right.axes[0]) < rank_of(s, r->left.axes[0]);
}

/* Puts the product of operands a < b in the place of a. */
static void combine(sum_state *s, uint32_t a, uint32_t b, const char *name) {
    product r = sort_axes(s, a, b);
    bool elementwise = !r.inner.count || (!r.left.count && !r.right.count);
    fe_labelled *x = &s->x[a], *y = &s->x[b], made;
    if (elementwise) made = multiply(s, x, y, r.inner.count ? NULL : name);
    else if (stands_first(s, &r)) {
        product swapped = {.batch = r.batch, .left = r.right, .right = r.left, .inner = r.inner};
        made = contract(s, y, x, &swapped, name);
    } else made = contract(s, x, y, &r, name);
    *x = made;
    memmove(y, y + 1, (s->count - b - 1) * sizeof *y);
    s->count--;
    if (elementwise) sum_own(s, a, name);
}

/* Multiplications that the product of two operands takes. */
static double cost(const sum_state *s, uint32_t a, uint32_t b) {
    double n = 1;
    for (uint32_t i = 0; i < s->x[a].count; i++) n *= (double)s->p->axes[s->x[a].axes[i]].size;
    for (uint32_t i = 0; i < s->x[b].count; i++)
        if (!fe_axes_has(&s->x[a], s->x[b].axes[i])) n *= (double)s->p->axes[s->x[b].axes[i]].size;
    return n;
}

/* The cheapest pair, of equal ones the first. */
static void cheapest(const sum_state *s, uint32_t *a, uint32_t *b) {
    *a = 0;
    *b = 1;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = i + 1; k < s->count; k++)
            if (cost(s, i, k) < cost(s, *a, *b)) *a = i, *b = k;
}

fe_value fe_fn_einsum(fe_call *c) {
    arguments a = {0};
    if (!read_arguments(c, &a)) return FE_POISONED;
    sum_state *s = fe_alloc(c->e, sizeof *s);
    if (!s) return FE_POISONED;
    *s = (sum_state){.c = c, .p = a.p, .count = a.p->in_count};
    for (uint32_t i = 0; i < s->count; i++) {
        fe_value v = fe_to_float(c->e, a.at[i], a.v[i]);
        s->x[i] = fe_axes_split(c, a.p, i, v);
        if (s->x[i].v.kind != FE_TENSOR) return FE_POISONED;
    }
    for (uint32_t i = 0; i < s->count; i++) sum_own(s, i, s->count == 1 ? c->name : NULL);
    while (s->count > 1) {
        uint32_t left, right;
        cheapest(s, &left, &right);
        combine(s, left, right, s->count == 2 ? c->name : NULL);
        if (s->x[left].v.kind != FE_TENSOR) return FE_POISONED;
    }
    bool moved = a.p->in_count == 1 && s->x[0].count == a.p->in[0].axis_count; /* and nothing else has the name */
    return fe_axes_join(c, a.p, s->x[0], moved ? c->name : NULL);
}
