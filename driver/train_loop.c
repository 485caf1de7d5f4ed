/* The training loop: windows are begun ahead of what is accounted for (train_window.c), and where something is due the
 * loop waits until both stand at the same step. Everything that decides the course of a training (order, batches, when
 * to evaluate) follows from the seed and the cursor, so a run that was killed and resumed ends in the same bytes, on
 * devices that run ahead as well. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "driver/interrupt.h"
#include "driver/trainer.h"

/* ---- between windows ---- */

static bool is_due(const mpc_trainer *t, mpc_quantity every, uint64_t at_step, double last_time) {
    if (every.value <= 0) return false;
    if (every.unit == MPC_UNIT_MINUTES) return mpc_now() - last_time >= every.value * 60;
    double period = every.unit == MPC_UNIT_EPOCHS ? every.value * (double)t->session->updates_per_epoch : every.value;
    double step = (double)at_step;
    return floor(step / period) > floor((step - 1) / period);
}

/* Is it due now, at the cursor? The time since counts from here then. */
static bool take_due(const mpc_trainer *t, mpc_quantity every, double *last_time) {
    if (!is_due(t, every, t->cursor.step, *last_time)) return false;
    if (every.unit == MPC_UNIT_MINUTES) *last_time = mpc_now();
    return true;
}

static bool is_finished(const mpc_trainer *t, uint64_t at_step) {
    if (t->train->length.unit == MPC_UNIT_MINUTES) return mpc_now() - t->started >= t->train->length.value * 60;
    return (double)at_step >= t->session->total_updates;
}

static bool is_stale(const mpc_trainer *t) { return t->train->patience > 0 && t->best.stale >= t->train->patience; }

/* Must everything that was begun be accounted for before the next window? */
static bool must_settle(const mpc_trainer *t) {
    uint64_t step = t->begun.step;
    return mpc_interrupt_signal() || is_finished(t, step) || is_stale(t) ||
           is_due(t, t->train->eval_every, step, t->last_eval_time) ||
           is_due(t, t->train->save_every, step, t->last_save_time);
}

/* Compares the monitored figure with the best so far. */
static bool judge(mpc_trainer *t) {
    const mpc_totals *totals = t->monitor_split == MPC_SPLIT_VALID ? &t->evaluated : &t->since_eval;
    double value = NAN;
    bool higher = false;
    mpc_totals_find(totals, t->monitor, &value, &higher);
    double loss = mpc_totals_loss(totals);
    bool is_number =
        !isnan(value) && (mpc_totals_count(totals) <= 0 || !isnan(loss)); /* an accuracy counts NaN as wrong, no more */
    bool better = is_number && (!t->best.known || (higher ? value > t->best.value : value < t->best.value));
    if (is_number && t->best.known && value == t->best.value)
        better = loss < t->best.loss; /* counted figures often tie */
    if (better) t->best = (mpc_best){.known = true, .value = value, .loss = loss, .step = t->cursor.step};
    else t->best.stale++;
    return better;
}

static bool evaluate(mpc_trainer *t, bool *better) {
    const mpc_dataset *valid = t->data[MPC_SPLIT_VALID];
    if (valid && !mpc_evaluate_split(&t->runners, valid, &t->evaluated)) return false;
    *better = judge(t);
    bool ok = valid ? mpc_report_eval(t, MPC_SPLIT_VALID, &t->evaluated, mpc_dataset_rows(valid), *better)
                    : mpc_report_eval(t, MPC_SPLIT_TRAIN, &t->since_eval, mpc_dataset_rows(t->data[MPC_SPLIT_TRAIN]),
                                      *better);
    mpc_totals_clear(&t->since_eval);
    return ok;
}

/* Evaluation and checkpoint, when they are due after a window. */
static bool between_windows(mpc_trainer *t, bool last) {
    bool better = false, save = last;
    if ((take_due(t, t->train->eval_every, &t->last_eval_time) || (last && !mpc_interrupt_signal())) &&
        !evaluate(t, &better))
        return false;
    if (take_due(t, t->train->save_every, &t->last_save_time)) save = true;
    return save || better ? mpc_trainer_save(t, better) : true;
}

/* What stands between two windows when all are accounted for. true: go on. */
static bool settle(mpc_trainer *t, bool *ok) {
    if (mpc_interrupt_signal()) t->reason = "signal";
    bool last = is_finished(t, t->cursor.step) || mpc_interrupt_signal();
    *ok = between_windows(t, last);
    if (!*ok || last) return false;
    if (!is_stale(t)) return true;
    t->reason = "patience";
    *ok = mpc_trainer_save(t, false);
    return false;
}

