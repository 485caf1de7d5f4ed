/* Several trainings of one model that differ in what `--over KEY=V1,V2` lists: which ones there are, how each is run as
 * a process of its own, and what came of them. */
#ifndef MPC_DRIVER_SWEEP_H
#define MPC_DRIVER_SWEEP_H

#include <jansson.h>
#include <sys/types.h>

#include "driver/run_folder.h"

typedef enum mpc_sweep_kind { MPC_SWEEP_CONST, MPC_SWEEP_SETTING, MPC_SWEEP_OPTION } mpc_sweep_kind;

typedef struct mpc_sweep_key { /* one --over */
    const char *text;          /* as given */
    const char *key;           /* "optimizer.lr" */
    mpc_sweep_kind kind;       /* what takes it: --const, --set, or an option of its name */
    mpc_text_list values;
} mpc_sweep_key;

typedef struct mpc_sweep_run {
    const char *name; /* "001": its folder, and the stem of NAME.txt, which holds what it says */
    uint64_t choice;  /* which combination: value indices in mixed radix, the last key's change first */
    pid_t pid;        /* 0: not running */
    double began;
    json_t *record; /* its line of sweep.jsonl; NULL: not finished */
    bool resumes;   /* has a checkpoint to go on from */
} mpc_sweep_run;

typedef struct mpc_sweep {
    mpc_cli *cli;
    mpc_session *session; /* of the model without the keys */
    mpc_arena *arena;
    mpc_sweep_key *keys;
    uint32_t key_count;
    mpc_sweep_run *runs;
    uint32_t run_count;
    mpc_str folder;
    mpc_folder_hold hold;
    unsigned threads; /* of each run */
} mpc_sweep;

/* ---- sweep_grid.c ---- */
/* Reads --over and makes the list of runs. MPC_EXIT_DONE, or an exit status after messages. */
int mpc_sweep_plan(mpc_sweep *s);
const char *mpc_sweep_value(const mpc_sweep *s, const mpc_sweep_run *run, uint32_t key);
void mpc_sweep_release(mpc_sweep *s);

/* ---- sweep_words.c ---- */
/* argv of a run, from "train" on, NULL-terminated; texts live as long as the sweep. false: out of memory. */
bool mpc_sweep_words(mpc_sweep *s, const mpc_sweep_run *run, mpc_text_list *out);
/* The words of the command line that every run gets. */
bool mpc_sweep_common_words(mpc_sweep *s, bool resumes, mpc_text_list *out);
/* Loads the model as each run would, so that a mistake in a key or value is found before anything runs. */
bool mpc_sweep_try(mpc_sweep *s);

/* ---- sweep_folder.c ---- */
/* The folder of the sweep, made or found; runs that are finished there get their records. */
bool mpc_sweep_open_folder(mpc_sweep *s);
/* Appends a run's line to sweep.jsonl, whole. */
bool mpc_sweep_append(mpc_sweep *s, const mpc_sweep_run *run);

/* ---- sweep_jobs.c ---- */
/* Runs what isn't finished, --jobs at a time. false: a run couldn't even be started; a signal stops all runs. */
bool mpc_sweep_run_all(mpc_sweep *s);

/* ---- sweep_results.c ---- */
/* The record of a run that ended. NULL: out of memory. */
json_t *mpc_sweep_record(const mpc_sweep *s, const mpc_sweep_run *run, int status, double seconds);
/* "optimizer.lr=3e-4 seed=1" */
void mpc_sweep_append_choice(const mpc_sweep *s, const mpc_sweep_run *run, mpc_str *out);
/* The table, or one JSON object a line, the best run first. */
bool mpc_sweep_print(mpc_sweep *s);
/* The runs that failed; those that diverged have done what they could. */
uint32_t mpc_sweep_failures(const mpc_sweep *s);

#endif
