/* Settings in run.json, and lists of texts in it. */
#ifndef MPC_DRIVER_RUN_SETTINGS_H
#define MPC_DRIVER_RUN_SETTINGS_H

#include "frontend/frontend.h"

/* By the keys that --set and --change take. */
struct json_t *mpc_settings_json(const mpc_train_config *t);
struct json_t *mpc_texts_json(const char *const *texts, size_t count);

#endif