/* Begins a window and accounts for those that are done. true: go on with the next. */
static bool train_window(mpc_trainer *t, bool *ok) {
    bool settles = false;
    *ok = mpc_trainer_begin_window(t);
    if (*ok && !t->stopped) {
        settles = must_settle(t);
        *ok = mpc_trainer_account(t, settles);
    }
    if (!*ok) return false;
    if (!t->stopped) return !settles || settle(t, ok);
    t->reason = "diverged";
    *ok = mpc_report_stop(t, t->stopped);
    mpc_flight_drop(&t->flight); /* steps after the stop changed nothing */
    return false;
}

/* ---- the end ---- */

static bool load_best(mpc_trainer *t) {
    if (!t->best.known || t->best.step == t->cursor.step) return true;
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/step-%08" PRIu64, t->folder.checkpoints.data, t->best.step);
    bool ok = !path.failed &&
              mpc_checkpoint_load(path.data, t->session->store, MPC_LOAD_WEIGHTS, NULL, t->session->sink) == MPC_OK;
    mpc_str_free(&path);
    return ok;
}

/* The figures of the best weights: valid again, test for the first and only time. */
static bool final_figures(mpc_trainer *t) {
    const mpc_dataset *valid = t->data[MPC_SPLIT_VALID], *test = t->data[MPC_SPLIT_TEST];
    if ((valid || test) && !load_best(t)) return false;
    if (valid) {
        if (!mpc_evaluate_split(&t->runners, valid, &t->evaluated)) return false;
        mpc_print_figures(t->session->cli, MPC_SPLIT_VALID, &t->evaluated, mpc_dataset_rows(valid));
    }
    mpc_totals *totals = &t->window; /* free for use now */
    if (test) {
        if (!mpc_evaluate_split(&t->runners, test, totals)) return false;
        if (!mpc_report_eval(t, MPC_SPLIT_TEST, totals, mpc_dataset_rows(test), false)) return false;
        mpc_print_figures(t->session->cli, MPC_SPLIT_TEST, totals, mpc_dataset_rows(test));
    } else if (!valid && t->best.known) {
        printf(t->session->cli->options->json ? "{\"split\":\"train\",\"%s\":%.9g}\n" : "train %s %.4g\n", t->monitor,
               t->best.value);
    }
    return mpc_report_metrics(t, test ? totals : NULL, test ? mpc_dataset_rows(test) : 0);
}

static int finish(mpc_trainer *t) {
    mpc_progress_end(&t->progress);
    if (mpc_interrupt_signal()) {
        fprintf(stderr, "stopped by a signal after step %" PRIu64 "; go on with --resume %s\n", t->cursor.step,
                t->folder.path.data);
        return mpc_report_end(t) ? MPC_EXIT_SIGNAL + mpc_interrupt_signal() : MPC_EXIT_FAILED;
    }
    if (t->stopped) return mpc_report_end(t) ? MPC_EXIT_DIVERGED : MPC_EXIT_FAILED;
    mpc_report_skips(t);
    mpc_report_lost(t);
    return final_figures(t) && mpc_report_end(t) ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}

int mpc_trainer_run(mpc_trainer *t) {
    t->started = t->last_eval_time = t->last_save_time = mpc_now();
    t->first_step = t->cursor.step;
    if (!mpc_report_run(t)) return MPC_EXIT_FAILED;
    mpc_interrupt_install();
    mpc_progress_start(&t->progress, t->session->total_updates, t->cursor.step);
    bool ok = true;
    t->begun = (mpc_position){.step = t->cursor.step, .epoch = t->cursor.epoch, .row = t->cursor.row};
    bool nothing_to_do = is_finished(t, t->cursor.step);
    while (!nothing_to_do && train_window(t, &ok)) {
    }
    if (nothing_to_do && t->saved_step != t->cursor.step) /* of length 0: the initial weights */
        ok = mpc_trainer_save(t, false);
    int status = ok ? finish(t) : MPC_EXIT_FAILED;
    mpc_progress_end(&t->progress);
    if (t->runners.found.is) return mpc_report_nonfinite(t) ? MPC_EXIT_DIVERGED : MPC_EXIT_FAILED;
    if (!ok) mpc_log_flush(&t->log);
    return status;
}
