/* Settings in run.json. */
#ifndef MPC_DRIVER_RUN_SETTINGS_H
#define MPC_DRIVER_RUN_SETTINGS_H

#include "frontend/frontend.h"

/* By the keys that --set and --change take. */
struct json_t *mpc_settings_json(const mpc_train_config *t);

#endif
