/* Random graphs on a device that compiles. */
#ifndef MPC_TESTS_OPS_RANDOM_CHECK_H
#define MPC_TESTS_OPS_RANDOM_CHECK_H

#include "device_run.h"

/* Every output of `count` graphs equals the evaluator's to the bit. 0: all well, as check_result. */
int ops_check_random(mpc_context *ctx, ops_on on, uint64_t first, size_t count);

#endif
