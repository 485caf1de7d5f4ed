/* Which device costs are for. */
#ifndef MPC_DRIVER_COST_TARGET_H
#define MPC_DRIVER_COST_TARGET_H

#include "driver/session.h"
#include "passes/precision/cost.h"

/* --cost-target NAME|FILE, else a built-in profile for the session's device. Lives as long as the context. NULL after a diagnostic. */
const mpc_device_profile *mpc_cost_target(mpc_session *s);
/* The built-in profile that is nearest to this machine's processor. */
const char *mpc_cost_target_of_cpu(void);

#endif
