/* Softmax, losses and metrics, in their numerically stable forms: the maximum goes first, a loss comes from the
 * log-sum-exp and never from a softmax. A label out of range gives NaN in the loss; in the gradient it matches no
 * class. */
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

static int64_t class_count(const mpc_eval *e) { return e->operands[0].type.dims[e->operands[0].type.rank - 1]; }
static bool label_ok(double label, int64_t k) { return label >= 0 && label < (double)k; }

bool mpc_eval_cross_entropy(mpc_eval *e) {
    int64_t k = class_count(e), rows = mpc_type_elements(&e->operands[1].type);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * k;
        double label = e->operands[1].data[i], max = strided_max(x, k, 1), rest = log(sum_of_exp(x, k, 1, max));
        /* (max - x) + rest keeps the digits that (max + rest) - x would lose */
        e->results[0].data[i] = label_ok(label, k) ? max - x[(int64_t)label] + rest : (double)NAN;
        e->results[1].data[i] = max + rest;
    }
    return true;
}

/* (logits, labels, lse, dloss) */
bool mpc_eval_cross_entropy_grad(mpc_eval *e) {
    int64_t k = class_count(e), rows = mpc_type_elements(&e->operands[1].type);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * k;
        double label = e->operands[1].data[i], lse = e->operands[2].data[i], dloss = e->operands[3].data[i];
        for (int64_t j = 0; j < k; j++)
            e->results[0].data[i * k + j] = (exp(x[j] - lse) - (label == (double)j ? 1 : 0)) * dloss;
    }
    return true;
}

bool mpc_eval_accuracy(mpc_eval *e) {
    int64_t k = class_count(e), rows = mpc_type_elements(&e->operands[1].type);
    for (int64_t i = 0; i < rows; i++)
        e->results[0].data[i] = (double)mpc_eval_first_max(e->operands[0].data + i * k, k, 1) == e->operands[1].data[i];
    return true;
}

bool mpc_eval_mse(mpc_eval *e) {
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        double d = e->operands[0].data[i] - e->operands[1].data[i];
        e->results[0].data[i] = d * d;
    }
    return true;
}

bool mpc_eval_loss_mean(mpc_eval *e) {
    const double *x = e->operands[0].data, *mask = e->operand_count > 1 ? e->operands[1].data : NULL;
    int64_t count = mpc_type_elements(&e->operands[0].type), valid = 0;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (mask != NULL && mask[i] == 0) continue;
        sum += x[i];
        valid++;
    }
    e->results[0].data[0] = valid > 0 ? sum / (double)valid : 0;
    e->results[1].data[0] = (double)valid;
    return true;
}

/* (dmean [], count [], mask?) */
bool mpc_eval_loss_mean_grad(mpc_eval *e) {
    const double *mask = e->operand_count > 2 ? e->operands[2].data : NULL;
    double share = e->operands[0].data[0] / mpc_max_nan(e->operands[1].data[0], 1);
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) e->results[0].data[i] = mask == NULL || mask[i] != 0 ? share : 0;
    return true;
}
