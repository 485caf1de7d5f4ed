/* What a training says: records in log.jsonl, lines on stderr, figures on stdout. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/json_values.h"
#include "driver/number_text.h"
#include "driver/train_settings.h"
#include "driver/trainer.h"

static double rows_of(const mpc_trainer *t) {
    return (double)mpc_session_epoch_rows(t->session, t->data[MPC_SPLIT_TRAIN]);
}

static double memory_bytes(mpc_trainer *t) {
    double bytes = 0;
    for (uint32_t i = 0; i < t->runners.count; i++) {
        mpc_memory_report report = {0};
        mpc_exec_memory(t->runners.data[i]->step->exec, &report);
        bytes = fmax(bytes, (double)report.state_bytes + (double)report.arena_bytes + (double)report.workspace_bytes);
    }
    return bytes;
}

bool mpc_report_run(mpc_trainer *t) {
    mpc_session *s = t->session;
    uint64_t tensors, elements;
    mpc_session_count_parameters(s, &tensors, &elements);
    char count[32];
    mpc_grouped_text(elements, count);
    double bytes = memory_bytes(t);
    const char *second = mpc_train_second_format(t->train->precision, t->train->also);
    fprintf(stderr, "%s: %s parameters, %s%s%s on %s, %.*f MB, seed %" PRIu64 ", %s\n", mpc_model_name(s->model), count,
            t->train->precision, second ? " and " : "", second ? second : "", mpc_device_name(s->device),
            bytes < 1e6 ? 3 : 1, bytes / 1e6, t->train->seed, t->folder.path.data);
    if (t->cursor.step > 0) {
        fprintf(stderr, "going on after step %" PRIu64 "\n", t->cursor.step);
        return true; /* the log has its first line already */
    }
    mpc_log_begin(&t->log, "run");
    mpc_log_int(&t->log, "schema", 1);
    mpc_log_text(&t->log, "model", mpc_model_name(s->model));
    mpc_log_text(&t->log, "precision", t->train->precision);
    mpc_log_text(&t->log, "device", mpc_device_name(s->device));
    mpc_log_int(&t->log, "seed", (int64_t)t->train->seed);
    mpc_log_int(&t->log, "parameters", (int64_t)elements);
    mpc_log_int(&t->log, "rows", mpc_dataset_rows(t->data[MPC_SPLIT_TRAIN]));
    mpc_log_int(&t->log, "batch", t->train->batch);
    return mpc_log_end(&t->log) == MPC_OK && mpc_log_flush(&t->log) == MPC_OK;
}

static void log_losses(mpc_log *log, const mpc_totals *totals) {
    mpc_log_number(log, "loss", mpc_totals_loss(totals));
    for (uint32_t k = 0; k < totals->loss_count; k++) {
        char key[160];
        snprintf(key, sizeof key, "loss.%s", mpc_model_loss(totals->model, k));
        mpc_log_number(log, key, mpc_totals_loss_at(totals, k));
    }
}

static void log_scalar(mpc_log *log, mpc_runner *r, uint32_t index, const char *key) {
    if (index != MPC_NONE) mpc_log_number(log, key, mpc_step_scalar(r->step, index, 0));
}

static void log_count(mpc_log *log, mpc_runner *r, uint32_t index, const char *key) {
    if (index != MPC_NONE) mpc_log_int(log, key, (int64_t)mpc_step_scalar(r->step, index, 0));
}

