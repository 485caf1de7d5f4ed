/* What a run was made with, from its run.json: for commands that go on with its weights. */
#ifndef MPC_DRIVER_RUN_RECALL_H
#define MPC_DRIVER_RUN_RECALL_H

#include "driver/session.h"

/* Puts the overrides of the run that --from or --resume names before those of the command line, and says so in a line.
 * A constant that the model file doesn't have any more is left out. */
bool mpc_run_recall_overrides(mpc_session *s);
/* W171 when a mapping takes a column by position that has another name in `d` than in the run's training data. */
void mpc_run_compare_columns(const mpc_step *step, const mpc_dataset *d, const char *path);

#endif
