/* A cost model: an imaginary accelerator whose matrix unit takes bf16 only, and which converts on the way when a
 * product has fewer than 64 rows, so that these cost three times as much. The profile says the rest. */
#include <string.h>

#include "mpc/plugin.h"

static const char profile[] = "mpc device profile 1\n"
                              "name toy-npu\n"
                              "attention expanded\n"
                              "lacks f16\n"
                              "bandwidth 1e11\n"
                              "cache_bandwidth 4e11\n"
                              "cache_bytes 4e6\n"
                              "gap 2e-6\n"
                              "convert 2e10\n"
                              "# op format flops/s setup rows columns depth align misaligned\n"
                              "matmul f32 1e12 1e-6 1 1 1 1 1\n"
                              "matmul bf16 2e13 1e-6 32 32 32 8 2\n"
                              "conv f32 1e12 1e-6 1 1 1 1 1\n"
                              "conv bf16 2e13 1e-6 32 32 32 8 2\n"
                              "attention f32 1e12 1e-6 1 1 1 1 1\n";

static double price(const mpc_plugin_api *mpc, mpc_call *c, mpc_id node, const char *format, double seconds) {
    if (strcmp(format, "f32") == 0) return seconds;
    mpc_id x = mpc->operand(c, node, 0);
    return mpc->rank(c, x) > 0 && mpc->dim(c, x, 0) < 64 ? 3 * seconds : seconds;
}

static const mpc_plugin_costs costs = {.size = sizeof costs,
                                       .name = "toy-npu",
                                       .doc = "bf16 matrix unit that wants 64 rows",
                                       .profile = profile,
                                       .price = price};
static const mpc_plugin_costs *const models[] = {&costs, NULL};

static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, .name = "toy-npu", .version = "1.0", .costs = models};

const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
