/* What a run was made with, from its run.json: for commands that go on with its weights. */
#ifndef MPC_DRIVER_RUN_RECALL_H
#define MPC_DRIVER_RUN_RECALL_H

#include "driver/session.h"

/* Reads run.json of the run that the command goes on with into the session: that of --from, of --resume, or the one in
 * whose folder the model file lies. None is no error. */
void mpc_run_read(mpc_session *s);
/* Puts the overrides of the run that --from or --resume names before those of the command line. */
bool mpc_run_recall_overrides(mpc_session *s);
/* Says in a line which ones the model took; all of them when it couldn't be loaded. */
void mpc_run_say_overrides(const mpc_session *s);
/* run.json of --from or --resume, with another model file than the completed one of a run, which holds the run's
 * overrides and files already; else NULL. */
const struct json_t *mpc_run_of_weights(const mpc_session *s);
/* run.json beside a completed file, and their folder with a slash at its end; NULL for other files. */
struct json_t *mpc_run_of_completed(const char *file, mpc_str *folder);
/* W171 when a mapping takes a column by position that has another name in `d` than in the run's training data. */
void mpc_run_compare_columns(const mpc_step *step, const mpc_dataset *d, const char *path);

#endif