static mpc_status log_step(mpc_trainer *t, mpc_runner *r, double now) {
    mpc_log *log = &t->log;
    double rows = rows_of(t), samples = (double)t->cursor.epoch * rows + (double)t->cursor.row;
    mpc_log_begin(log, "step");
    mpc_log_int(log, "step", (int64_t)t->cursor.step);
    log_count(log, r, r->applied, "applied");
    mpc_log_number(log, "epoch", samples / rows);
    mpc_log_int(log, "samples", (int64_t)samples);
    mpc_log_chart(log, "train", (int64_t)t->cursor.step);
    log_losses(log, &t->window);
    log_scalar(log, r, r->lr, "lr");
    log_scalar(log, r, r->grad_norm, "grad_norm");
    log_scalar(log, r, r->scale, "scale");
    log_count(log, r, r->skipped, "skipped");
    log_scalar(log, r, r->lost, "lost");
    mpc_log_fixed(log, "samples_per_s", (double)t->window_rows / fmax(t->step_seconds + t->wait_seconds, 1e-9), 0);
    mpc_log_fixed(log, "step_ms", t->step_seconds * 1e3, 3);
    mpc_log_fixed(log, "wait_ms", t->wait_seconds * 1e3, 3);
    mpc_log_fixed(log, "time_s", now - t->started, 3);
    return mpc_log_end(log);
}

static mpc_status log_skip(mpc_trainer *t, mpc_runner *r) {
    mpc_log_begin(&t->log, "event");
    mpc_log_int(&t->log, "step", (int64_t)t->cursor.step);
    mpc_log_text(&t->log, "what", isfinite(mpc_totals_loss(&t->window)) ? "overflow" : "nonfinite loss");
    log_scalar(&t->log, r, r->scale, "scale");
    return mpc_log_end(&t->log);
}

static void note_attempt(mpc_recent *recent, bool skipped) {
    bool *slot = &recent->skipped[recent->next];
    if (recent->count == MPC_RECENT) recent->skips -= *slot;
    else recent->count++;
    *slot = skipped;
    recent->skips += skipped;
    recent->next = (recent->next + 1) % MPC_RECENT;
}

bool mpc_report_step(mpc_trainer *t, mpc_runner *r) {
    double now = mpc_now(), skipped = mpc_step_scalar(r->step, r->skipped, 0);
    if (log_step(t, r, now) != MPC_OK) return false;
    if (skipped > t->skipped && log_skip(t, r) != MPC_OK) return false;
    note_attempt(&t->recent, skipped > t->skipped);
    t->skipped = skipped;
    if (r->lost != MPC_NONE) t->lost += mpc_step_scalar(r->step, r->lost, 0);
    t->scale = r->scale == MPC_NONE ? 0 : mpc_step_scalar(r->step, r->scale, 0);
    if (!t->warned_of_skips && t->recent.count == MPC_RECENT) t->warned_of_skips = mpc_report_skips(t);
    if (now - t->last_flush > 1) { /* for people who watch the file */
        t->last_flush = now;
        if (mpc_log_flush(&t->log) != MPC_OK) return false;
    }
    mpc_progress_step s = {.step = t->cursor.step,
                           .loss = mpc_totals_loss(&t->window),
                           .rows = (double)t->window_rows,
                           .has_scale = r->scale != MPC_NONE,
                           .scale = mpc_step_scalar(r->step, r->scale, 0),
                           .skipped = skipped};
    mpc_progress_update(&t->progress, &s, now);
    return true;
}

bool mpc_report_skips(mpc_trainer *t) {
    const mpc_recent *recent = &t->recent;
    if (recent->count < MPC_FEWEST_ATTEMPTS || 2 * recent->skips <= recent->count) return false;
    char message[200], scale[64] = "";
    if (t->scale > 0) snprintf(scale, sizeof scale, "; the loss scale is %.6g", t->scale);
    snprintf(message, sizeof message, "%u of the last %u steps were skipped: a loss or gradient was not finite%s",
             recent->skips, recent->count, scale);
    mpc_diag diag = {.severity = MPC_SEV_WARNING,
                     .code = "W170",
                     .message = message,
                     .help = t->scale > 0 ? "a lower rate, `clip_norm`, or precision bf16, which needs no loss scale"
                                          : "a lower rate or `clip_norm`"};
    mpc_progress_end(&t->progress);
    t->session->sink->emit(t->session->sink->user, &diag);
    return true;
}

