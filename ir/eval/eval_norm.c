/* Layer and batch normalisation, forward and backward. Both are one thing on different strides: a *line* of elements
 * that share a mean (a row for layer norm, a channel's column for batch norm). Two-pass variance; eps inside the root.
 */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

typedef struct lines { /* x as [rows, c] */
    int64_t rows, c;
} lines;

static lines lines_of(const mpc_tensor *x) {
    int64_t c = x->type.dims[x->type.rank - 1], rows = 1;
    for (uint32_t i = 0; i + 1 < x->type.rank; i++) rows *= x->type.dims[i];
    return (lines){rows, c};
}

static void moments(const double *x, int64_t n, int64_t stride, double *mean, double *var) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i * stride];
    *mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) squares += (x[i * stride] - *mean) * (x[i * stride] - *mean);
    *var = squares / (double)n;
}

bool mpc_eval_layer_norm(mpc_eval *e) {
    lines l = lines_of(&e->operands[0]);
    const double *gamma = e->operands[1].data, *beta = e->operands[2].data;
    double eps = mpc_attr_float(e->graph, e->node, "eps"), mean, var;
    for (int64_t i = 0; i < l.rows; i++) {
        const double *x = e->operands[0].data + i * l.c;
        moments(x, l.c, 1, &mean, &var);
        double rstd = 1 / sqrt(var + eps);
        for (int64_t j = 0; j < l.c; j++) e->results[0].data[i * l.c + j] = (x[j] - mean) * rstd * gamma[j] + beta[j];
        e->results[1].data[i] = mean;
        e->results[2].data[i] = rstd;
    }
    return true;
}

typedef struct backward { /* of one line; gamma's step is 1 along a row and 0 along a column */
    const double *x, *dy, *gamma;
    double *dx, mean, rstd;
    int64_t n, stride, gamma_step;
} backward;

/* dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), g = dy * gamma */
static void line_grad(const backward *b) {
    double sum_g = 0, sum_gx = 0;
    for (int64_t i = 0; i < b->n; i++) {
        double g = b->dy[i * b->stride] * b->gamma[i * b->gamma_step], xhat = (b->x[i * b->stride] - b->mean) * b->rstd;
        sum_g += g;
        sum_gx += g * xhat;
    }
    for (int64_t i = 0; i < b->n; i++) {
        double g = b->dy[i * b->stride] * b->gamma[i * b->gamma_step], xhat = (b->x[i * b->stride] - b->mean) * b->rstd;
        b->dx[i * b->stride] = b->rstd * (g - sum_g / (double)b->n - xhat * (sum_gx / (double)b->n));
    }
}

/* results[1] += dy * xhat, results[2] += dy, over all rows */
static void affine_grad(mpc_eval *e, lines l, bool per_row) {
    const double *x = e->operands[0].data, *mean = e->operands[2].data, *rstd = e->operands[3].data,
                 *dy = e->operands[4].data;
    for (int64_t i = 0; i < l.rows; i++)
        for (int64_t j = 0; j < l.c; j++) {
            int64_t at = i * l.c + j, s = per_row ? i : j;
            e->results[1].data[j] += dy[at] * (x[at] - mean[s]) * rstd[s];
            e->results[2].data[j] += dy[at];
        }
}

/* (x, gamma, mean, rstd, dy) */
bool mpc_eval_layer_norm_grad(mpc_eval *e) {
    lines l = lines_of(&e->operands[0]);
    for (int64_t i = 0; i < l.rows; i++) {
        backward b = {.x = e->operands[0].data + i * l.c,
                      .dy = e->operands[4].data + i * l.c,
                      .gamma = e->operands[1].data,
                      .dx = e->results[0].data + i * l.c,
                      .mean = e->operands[2].data[i],
                      .rstd = e->operands[3].data[i],
                      .n = l.c,
                      .stride = 1,
                      .gamma_step = 1};
        line_grad(&b);
    }
    affine_grad(e, l, true);
    return true;
}

bool mpc_eval_batch_norm_grad(mpc_eval *e) {
    lines l = lines_of(&e->operands[0]);
    for (int64_t j = 0; j < l.c; j++) {
        backward b = {.x = e->operands[0].data + j,
                      .dy = e->operands[4].data + j,
                      .gamma = e->operands[1].data + j,
                      .dx = e->results[0].data + j,
                      .mean = e->operands[2].data[j],
                      .rstd = e->operands[3].data[j],
                      .n = l.rows,
                      .stride = l.c,
                      .gamma_step = 0};
        line_grad(&b);
    }
    affine_grad(e, l, false);
    return true;
}

static void affine_column(mpc_eval *e, lines l, int64_t j, double mean, double rstd) {
    double gamma = e->operands[1].data[j], beta = e->operands[2].data[j];
    for (int64_t i = 0; i < l.rows; i++)
        e->results[0].data[i * l.c + j] = (e->operands[0].data[i * l.c + j] - mean) * rstd * gamma + beta;
}

/* (x, gamma, beta, running mean, running var) */
bool mpc_eval_batch_norm(mpc_eval *e) {
    lines l = lines_of(&e->operands[0]);
    double eps = mpc_attr_float(e->graph, e->node, "eps"), momentum = mpc_attr_float(e->graph, e->node, "momentum"),
           mean, var;
    double unbiased = l.rows > 1 ? (double)l.rows / (double)(l.rows - 1) : 1;
    for (int64_t j = 0; j < l.c; j++) {
        moments(e->operands[0].data + j, l.rows, l.c, &mean, &var);
        double rstd = 1 / sqrt(var + eps);
        affine_column(e, l, j, mean, rstd);
        e->results[1].data[j] = mean;
        e->results[2].data[j] = rstd;
        e->results[3].data[j] = e->operands[3].data[j];
        e->results[4].data[j] = e->operands[4].data[j];
        if (l.rows == 0) continue; /* nothing was seen */
        e->results[3].data[j] = (1 - momentum) * e->operands[3].data[j] + momentum * mean;
        e->results[4].data[j] = (1 - momentum) * e->operands[4].data[j] + momentum * var * unbiased;
    }
    return true;
}

bool mpc_eval_batch_norm_eval(mpc_eval *e) {
    lines l = lines_of(&e->operands[0]);
    double eps = mpc_attr_float(e->graph, e->node, "eps");
    for (int64_t j = 0; j < l.c; j++)
        affine_column(e, l, j, e->operands[3].data[j], 1 / sqrt(e->operands[4].data[j] + eps));
    return true;
}
