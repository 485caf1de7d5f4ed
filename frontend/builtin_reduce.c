/* Reductions over one axis or several, and what works along one axis: positions of extrema, the k largest, running
 * sums. Axes are counted in the shape that the text sees; in a data mapping the batch in front of them is not among
 * them. */
#include <string.h>

#include "frontend/fe_builtins.h"

/* Axes of argument 1, sorted, without repeats; all of them when it isn't given. */
static uint32_t read_axes(fe_call *c, int64_t *axes) {
    uint32_t lead = fe_lead(c->e, c->v[0]), rank = fe_type(c->v[0])->rank - lead;
    int64_t given[MPC_MAX_RANK];
    uint32_t n = fe_given(c, 1) ? fe_arg_ints(c, 1, given, MPC_MAX_RANK, 1) : rank, count = 0;
    if (c->bad) return 0;
    bool hit[MPC_MAX_RANK] = {false};
    for (uint32_t i = 0; i < n; i++) {
        int64_t axis = fe_given(c, 1) ? given[i] : i;
        if (axis < 0) axis += rank;
        if (axis < 0 || axis >= rank || hit[axis]) {
            fe_error(c->e->d, "E027", fe_arg_span(c, 1),
                     axis >= 0 && axis < rank ? "an axis stands here twice" : "%s has no such axis",
                     fe_shape_text(c->e, c->v[0]));
            c->bad = true;
            return 0;
        }
        hit[axis] = true;
    }
    for (uint32_t i = 0; i < rank; i++)
        if (hit[i]) axes[count++] = i + lead;
    return count;
}

typedef struct reduce_row {
    const char *name;
    mpc_op_id op;
    bool floats; /* integers are converted first */
    bool plain;  /* over no axes it changes nothing */
} reduce_row;

static const reduce_row *find_row(const char *name) {
    static const reduce_row rows[] = {
        {"sum", MPC_OP_sum, true, true},
        {"mean", MPC_OP_mean, true, true},
        {"max", MPC_OP_max, false, true},
        {"min", MPC_OP_min, false, true},
        {"var", MPC_OP_var, true, false},
        {"norm", MPC_OP_norm, true, false},
        {"logsumexp", MPC_OP_logsumexp, true, true},
    };
    size_t row = 0;
    while (strcmp(rows[row].name, name) != 0) row++;
    return &rows[row];
}

static fe_value reduce(fe_call *c, const reduce_row *row, fe_value x, bool unbiased) {
    bool keep = fe_arg_bool(c, 2, false);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    int64_t axes[MPC_MAX_RANK], elements = 1;
    uint32_t count = read_axes(c, axes);
    if (c->bad) return FE_POISONED;
    if (!count && row->plain) return x;
    for (uint32_t i = 0; i < count; i++) elements *= fe_type(x)->dims[axes[i]];
    if (unbiased && elements < 2) {
        fe_error(c->e->d, "E017", c->at->span,
                 "an unbiased variance divides by the number of elements less 1: it needs two, here is %lld",
                 (long long)elements);
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(c->e, c->at, row->op, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("axes", axes, count));
    if (keep) fe_op_attr(&o, MPC_A_BOOL("keep", true));
    if (unbiased) fe_op_attr(&o, MPC_A_BOOL("unbiased", true));
    return fe_op_end(&o);
}

fe_value fe_fn_reduce(fe_call *c) {
    const reduce_row *row = find_row(c->fn->name);
    return reduce(c, row, row->floats ? fe_arg_float_tensor(c, 0) : fe_arg_tensor(c, 0), false);
}

fe_value fe_fn_var(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    return reduce(c, find_row("var"), x, fe_arg_bool(c, 3, false));
}

/* As the largest or smallest of 0 and 1. */
fe_value fe_fn_truth(fe_call *c) {
    static const reduce_row any = {"any", MPC_OP_max, false, true}, all = {"all", MPC_OP_min, false, true};
    fe_value x = fe_arg_tensor(c, 0);
    if (c->bad) return FE_POISONED;
    if (fe_type(x)->format != MPC_FMT_bool) {
        fe_error(c->e->d, "E014", fe_arg_span(c, 0), "`%s` asks truth values: write a comparison, such as x > 0",
                 c->fn->name);
        return FE_POISONED;
    }
    const char *name = c->name ? c->name : c->fn->name;
    c->name = NULL;
    fe_value v =
        reduce(c, strcmp(c->fn->name, "any") == 0 ? &any : &all, fe_cast(c->e, c->at, x, MPC_FMT_i32, "front"), false);
    return v.kind == FE_TENSOR ? fe_binary(c->e, c->at, "!=", v, fe_int(0), name) : FE_POISONED;
}

static fe_op begin_along(fe_call *c, mpc_op_id op, fe_value x, uint32_t axis) {
    fe_op o = fe_op_begin(c->e, c->at, op, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INT("axis", axis));
    return o;
}

fe_value fe_along_axis(fe_call *c, mpc_op_id op, fe_value x, uint32_t argument) {
    uint32_t axis = fe_arg_axis(c, argument, fe_arg_type(c, 0)->rank, -1);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    fe_op o = begin_along(c, op, x, axis);
    return fe_op_end(&o);
}

fe_value fe_fn_argmax(fe_call *c) {
    bool smallest = strcmp(c->fn->name, "argmin") == 0;
    fe_value x = smallest ? fe_arg_float_tensor(c, 0) : fe_arg_tensor(c, 0);
    if (smallest && !c->bad) x = fe_emit1(c->e, c->at, MPC_OP_neg, x, NULL);
    return fe_along_axis(c, MPC_OP_argmax, x, 1);
}

fe_value fe_fn_cumsum(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    uint32_t axis = fe_arg_axis(c, 1, fe_arg_type(c, 0)->rank, -1);
    bool reverse = fe_arg_bool(c, 2, false);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    fe_op o = begin_along(c, MPC_OP_cumsum, x, axis);
    if (reverse) fe_op_attr(&o, MPC_A_BOOL("reverse", true));
    return fe_op_end(&o);
}

enum { MAX_K = 256 }; /* each of them is a pass over the axis */

fe_value fe_fn_top_k(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    const mpc_type *t = fe_arg_type(c, 0);
    uint32_t axis = fe_arg_axis(c, 2, t->rank, -1);
    int64_t k = fe_arg_int(c, 1, 1);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    if (k < 1 || k > t->dims[axis] || k > MAX_K) {
        fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E017", fe_arg_span(c, 1), "top_k can't give %lld values here",
                               (long long)k);
        fe_label(&r, "k goes from 1 to %lld", (long long)(t->dims[axis] < MAX_K ? t->dims[axis] : MAX_K));
        fe_second(&r, fe_arg_span(c, 0), "%s", fe_shape_text(c->e, x));
        fe_send(&r);
        return FE_POISONED;
    }
    fe_op o = begin_along(c, MPC_OP_top_k, x, axis);
    fe_op_attr(&o, MPC_A_INT("k", k));
    fe_value values = fe_op_end(&o), both = fe_list_value(c->e, FE_TUPLE, 2);
    if (values.kind != FE_TENSOR || both.kind != FE_TUPLE) return FE_POISONED;
    both.items[0] = values;
    both.items[1] = fe_other_result(c->e, values, 1);
    return both;
}