void mpc_report_lost(mpc_trainer *t) {
    double share = t->lost / (double)(t->windows_run > 0 ? t->windows_run : 1);
    if (share < 0.5) return;
    char message[160];
    snprintf(message, sizeof message, "%.0f %% of the updates were lost when parameters were rounded for storage", 100 * share);
    mpc_diag diag = {.severity = MPC_SEV_WARNING,
                     .code = "W172",
                     .message = message,
                     .help = "weights = stochastic keeps them on average, weights = master keeps them all"};
    t->session->sink->emit(t->session->sink->user, &diag);
}

static bool is_fraction(const mpc_metric_info *metric, double value) {
    return metric->higher_is_better && value >= 0 && value <= 1;
}

#define NO_TARGETS "no targets count"

static void append_loss(mpc_str *out, const char *name, double value, double weight) {
    if (weight > 0) mpc_str_printf(out, "%s %.4g", name, value);
    else mpc_str_printf(out, "%s undefined: %s", name, NO_TARGETS);
}

/* "accuracy 97.8 %" */
static void append_metric(mpc_str *out, const mpc_totals *totals, uint32_t k) {
    const mpc_metric_info *metric = mpc_model_metric(totals->model, k);
    double value = mpc_totals_metric_at(totals, k);
    if (!(mpc_totals_metric_weight(totals, k) > 0)) mpc_str_printf(out, "%s undefined: %s", metric->name, NO_TARGETS);
    else if (is_fraction(metric, value)) mpc_str_printf(out, "%s %.1f %%", metric->name, 100 * value);
    else mpc_str_printf(out, "%s %.4g", metric->name, value);
}

static void append_figures(mpc_str *out, const mpc_totals *totals, const char *before, const char *after) {
    mpc_str_append(out, before);
    append_loss(out, "loss", mpc_totals_loss(totals), mpc_totals_count(totals));
    mpc_str_append(out, after);
    for (uint32_t k = 0; totals->loss_count > 1 && k < totals->loss_count; k++) {
        mpc_str_printf(out, "%sloss.", before);
        append_loss(out, mpc_model_loss(totals->model, k), mpc_totals_loss_at(totals, k),
                    mpc_totals_loss_weight(totals, k));
        mpc_str_append(out, after);
    }
    for (int fractions = 0; fractions < 2; fractions++) /* an accuracy comes last */
        for (uint32_t k = 0; k < totals->metric_count; k++) {
            if (mpc_model_metric(totals->model, k)->higher_is_better != (fractions == 1)) continue;
            mpc_str_append(out, before);
            append_metric(out, totals, k);
            mpc_str_append(out, after);
        }
}

static void append_number(mpc_str *out, double value) {
    if (isfinite(value)) mpc_str_append_double(out, value);
    else mpc_str_append(out, "null");
}

static void append_json(mpc_str *out, const char *split, const mpc_totals *totals, int64_t rows) {
    mpc_str_append(out, "{\"split\":");
    mpc_json_append_string(out, split);
    mpc_str_append(out, ",\"loss\":");
    append_number(out, mpc_totals_loss(totals));
    for (uint32_t k = 0; k < totals->metric_count; k++) {
        mpc_str_append(out, ",");
        mpc_json_append_string(out, mpc_model_metric(totals->model, k)->name);
        mpc_str_append(out, ":");
        append_number(out, mpc_totals_metric_at(totals, k));
    }
    mpc_str_printf(out, ",\"n\":%lld}\n", (long long)rows);
}

void mpc_print_figures(const mpc_cli *cli, mpc_split split, const mpc_totals *totals, int64_t rows) {
    mpc_str text = {0}, before = {0};
    mpc_str_printf(&before, "%s ", mpc_split_name(split));
    if (cli->options->json) append_json(&text, mpc_split_name(split), totals, rows);
    else append_figures(&text, totals, mpc_str_cstr(&before), "\n");
    fputs(mpc_str_cstr(&text), stdout);
    fflush(stdout);
    mpc_str_free(&text);
    mpc_str_free(&before);
}

