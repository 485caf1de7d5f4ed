/* A pass: 2 * x becomes x + x, which is the same number in every format. Everything else is copied. */
#include <string.h>

#include "mpc/plugin.h"

static bool is_two(const mpc_plugin_api *mpc, mpc_call *c, mpc_id value) {
    double number;
    return mpc->constant(c, value, &number) && number == 2;
}

/* The operand that is doubled, or MPC_NO_ID. The constant may have been spread over a tensor; then it has elements of
 * its own. */
static mpc_id doubled(const mpc_plugin_api *mpc, mpc_call *c, mpc_id node) {
    if (strcmp(mpc->op(c, node), "mul") != 0) return MPC_NO_ID;
    mpc_id a = mpc->operand(c, node, 0), b = mpc->operand(c, node, 1);
    if (is_two(mpc, c, b) && mpc->elements(c, b) == 1) return a;
    return is_two(mpc, c, a) && mpc->elements(c, a) == 1 ? b : MPC_NO_ID;
}

static void run(const mpc_plugin_api *mpc, mpc_call *c) {
    int64_t count = 0, most = mpc->option_int(c, "most");
    for (mpc_id node = 0; node < mpc->node_count(c); node++) {
        mpc_id x = count < most ? doubled(mpc, c, node) : MPC_NO_ID;
        if (x == MPC_NO_ID) {
            mpc->copy(c, node);
            continue;
        }
        mpc_id twice[] = {mpc->mapped(c, x), mpc->mapped(c, x)};
        mpc->dress(c, node);
        mpc->replace(c, mpc->result(c, node, 0), mpc->build(c, "add", twice, 2, NULL, 0));
        count++;
    }
}

static const mpc_plugin_pass pass = {
    .size = sizeof pass,
    .name = "double-add",
    .doc = "x + x for 2 * x",
    .options = "most:int=1000000",
    .needs = "",
    .provides = "",
    .run = run,
};
static const mpc_plugin_pass *const passes[] = {&pass, NULL};

static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, .name = "double-add", .version = "1.0", .passes = passes};

const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
