/* The training loop. A window is what one update takes: `accumulate` micro-batches, fewer at the end of an epoch.
 * Everything that decides the course of a training (order, batches, when to evaluate) follows from the seed and the
 * cursor, so a run that was killed and resumed ends in the same bytes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/interrupt.h"
#include "driver/trainer.h"

static bool out_of_memory(const mpc_trainer *t) {
    mpc_error(t->session->sink, "E901", "out of memory");
    return false;
}

/* ---- set-up ---- */

static bool open_splits(mpc_trainer *t) {
    for (int i = 0; i <= MPC_SPLIT_TEST; i++) {
        bool missing;
        t->data[i] = mpc_session_split(t->session, (mpc_split)i, &missing);
        if (!t->data[i] && !missing) return false;
        if (t->data[i] || i != MPC_SPLIT_TRAIN) continue;
        mpc_error(t->session->sink, "E355", "the data section has no `train`: there is nothing to train on");
        return false;
    }
    mpc_session_learn_facts(t->session, t->data[MPC_SPLIT_TRAIN]);
    return mpc_session_plan_length(t->session, t->data[MPC_SPLIT_TRAIN]);
}

static bool known_figure(const mpc_trainer *t, const char *name) {
    double value;
    bool higher;
    return mpc_totals_find(&t->window, name, &value, &higher);
}

/* "valid.accuracy" -> split and figure. */
static bool choose_monitor(mpc_trainer *t) {
    const char *text = t->train->monitor;
    t->monitor_split = t->data[MPC_SPLIT_VALID] ? MPC_SPLIT_VALID : MPC_SPLIT_TRAIN;
    t->monitor = "loss";
    if (!text[0]) return true;
    const char *dot = strchr(text, '.');
    char split[16] = "";
    if (dot && dot - text < (int)sizeof split) memcpy(split, text, (size_t)(dot - text));
    mpc_split found = MPC_SPLIT_PREDICT;
    bool ok =
        dot && mpc_split_find(split, &found) && found <= MPC_SPLIT_VALID && t->data[found] && known_figure(t, dot + 1);
    if (!ok) {
        mpc_error(t->session->sink, "E354", "monitor = %s names no figure of the training or valid split", text);
        return false;
    }
    t->monitor_split = found;
    t->monitor = dot + 1;
    return true;
}

static bool prepare_steps(mpc_trainer *t) {
    mpc_session *s = t->session;
    int64_t rows = mpc_dataset_rows(t->data[MPC_SPLIT_TRAIN]);
    mpc_runner *nominal =
        mpc_runners_get(&t->runners, MPC_PHASE_TRAIN, t->train->batch < rows ? t->train->batch : rows);
    if (!nominal) return false;
    for (int i = 0; i <= MPC_SPLIT_TEST; i++)
        if (t->data[i] && !mpc_step_bind(nominal->step, t->data[i])) return false;
    return mpc_store_init(s->store, s->train->seed) == MPC_OK;
}

bool mpc_trainer_init(mpc_trainer *t, mpc_session *s) {
    *t = (mpc_trainer){.session = s,
                       .train = s->train,
                       .runners = {.session = s},
                       .log = {.fd = -1},
                       .reason = "length",
                       .saved_step = UINT64_MAX};
    t->cursor.seed = s->train->seed;
    double begin = mpc_now();
    if (!mpc_totals_init(&t->window, s->model) || !mpc_totals_init(&t->since_eval, s->model) ||
        !mpc_totals_init(&t->evaluated, s->model))
        return out_of_memory(t);
    if (!open_splits(t) || !choose_monitor(t) || !prepare_steps(t)) return false;
    t->prepare_seconds = mpc_now() - begin;
    t->order = mpc_alloc((size_t)mpc_dataset_rows(t->data[MPC_SPLIT_TRAIN]) * sizeof *t->order);
    return t->order ? true : out_of_memory(t);
}

void mpc_trainer_deinit(mpc_trainer *t) {
    mpc_runners_deinit(&t->runners);
    mpc_log_close(&t->log);
    mpc_run_folder_free(&t->folder);
    mpc_totals_deinit(&t->window);
    mpc_totals_deinit(&t->since_eval);
    mpc_totals_deinit(&t->evaluated);
    mpc_free(t->order);
    mpc_free((void *)(uintptr_t)t->cursor.extra);
}

/* ---- one window ---- */

static void load_order(mpc_trainer *t) {
    if (t->has_order && t->order_epoch == t->cursor.epoch) return;
    mpc_dataset_shuffle(t->data[MPC_SPLIT_TRAIN], t->cursor.seed, (uint32_t)t->cursor.epoch, t->order);
    t->order_epoch = t->cursor.epoch;
    t->has_order = true;
}

