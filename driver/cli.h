/* The command line: one options struct, filled from a table of option rows; one row and one file per command. */
#ifndef MPC_DRIVER_CLI_H
#define MPC_DRIVER_CLI_H

#include <stdio.h>

#include "base/diag.h"
#include "base/map.h"
#include "base/str.h"
#include "frontend/frontend.h"

enum { MPC_EXIT_DONE = 0, MPC_EXIT_FAILED = 1, MPC_EXIT_USAGE = 2, MPC_EXIT_DIVERGED = 3, MPC_EXIT_SIGNAL = 128 };

typedef struct mpc_text_list {
    const char **data;
    size_t count, capacity;
} mpc_text_list;

typedef struct mpc_options {
    const char *file, *argument; /* positional: FILE, then what else the command takes */
    const char *device;
    bool has_device;      /* given, not the default */
    bool repeats;         /* the file is the completed one of a run, which is trained again (run_options.h) */
    bool same_assignment; /* in the formats that it had */
    const char *out, *resume, *init, *from, *which, *split, *input, *prompt;
    const char *lock; /* train --lock */
    const char *profile_data; /* what `mpc profile` wrote */
    const char *stage, *format, *cost_target, *passes, *emit, *arch, *dump_dir, *print_after, *profile;
    int64_t threads, length;
    int64_t top_k; /* predict; 0: all */
    double temperature;
    double loss_budget; /* train, explain --loss-budget */
    const char *sensitivity;
    int64_t loss_check; /* batches of the check; -1: not given */
    bool has_loss_budget;
    bool no_tensorboard, check_nonfinite;
    bool json, short_form, overwrite, reasons, units, memory, dot, compare_solvers;
    bool verify_each, print_changed, time_passes, stats;
    bool check, to_stdout, label; /* fmt */
    bool params;                  /* summary */
    int64_t jobs, random;         /* sweep; random 0: all combinations */
    mpc_text_list over;           /* sweep: KEY=V1,V2 */
    bool strict;                  /* nothing else than what was asked for */
    bool has_seed;
    uint64_t seed;
    mpc_text_list set, consts, changes, renames, allow_missing, plugins; /* KEY=VALUE as given */
    mpc_text_list added_passes; /* AFTER=PIPELINE */
    mpc_text_list files;        /* all positional arguments, for commands that take any number of them */
    mpc_text_list other_set; /* diff-ir --other: KEY=VALUE of B alone */
    mpc_text_list shorthand; /* "precision=f16" from --precision f16: as --set, but named after the option */
} mpc_options;

typedef struct mpc_text_edit { /* of the text of a model or of a file that it uses, to be looked at with a word changed */
    const char *file; /* as sources name it */
    uint32_t line;
    const char *from, *to; /* the first `from` of the line becomes `to`; "": before its first letter */
} mpc_text_edit;

typedef struct mpc_cli { /* what every command gets */
    const mpc_options *options;
    const mpc_text_edit *edit; /* of the model's text; NULL: as it stands */
    mpc_sources *sources;
    mpc_sink sink; /* renders to stderr */
    int argc;
    char **argv;
} mpc_cli;

typedef struct mpc_command {
    const char *name, *arguments, *doc;
    unsigned group; /* bits of MPC_OPT_xxx: which options it takes */
    int positional_min, positional_max;
    int (*run)(mpc_cli *cli); /* exit status */
} mpc_command;

enum {                    /* option groups */
       MPC_OPT_MODEL = 1, /* what every command on a .mpg takes */
       MPC_OPT_TRAIN = 2,
       MPC_OPT_FROM = 4,
       MPC_OPT_PREDICT = 8,
       MPC_OPT_IR = 16,
       MPC_OPT_EXPLAIN = 32,
       MPC_OPT_COMPILE = 64,
       MPC_OPT_PASSES = 128,
       MPC_OPT_OUT = 256,
       MPC_OPT_DIFF = 512,
       MPC_OPT_SEED = 1024,
       MPC_OPT_PROFILE = 8192,
       MPC_OPT_ANY = 2048, /* --json, --short */
       MPC_OPT_PLUGIN = 4096,
       MPC_OPT_SUMMARY = 16384,
       MPC_OPT_SWEEP = 32768,
       MPC_OPT_FMT = 65536,
       MPC_OPT_EVAL = 131072,
       MPC_OPT_CHECK = 262144,
};

