/* Elementwise ops, softmax and matmul. The functions of numbers fold when they get numbers, so that a
 * constant such as 1 / sqrt(width) never becomes a node. */
#include <math.h>
#include <string.h>

#include "frontend/fe_builtins.h"

static bool constant(fe_value v) { return fe_is_number(v) || v.kind == FE_BOOL; }

fe_value fe_fn_binary(fe_call *c) {
    static const char *const operators[][2] = {{"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"pow", "**"}};
    const char *op = c->fn->name;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (strcmp(op, operators[i][0]) == 0) op = operators[i][1];
    if (!constant(c->v[0]) || !constant(c->v[1])) return fe_binary(c->e, c->at, op, c->v[0], c->v[1], c->name);
    double a = fe_arg_float(c, 0, 0), b = fe_arg_float(c, 1, 0);
    if (c->bad) return FE_POISONED;
    bool larger = strcmp(op, "maximum") == 0;
    if (larger || strcmp(op, "minimum") == 0) return (a > b) == larger ? c->v[0] : c->v[1];
    fe_ast at = *c->at;
    at.text = op;
    at.kid[0] = at.kid[1] = NULL;
    return fe_fold_binary(c->e, &at, c->v[0], c->v[1]);
}

typedef struct unary_row {
    const char *name;
    mpc_op_id op;
    double (*fold)(double);
    bool keeps_ints;
} unary_row;

static double negate(double x) { return -x; }
static double reciprocal_root(double x) { return 1 / sqrt(x); }
static double logistic(double x) { return 1 / (1 + exp(-x)); }
static double positive_part(double x) { return x > 0 || x != x ? x : 0; }
static double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

static const unary_row *find_unary(const char *name) {
    static const unary_row rows[] = {
        {"neg", MPC_OP_neg, negate, true},
        {"exp", MPC_OP_exp, exp, false},
        {"log", MPC_OP_log, log, false},
        {"expm1", MPC_OP_expm1, expm1, false},
        {"log1p", MPC_OP_log1p, log1p, false},
        {"sqrt", MPC_OP_sqrt, sqrt, false},
        {"rsqrt", MPC_OP_rsqrt, reciprocal_root, false},
        {"abs", MPC_OP_abs, fabs, false},
        {"sign", MPC_OP_sign, sign_of, true},
        {"floor", MPC_OP_floor, floor, false},
        {"ceil", MPC_OP_ceil, ceil, false},
        {"round", MPC_OP_round, rint, false},
        {"tanh", MPC_OP_tanh, tanh, false},
        {"sigmoid", MPC_OP_sigmoid, logistic, false},
        {"relu", MPC_OP_relu, positive_part, false},
        {"erf", MPC_OP_erf, erf, false},
        {"sin", MPC_OP_sin, sin, false},
        {"cos", MPC_OP_cos, cos, false},
        {"is_finite", MPC_OP_is_finite, NULL, false},
        {"is_nan", MPC_OP_is_nan, NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

fe_value fe_fn_unary(fe_call *c) {
    const unary_row *row = find_unary(c->fn->name);
    fe_value x = c->v[0];
    if (fe_is_number(x) && row->fold) return fe_float(row->fold(fe_number(x)));
    x = row->keeps_ints ? fe_arg_tensor(c, 0) : fe_arg_float_tensor(c, 0);
    return c->bad ? FE_POISONED : fe_emit1(c->e, c->at, row->op, x, c->name);
}

fe_value fe_fn_reciprocal(fe_call *c) {
    if (fe_is_number(c->v[0])) return fe_float(1 / fe_number(c->v[0]));
    fe_value x = fe_arg_float_tensor(c, 0);
    return c->bad ? FE_POISONED : fe_binary(c->e, c->at, "/", fe_float(1), x, c->name ? c->name : "reciprocal");
}

fe_value fe_fn_gelu(fe_call *c) {
    bool tanh_form = fe_arg_bool(c, 1, false);
    if (fe_is_number(c->v[0]) && !c->bad) {
        double x = fe_number(c->v[0]), root = 0.79788456080286535588; /* sqrt(2 / pi) */
        double gate = tanh_form ? tanh(root * (x + 0.044715 * x * x * x)) : erf(x / sqrt(2));
        return fe_float(x * (1 + gate) / 2);
    }
    fe_value x = fe_arg_float_tensor(c, 0);
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_gelu, c->name);
    fe_op_in(&o, x);
    if (tanh_form) fe_op_attr(&o, MPC_A_BOOL("tanh", true));
    return fe_op_end(&o);
}

fe_value fe_fn_silu(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    if (c->bad) return FE_POISONED;
    return fe_emit2(c->e, c->at, MPC_OP_mul, x, fe_emit1(c->e, c->at, MPC_OP_sigmoid, x, NULL),
                    c->name ? c->name : "silu");
}

/* max(x, 0) + log(1 + exp(-|x|)), which can't overflow. By maximum, not relu: its gradient at 0 is a half, as that of
 * softplus is. */
fe_value fe_fn_softplus(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    if (c->bad) return FE_POISONED;
    fe_value above = fe_binary(e, c->at, "maximum", x, fe_float(0), NULL);
    fe_value away = fe_emit1(e, c->at, MPC_OP_neg, fe_emit1(e, c->at, MPC_OP_abs, x, NULL), NULL);
    fe_value tail = fe_emit1(e, c->at, MPC_OP_log1p, fe_emit1(e, c->at, MPC_OP_exp, away, NULL), NULL);
    return fe_emit2(e, c->at, MPC_OP_add, above, tail, c->name ? c->name : "softplus");
}

fe_value fe_fn_square(fe_call *c) {
    if (fe_is_number(c->v[0])) return fe_float(fe_number(c->v[0]) * fe_number(c->v[0]));
    fe_value x = fe_arg_float_tensor(c, 0);
    return c->bad ? FE_POISONED : fe_emit2(c->e, c->at, MPC_OP_mul, x, x, c->name ? c->name : "square");
}

/* where(condition, a, b) of three tensors of one shape, or scalars. */
static fe_value select_value(fe_call *c, fe_value condition, fe_value a, fe_value b, const char *name) {
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_where, name);
    fe_op_in(&o, condition);
    fe_op_in(&o, a);
    fe_op_in(&o, b);
    return fe_op_end(&o);
}

fe_value fe_fn_leaky_relu(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    double slope = fe_arg_float(c, 1, 0.01);
    if (c->bad) return FE_POISONED;
    fe_value positive = fe_binary(c->e, c->at, ">", x, fe_float(0), NULL);
    return select_value(c, positive, x, fe_binary(c->e, c->at, "*", x, fe_float(slope), NULL),
                        c->name ? c->name : "leaky_relu");
}

/* Of the branch not taken nothing is seen, so expm1 may overflow there. */
fe_value fe_fn_elu(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    double alpha = fe_arg_float(c, 1, 1);
    if (c->bad) return FE_POISONED;
    fe_value positive = fe_binary(c->e, c->at, ">", x, fe_float(0), NULL);
    fe_value below = fe_emit1(c->e, c->at, MPC_OP_expm1, x, NULL);
    if (alpha != 1) below = fe_binary(c->e, c->at, "*", below, fe_float(alpha), NULL);
    return select_value(c, positive, x, below, c->name ? c->name : "elu");
}

fe_value fe_fn_clamp(fe_call *c) {
    fe_value x = fe_arg_float_tensor(c, 0);
    double low = fe_arg_float(c, 1, 0), high = fe_arg_float(c, 2, 0);
    if (c->bad) return FE_POISONED;
    if (fe_given(c, 1) && fe_given(c, 2) && !(low <= high)) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 2), "clamp keeps values between min = %g and max = %g, which is less",
                 low, high);
        return FE_POISONED;
    }
    if (fe_given(c, 1)) x = fe_binary(c->e, c->at, "maximum", x, fe_float(low), fe_given(c, 2) ? NULL : c->name);
    if (fe_given(c, 2)) x = fe_binary(c->e, c->at, "minimum", x, fe_float(high), c->name);
    return x;
}

