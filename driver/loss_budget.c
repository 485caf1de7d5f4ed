/* --loss-budget X: from a table of sensitivities (measured, or --sensitivity FILE) to an assignment, and what it is
 * worth in numbers. The assignment is made here, before the first step; from then on it is like any other: kept in the
 * run's folder, taken from there by whoever goes on with the run. */
#include "driver/loss_budget.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/json_values.h"
#include "passes/precision/cost.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/file_sync.h"

enum { DEFAULT_BATCHES = 8 };

static bool no_memory(const mpc_session *s) {
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

/* ---- the table ---- */

static bool read_table(mpc_session *s, const char *path) {
    char *text;
    size_t length;
    if (mpc_data_read_file(path, s->sink, &text, &length) != MPC_OK) return false;
    bool ok = mpc_sensitivity_parse(s->sensitivity, text, path, s->sink) == MPC_OK;
    mpc_free(text);
    return ok;
}

static bool write_table(const mpc_session *s, const char *path) {
    mpc_str text = {0};
    mpc_sensitivity_print(s->sensitivity, &text);
    bool ok = text.failed ? no_memory(s) : mpc_file_replace(path, text.data, text.length, s->sink) == MPC_OK;
    mpc_str_free(&text);
    return ok;
}

static bool find_table(mpc_session *s, mpc_dataset *d) {
    const char *path = s->cli->options->sensitivity;
    s->sensitivity = mpc_sensitivity_create();
    if (!s->sensitivity) return no_memory(s);
    if (path && access(path, F_OK) == 0) return read_table(s, path);
    return mpc_loss_measure(s, d, s->sensitivity) && (!path || write_table(s, path));
}

/* ---- what came of it ---- */

typedef struct outcome {
    mpc_dial dial;
    const char *target;
    int64_t batches; /* 0: not checked */
    mpc_loss_check check;
} outcome;

static json_t *json_of_dial(const outcome *o) {
    const mpc_dial *d = &o->dial;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:s}", "loss_budget", mpc_json_number(d->budget),
                     "predicted", mpc_json_number(d->predicted), "predicted_without_budget",
                     mpc_json_number(d->free_predicted), "seconds", mpc_json_number(d->seconds),
                     "seconds_without_budget", mpc_json_number(d->free_seconds), "seconds_f32",
                     mpc_json_number(d->f32_seconds), "bound", mpc_json_number(d->bound), "cuts", (int)d->rounds,
                     "target", o->target);
}

static void print_json(const outcome *o, FILE *to) {
    const mpc_loss_check *c = &o->check;
    json_t *line = json_of_dial(o);
    if (line && o->batches > 0) {
        json_object_set_new(line, "batches", json_integer((json_int_t)o->batches));
        json_object_set_new(line, "measured", mpc_json_number(c->deviation));
        json_object_set_new(line, "measured_all", mpc_json_number(c->deviation_all));
        json_object_set_new(line, "measured_choices", mpc_json_number(c->deviation_choices));
        json_object_set_new(line, "measured_after_update", mpc_json_number(c->after_update));
        json_object_set_new(line, "batches_other_choice", json_integer((json_int_t)c->other_batches));
        json_object_set_new(line, "other_choice_elements", json_integer((json_int_t)c->other_elements));
        json_object_set_new(line, "other_choice", mpc_json_text(c->other_choice));
    }
    if (line) json_dumpf(line, to, JSON_COMPACT);
    fputc('\n', to);
    json_decref(line);
}

static void print_check(const mpc_session *s, const outcome *o, FILE *to) {
    const mpc_loss_check *c = &o->check;
    fprintf(to,
            "measured on %lld batches: the loss deviates from f32%s by %.3g; one update's rounding moves the next loss "
            "by %.3g\n",
            (long long)o->batches, c->other_choice ? " with the same choices" : "", c->deviation, c->after_update);
    if (!c->other_choice) return;
    fprintf(to, "in %lld of them rounding makes a choice fall out otherwise, first of all `%s`",
            (long long)c->other_batches, c->other_choice);
    if (c->other_place.file) fprintf(to, " (%s:%u)", mpc_sym_text(s->ctx, c->other_place.file), c->other_place.line);
    fprintf(to, " in %lld elements: that alone moves the loss by %.3g, rounding and choices together by %.3g\n",
            (long long)c->other_elements, c->deviation_choices, c->deviation_all);
}

