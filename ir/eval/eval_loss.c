/* Losses and metrics, in their numerically stable forms: a loss comes from the log-sum-exp and never from a softmax,
 * and what has no weight is left out of a sum, never multiplied by 0. A label out of range gives NaN in the loss; in
 * the gradient it matches no class. */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static int64_t class_count(const mpc_eval *e) { return e->operands[0].type.dims[e->operands[0].type.rank - 1]; }
static int64_t row_count(const mpc_eval *e) { return mpc_type_elements(&e->operands[0].type) / class_count(e); }
static bool label_ok(double label, int64_t k) { return label >= 0 && label < (double)k; }
static double smooth_of(const mpc_eval *e) { return mpc_attr_float(e->graph, e->node, "smooth"); }

/* The maximum of a row and log(sum(exp(x - max))): their sum is the log-sum-exp. */
static void log_sum_exp(const double *x, int64_t k, double *max, double *rest) {
    double sum = 0;
    *max = x[0];
    for (int64_t j = 1; j < k; j++) *max = mpc_max_nan(*max, x[j]);
    for (int64_t j = 0; j < k; j++) sum += exp(x[j] - *max);
    *rest = log(sum);
}

static double mean_below(const double *x, int64_t k, double max) {
    double sum = 0;
    for (int64_t j = 0; j < k; j++) sum += max - x[j];
    return sum / (double)k;
}

bool mpc_eval_cross_entropy(mpc_eval *e) {
    int64_t k = class_count(e), rows = row_count(e);
    double smooth = smooth_of(e);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * k;
        double label = e->operands[1].data[i], max, rest;
        log_sum_exp(x, k, &max, &rest);
        /* (max - x) + rest keeps the digits that (max + rest) - x would lose */
        double below = label_ok(label, k) ? max - x[(int64_t)label] : 0;
        if (smooth > 0) below = (smooth < 1 ? (1 - smooth) * below : 0) + smooth * mean_below(x, k, max);
        e->results[0].data[i] = label_ok(label, k) ? below + rest : (double)NAN;
        e->results[1].data[i] = max + rest;
    }
    return true;
}

/* (logits, labels, lse, dloss) */
bool mpc_eval_cross_entropy_grad(mpc_eval *e) {
    int64_t k = class_count(e), rows = row_count(e);
    double smooth = smooth_of(e), share = smooth / (double)k;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * k;
        double label = e->operands[1].data[i], lse = e->operands[2].data[i], dloss = e->operands[3].data[i];
        for (int64_t j = 0; j < k; j++)
            e->results[0].data[i * k + j] = (exp(x[j] - lse) - share - (label == (double)j ? 1 - smooth : 0)) * dloss;
    }
    return true;
}

/* What class j of a row weighs. */
static double smoothed(double target, double smooth, int64_t k) { return target * (1 - smooth) + smooth / (double)k; }

bool mpc_eval_soft_cross_entropy(mpc_eval *e) {
    int64_t k = class_count(e), rows = row_count(e);
    double smooth = smooth_of(e);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * k, *target = e->operands[1].data + i * k;
        double max, rest, sum = 0;
        log_sum_exp(x, k, &max, &rest);
        for (int64_t j = 0; j < k; j++) {
            double weight = smoothed(target[j], smooth, k);
            if (weight != 0) sum += weight * (max - x[j] + rest); /* FC-047 */
        }
        e->results[0].data[i] = sum;
        e->results[1].data[i] = max + rest;
    }
    return true;
}

/* (logits, target, lse, dloss) -> (exp(logits - lse) * sum(target) - target) * dloss */
bool mpc_eval_soft_cross_entropy_grad(mpc_eval *e) {
    int64_t k = class_count(e), rows = row_count(e);
    double smooth = smooth_of(e);
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * k, *target = e->operands[1].data + i * k;
        double lse = e->operands[2].data[i], dloss = e->operands[3].data[i], all = 0;
        for (int64_t j = 0; j < k; j++) all += smoothed(target[j], smooth, k);
        for (int64_t j = 0; j < k; j++)
            e->results[0].data[i * k + j] = (exp(x[j] - lse) * all - smoothed(target[j], smooth, k)) * dloss;
    }
    return true;
}

bool mpc_eval_accuracy(mpc_eval *e) {
    int64_t k = class_count(e), rows = row_count(e);
    for (int64_t i = 0; i < rows; i++)
        e->results[0].data[i] = (double)mpc_eval_first_max(e->operands[0].data + i * k, k, 1) == e->operands[1].data[i];
    return true;
}

/* How many classes come before the label's: larger, not comparable (NaN), or as large and earlier. */
static int64_t rank_of(const double *x, int64_t n, int64_t label) {
    int64_t before = 0;
    for (int64_t j = 0; j < n; j++) before += !(x[j] <= x[label]) || (x[j] == x[label] && j < label);
    return before;
}

bool mpc_eval_top_k_accuracy(mpc_eval *e) {
    int64_t n = class_count(e), rows = row_count(e), k = mpc_attr_int(e->graph, e->node, "k");
    for (int64_t i = 0; i < rows; i++) {
        double label = e->operands[1].data[i];
        e->results[0].data[i] = label_ok(label, n) && rank_of(e->operands[0].data + i * n, n, (int64_t)label) < k;
    }
    return true;
}

typedef double (*pair_rule)(double a, double b, double parameter);

static bool map_pairs(mpc_eval *e, pair_rule rule, double parameter) {
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++)
        e->results[0].data[i] = rule(e->operands[0].data[i], e->operands[1].data[i], parameter);
    return true;
}

static double squared(double a, double b, double unused) {
    (void)unused;
    return (a - b) * (a - b);
}

static double distance(double a, double b, double unused) {
    (void)unused;
    return fabs(a - b);
}

static double huber(double a, double b, double delta) {
    double d = fabs(a - b);
    return d <= delta ? d * d / 2 : delta * (d - delta / 2);
}

/* An infinite logit on the side that the target rules out costs nothing (FC-046). */
static double bce(double z, double t, double unused) {
    (void)unused;
    double off = t == 1 ? 0 : mpc_max_nan(z, 0) * (1 - t), on = t == 0 ? 0 : mpc_max_nan(-z, 0) * t;
    return off + on + log1p(exp(-fabs(z)));
}

static double kl(double log_p, double q, double unused) {
    (void)unused;
    return q == 0 ? 0 : q * (log(q) - log_p);
}

bool mpc_eval_mse(mpc_eval *e) { return map_pairs(e, squared, 0); }
bool mpc_eval_l1(mpc_eval *e) { return map_pairs(e, distance, 0); }
bool mpc_eval_huber(mpc_eval *e) { return map_pairs(e, huber, mpc_attr_float(e->graph, e->node, "delta")); }
bool mpc_eval_bce_with_logits(mpc_eval *e) { return map_pairs(e, bce, 0); }
bool mpc_eval_kl(mpc_eval *e) { return map_pairs(e, kl, 0); }

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