fe_value fe_fn_where(fe_call *c) {
    fe_elab *e = c->e;
    if (c->v[0].kind == FE_BOOL) return c->v[0].i ? c->v[1] : c->v[2];
    fe_value condition = fe_arg_tensor(c, 0), a = c->v[1], b = c->v[2];
    if (!constant(a)) a = fe_arg_tensor(c, 1);
    if (!constant(b)) b = fe_arg_tensor(c, 2);
    if (c->bad) return FE_POISONED;
    if (fe_type(condition)->format != MPC_FMT_bool) {
        fe_error(e->d, "E014", fe_arg_span(c, 0), "`where` chooses by truth values: write a comparison, such as x > 0");
        return FE_POISONED;
    }
    mpc_format fa = a.kind == FE_TENSOR ? fe_type(a)->format : MPC_FMT_none,
               fb = b.kind == FE_TENSOR ? fe_type(b)->format : MPC_FMT_none;
    mpc_format both = fa != MPC_FMT_none ? fa : fb;
    bool fraction = (a.kind == FE_FLOAT || b.kind == FE_FLOAT) && !mpc_format_is_float(both);
    if (both == MPC_FMT_none || fraction ||
        (fa != fb && fa && fb && !(mpc_format_is_float(fa) && mpc_format_is_float(fb)))) {
        a = fe_to_float(e, c->at, a);
        b = fe_to_float(e, c->at, b);
        both = MPC_FMT_f32;
    }
    if (a.kind != FE_TENSOR) a = fe_scalar(e, c->at, a, both);
    if (b.kind != FE_TENSOR) b = fe_scalar(e, c->at, b, both);
    return select_value(c, condition, a, b, c->name);
}

