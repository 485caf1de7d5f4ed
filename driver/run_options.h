/* What options of a run's command line decided that the language has no words for: where the weights came from, whose
 * costs counted, what was seen of the values. run.json keeps it under `options`. */
#ifndef MPC_DRIVER_RUN_OPTIONS_H
#define MPC_DRIVER_RUN_OPTIONS_H

#include <jansson.h>

#include "driver/run_folder.h"

typedef struct mpc_repeat {
    mpc_cli cli; /* as the command line says, with what the run adds */
    mpc_options options;
    json_t *run; /* owns the texts of the run's */
    mpc_str folder;
    bool took_names; /* renames and allow_missing are its own, not the command line's */
} mpc_repeat;

/* A training of a run's completed file: takes --device, --init with its names, --loss-budget and, where nothing else is
 * asked for, the run's assignment, and says so; an option of the command line wins. Of other files and commands
 * nothing. E388: a file is missing or not the same bytes any more. Finish it in any case, after the session. */
bool mpc_repeat_prepare(mpc_repeat *r, const mpc_cli *cli);
void mpc_repeat_finish(mpc_repeat *r);

/* --cost-target or --profile-data as `given`, else of the run that the command goes on with; *value NULL: neither. */
bool mpc_run_file_option(const mpc_session *s, const char *key, const char *given, const char **value);

/* `options` of run.json, and as words of a command line: " --init /a/w.safetensors --rename 'a=b'". */
json_t *mpc_run_options_json(const mpc_session *s);
void mpc_run_options_words(const json_t *options, mpc_str *out);
/* Of resolved.mpg and of what it uses in a run's folder (with a slash at its end); `used` is that of run.json. */
bool mpc_completed_hash(const char *folder, const json_t *used, char hash[17]);

#endif
