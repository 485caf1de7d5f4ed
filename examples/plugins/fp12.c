/* Two formats: fp12 is bf16 with four fraction bits less, e3m4 an 8-bit float with a narrow range that saturates. Both
 * are simulated: rounded exactly, stored in 4 bytes. */
#include "mpc/plugin.h"

static const mpc_plugin_format fp12 = {.size = sizeof fp12,
                                       .name = "fp12",
                                       .doc = "8 exponent bits, 3 fraction bits",
                                       .exponent_bits = 8,
                                       .fraction_bits = 3,
                                       .infinities = true,
                                       .saturates = false};
static const mpc_plugin_format e3m4 = {.size = sizeof e3m4,
                                       .name = "e3m4",
                                       .doc = "3 exponent bits, 4 fraction bits, saturates at 30",
                                       .exponent_bits = 3,
                                       .fraction_bits = 4,
                                       .infinities = false,
                                       .saturates = true};
static const mpc_plugin_format *const formats[] = {&fp12, &e3m4, NULL};

static const mpc_plugin plugin = {MPC_PLUGIN_VERSION, .name = "fp12", .version = "1.0", .formats = formats};

const mpc_plugin *mpc_plugin_query(uint32_t abi) { return abi == MPC_PLUGIN_ABI ? &plugin : NULL; }
