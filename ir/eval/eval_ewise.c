/* Elementwise ops in doubles. NaN comes through every one of them: a select that drops a NaN would hide a broken step.
 * The formulas are those of the kernel column of ir/ops.def, so a tie or a signed zero comes out the same on a device.
 */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static bool map1(mpc_eval *e, double (*f)(double)) {
    const double *a = e->operands[0].data;
    double *out = e->results[0].data;
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) out[i] = f(a[i]);
    return true;
}

static bool map2(mpc_eval *e, double (*f)(double, double)) {
    const double *a = e->operands[0].data, *b = e->operands[1].data;
    double *out = e->results[0].data;
    mpc_walk w = mpc_walk_begin(&e->results[0].type, e->operands, 2);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) out[i] = f(a[w.at[0]], b[w.at[1]]);
    return true;
}

#define MAP1(name, expression) \
    static double name##_of(double a) { return expression; } \
    bool mpc_eval_##name(mpc_eval *e) { return map1(e, name##_of); }
#define MAP2(name, expression) \
    static double name##_of(double a, double b) { return expression; } \
    bool mpc_eval_##name(mpc_eval *e) { return map2(e, name##_of); }

MAP2(add, a + b)
MAP2(sub, a - b)
MAP2(mul, (a) * (b))
MAP2(div, a / b)
MAP2(pow, pow(a, b))
MAP2(maximum, mpc_max_nan(a, b))
MAP2(minimum, mpc_min_nan(a, b))
MAP2(eq, a == b)
MAP2(ne, a != b)
MAP2(lt, a < b)
MAP2(le, a <= b)
MAP2(gt, a > b)
MAP2(ge, a >= b)
MAP2(and, a != 0 && b != 0)
MAP2(or, a != 0 || b != 0)

MAP1(neg, -a)
MAP1(exp, exp(a))
MAP1(log, log(a))
MAP1(expm1, expm1(a))
MAP1(log1p, log1p(a))
MAP1(sqrt, sqrt(a))
MAP1(abs, fabs(a))
MAP1(sign, a > 0 ? 1 : a < 0 ? -1 : a)
MAP1(floor, floor(a))
MAP1(ceil, ceil(a))
MAP1(round, rint(a))
MAP1(tanh, tanh(a))
MAP1(sigmoid, 1 / (1 + exp(-a)))
MAP1(relu, a > 0 ? a : a != a ? a : 0)
MAP1(erf, erf(a))
MAP1(cos, cos(a))
MAP1(sin, sin(a))
MAP1(not, a == 0)
MAP1(is_finite, isfinite(a))
MAP1(is_nan, isnan(a))
MAP1(copy, a)
MAP1(cast, a)

/* A device divides 1 by the rounded root. */
static double rsqrt_exact(double a) { return 1 / (double)(float)sqrt(a); }
static double rsqrt_wide(double a) { return 1 / sqrt(a); }
bool mpc_eval_rsqrt(mpc_eval *e) { return map1(e, e->exact ? rsqrt_exact : rsqrt_wide); }

bool mpc_eval_where(mpc_eval *e) {
    const double *c = e->operands[0].data, *a = e->operands[1].data, *b = e->operands[2].data;
    double *out = e->results[0].data;
    mpc_walk w = mpc_walk_begin(&e->results[0].type, e->operands, 3);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) out[i] = c[w.at[0]] != 0 ? a[w.at[1]] : b[w.at[2]];
    return true;
}

static double gelu_of(double x) { return x * 0.5 * (1 + erf(x * 0.70710678118654752440)); }

/* (1 + tanh(u)) / 2 is the logistic function of 2 u. */
static double tanh_gate(double x) { return 1 / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); }
static double gelu_tanh_of(double x) { return x * tanh_gate(x); }

static bool by_tanh(const mpc_eval *e) { return mpc_attr_bool(e->graph, e->node, "tanh"); }
bool mpc_eval_gelu(mpc_eval *e) { return map1(e, by_tanh(e) ? gelu_tanh_of : gelu_of); }

/* dy * (Phi(x) + x * phi(x)) */
static double gelu_grad_of(double x, double dy) {
    double cdf = 0.5 * (1 + erf(x * 0.70710678118654752440)), density = 0.39894228040143267794 * exp(-0.5 * x * x);
    return dy * (cdf + (density == 0 ? 0 : x * density));
}

static double gelu_tanh_grad_of(double x, double dy) {
    double gate = tanh_gate(x), bend = gate * (1 - gate);
    return dy * (gate + (bend == 0 ? 0 : bend * x * 1.5957691216057308 * (1 + 3 * 0.044715 * x * x)));
}

bool mpc_eval_gelu_grad(mpc_eval *e) { return map2(e, by_tanh(e) ? gelu_tanh_grad_of : gelu_grad_of); }

bool mpc_eval_const(mpc_eval *e) {
    double value = mpc_attr_float(e->graph, e->node, "value");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] = value;
    return true;
}

bool mpc_eval_range(mpc_eval *e) {
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] = (double)i;
    return true;
}
