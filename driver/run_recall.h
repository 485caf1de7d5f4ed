/* What a run was made with, from its run.json: for commands that go on with its weights. */
#ifndef MPC_DRIVER_RUN_RECALL_H
#define MPC_DRIVER_RUN_RECALL_H

#include "driver/session.h"

/* Puts the overrides of the run that --from or --resume names before those of the command line. */
bool mpc_run_recall_overrides(mpc_session *s);
/* Says in a line which ones the model took; all of them when it couldn't be loaded. */
void mpc_run_say_overrides(const mpc_session *s);
/* The completed file of a run: it holds the run's overrides already, with paths that theirs would undo. */
bool mpc_run_is_completed(const char *file);
/* The folder of the run that `from` names, with a slash at its end: `from` is it, its checkpoints, or a checkpoint or
 * pointer among these. false: there is no run.json. */
bool mpc_run_find(const char *from, mpc_str *folder);
/* run.json, and its folder with a slash at its end, of the run that the command goes on with: that of --from, of
 * --resume, or the one in whose folder the model file lies. NULL: none. */
struct json_t *mpc_run_read(const mpc_options *o, mpc_str *folder);
/* W171 when a mapping takes a column by position that has another name in `d` than in the run's training data. */
void mpc_run_compare_columns(const mpc_step *step, const mpc_dataset *d, const char *path);

#endif