static void print_text(const mpc_session *s, const outcome *o, FILE *to) {
    const mpc_dial *d = &o->dial;
    double gap = d->bound > 0 ? 100 * (d->seconds / d->bound - 1) : 0;
    fprintf(to, "loss budget %.3g: predicted deviation %.3g, without a budget %.3g\n", d->budget, d->predicted,
            d->free_predicted);
    fprintf(to,
            "time of a step on %s by the model: %.2f us, without a budget %.2f us, in f32 %.2f us; at most %.2f%% "
            "above the fastest within the budget\n",
            o->target, d->seconds * 1e6, d->free_seconds * 1e6, d->f32_seconds * 1e6, gap);
    if (o->batches > 0) print_check(s, o, to);
}

/* f32 itself rounds: below 1e-7 of a loss near 1 there is nothing to compare. */
static void warn_if_far(const mpc_session *s, const outcome *o) {
    double predicted = o->dial.predicted, measured = o->check.deviation;
    if (o->batches == 0 || fmax(predicted, measured) < 1e-6 || isnan(predicted)) return;
    if (measured <= 3 * predicted && predicted <= 3 * measured) return;
    mpc_warn(s->sink, "W188", (mpc_span){0}, "the loss deviates by %.3g under the assignment, predicted were %.3g",
             measured, predicted);
}

static bool decide(mpc_session *s, mpc_dataset *d, mpc_dial *dial) {
    s->dial = dial;
    mpc_graph *g = mpc_session_graph(s, MPC_PHASE_TRAIN, mpc_session_batch(s, d), MPC_STAGE_DECIDED);
    s->dial = NULL;
    mpc_graph_destroy(g);
    return g != NULL;
}

static bool check_options(const mpc_session *s) {
    if (s->cli->options->loss_budget > 0) return true;
    mpc_error(s->sink, "E105", "--loss-budget takes a number above 0: a standard deviation of the loss");
    return false;
}

bool mpc_loss_budget_apply(mpc_session *s, mpc_dataset *d, FILE *to) {
    const mpc_options *o = s->cli->options;
    if (!o->has_loss_budget || mpc_assignment_count(s->assignment) > 0) return true;
    outcome out = {.target = s->profile->name, .batches = o->loss_check < 0 ? DEFAULT_BATCHES : o->loss_check};
    if (!check_options(s) || !find_table(s, d)) return false;
    s->loss_budget = o->loss_budget;
    if (!decide(s, d, &out.dial)) return false;
    if (!out.dial.present) {
        fprintf(to, "loss budget: nothing to decide in precision %s\n", s->train->precision);
        return true;
    }
    if (out.batches > 0 && !mpc_loss_compare(s, d, out.batches, &out.check)) return false;
    if (o->json) print_json(&out, to);
    else print_text(s, &out, to);
    warn_if_far(s, &out);
    return true;
}

/* ---- runs that kept a budget ---- */

static bool changes_precision(const mpc_options *o) {
    for (size_t i = 0; i < o->changes.count; i++)
        if (strncmp(o->changes.data[i], "precision=", 10) == 0) return true;
    return false;
}

static bool read_assignment(mpc_session *s, const char *folder) {
    mpc_str path = {0};
    char *text = NULL;
    size_t length;
    mpc_str_printf(&path, "%sassignment.txt", folder);
    bool ok = path.failed ? no_memory(s) : mpc_data_read_file(path.data, s->sink, &text, &length) == MPC_OK;
    ok = ok && mpc_assignment_parse(s->assignment, text, s->sink) == MPC_OK;
    mpc_free(text);
    mpc_str_free(&path);
    return ok;
}

bool mpc_loss_budget_recall(mpc_session *s) {
    const mpc_options *o = s->cli->options;
    bool goes_on = (o->from || o->resume || o->same_assignment) && !changes_precision(o);
    if (goes_on) s->loss_budget = json_number_value(json_object_get(s->run, "loss_budget"));
    return !(s->loss_budget > 0 || o->same_assignment) || read_assignment(s, s->run_folder.data);
}
