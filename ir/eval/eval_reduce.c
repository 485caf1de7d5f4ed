/* Reductions, in doubles and in row-major order of the operand: the order and width of a device's sum are its own, its
 * distance from this one is bounded. Maxima keep NaN. */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

/* Strides of the result over the operand's axes: 0 along reduced ones. */
static void reduced_strides(const mpc_type *type, mpc_int_list axes, int64_t *strides) {
    int64_t stride = 1;
    uint32_t next = axes.count;
    for (uint32_t i = type->rank; i-- > 0;) {
        bool reduced = next > 0 && axes.data[next - 1] == (int64_t)i;
        if (reduced) next--;
        strides[i] = reduced ? 0 : stride;
        if (!reduced) stride *= type->dims[i];
    }
}

static void fold(mpc_eval *e, double start, double (*join)(double, double)) {
    const mpc_tensor *x = &e->operands[0];
    double *out = e->results[0].data;
    int64_t strides[MPC_MAX_RANK], count = mpc_type_elements(&e->results[0].type);
    reduced_strides(&x->type, mpc_attr_ints(e->graph, e->node, "axes"), strides);
    for (int64_t i = 0; i < count; i++) out[i] = start;
    mpc_walk w = mpc_walk_strided(&x->type, strides);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) out[w.at[0]] = join(out[w.at[0]], x->data[i]);
}

static double plus(double a, double b) { return a + b; }

bool mpc_eval_sum(mpc_eval *e) { return fold(e, 0, plus), true; }
bool mpc_eval_max(mpc_eval *e) { return fold(e, -HUGE_VAL, mpc_max_nan), true; }
bool mpc_eval_min(mpc_eval *e) { return fold(e, HUGE_VAL, mpc_min_nan), true; }

bool mpc_eval_mean(mpc_eval *e) {
    int64_t count = mpc_type_elements(&e->results[0].type), all = mpc_type_elements(&e->operands[0].type);
    fold(e, 0, plus);
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] /= (double)(all / count);
    return true;
}

/* Elements of the operand that become one of the result. */
static double group_size(const mpc_eval *e) {
    int64_t count = mpc_type_elements(&e->results[0].type);
    return count > 0 ? (double)(mpc_type_elements(&e->operands[0].type) / count) : 0;
}

/* out = sum of f(x, centre), a second pass with what the first one left in the result. */
static bool sum_around(mpc_eval *e, double (*f)(double x, double centre)) {
    const mpc_tensor *x = &e->operands[0];
    double *out = e->results[0].data;
    int64_t strides[MPC_MAX_RANK], count = mpc_type_elements(&e->results[0].type);
    double *centre = mpc_eval_scratch(e, count);
    if (centre == NULL) return false;
    for (int64_t i = 0; i < count; i++) centre[i] = out[i], out[i] = 0;
    reduced_strides(&x->type, mpc_attr_ints(e->graph, e->node, "axes"), strides);
    mpc_walk w = mpc_walk_strided(&x->type, strides);
    for (int64_t i = 0; i < w.count; i++, mpc_walk_next(&w)) out[w.at[0]] += f(x->data[i], centre[w.at[0]]);
    return true;
}

static double squared_distance(double x, double centre) { return (x - centre) * (x - centre); }

bool mpc_eval_var(mpc_eval *e) {
    double less = mpc_attr_bool(e->graph, e->node, "unbiased") ? 1 : 0, n = group_size(e);
    int64_t count = mpc_type_elements(&e->results[0].type);
    if (!mpc_eval_mean(e) || !sum_around(e, squared_distance)) return false;
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] /= n - less;
    return true;
}

static double plus_square(double a, double b) { return a + b * b; }

bool mpc_eval_norm(mpc_eval *e) {
    int64_t count = mpc_type_elements(&e->results[0].type);
    fold(e, 0, plus_square);
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] = sqrt(e->results[0].data[i]);
    return true;
}

/* An infinite maximum is no centre: infinity less itself is NaN. */
static double shifted_exp(double x, double centre) { return exp(isfinite(centre) ? x - centre : x); }

bool mpc_eval_logsumexp(mpc_eval *e) {
    double *out = e->results[0].data;
    int64_t count = mpc_type_elements(&e->results[0].type);
    double *max = mpc_eval_scratch(e, count);
    if (max == NULL || !mpc_eval_max(e)) return false;
    for (int64_t i = 0; i < count; i++) max[i] = out[i];
    if (!sum_around(e, shifted_exp)) return false;
    for (int64_t i = 0; i < count; i++) out[i] = log(out[i]) + (isfinite(max[i]) ? max[i] : 0);
    return true;
}

int64_t mpc_eval_first_max(const double *x, int64_t n, int64_t stride) {
    int64_t best = 0;
    for (int64_t j = 1; j < n && x[best * stride] == x[best * stride]; j++)
        if (!(x[j * stride] <= x[best * stride])) best = j;
    return best;
}

bool mpc_eval_argmax(mpc_eval *e) {
    mpc_axis_view v = mpc_axis_view_of(&e->operands[0].type, mpc_attr_int(e->graph, e->node, "axis"));
    const double *x = e->operands[0].data;
    for (int64_t o = 0; o < v.outer; o++)
        for (int64_t i = 0; i < v.inner; i++)
            e->results[0].data[o * v.inner + i] = (double)mpc_eval_first_max(x + o * v.n * v.inner + i, v.n, v.inner);
    return true;
}

/* Squares in doubles can't overflow on what a float format holds, nor vanish. */
bool mpc_eval_global_norm(mpc_eval *e) {
    double sum = 0;
    for (uint32_t k = 0; k < e->operand_count; k++) {
        int64_t count = mpc_type_elements(&e->operands[k].type);
        for (int64_t i = 0; i < count; i++) sum += e->operands[k].data[i] * e->operands[k].data[i];
    }
    e->results[0].data[0] = sqrt(sum);
    return true;
}
