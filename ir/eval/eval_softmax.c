/* Softmax and its logarithm in their numerically stable forms: the maximum goes first. Losses are in eval_loss.c. */
#include <math.h>
#include <string.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static double strided_max(const double *x, int64_t n, int64_t stride) {
    double max = x[0];
    for (int64_t j = 1; j < n; j++) max = mpc_max_nan(max, x[j * stride]);
    return max;
}

static double sum_of_exp(const double *x, int64_t n, int64_t stride, double minus) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += exp(x[j * stride] - minus);
    return sum;
}

typedef void (*row_rule)(const double *x, const double *dy, double *out, int64_t n, int64_t stride);

static bool map_rows(mpc_eval *e, row_rule rule) {
    mpc_axis_view v = mpc_axis_view_of(&e->operands[0].type, mpc_attr_int(e->graph, e->node, "axis"));
    if (v.n == 0) return true;
    for (int64_t i = 0; i < v.outer * v.inner; i++) {
        int64_t base = i / v.inner * v.n * v.inner + i % v.inner;
        const double *dy = e->operand_count > 1 ? e->operands[1].data + base : NULL;
        rule(e->operands[0].data + base, dy, e->results[0].data + base, v.n, v.inner);
    }
    return true;
}

static void softmax_row(const double *x, const double *dy, double *out, int64_t n, int64_t stride) {
    (void)dy;
    double max = strided_max(x, n, stride), sum = sum_of_exp(x, n, stride, max);
    for (int64_t j = 0; j < n; j++) out[j * stride] = exp(x[j * stride] - max) / sum;
}

static void log_softmax_row(const double *x, const double *dy, double *out, int64_t n, int64_t stride) {
    (void)dy;
    double max = strided_max(x, n, stride), rest = log(sum_of_exp(x, n, stride, max));
    for (int64_t j = 0; j < n; j++) out[j * stride] = x[j * stride] - max - rest;
}

static void softmax_grad_row(const double *y, const double *dy, double *out, int64_t n, int64_t stride) {
    double dot = 0;
    for (int64_t j = 0; j < n; j++) dot += y[j * stride] * dy[j * stride];
    for (int64_t j = 0; j < n; j++) out[j * stride] = y[j * stride] * (dy[j * stride] - dot);
}

static void log_softmax_grad_row(const double *y, const double *dy, double *out, int64_t n, int64_t stride) {
    double sum = 0;
    for (int64_t j = 0; j < n; j++) sum += dy[j * stride];
    for (int64_t j = 0; j < n; j++) out[j * stride] = dy[j * stride] - exp(y[j * stride]) * sum;
}

bool mpc_eval_softmax(mpc_eval *e) { return map_rows(e, softmax_row); }
bool mpc_eval_log_softmax(mpc_eval *e) { return map_rows(e, log_softmax_row); }
bool mpc_eval_softmax_grad(mpc_eval *e) { return map_rows(e, softmax_grad_row); }
bool mpc_eval_log_softmax_grad(mpc_eval *e) { return map_rows(e, log_softmax_grad_row); }
