/* An op: softsign(x) = x / (1 + |x|), a cheap relative of tanh. Its expansion is the formula; its gradient, dy / (1 +
 * |x|)^2, is shorter than what differentiating the formula would give, which needs the sign of x and stumbles over it
 * at 0. */
#include <math.h>

#include "mpc/plugin.h"

/* 1 + |x| of a value that has been built */
static mpc_id denominator(const mpc_plugin_api *mpc, mpc_call *c, mpc_id x) {
    mpc_id parts[] = {mpc->build(c, "abs", &x, 1, NULL, 0), mpc->number(c, 1)};
    return mpc->build(c, "add", parts, 2, NULL, 0);
}

static void expand(const mpc_plugin_api *mpc, mpc_call *c) {
    mpc_id x = mpc->operand(c, MPC_SELF, 0);
    mpc_id quotient[] = {x, denominator(mpc, c, x)};
    mpc->emit(c, 0, "div", quotient, 2, NULL, 0);
}

static void grad(const mpc_plugin_api *mpc, mpc_call *c) {
    if (!mpc->wanted(c, 0) || mpc->dresult(c, 0) == MPC_NO_ID) return;
    mpc_id d = denominator(mpc, c, mpc->operand(c, MPC_SELF, 0));
    mpc_id factors[] = {d, d};
    mpc_id quotient[] = {mpc->dresult(c, 0), mpc->build(c, "mul", factors, 2, NULL, 0)};
    mpc->emit(c, 0, "div", quotient, 2, NULL, 0);
}

static void eval(const mpc_plugin_api *mpc, mpc_call *c) {
    const double *x = mpc->operand_data(c, 0);
    double *y = mpc->result_data(c, 0);
    int64_t n = mpc->elements(c, mpc->operand(c, MPC_SELF, 0));
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1 + fabs(x[i]));
}

static const mpc_plugin_op op = {
    .size = sizeof op,
    .name = "softsign",
    .doc = "x / (1 + |x|)",
    .kind = "composite",
    .op_class = "FOLLOW",
    .flags = "",
    .attributes = "prec:format=none",
    .min_operands = 1,
    .max_operands = 1,
    .results = 1,
    .kernel = "",
    .shape_like = "tanh",
    .eval = eval,
    .expand = expand,
    .grad = grad,
};
static const mpc_plugin_op *const ops[] = {&op, NULL};

static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, .name = "softsign", .version = "1.0", .ops = ops};

const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