/* One micro-batch from the cursor. NULL after a failure. */
static mpc_runner *run_batch(mpc_trainer *t) {
    const mpc_dataset *d = t->data[MPC_SPLIT_TRAIN];
    int64_t rows = mpc_dataset_rows(d), left = rows - (int64_t)t->cursor.row;
    int64_t size = left < t->train->batch ? left : t->train->batch;
    mpc_runner *r = mpc_runners_get(&t->runners, MPC_PHASE_TRAIN, size);
    if (!r) return NULL;
    double begin = mpc_now();
    load_order(t);
    mpc_step_feed(r->step, d, t->order + t->cursor.row);
    mpc_step_set_flush(r->step, size == left);
    double fed = mpc_now();
    if (r->step->exec->vtable->step(r->step->exec) != MPC_OK) return NULL;
    t->step_seconds += mpc_now() - fed;
    t->wait_seconds += fed - begin;
    mpc_totals_add(&t->window, &r->meter, r->step);
    mpc_totals_add(&t->since_eval, &r->meter, r->step);
    t->cursor.row += (uint64_t)size;
    t->window_rows += size;
    return r;
}

static mpc_runner *run_window(mpc_trainer *t) {
    int64_t rows = mpc_dataset_rows(t->data[MPC_SPLIT_TRAIN]);
    mpc_totals_clear(&t->window);
    t->step_seconds = t->wait_seconds = 0;
    t->window_rows = 0;
    mpc_runner *r = NULL;
    for (int64_t micro = 0; micro < t->train->accumulate; micro++) {
        r = run_batch(t);
        if (!r || (int64_t)t->cursor.row == rows) break;
    }
    if (!r) return NULL;
    t->stopped = mpc_step_scalar(r->step, r->stop, 0) != 0;
    t->cursor.step++;
    t->windows_run++;
    t->all_step_seconds += t->step_seconds;
    t->all_wait_seconds += t->wait_seconds;
    if ((int64_t)t->cursor.row == rows) {
        t->cursor.epoch++;
        t->cursor.row = 0;
    }
    return r;
}

/* ---- between windows ---- */

static bool is_due(const mpc_trainer *t, mpc_quantity every, double *last_time) {
    if (every.value <= 0) return false;
    double now = mpc_now();
    if (every.unit == MPC_UNIT_MINUTES) {
        if (now - *last_time < every.value * 60) return false;
        *last_time = now;
        return true;
    }
    double period = every.unit == MPC_UNIT_EPOCHS ? every.value * (double)t->session->updates_per_epoch : every.value;
    double step = (double)t->cursor.step;
    return floor(step / period) > floor((step - 1) / period);
}

static bool is_finished(const mpc_trainer *t) {
    if (t->train->length.unit == MPC_UNIT_MINUTES) return mpc_now() - t->started >= t->train->length.value * 60;
    return (double)t->cursor.step >= t->session->total_updates;
}

/* Compares the monitored figure with the best so far. */
static bool judge(mpc_trainer *t) {
    const mpc_totals *totals = t->monitor_split == MPC_SPLIT_VALID ? &t->evaluated : &t->since_eval;
    double value = NAN;
    bool higher = false;
    mpc_totals_find(totals, t->monitor, &value, &higher);
    double loss = mpc_totals_loss(totals);
    bool is_number =
        !isnan(value) && (totals->count <= 0 || !isnan(loss)); /* an accuracy counts NaN as wrong, no more */
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
    if ((is_due(t, t->train->eval_every, &t->last_eval_time) || (last && !mpc_interrupt_signal())) &&
        !evaluate(t, &better))
        return false;
    if (is_due(t, t->train->save_every, &t->last_save_time)) save = true;
    return save || better ? mpc_trainer_save(t, better) : true;
}

static bool out_of_patience(mpc_trainer *t) {
    if (t->train->patience <= 0 || t->best.stale < t->train->patience) return false;
    t->reason = "patience";
    return true;
}

/* true: go on with the next window. */
static bool train_window(mpc_trainer *t, bool *ok) {
    mpc_runner *r = run_window(t);
    *ok = r && mpc_report_step(t, r);
    if (!*ok) return false;
    if (t->stopped) {
        t->reason = "diverged";
        *ok = mpc_report_stop(t, r);
        return false;
    }
    if (mpc_interrupt_signal()) t->reason = "signal";
    bool last = is_finished(t) || mpc_interrupt_signal();
    *ok = between_windows(t, last);
    if (!*ok || last) return false;
    if (!out_of_patience(t)) return true;
    *ok = mpc_trainer_save(t, false);
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
        printf(t->session->cli->options->json ? "{\"split\":\"train\",\"loss\":%.9g}\n" : "train loss %.4g\n",
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
    return final_figures(t) && mpc_report_end(t) ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}

int mpc_trainer_run(mpc_trainer *t) {
    t->started = t->last_eval_time = t->last_save_time = mpc_now();
    if (!mpc_report_run(t)) return MPC_EXIT_FAILED;
    mpc_interrupt_install();
    mpc_progress_start(&t->progress, t->session->total_updates, t->cursor.step);
    bool ok = true;
    if (!is_finished(t))
        while (train_window(t, &ok)) {
        }
    if (ok) return finish(t);
    mpc_progress_end(&t->progress);
    mpc_log_flush(&t->log);
    return MPC_EXIT_FAILED;
}
