/* The files that a model uses, from disk; and their copies in a run's folder. */
#ifndef MPC_DRIVER_USED_FILES_H
#define MPC_DRIVER_USED_FILES_H

#include <jansson.h>

#include "driver/run_folder.h"

/* mpc_model_load_using with files beside the model's (`file` in the session's sources, read from options->file). */
mpc_model *mpc_load_model_files(mpc_session *s, uint32_t file);
/* Copies what the model uses to used/, such that resolved.mpg finds it there. */
bool mpc_keep_used_files(const mpc_run_folder *f, mpc_session *s);
/* W174 for what has changed since the run was made that --from or --resume names. */
void mpc_compare_used_files(const mpc_session *s);
/* [{"file": ..., "copy": "used/blocks.mpg", "hash": ...}] */
json_t *mpc_used_files_json(const mpc_session *s);

#endif
