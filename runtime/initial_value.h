/* Initial values of states, by seed, path and element only. */
#ifndef MPC_RUNTIME_INITIAL_VALUE_H
#define MPC_RUNTIME_INITIAL_VALUE_H

#include "runtime/device.h"

bool mpc_is_known_init(const char *init);
/* Fills a state that is no copy; what comes from a file or another state is zero until then. False: out of memory. */
bool mpc_init_state(const mpc_store_entry *e, uint64_t seed);

#endif