bool mpc_report_eval(mpc_trainer *t, mpc_split split, const mpc_totals *totals, int64_t rows, bool best) {
    mpc_log *log = &t->log;
    mpc_log_begin(log, "eval");
    mpc_log_int(log, "step", (int64_t)t->cursor.step);
    mpc_log_text(log, "split", mpc_split_name(split));
    mpc_log_chart(log, split == MPC_SPLIT_TRAIN ? "train.eval" : mpc_split_name(split), (int64_t)t->cursor.step);
    log_losses(log, totals);
    for (uint32_t k = 0; k < totals->metric_count; k++)
        mpc_log_number(log, mpc_model_metric(totals->model, k)->name, mpc_totals_metric_at(totals, k));
    mpc_log_int(log, "n", rows);
    if (split != MPC_SPLIT_TEST) mpc_log_bool(log, "best", best);
    if (mpc_log_end(log) != MPC_OK || mpc_log_flush(log) != MPC_OK) return false;
    if (split == MPC_SPLIT_TEST) return true;
    mpc_str text = {0};
    append_figures(&text, totals, "  ", "");
    double rows_total = rows_of(t);
    mpc_progress_line(&t->progress, "step %" PRIu64 "  epoch %.4g  %s%s%s", t->cursor.step,
                      (double)t->cursor.epoch + (double)t->cursor.row / rows_total, mpc_split_name(split),
                      mpc_str_cstr(&text), best ? "  best" : "");
    mpc_str_free(&text);
    return true;
}

static json_t *figures_json(const mpc_totals *totals, int64_t rows) {
    json_t *object = json_object();
    json_object_set_new(object, "loss", mpc_json_number(mpc_totals_loss(totals)));
    for (uint32_t k = 0; k < totals->loss_count; k++) {
        char key[160];
        snprintf(key, sizeof key, "loss.%s", mpc_model_loss(totals->model, k));
        json_object_set_new(object, key, mpc_json_number(mpc_totals_loss_at(totals, k)));
    }
    for (uint32_t k = 0; k < totals->metric_count; k++)
        json_object_set_new(object, mpc_model_metric(totals->model, k)->name,
                            mpc_json_number(mpc_totals_metric_at(totals, k)));
    json_object_set_new(object, "n", json_integer(rows));
    return object;
}

bool mpc_report_metrics(mpc_trainer *t, const mpc_totals *test, int64_t test_rows) {
    const mpc_dataset *valid = t->data[MPC_SPLIT_VALID];
    json_t *object = json_pack("{s:i, s:I, s:I}", "schema", 1, "step", (json_int_t)t->cursor.step, "epochs",
                               (json_int_t)t->cursor.epoch);
    if (t->best.known) {
        json_object_set_new(object, "best_step", json_integer((json_int_t)t->best.step));
        json_object_set_new(object, "best", mpc_json_number(t->best.value));
        json_object_set_new(object, "monitor", json_sprintf("%s.%s", mpc_split_name(t->monitor_split), t->monitor));
    }
    if (valid) json_object_set_new(object, "valid", figures_json(&t->evaluated, mpc_dataset_rows(valid)));
    if (test) json_object_set_new(object, "test", figures_json(test, test_rows));
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(object);
    bool ok = text && mpc_run_folder_put(&t->folder, "metrics.json", text, strlen(text), t->session->sink);
    if (!text) mpc_error(t->session->sink, "E901", "out of memory");
    mpc_free(text);
    return ok;
}

