/* Plugins of a session, and those that a run was made with: run.json has their paths and hashes, `used/` copies. */
#ifndef MPC_DRIVER_RUN_PLUGINS_H
#define MPC_DRIVER_RUN_PLUGINS_H

#include "driver/run_folder.h"

/* Loads the plugins of the run that the command goes on with (--from, --resume, or a model file in a run's folder),
 * then those of the command line; of two with one file name the command line's is taken. A run's plugin that is missing
 * or not the same bytes any more is E375. Takes --add-pass from the run too, where the command line has none. */
bool mpc_run_load_plugins(mpc_session *s);
/* For run.json: [{path, hash, copy}]. */
struct json_t *mpc_run_plugins_json(const mpc_session *s);
/* Copies of the session's plugins into `used/` of the folder. */
bool mpc_run_keep_plugins(const mpc_run_folder *f, const mpc_session *s);

#endif
