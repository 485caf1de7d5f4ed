/* The registry on a device that compiles, judged as harness.h says. */
#ifndef MPC_TESTS_OPS_REGISTRY_H
#define MPC_TESTS_OPS_REGISTRY_H

#include "device_run.h"
#include "harness.h"

/* Every case of the ops named (count 0: of all ops): exactly rounded ops to the bit, the others within their bounds, in
 * every format. `errors`: set while the diagnostics of `ctx` are of interest. 0: all well, as check_result. */
int ops_check_registry(mpc_context *ctx, ops_on on, char *const *names, int count, bool *errors);

/* The same for cases that are there already; `list` is freed. */
int ops_check_list(mpc_context *ctx, ops_on on, ops_list list);

#endif
