/* Checkpoints of a training and going on from one. What the loop keeps beside states and cursor travels as JSON in the
 * cursor's `extra`, with doubles as hexadecimal text: exact, and NaN and infinity have a form. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/trainer.h"

static json_t *hex(double value) {
    char text[40];
    snprintf(text, sizeof text, "%a", value);
    return json_string(text);
}

static double unhex(const json_t *value) {
    const char *text = json_string_value(value);
    return text ? strtod(text, NULL) : 0;
}

/* jansson's text; NULL when out of memory. */
static char *extra_text(const mpc_trainer *t) {
    const mpc_totals *sums = &t->since_eval;
    json_t *list = json_array();
    for (size_t i = 0; i < mpc_totals_sum_count(sums); i++) json_array_append_new(list, hex(sums->sums[i]));
    json_t *extra = json_pack("{s:b, s:o, s:o, s:I, s:I, s:o}", "has_best", t->best.known, "best", hex(t->best.value),
                              "best_loss", hex(t->best.loss), "best_step", (json_int_t)t->best.step, "stale",
                              (json_int_t)t->best.stale, "since_eval", list);
    char *text = extra ? json_dumps(extra, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(extra);
    return text;
}

static bool read_extra(mpc_trainer *t, const char *text) {
    json_t *extra = json_loads(text ? text : "", 0, NULL);
    const json_t *list = json_object_get(extra, "since_eval");
    mpc_totals *sums = &t->since_eval;
    bool ok = extra && json_array_size(list) == mpc_totals_sum_count(sums);
    if (ok) {
        t->best.known = json_is_true(json_object_get(extra, "has_best"));
        t->best.value = unhex(json_object_get(extra, "best"));
        t->best.loss = unhex(json_object_get(extra, "best_loss"));
        t->best.step = (uint64_t)json_integer_value(json_object_get(extra, "best_step"));
        t->best.stale = json_integer_value(json_object_get(extra, "stale"));
        for (size_t i = 0; i < mpc_totals_sum_count(sums); i++) sums->sums[i] = unhex(json_array_get(list, i));
    } else {
        mpc_error(t->session->sink, "E415", "the checkpoint of step %" PRIu64 " lacks the training loop's own state",
                  t->cursor.step);
    }
    json_decref(extra);
    return ok;
}

static void step_name(char out[32], uint64_t step) { snprintf(out, 32, "step-%08" PRIu64, step); }

static bool put_pointer(mpc_trainer *t, const char *file, const char *name) {
    char line[40], path[32];
    int n = snprintf(line, sizeof line, "%s\n", name);
    snprintf(path, sizeof path, "checkpoints/%s", file);
    return mpc_run_folder_put(&t->folder, path, line, (size_t)n, t->session->sink);
}

static bool prune(mpc_trainer *t, const char *last) {
    char best[32];
    step_name(best, t->best.step);
    const char *const spare[] = {last, t->best.known ? best : NULL, NULL};
    return mpc_checkpoint_prune(t->folder.checkpoints.data, t->train->keep, spare, t->session->sink) == MPC_OK;
}

bool mpc_trainer_save(mpc_trainer *t, bool is_best) {
    if (t->saved_step == t->cursor.step && !is_best) return true;
    if (mpc_log_flush(&t->log) != MPC_OK || !mpc_session_save_choices(t->session, t->folder.path.data)) return false;
    char *extra = extra_text(t), name[32];
    if (!extra) {
        mpc_error(t->session->sink, "E901", "out of memory");
        return false;
    }
    mpc_cursor cursor = t->cursor;
    cursor.extra = extra;
    mpc_status status = mpc_checkpoint_save(t->folder.checkpoints.data, t->session->store, &cursor, t->session->sink);
    mpc_free(extra);
    if (status != MPC_OK) return false;
    t->saved_step = t->cursor.step;
    step_name(name, t->cursor.step);
    return put_pointer(t, "last", name) && (!is_best || put_pointer(t, "best", name)) && prune(t, name);
}

/* A crash between a checkpoint and its pointers leaves them one behind. */
static bool mend_pointers(mpc_trainer *t) {
    char last[32], best[32];
    step_name(last, t->cursor.step);
    step_name(best, t->best.step);
    return put_pointer(t, "last", last) && (!t->best.known || put_pointer(t, "best", best)) && prune(t, last);
}

/* The data may have changed since, or the file: the order of an epoch has no rows beyond the split's. */
static bool check_cursor(const mpc_trainer *t) {
    int64_t rows = mpc_dataset_rows(t->data[MPC_SPLIT_TRAIN]);
    if (t->cursor.row < (uint64_t)rows) return true;
    mpc_error(t->session->sink, "E415",
              "the checkpoint stands at row %llu of an epoch, but the training split has %lld",
              (unsigned long long)t->cursor.row, (long long)rows);
    return false;
}

bool mpc_trainer_resume(mpc_trainer *t) {
    const mpc_sink *sink = t->session->sink;
    mpc_str path = {0};
    bool ok = mpc_run_folder_check_settings(&t->folder, t->session) &&
              mpc_find_checkpoint(t->folder.path.data, "last", &path, sink) &&
              mpc_checkpoint_load(path.data, t->session->store, MPC_LOAD_ALL, &t->cursor, sink) == MPC_OK;
    mpc_str_free(&path);
    if (!ok || !check_cursor(t) || !read_extra(t, t->cursor.extra)) return false;
    t->saved_step = t->cursor.step;
    const mpc_store_entry *skipped = mpc_store_find(t->session->store, "step.skipped", MPC_FMT_none);
    int32_t count = 0;
    if (skipped && skipped->bytes == sizeof count) memcpy(&count, skipped->data, sizeof count);
    t->skipped = count;
    mpc_run_note_changes(t->session, &t->cursor, (double)t->cursor.step - t->skipped);
    bool as_before = t->session->cli->options->changes.count == 0;
    if (as_before && !mpc_run_folder_check_assignment(&t->folder, t->session)) return false;
    return mend_pointers(t);
}
