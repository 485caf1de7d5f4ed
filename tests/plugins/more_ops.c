/* What the example of an op doesn't use: a primitive with a kernel, a shape rule of its own, attributes, two results,
 * and a composite that is differentiated by its expansion; and solvers: one that asks for prices, one that knows no rule. */
#include <math.h>
#include <string.h>

#include "mpc/plugin.h"

/* cube(x): a primitive */
static void cube_grad(const mpc_plugin_api *mpc, mpc_call *c) {
    mpc_id x = mpc->operand(c, MPC_SELF, 0);
    mpc_id square[] = {x, x};
    mpc_id scaled[] = {mpc->build(c, "mul", square, 2, NULL, 0), mpc->number(c, 3)};
    mpc_id product[] = {mpc->dresult(c, 0), mpc->build(c, "mul", scaled, 2, NULL, 0)};
    mpc->emit(c, 0, "mul", product, 2, NULL, 0);
}

static void cube_eval(const mpc_plugin_api *mpc, mpc_call *c) {
    const double *x = mpc->operand_data(c, 0);
    double *y = mpc->result_data(c, 0);
    for (int64_t i = 0, n = mpc->elements(c, mpc->operand(c, MPC_SELF, 0)); i < n; i++) y[i] = x[i] * x[i] * x[i];
}

static const mpc_plugin_op cube = {
    .size = sizeof cube,
    .name = "cube",
    .doc = "x to the third",
    .kind = "ewise",
    .op_class = "FOLLOW",
    .flags = "",
    .attributes = "prec:format=none",
    .min_operands = 1,
    .max_operands = 1,
    .results = 1,
    .kernel = "$0 * $0 * $0",
    .shape_like = "tanh",
    .eval = cube_eval,
    .grad = cube_grad,
};

/* spread(x, axis, by): (largest - smallest) * by along an axis, which goes, and the sum along it */
static void spread_shape(const mpc_plugin_api *mpc, mpc_call *c) {
    mpc_id x = mpc->operand(c, MPC_SELF, 0);
    int64_t axis = mpc->attr_int(c, MPC_SELF, "axis", 0), dims[8];
    uint32_t rank = mpc->rank(c, x), kept = 0;
    if (axis < 0 || axis >= rank) mpc->error(c, "axis %d of rank %u does not exist", (int)axis, rank);
    for (uint32_t i = 0; i < rank; i++)
        if (i != axis) dims[kept++] = mpc->dim(c, x, i);
    for (uint32_t r = 0; r < 2; r++) mpc->set_result(c, r, mpc->format(c, x), kept, dims);
}

static void spread_expand(const mpc_plugin_api *mpc, mpc_call *c) {
    mpc_id x = mpc->operand(c, MPC_SELF, 0);
    int64_t axis = mpc->attr_int(c, MPC_SELF, "axis", 0);
    mpc_plugin_attr axes[] = {MPC_INTS("axes", &axis, 1), MPC_BOOL("keep", false)};
    mpc_id ends[] = {mpc->build(c, "max", &x, 1, axes, 2), mpc->build(c, "min", &x, 1, axes, 2)};
    mpc_id scaled[] = {mpc->build(c, "sub", ends, 2, NULL, 0), mpc->number(c, mpc->attr_float(c, MPC_SELF, "by", 1))};
    mpc->emit(c, 0, "mul", scaled, 2, NULL, 0);
    if (mpc->wanted(c, 1)) mpc->give(c, 1, mpc->build(c, "sum", &x, 1, axes, 2));
}

/* Of a matrix along its last axis, which is what the test asks for. */
static void spread_eval(const mpc_plugin_api *mpc, mpc_call *c) {
    mpc_id self = mpc->operand(c, MPC_SELF, 0);
    const double *x = mpc->operand_data(c, 0);
    double *y = mpc->result_data(c, 0), *sum = mpc->result_data(c, 1);
    int64_t columns = mpc->dim(c, self, mpc->rank(c, self) - 1),
            rows = columns > 0 ? mpc->elements(c, self) / columns : 0;
    for (int64_t r = 0; r < rows; r++) {
        double least = x[r * columns], most = least;
        sum[r] = 0;
        for (int64_t i = 0; i < columns; i++) {
            least = fmin(least, x[r * columns + i]);
            most = fmax(most, x[r * columns + i]);
            sum[r] += x[r * columns + i];
        }
        y[r] = (most - least) * mpc->attr_float(c, MPC_SELF, "by", 1);
    }
}

static const mpc_plugin_op spread = {
    .size = sizeof spread,
    .name = "spread",
    .doc = "largest less smallest along an axis, and the sum",
    .kind = "composite",
    .op_class = "HIGH",
    .flags = "",
    .attributes = "axis:int by:float=1",
    .min_operands = 1,
    .max_operands = 1,
    .results = 2,
    .kernel = "",
    .shape = spread_shape,
    .eval = spread_eval,
    .expand = spread_expand,
};
static const mpc_plugin_op *const ops[] = {&cube, &spread, NULL};

/* A solver that asks for prices: each product for itself, casts of its operands included; all else by class. */
static bool pays(const mpc_plugin_api *mpc, mpc_call *c, mpc_id node, const char *low) {
    double wide = mpc->price_op(c, node, "f32"), narrow = mpc->price_op(c, node, low);
    for (uint32_t i = 0; i < mpc->operand_count(c, node); i++) {
        mpc_id x = mpc->operand(c, node, i);
        narrow += mpc->price_cast(c, x, mpc->planned(c, x), low);
    }
    return narrow < wide;
}

static void by_price(const mpc_plugin_api *mpc, mpc_call *c) {
    static const mpc_plugin_decision f32 = {"f32", "f32", "", "f32"};
    for (mpc_id node = 0; node < mpc->node_count(c); node++) {
        if (!mpc->open(c, node)) continue;
        bool product = mpc->op_class(c, node)[0] == 'L';
        if (product && !pays(mpc, c, node, mpc->low(c))) mpc->decide(c, node, &f32, "f32 costs less here");
        else mpc->decide_by_class(c, node);
    }
}

static const mpc_plugin_solver priced = {sizeof priced, "by-price", "products one by one", true, by_price};
/* Wants everything low, the step's own arithmetic too. */
static void all_low(const mpc_plugin_api *mpc, mpc_call *c) {
    const mpc_plugin_decision low = {mpc->low(c), "f32", "", mpc->low(c)};
    for (mpc_id node = 0; node < mpc->node_count(c); node++) {
        if (!mpc->open(c, node)) continue;
        if (strcmp(mpc->op(c, node), "cast") == 0) mpc->decide_by_class(c, node);
        else mpc->decide(c, node, &low, "all low");
    }
}

static const mpc_plugin_solver greedy = {sizeof greedy, "all-low", "everything low", false, all_low};
static const mpc_plugin_solver *const solvers[] = {&priced, &greedy, NULL};

static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, .name = "more-ops", .version = "1.0", .ops = ops,
                                  .solvers = solvers};

const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
