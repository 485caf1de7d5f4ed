/* Convolutions: x [n,h,w,c], weights [kh,kw,c/groups,out], dy [n,ho,wo,out]. One walk over (output place, tap) serves
 * the forward op and both gradients; the inner loop always runs over the output channels of a group, which are
 * contiguous in weights and dy. */
#include <string.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

typedef struct conv {
    const int64_t *x, *w, *y; /* dims */
    int64_t stride[2], pad[2], dilation[2], groups;
} conv;

/* One image element meeting one tap: rows of channels. */
typedef struct meeting {
    int64_t x, w,
        y; /* offsets: of x[.., first channel of the group], w[tap, 0, first out of the group], y[.., first out] */
    int64_t channels, outs, w_row; /* per group; outs of all groups */
} meeting;

typedef void (*conv_step)(void *user, const meeting *at);

static conv read_conv(const mpc_eval *e, const int64_t *x, const int64_t *w, const int64_t *y) {
    conv c = {.x = x, .w = w, .y = y, .groups = mpc_attr_int(e->graph, e->node, "groups")};
    memcpy(c.stride, mpc_attr_ints(e->graph, e->node, "stride").data, sizeof c.stride);
    memcpy(c.pad, mpc_attr_ints(e->graph, e->node, "pad").data, sizeof c.pad);
    memcpy(c.dilation, mpc_attr_ints(e->graph, e->node, "dilation").data, sizeof c.dilation);
    return c;
}

static void meet_groups(const conv *c, const int64_t place[3], const int64_t tap[2], conv_step step, void *user) {
    int64_t h = place[1] * c->stride[0] + tap[0] * c->dilation[0] - c->pad[0];
    int64_t w = place[2] * c->stride[1] + tap[1] * c->dilation[1] - c->pad[1];
    if (h < 0 || h >= c->x[1] || w < 0 || w >= c->x[2]) return;
    meeting m = {.channels = c->w[2], .outs = c->w[3] / c->groups, .w_row = c->w[3]};
    for (int64_t g = 0; g < c->groups; g++) {
        m.x = ((place[0] * c->x[1] + h) * c->x[2] + w) * c->x[3] + g * m.channels;
        m.w = (tap[0] * c->w[1] + tap[1]) * c->w[2] * c->w[3] + g * m.outs;
        m.y = ((place[0] * c->y[1] + place[1]) * c->y[2] + place[2]) * c->y[3] + g * m.outs;
        step(user, &m);
    }
}

static void walk_taps(const conv *c, const int64_t place[3], conv_step step, void *user) {
    for (int64_t i = 0; i < c->w[0]; i++)
        for (int64_t j = 0; j < c->w[1]; j++) meet_groups(c, place, (int64_t[2]){i, j}, step, user);
}

static void walk_conv(const conv *c, conv_step step, void *user) {
    for (int64_t n = 0; n < c->y[0]; n++)
        for (int64_t i = 0; i < c->y[1]; i++)
            for (int64_t j = 0; j < c->y[2]; j++) walk_taps(c, (int64_t[3]){n, i, j}, step, user);
}

typedef struct arrays {
    const double *x, *w, *y;
    double *out;
    mpc_format acc; /* none: no rounding of partial sums */
} arrays;

static void step_forward(void *user, const meeting *m) {
    const arrays *a = user;
    for (int64_t c = 0; c < m->channels; c++)
        for (int64_t o = 0; o < m->outs; o++) {
            double *y = &a->out[m->y + o];
            *y += a->x[m->x + c] * a->w[m->w + c * m->w_row + o];
            if (a->acc != MPC_FMT_none) *y = mpc_round_to(a->acc, *y);
        }
}

static void step_input(void *user, const meeting *m) {
    const arrays *a = user;
    for (int64_t c = 0; c < m->channels; c++) {
        double sum = 0;
        for (int64_t o = 0; o < m->outs; o++) sum += a->y[m->y + o] * a->w[m->w + c * m->w_row + o];
        a->out[m->x + c] += sum;
    }
}

static void step_weight(void *user, const meeting *m) {
    const arrays *a = user;
    for (int64_t c = 0; c < m->channels; c++)
        for (int64_t o = 0; o < m->outs; o++) a->out[m->w + c * m->w_row + o] += a->x[m->x + c] * a->y[m->y + o];
}

bool mpc_eval_conv2d(mpc_eval *e) {
    const int64_t *y = e->results[0].type.dims;
    conv c = read_conv(e, e->operands[0].type.dims, e->operands[1].type.dims, y);
    mpc_format acc = mpc_attr_format(e->graph, e->node, "acc");
    arrays a = {.x = e->operands[0].data, .w = e->operands[1].data, .out = e->results[0].data};
    a.acc = e->exact && mpc_format_is_low(acc) ? acc : MPC_FMT_none;
    walk_conv(&c, step_forward, &a);
    mpc_eval_epilogue(e, y[0] * y[1] * y[2], y[3]);
    return true;
}

bool mpc_eval_conv2d_grad_input(mpc_eval *e) {
    conv c = read_conv(e, e->results[0].type.dims, e->operands[1].type.dims, e->operands[0].type.dims);
    arrays a = {.y = e->operands[0].data, .w = e->operands[1].data, .out = e->results[0].data};
    walk_conv(&c, step_input, &a);
    return true;
}

bool mpc_eval_conv2d_grad_weight(mpc_eval *e) {
    conv c = read_conv(e, e->operands[0].type.dims, e->results[0].type.dims, e->operands[1].type.dims);
    arrays a = {.x = e->operands[0].data, .y = e->operands[1].data, .out = e->results[0].data};
    walk_conv(&c, step_weight, &a);
    return true;
}
