/* A solver: what has many elements decides by its class, as the solver `list` does; what is small stays f32, since
 * casts of small values cost launches and save no bytes. Nodes come in topological order, so that each decision finds
 * those of its operands. */
#include <stdio.h>
#include <string.h>

#include "mpc/plugin.h"

enum { SMALL = 4096 };

static int64_t largest_value(const mpc_plugin_api *mpc, mpc_call *c, mpc_id node) {
    int64_t most = 0;
    for (uint32_t i = 0; i < mpc->operand_count(c, node) + mpc->result_count(c, node); i++) {
        uint32_t operands = mpc->operand_count(c, node);
        mpc_id v = i < operands ? mpc->operand(c, node, i) : mpc->result(c, node, i - operands);
        if (mpc->elements(c, v) > most) most = mpc->elements(c, v);
    }
    return most;
}

/* Ops that only move bits, and casts, keep what they are given. */
static bool stays_f32(const mpc_plugin_api *mpc, mpc_call *c, mpc_id node) {
    return strcmp(mpc->op_class(c, node), "CLEAR") != 0 && largest_value(mpc, c, node) < SMALL;
}

static void solve(const mpc_plugin_api *mpc, mpc_call *c) {
    static const mpc_plugin_decision f32 = {.operand = "f32", .compute = "f32", .accumulate = "", .result = "f32"};
    static const mpc_plugin_decision as_it_comes = {.operand = "", .compute = "f32", .accumulate = "", .result = "f32"};
    for (mpc_id node = 0; node < mpc->node_count(c); node++) {
        if (!mpc->open(c, node)) continue;
        bool product = strcmp(mpc->op_class(c, node), "LOW") == 0; /* all its operands have one format */
        if (stays_f32(mpc, c, node))
            mpc->decide(c, node, product ? &f32 : &as_it_comes, "small: fewer than 4096 elements");
        else mpc->decide_by_class(c, node);
    }
}

static const mpc_plugin_solver solver = {
    .size = sizeof solver, .name = "wide-small", .doc = "f32 below 4096 elements, by class above", .solve = solve};
static const mpc_plugin_solver *const solvers[] = {&solver, NULL};

static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, .name = "wide-small", .version = "1.0", .solvers = solvers};

const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
