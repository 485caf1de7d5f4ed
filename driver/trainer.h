/* The training loop and what it keeps: where training stands, what was best, and where records go. */
#ifndef MPC_DRIVER_TRAINER_H
#define MPC_DRIVER_TRAINER_H

#include "driver/flight.h"
#include "driver/progress.h"
#include "driver/run_folder.h"
#include "driver/run_log.h"
#include "driver/runner.h"
#include "runtime/checkpoint.h"

typedef struct mpc_best { /* saved in every checkpoint */
    bool known;
    double value, loss; /* of the monitored figure; loss breaks ties */
    uint64_t step;
    int64_t stale; /* evaluations since then */
} mpc_best;

enum { MPC_RECENT = 100, MPC_FEWEST_ATTEMPTS = 10 };
typedef struct mpc_recent { /* the latest windows of this process: a ring */
    bool skipped[MPC_RECENT];
    uint32_t count, next, skips;
} mpc_recent;

typedef struct mpc_trainer {
    mpc_session *session;
    const mpc_train_config *train;
    mpc_runners runners;
    mpc_run_folder folder;
    mpc_log log;
    mpc_progress progress;
    mpc_dataset *data[MPC_SPLIT_COUNT]; /* NULL: no such split */
    mpc_split monitor_split;            /* TRAIN: the mean since the last evaluation */
    const char *monitor;                /* "loss", "loss.ce", "accuracy" */
    uint32_t *rows;                     /* of the micro-batch that is fed */
    mpc_flight flight;
    mpc_position begun; /* after the last step that was begun; ahead of `cursor` by what is in flight */
    mpc_cursor
        cursor; /* after the last window that was accounted for. step: windows that ended; row: next row of the epoch */
    mpc_totals window, since_eval, evaluated;
    mpc_best best;
    uint64_t saved_step; /* the newest checkpoint's; UINT64_MAX: none */
    double started, last_eval_time, last_save_time, last_flush;
    double step_seconds, wait_seconds;                          /* of this window */
    double prepare_seconds, all_step_seconds, all_wait_seconds; /* of this process */
    uint64_t windows_run;
    int64_t window_rows;
    double skipped; /* as of the last record */
    double lost;    /* sum over windows of the share of updates lost to rounding */
    double scale;   /* as of the last record; 0: none */
    mpc_recent recent;
    bool warned_of_skips;
    bool profiled;       /* --profile was done */
    uint64_t first_step; /* windows before this process */
    mpc_runner *stopped; /* whose step set `stop`: the device refuses to go on; NULL */
    const char *reason;  /* of the end: "length", "patience", "signal", "diverged", "nonfinite" */
} mpc_trainer;

bool mpc_trainer_init(mpc_trainer *t, mpc_session *s);
/* Its parts, in this order: opens the data; makes the nominal step and the initial states; measures what is
 * standardized and checks every value of every split. */
bool mpc_trainer_open(mpc_trainer *t, mpc_session *s);
bool mpc_trainer_prepare(mpc_trainer *t);
bool mpc_trainer_bind(mpc_trainer *t);
void mpc_trainer_deinit(mpc_trainer *t);
/* Trains to the end, a signal, or a stop; then evaluates the test split. Exit status. */
int mpc_trainer_run(mpc_trainer *t);

/* ---- train_window.c ---- */
/* Begins the steps of the next window, as far as the device takes them without a record being read; accounts for steps
 * that are done on the way. Ends early when `stopped` is found. */
bool mpc_trainer_begin_window(mpc_trainer *t);
/* Accounts for the steps that are done, or, with `wait`, for all that were begun, up to one that stopped the training.
 */
bool mpc_trainer_account(mpc_trainer *t, bool wait);

/* ---- train_profile.c ---- */
bool mpc_profile_check(const mpc_trainer *t);  /* --profile isn't for `ref` */
bool mpc_profile_is_due(const mpc_trainer *t); /* for the window that begins now */
/* Begins the batch's step, timed launch by launch, and writes the trace. */
bool mpc_profile_begin(mpc_trainer *t, const mpc_batch *batch);

/* ---- train_checkpoint.c ---- */
bool mpc_trainer_save(mpc_trainer *t, bool is_best);
bool mpc_trainer_resume(mpc_trainer *t);
/* Parameters by name from --init (init_weights.c). */
bool mpc_init_weights(mpc_session *s);
/* Weights of the checkpoint folder `path`, found by --from, for eval and predict. */
bool mpc_load_weights(mpc_session *s, const char *path, mpc_load_mode mode);

/* ---- train_report.c ---- */
bool mpc_report_run(mpc_trainer *t);
bool mpc_report_step(mpc_trainer *t, mpc_runner *last);
bool mpc_report_eval(mpc_trainer *t, mpc_split split, const mpc_totals *totals, int64_t rows, bool best);
bool mpc_report_end(mpc_trainer *t);
/* W172 when most updates were lost to the rounding of parameters without masters (N73). */
void mpc_report_lost(mpc_trainer *t);
/* W170 when more than half of the recent windows were skipped; false: they weren't, or there are too few to say. */
bool mpc_report_skips(mpc_trainer *t);
/* --check-nonfinite has found something: accounts for the steps before it and ends the log. */
bool mpc_report_nonfinite(mpc_trainer *t);
bool mpc_report_stop(mpc_trainer *t, mpc_runner *runner);
/* "test loss 0.0812", "test accuracy 97.8 %" on stdout; with --json one object. */
void mpc_print_figures(const mpc_cli *cli, mpc_split split, const mpc_totals *totals, int64_t rows);
bool mpc_report_metrics(mpc_trainer *t, const mpc_totals *test, int64_t test_rows);

#endif
