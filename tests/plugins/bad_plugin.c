/* Plugins with one fault each, chosen by CASE_xxx; all else is right. Each brings a good pass, `good`, too: it must not
 * be there after the plugin was refused. */
#include <stddef.h>

#include "mpc/plugin.h"

static void copy_all(const mpc_plugin_api *mpc, mpc_call *c) {
    for (mpc_id node = 0; node < mpc->node_count(c); node++) mpc->copy(c, node);
}

#ifndef CASE_no_run
static void faulty_run(const mpc_plugin_api *mpc, mpc_call *c) {
#if defined CASE_wrong_node
    (void)mpc->op(c, 1000);
#elif defined CASE_left_out
    for (mpc_id node = 1; node < mpc->node_count(c); node++) mpc->copy(c, node);
#elif defined CASE_report
    mpc->warn(c, "the graph has %u nodes", mpc->node_count(c));
    mpc->error(c, "no more than %d are allowed", 0);
    mpc->error(c, "said twice");
#endif
    copy_all(mpc, c);
}
#endif

static void solve(const mpc_plugin_api *mpc, mpc_call *c) {
    (void)mpc;
    (void)c; /* decides nothing */
}

static void shape(const mpc_plugin_api *mpc, mpc_call *c) {
#ifdef CASE_bad_shape
    mpc->error(c, "wants a matrix, not rank %u", mpc->rank(c, mpc->operand(c, MPC_SELF, 0)));
#endif
    int64_t dims[] = {1};
    mpc->set_result(c, 0, "f32", 1, dims);
}

static void nothing(const mpc_plugin_api *mpc, mpc_call *c) {
    (void)mpc;
    (void)c;
}

static const mpc_plugin_pass good = {sizeof good, "good", "copies", "", "", "", copy_all};
static const mpc_plugin_pass faulty = {
#ifdef CASE_row_size
    .size = sizeof faulty - 8,
#else
    .size = sizeof faulty,
#endif
#if defined CASE_name
    .name = "Faulty pass",
#elif defined CASE_taken
    .name = "fold",
#elif defined CASE_twice
    .name = "good",
#else
    .name = "faulty",
#endif
    .doc = "copies, but for a fault",
#ifdef CASE_words
    .options = "many:number=3",
#else
    .options = "many:int=3",
#endif
    .needs = "",
    .provides = "",
#ifndef CASE_no_run
    .run = faulty_run,
#endif
};
static const mpc_plugin_pass *const passes[] = {&good, &faulty, NULL};

static const mpc_plugin_solver lazy = {sizeof lazy, "lazy", "decides nothing", false, solve};
static const mpc_plugin_solver *const solvers[] = {&lazy, NULL};

static const mpc_plugin_op op = {
    .size = sizeof op,
    .name = "faulty_op",
    .doc = "an op",
#ifdef CASE_kernel
    .kind = "ewise",
#else
    .kind = "composite",
#endif
    .op_class = "FOLLOW",
    .flags = "",
#ifdef CASE_attrs
    .attributes = "axis:number",
#else
    .attributes = "prec:format=none",
#endif
    .min_operands = 1,
    .max_operands = 1,
    .results = 1,
    .kernel = "",
#ifdef CASE_shape_like
    .shape_like = "softmax", /* whose rule reads `axis` */
#endif
    .shape = shape,
    .eval = nothing,
#ifndef CASE_kernel
    .expand = nothing,
#endif
};
static const mpc_plugin_op *const ops[] = {&op, NULL};

static const mpc_plugin_format formats_[] = {
#ifdef CASE_format
    {sizeof(mpc_plugin_format), "wide", "too wide", 9, 3, true, false},
#else
    {sizeof(mpc_plugin_format), "m1", "one fraction bit", 5, 1, true, false},
#endif
#ifdef CASE_room
    {sizeof(mpc_plugin_format), "m2", "", 5, 2, true, false},
    {sizeof(mpc_plugin_format), "m3", "", 5, 3, true, false},
    {sizeof(mpc_plugin_format), "m4", "", 5, 4, true, false},
    {sizeof(mpc_plugin_format), "m5", "", 5, 5, true, false},
#endif
};
static const mpc_plugin_format *const formats[] = {&formats_[0],
#ifdef CASE_room
                                                   &formats_[1], &formats_[2], &formats_[3], &formats_[4],
#endif
                                                   NULL};

#ifdef CASE_late
static const mpc_plugin_costs costs = {
    .size = sizeof costs, .name = "half", .doc = "half a profile", .profile = "mpc device profile 1\nname half\n"};
#endif
static const mpc_plugin_costs *const models[] = {
#ifdef CASE_late
    &costs,
#endif
    NULL};

static const mpc_plugin plugin = {
#if defined CASE_abi
    sizeof(mpc_plugin), MPC_PLUGIN_ABI + 1, sizeof(mpc_plugin_api),
#elif defined CASE_size
    sizeof(mpc_plugin) + 8, MPC_PLUGIN_ABI,   sizeof(mpc_plugin_api),
#elif defined CASE_api_size
    sizeof(mpc_plugin), MPC_PLUGIN_ABI,   sizeof(mpc_plugin_api) - 16,
#else
    MPC_PLUGIN_VERSION,
#endif
    .name = "bad",      .version = "1.0",   .passes = passes,       .solvers = solvers,
    .costs = models,    .ops = ops,         .formats = formats,
};

const mpc_plugin *mpc_plugin_query(uint32_t abi) {
    (void)abi;
#ifdef CASE_null
    return plugin.size > 0 ? NULL : &plugin;
#else
    return &plugin;
#endif
}
