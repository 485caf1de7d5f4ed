/* Rms norm and group norm, forward and backward, in doubles and two-pass. A group is the channels [k, k + size) of all
 * positions of one example; instance norm is a group norm with as many groups as channels. */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static int64_t channels(const mpc_tensor *x) { return x->type.dims[x->type.rank - 1]; }

static int64_t rows_of(const mpc_tensor *x) {
    int64_t rows = 1;
    for (uint32_t i = 0; i + 1 < x->type.rank; i++) rows *= x->type.dims[i];
    return rows;
}

bool mpc_eval_rms_norm(mpc_eval *e) {
    int64_t c = channels(&e->operands[0]), rows = rows_of(&e->operands[0]);
    const double *gamma = e->operands[1].data;
    double eps = mpc_attr_float(e->graph, e->node, "eps");
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * c;
        double squares = 0;
        for (int64_t j = 0; j < c; j++) squares += x[j] * x[j];
        double rstd = 1 / sqrt(squares / (double)c + eps);
        for (int64_t j = 0; j < c; j++) e->results[0].data[i * c + j] = x[j] * rstd * gamma[j];
        e->results[1].data[i] = rstd;
    }
    return true;
}

/* (x, gamma, rstd, dy): dx = rstd (g - xhat mean(g xhat)) with g = dy gamma */
bool mpc_eval_rms_norm_grad(mpc_eval *e) {
    int64_t c = channels(&e->operands[0]), rows = rows_of(&e->operands[0]);
    const double *gamma = e->operands[1].data;
    for (int64_t i = 0; i < rows; i++) {
        const double *x = e->operands[0].data + i * c, *dy = e->operands[3].data + i * c;
        double rstd = e->operands[2].data[i], dot = 0;
        for (int64_t j = 0; j < c; j++) dot += dy[j] * gamma[j] * x[j] * rstd;
        for (int64_t j = 0; j < c; j++) {
            double xhat = x[j] * rstd;
            e->results[0].data[i * c + j] = rstd * (dy[j] * gamma[j] - xhat * (dot / (double)c));
            e->results[1].data[j] += dy[j] * xhat;
        }
    }
    return true;
}

typedef struct group { /* of one example */
    int64_t begin;     /* its first element */
    int64_t positions, stride, channel, size;
} group;

static group group_at(const mpc_eval *e, int64_t example, int64_t index) {
    const mpc_tensor *x = &e->operands[0];
    int64_t c = channels(x), n = x->type.dims[0], size = c / mpc_attr_int(e->graph, e->node, "groups");
    int64_t positions = n > 0 ? rows_of(x) / n : 0;
    return (group){example * positions * c + index * size, positions, c, index * size, size};
}

static int64_t element(const group *g, int64_t k) { return g->begin + k / g->size * g->stride + k % g->size; }

static void normalise_group(mpc_eval *e, const group *g, int64_t at) {
    const double *x = e->operands[0].data, *gamma = e->operands[1].data, *beta = e->operands[2].data;
    int64_t count = g->positions * g->size;
    double mean = 0, var = 0;
    for (int64_t k = 0; k < count; k++) mean += x[element(g, k)];
    mean /= (double)count;
    for (int64_t k = 0; k < count; k++) var += (x[element(g, k)] - mean) * (x[element(g, k)] - mean);
    double rstd = 1 / sqrt(var / (double)count + mpc_attr_float(e->graph, e->node, "eps"));
    for (int64_t k = 0; k < count; k++) {
        int64_t j = g->channel + k % g->size;
        e->results[0].data[element(g, k)] = (x[element(g, k)] - mean) * rstd * gamma[j] + beta[j];
    }
    e->results[1].data[at] = mean;
    e->results[2].data[at] = rstd;
}

bool mpc_eval_group_norm(mpc_eval *e) {
    int64_t n = e->results[1].type.dims[0], groups = e->results[1].type.dims[1];
    for (int64_t i = 0; i < n * groups; i++) {
        group g = group_at(e, i / groups, i % groups);
        normalise_group(e, &g, i);
    }
    return true;
}

/* (x, gamma, mean, rstd, dy) */
static void differentiate_group(mpc_eval *e, const group *g, int64_t at) {
    const double *x = e->operands[0].data, *gamma = e->operands[1].data, *dy = e->operands[4].data;
    double mean = e->operands[2].data[at], rstd = e->operands[3].data[at], sum = 0, dot = 0;
    int64_t count = g->positions * g->size;
    for (int64_t k = 0; k < count; k++) {
        double slope = dy[element(g, k)] * gamma[g->channel + k % g->size];
        sum += slope;
        dot += slope * (x[element(g, k)] - mean) * rstd;
    }
    for (int64_t k = 0; k < count; k++) {
        int64_t i = element(g, k), j = g->channel + k % g->size;
        double xhat = (x[i] - mean) * rstd;
        e->results[0].data[i] = rstd * (dy[i] * gamma[j] - sum / (double)count - xhat * (dot / (double)count));
        e->results[1].data[j] += dy[i] * xhat;
        e->results[2].data[j] += dy[i];
    }
}

bool mpc_eval_group_norm_grad(mpc_eval *e) {
    int64_t n = e->operands[2].type.dims[0], groups = e->operands[2].type.dims[1];
    for (int64_t i = 0; i < n * groups; i++) {
        group g = group_at(e, i / groups, i % groups);
        differentiate_group(e, &g, i);
    }
    return true;
}