fe_value fe_fn_stop(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    return c->bad ? FE_POISONED : fe_emit1(c->e, c->at, MPC_OP_stop_gradient, x, c->name ? c->name : "stop");
}

fe_value fe_fn_cast(fe_call *c) {
    fe_value x = fe_arg_tensor(c, 0);
    mpc_format to = fe_arg_format(c, 1);
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_cast, c->name);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_FORMAT("to", to));
    return fe_op_end(&o);
}

fe_value fe_fn_softmax(fe_call *c) {
    bool logarithm = strcmp(c->fn->name, "log_softmax") == 0;
    return fe_along_axis(c, logarithm ? MPC_OP_log_softmax : MPC_OP_softmax, fe_arg_float_tensor(c, 0), 1);
}

fe_value fe_fn_l2_normalize(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    int64_t axis = fe_arg_axis(c, 1, fe_arg_type(c, 0)->rank, -1);
    double eps = fe_arg_float(c, 2, 1e-12);
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(e, c->at, MPC_OP_sum, NULL);
    fe_op_in(&o, fe_emit2(e, c->at, MPC_OP_mul, x, x, NULL));
    fe_op_attr(&o, MPC_A_INTS("axes", &axis, 1));
    fe_op_attr(&o, MPC_A_BOOL("keep", true));
    fe_value sum = fe_op_end(&o);
    fe_value scale =
        fe_emit1(e, c->at, MPC_OP_rsqrt,
                 fe_binary(e, c->at, "maximum", sum, fe_float(eps * eps > 0 ? eps * eps : eps), NULL), NULL);
    return fe_binary(e, c->at, "*", x, scale, c->name);
}

/* Leading axes must be equal, or b is a matrix. */
fe_value fe_fn_matmul(fe_call *c) {
    fe_value a = fe_arg_float_tensor(c, 0), b = fe_arg_float_tensor(c, 1);
    if (c->bad || a.kind != FE_TENSOR || b.kind != FE_TENSOR) return FE_POISONED;
    bool matrix = fe_lead(c->e, a) && !fe_lead(c->e, b) && fe_type(b)->rank == 2;
    if (fe_lead(c->e, a) != fe_lead(c->e, b) && !matrix) {
        a = fe_lift(c->e, c->at, a);
        b = fe_lift(c->e, c->at, b);
        if (a.kind != FE_TENSOR || b.kind != FE_TENSOR) return FE_POISONED;
    }
    const mpc_type *x = fe_type(a), *y = fe_type(b);
    uint32_t least = 2 + fe_lead(c->e, a), other = 2 + fe_lead(c->e, b);
    bool ranks = x->rank >= least && y->rank >= other && (y->rank == 2 || y->rank == x->rank);
    if (!ranks || x->dims[x->rank - 1] != y->dims[y->rank - 2]) {
        fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E021", fe_arg_span(c, 0),
                               "these two shapes can't be multiplied as matrices");
        fe_label(&r, "%s", fe_shape_text(c->e, a));
        fe_second(&r, fe_arg_span(c, 1), "%s", fe_shape_text(c->e, b));
        if (ranks && x->dims[x->rank - 1] == y->dims[y->rank - 1])
            fe_help(&r, "the last axis of the first meets the last but one of the second: matmul(%s, transpose(%s))",
                    fe_arg_text(c, 0), fe_arg_text(c, 1));
        else fe_help(&r, "[..., m, k] times [..., k, n], or [k, n]");
        fe_send(&r);
        return FE_POISONED;
    }
    fe_value v = fe_emit2(c->e, c->at, MPC_OP_matmul, a, b, c->name);
    fe_tensor *t = v.kind == FE_TENSOR ? fe_tensor_copy(c->e, v.t) : NULL;
    if (!t) return FE_POISONED;
    t->names[x->rank - 1] = b.t->names[y->rank - 1];
    v.t = t;
    return v;
}
