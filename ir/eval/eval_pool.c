/* Pools over x [n,h,w,c]. A window is clipped to the image: padding never wins a maximum and never counts in a mean,
 * and the shape rule has made sure that no window is all padding. */
#include <string.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

typedef struct pool {
    const int64_t *x, *y; /* dims */
    int64_t kernel[2], stride[2], pad[2];
} pool;

typedef struct clip { /* rows and columns of the image, half open, and what they see */
    int64_t begin[2], end[2];
    int64_t image, y; /* offset of x[n, 0, 0, 0] and of y[n, i, j, 0] */
} clip;

typedef void (*pool_step)(mpc_eval *e, const pool *p, const clip *c);

static pool read_pool(const mpc_eval *e, const int64_t *x, const int64_t *y) {
    pool p = {.x = x, .y = y};
    memcpy(p.kernel, mpc_attr_ints(e->graph, e->node, "kernel").data, sizeof p.kernel);
    memcpy(p.stride, mpc_attr_ints(e->graph, e->node, "stride").data, sizeof p.stride);
    memcpy(p.pad, mpc_attr_ints(e->graph, e->node, "pad").data, sizeof p.pad);
    return p;
}

static clip clip_of(const pool *p, const int64_t place[3]) {
    clip c = {.image = place[0] * p->x[1] * p->x[2] * p->x[3]};
    c.y = ((place[0] * p->y[1] + place[1]) * p->y[2] + place[2]) * p->y[3];
    for (int i = 0; i < 2; i++) {
        int64_t begin = place[i + 1] * p->stride[i] - p->pad[i], end = begin + p->kernel[i];
        c.begin[i] = begin > 0 ? begin : 0;
        c.end[i] = end < p->x[i + 1] ? end : p->x[i + 1];
    }
    return c;
}

static bool walk_pool(mpc_eval *e, const pool *p, pool_step step) {
    for (int64_t n = 0; n < p->y[0]; n++)
        for (int64_t i = 0; i < p->y[1]; i++)
            for (int64_t j = 0; j < p->y[2]; j++) {
                clip c = clip_of(p, (int64_t[3]){n, i, j});
                step(e, p, &c);
            }
    return true;
}

static int64_t element(const pool *p, const clip *c, int64_t i, int64_t j) {
    return c->image + (i * p->x[2] + j) * p->x[3];
}

/* Offset of the first maximum (first NaN, if there is one) of one channel. */
static int64_t first_max(const pool *p, const clip *c, const double *x, int64_t channel) {
    int64_t best = element(p, c, c->begin[0], c->begin[1]) + channel;
    for (int64_t i = c->begin[0]; i < c->end[0]; i++)
        for (int64_t j = c->begin[1]; j < c->end[1]; j++) {
            int64_t at = element(p, c, i, j) + channel;
            if (x[best] == x[best] && !(x[at] <= x[best])) best = at;
        }
    return best;
}

static void step_max(mpc_eval *e, const pool *p, const clip *c) {
    const double *x = e->operands[0].data;
    for (int64_t k = 0; k < p->x[3]; k++) e->results[0].data[c->y + k] = x[first_max(p, c, x, k)];
}

static void step_max_grad(mpc_eval *e, const pool *p, const clip *c) {
    for (int64_t k = 0; k < p->x[3]; k++)
        e->results[0].data[first_max(p, c, e->operands[0].data, k)] += e->operands[1].data[c->y + k];
}

static double elements_in(const clip *c) { return (double)((c->end[0] - c->begin[0]) * (c->end[1] - c->begin[1])); }

static void step_avg(mpc_eval *e, const pool *p, const clip *c) {
    double *y = e->results[0].data + c->y, n = elements_in(c);
    for (int64_t i = c->begin[0]; i < c->end[0]; i++)
        for (int64_t j = c->begin[1]; j < c->end[1]; j++)
            for (int64_t k = 0; k < p->x[3]; k++) y[k] += e->operands[0].data[element(p, c, i, j) + k];
    for (int64_t k = 0; k < p->x[3]; k++) y[k] /= n;
}

static void step_avg_grad(mpc_eval *e, const pool *p, const clip *c) {
    const double *dy = e->operands[0].data + c->y, n = elements_in(c);
    for (int64_t i = c->begin[0]; i < c->end[0]; i++)
        for (int64_t j = c->begin[1]; j < c->end[1]; j++)
            for (int64_t k = 0; k < p->x[3]; k++) e->results[0].data[element(p, c, i, j) + k] += dy[k] / n;
}

bool mpc_eval_max_pool(mpc_eval *e) {
    pool p = read_pool(e, e->operands[0].type.dims, e->results[0].type.dims);
    return walk_pool(e, &p, step_max);
}

bool mpc_eval_max_pool_grad(mpc_eval *e) {
    pool p = read_pool(e, e->results[0].type.dims, e->operands[1].type.dims);
    return walk_pool(e, &p, step_max_grad);
}

bool mpc_eval_avg_pool(mpc_eval *e) {
    pool p = read_pool(e, e->operands[0].type.dims, e->results[0].type.dims);
    return walk_pool(e, &p, step_avg);
}

bool mpc_eval_avg_pool_grad(mpc_eval *e) {
    pool p = read_pool(e, e->results[0].type.dims, e->operands[0].type.dims);
    return walk_pool(e, &p, step_avg_grad);
}