const mpc_command *mpc_command_find(const char *name);
uint32_t mpc_command_count(void);
const mpc_command *mpc_command_at(uint32_t index);

/* false after a message to stderr: wrong usage. */
bool mpc_options_parse(mpc_options *o, const mpc_command *command, int argc, char **argv);
void mpc_options_free(mpc_options *o);
/* The setting that `--NAME VALUE` stands for: "length" for steps, "seed" for seed. NULL: it is no such option. */
const char *mpc_option_setting(const char *name);
/* The options of a command as text, for `mpc help COMMAND`. */
void mpc_options_describe(const mpc_command *command, mpc_str *out);
bool mpc_text_list_push(mpc_text_list *list, const char *text);

/* Overrides for mpc_model_load, in the order: --const, --set, shorthands, --change (later ones win). The texts in
 * `owned` live as long as the list. */
typedef struct mpc_override_list {
    mpc_override *data;
    size_t count, capacity;
    mpc_arena *owned;
} mpc_override_list;
bool mpc_overrides_make(const mpc_options *o, mpc_override_list *out);
void mpc_overrides_free(mpc_override_list *list);

/* Diagnostics to stderr: rendered, or one JSON object a line. */
typedef struct mpc_diag_printer {
    mpc_sources *sources;
    bool json, short_form, color;
    FILE *to;
} mpc_diag_printer;
mpc_sink mpc_diag_printer_sink(mpc_diag_printer *printer);
/* From here on nothing is said, for trials that the user didn't ask for. The sink as it was, to be put back. */
mpc_sink mpc_cli_mute(mpc_cli *cli);

/* A file's text into the sources, under this name (cli.c). 0 after diagnostics. */
uint32_t mpc_cli_read_source(mpc_cli *cli, const char *path, const char *name);
/* The file once more, with the edit, or as it is where the edit is another file's; 0: it has no such line, or no memory (text_edit.c). */
uint32_t mpc_edit_source(mpc_sources *sources, uint32_t file, const mpc_text_edit *edit);
/* --add-pass: pipelines after the passes that they name, in a pipeline's text (added_passes.c). */
void mpc_add_passes(const mpc_text_list *added, mpc_str *pipeline);
/* Each stands after a pass that exists; false after a diagnostic. */
bool mpc_check_added_passes(const mpc_text_list *added, const mpc_context *ctx, const mpc_sink *sink);
/* A context with all built-in rules and plugins, for commands without a model; NULL after diagnostics (plugins.c). */
mpc_context *mpc_cli_context(mpc_cli *cli);

int mpc_cmd_train(mpc_cli *cli);
int mpc_cmd_eval(mpc_cli *cli);
int mpc_cmd_predict(mpc_cli *cli);
int mpc_cmd_dump_ir(mpc_cli *cli);
int mpc_cmd_explain(mpc_cli *cli);
int mpc_cmd_diff_ir(mpc_cli *cli);
int mpc_cmd_compile(mpc_cli *cli);
int mpc_cmd_config(mpc_cli *cli);
int mpc_cmd_summary(mpc_cli *cli);
int mpc_cmd_check(mpc_cli *cli);
int mpc_cmd_sweep(mpc_cli *cli);
int mpc_cmd_opt(mpc_cli *cli);
int mpc_cmd_ops(mpc_cli *cli);
int mpc_cmd_blocks(mpc_cli *cli);
int mpc_cmd_passes(mpc_cli *cli);
int mpc_cmd_calibrate(mpc_cli *cli);
int mpc_cmd_fmt(mpc_cli *cli);
int mpc_cmd_info(mpc_cli *cli);
int mpc_cmd_lint(mpc_cli *cli);
int mpc_cmd_profile(mpc_cli *cli);
int mpc_cmd_help(mpc_cli *cli);

#endif