/* What the compiler planned and what running it took. */
static bool report_profile(mpc_trainer *t) {
    const mpc_step *step = t->runners.data[0]->step;
    mpc_memory_report memory = {0};
    mpc_exec_memory(step->exec, &memory);
    double windows = fmax((double)t->windows_run, 1);
    json_t *object = json_pack("{s:i, s:I, s:I, s:I, s:f, s:I, s:f, s:f}", "schema", 1, "state_bytes",
                               (json_int_t)memory.state_bytes, "arena_bytes", (json_int_t)memory.arena_bytes,
                               "workspace_bytes", (json_int_t)memory.workspace_bytes, "prepare_s", t->prepare_seconds,
                               "steps_run", (json_int_t)t->windows_run, "step_ms", 1e3 * t->all_step_seconds / windows,
                               "wait_ms", 1e3 * t->all_wait_seconds / windows);
    if (step->program) {
        json_object_set_new(object, "launches", json_integer(step->program->launch_count));
        json_object_set_new(object, "kernels", json_integer(step->program->kernel_count));
        json_object_set_new(object, "arena_lower_bound", json_integer((json_int_t)step->program->arena_lower_bound));
    }
    char *text = object ? json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(object);
    bool ok = text && mpc_run_folder_put(&t->folder, "profile.json", text, strlen(text), t->session->sink);
    if (!text) mpc_error(t->session->sink, "E901", "out of memory");
    mpc_free(text);
    return ok;
}

bool mpc_report_end(mpc_trainer *t) {
    mpc_log_begin(&t->log, "end");
    mpc_log_text(&t->log, "reason", t->reason);
    mpc_log_int(&t->log, "step", (int64_t)t->cursor.step);
    if (t->best.known) mpc_log_int(&t->log, "best_step", (int64_t)t->best.step);
    mpc_log_fixed(&t->log, "time_s", mpc_now() - t->started, 3);
    return mpc_log_end(&t->log) == MPC_OK && mpc_log_flush(&t->log) == MPC_OK &&
           mpc_session_save_choices(t->session, t->folder.path.data) && report_profile(t);
}

bool mpc_report_nonfinite(mpc_trainer *t) {
    const mpc_nonfinite_found *found = &t->runners.found;
    if (!mpc_trainer_account(t, true)) return false;
    mpc_progress_end(&t->progress);
    mpc_nonfinite_say(found, t->session->sink);
    t->reason = "nonfinite";
    mpc_log_begin(&t->log, "event");
    mpc_log_int(&t->log, "step", (int64_t)found->step);
    mpc_log_text(&t->log, "what", "nonfinite");
    mpc_log_text(&t->log, "first", mpc_str_cstr(&found->message));
    mpc_log_text(&t->log, "place", mpc_str_cstr(&found->place));
    return mpc_log_end(&t->log) == MPC_OK && mpc_report_end(t);
}

static const char *cause_of_stop(mpc_trainer *t) {
    double loss = mpc_totals_loss(&t->window);
    if (isnan(loss)) return "the loss is NaN";
    return isinf(loss) ? "the loss is infinite" : "a gradient is not finite";
}

/* Runs the same batch again, launch by launch, to say where it began. */
bool mpc_report_stop(mpc_trainer *t, mpc_runner *r) {
    mpc_session *s = t->session;
    mpc_str what = {0};
    mpc_loc loc = {0};
    mpc_progress_end(&t->progress);
    mpc_status status = mpc_exec_find_nonfinite(r->step->exec, &what, &loc);
    char message[200], place[600] = "";
    snprintf(message, sizeof message, "training stopped at step %" PRIu64 ": %s", t->cursor.step, cause_of_stop(t));
    if (loc.file) snprintf(place, sizeof place, "%s:%u:%u", mpc_sym_text(s->ctx, loc.file), loc.line, loc.column);
    bool found = status == MPC_OK && what.length > 0;
    mpc_label note = {.text = found ? what.data
                                    : "the values that can still be read are finite: the scale or the update was not"};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E360",
                     .message = message,
                     .place = place[0] ? place : NULL,
                     .notes = &note,
                     .note_count = 1,
                     .help = "a lower rate, `clip_norm`, or `on_nonfinite = skip` to leave such steps out"};
    s->sink->emit(s->sink->user, &diag);
    mpc_log_begin(&t->log, "event");
    mpc_log_int(&t->log, "step", (int64_t)t->cursor.step);
    mpc_log_text(&t->log, "what", "stop");
    mpc_log_text(&t->log, "first", mpc_str_cstr(&what));
    mpc_str_free(&what);
    return mpc_log_end(&t->log) == MPC_OK && mpc_report_metrics(t, NULL, 0);
}
