/* The settings that the course of a training depends on, as run.json holds them, and a resume's compared with them.
 * What --change allows to differ is said, with what becomes of the learning rate; what a checkpoint can't go on with is
 * refused in any case. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/run_folder.h"
#include "driver/run_settings.h"
#include "driver/train_settings.h"
#include "ir/schedule_rate.h"

static void set_number(json_t *settings, const char *key, double value) {
    json_object_set_new(settings, key, json_real(value));
}

static const char *unit_name(mpc_unit unit) {
    static const char *const names[] = {"", " steps", " epochs", " min"};
    return names[unit];
}

static void set_quantity(json_t *settings, const char *key, mpc_quantity q) {
    mpc_str text = {0};
    mpc_str_append_double(&text, q.value);
    mpc_str_append(&text, unit_name(q.unit));
    json_object_set_new(settings, key, json_string(mpc_str_cstr(&text)));
    mpc_str_free(&text);
}

/* Everything that the course of a training depends on, by the key that --set and --change take. */
json_t *mpc_settings_json(const mpc_train_config *t) {
    json_t *s = json_object();
    const mpc_train_setting *row;
    json_object_set_new(s, "precision", json_string(t->precision));
    json_object_set_new(s, "also", json_string(t->also));
    json_object_set_new(s, "solver", json_string(t->solver));
    json_object_set_new(s, "optimizer", json_string(t->optimizer.kind));
    json_object_set_new(s, "schedule", json_string(t->schedule.kind));
    for (size_t i = 0; (row = mpc_train_setting_at(i)) != NULL; i++) {
        if (row->is_quantity) set_quantity(s, row->key, mpc_train_setting_quantity(t, row));
        else set_number(s, row->key, mpc_train_setting_number(t, row));
    }
    set_number(s, "batch", (double)t->batch);
    set_number(s, "accumulate", (double)t->accumulate);
    set_quantity(s, "length", t->length);
    json_object_set_new(s, "weights", json_string(t->weights));
    set_number(s, "ema", t->ema);
    json_object_set_new(s, "last_batch", json_string(t->drops_last ? "drop" : "keep"));
    json_object_set_new(s, "seed", json_integer((json_int_t)t->seed));
    return s;
}

static bool is_changed_key(const mpc_options *o, const char *key) {
    for (size_t i = 0; i < o->changes.count; i++) {
        const char *equals = strchr(o->changes.data[i], '=');
        size_t n = equals ? (size_t)(equals - o->changes.data[i]) : 0;
        bool whole = strlen(key) == n, part = strlen(key) > n && key[n] == '.';
        if (n && strncmp(key, o->changes.data[i], n) == 0 && (whole || part)) return true;
    }
    return false;
}

static void value_text(const json_t *value, char out[64]) {
    if (json_is_string(value)) snprintf(out, 64, "%s", json_string_value(value));
    else if (json_is_number(value)) snprintf(out, 64, "%.9g", json_number_value(value));
    else snprintf(out, 64, "nothing");
}

static uint32_t list_changes(const mpc_options *o, const json_t *old, json_t *now, bool allowed, mpc_str *out) {
    const char *key;
    json_t *value;
    uint32_t count = 0;
    json_object_foreach(now, key, value) {
        const json_t *before = json_object_get(old, key);
        if (!before || json_equal(before, value) || is_changed_key(o, key) != allowed) continue;
        char a[64], b[64];
        value_text(before, a);
        value_text(value, b);
        mpc_str_printf(out, "\n  %-24s %s, now %s", key, a, b);
        count++;
    }
    return count;
}

/* ---- the learning rate before and after a change ---- */

static double number(const json_t *settings, const char *key, double fallback) {
    const json_t *value = json_object_get(settings, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

static const char *word(const json_t *settings, const char *key) {
    const char *text = json_string_value(json_object_get(settings, key));
    return text ? text : "";
}

/* Updates of an epoch of the training rows with these settings. */
static double epoch_updates(const mpc_session *s, const json_t *settings) {
    double rows = (double)mpc_dataset_rows(s->splits[MPC_SPLIT_TRAIN]), batch = fmax(number(settings, "batch", 1), 1);
    if (strcmp(word(settings, "last_batch"), "drop") == 0) rows -= fmod(rows, batch);
    return ceil(ceil(rows / batch) / fmax(number(settings, "accumulate", 1), 1));
}

/* "5 epochs" in updates; 0: not known before, as of a time. */
static double updates(const mpc_session *s, const json_t *settings, const char *key) {
    char *unit;
    double value = strtod(word(settings, key), &unit);
    if (strcmp(unit, " min") == 0) return 0;
    return strcmp(unit, " epochs") == 0 ? value * epoch_updates(s, settings) : value;
}

static mpc_schedule_rule rule_of(const mpc_session *s, const json_t *settings) {
    return (mpc_schedule_rule){.kind = word(settings, "schedule"),
                               .rate = number(settings, "optimizer.lr", 0),
                               .warmup = updates(s, settings, "schedule.warmup"),
                               .total = ceil(updates(s, settings, "length")),
                               .final = number(settings, "schedule.final", 0),
                               .every = updates(s, settings, "schedule.every"),
                               .factor = number(settings, "schedule.factor", 1)};
}

/* What a schedule does from an update on. */
static void describe_course(const mpc_schedule_rule *r, double applied, mpc_str *out) {
    if (applied + 1 < r->warmup) mpc_str_printf(out, "rises to %.4g at step %.0f, then ", r->rate, r->warmup);
    if (mpc_schedule_needs_total(r->kind) && applied < r->total)
        mpc_str_printf(out, "falls to %.4g at step %.0f (%s)", r->rate * r->final, r->total, r->kind);
    else if (strcmp(r->kind, "step") == 0 && r->every > 0)
        mpc_str_printf(out, "is multiplied by %g every %g steps, next after step %.0f", r->factor, r->every,
                       ceil((floor(applied / r->every) + 1) * r->every));
    else mpc_str_printf(out, "stays at %.4g", mpc_schedule_rate(r, fmax(applied, r->warmup)));
}

static void note_changes(const mpc_session *s, const json_t *old, json_t *now, const mpc_cursor *at, double applied) {
    mpc_str text = {0}, before = {0}, after = {0};
    mpc_schedule_rule was = rule_of(s, old), is = rule_of(s, now);
    describe_course(&was, applied, &before);
    describe_course(&is, applied, &after);
    if (list_changes(s->cli->options, old, now, true, &text) > 0)
        fprintf(
            stderr,
            "changed:%s\nlearning rate after step %llu: %.4g, before the change %.4g\n  from here it %s\n  before the "
            "change: %s\n",
            mpc_str_cstr(&text), (unsigned long long)at->step, mpc_schedule_rate(&is, applied),
            mpc_schedule_rate(&was, applied), mpc_str_cstr(&after), mpc_str_cstr(&before));
    mpc_str_free(&text);
    mpc_str_free(&before);
    mpc_str_free(&after);
}

/* Devices add in different orders. */
static void note_device(const mpc_session *s, const json_t *run) {
    const char *was = json_string_value(json_object_get(run, "device")), *is = mpc_device_name(s->device);
    if (was && strcmp(was, is) != 0)
        fprintf(stderr, "the run was on %s and goes on on %s: figures agree within rounding, not to the bit\n", was,
                is);
}

static bool refuse_changes(const mpc_run_folder *f, mpc_session *s, const json_t *old, json_t *now) {
    mpc_str lines = {0};
    uint32_t count = list_changes(s->cli->options, old, now, false, &lines);
    if (count)
        mpc_error_help(s->sink, "E353", NULL,
                       "leave them as they were, or say --change KEY=VALUE for each to go on with another value",
                       "%u setting%s differ%s from those of %s%s", count, count == 1 ? "" : "s", count == 1 ? "s" : "",
                       mpc_str_cstr(&f->path), mpc_str_cstr(&lines));
    mpc_str_free(&lines);
    return count == 0;
}

/* ---- what a checkpoint can't go on with ---- */

/* Optimizers of one word keep the same numbers, with the same meaning. */
static const char *moments(const json_t *settings) {
    const char *kind = word(settings, "optimizer");
    if (strncmp(kind, "adam", 4) == 0) return "adam";
    if (strcmp(kind, "sgd") != 0 && strcmp(kind, "nesterov") != 0) return kind;
    return number(settings, "optimizer.momentum", 0) > 0 ? "momentum" : "none";
}

static bool moments_differ(const json_t *old, const json_t *now) { return strcmp(moments(old), moments(now)) != 0; }

static bool sums_differ(const json_t *old, const json_t *now) {
    return (number(old, "accumulate", 1) > 1) != (number(now, "accumulate", 1) > 1);
}

static bool averages_differ(const json_t *old, const json_t *now) {
    return (number(old, "ema", 0) > 0) != (number(now, "ema", 0) > 0);
}

static bool has_scale(const json_t *settings) {
    const char *also = word(settings, "also");
    return mpc_train_has_loss_scale(word(settings, "precision"), *also ? also : "none");
}

static bool scales_differ(const json_t *old, const json_t *now) { return has_scale(old) != has_scale(now); }

static bool seeds_differ(const json_t *old, const json_t *now) {
    return number(old, "seed", 0) != number(now, "seed", 0);
}

typedef struct lasting { /* a setting that lasts for the whole of a run */
    const char *key;
    bool (*differs)(const json_t *old, const json_t *now);
    const char *why;
} lasting;
static const lasting LASTING[] = {
    {"seed", seeds_differ, "the order of the rows and every random draw of this run follow from it"},
    {"optimizer", moments_differ, "the moments in the checkpoint are those of another optimizer"},
    {"accumulate", sums_differ,
     "the checkpoint has sums of gradients only where more than one micro-batch makes an update"},
    {"precision", scales_differ, "only f16 has a loss scale, whose state a checkpoint holds"},
    {"ema", averages_differ, "averages of the weights begin with a run"},
};

static bool refuse_lasting(const mpc_run_folder *f, const mpc_session *s, const json_t *old, const json_t *now) {
    bool ok = true;
    for (size_t i = 0; i < sizeof LASTING / sizeof *LASTING; i++) {
        const lasting *l = &LASTING[i];
        if (!is_changed_key(s->cli->options, l->key) || !l->differs(old, now)) continue;
        char a[64], b[64];
        mpc_str help = {0};
        value_text(json_object_get(old, l->key), a);
        value_text(json_object_get(now, l->key), b);
        mpc_str_printf(&help, "a new run can start from these weights: mpc train %s --init %s --set %s=...",
                       s->cli->options->file, mpc_str_cstr(&f->path), l->key);
        mpc_error_help(s->sink, "E376", NULL, mpc_str_cstr(&help),
                       "--change %s: it can't change within a run (%s, now %s): %s", l->key, a, b, l->why);
        mpc_str_free(&help);
        ok = false;
    }
    return ok;
}

static json_t *read_run(const mpc_run_folder *f, const mpc_session *s) {
    mpc_str path = {0};
    json_error_t error = {0};
    mpc_str_printf(&path, "%s/run.json", mpc_str_cstr(&f->path));
    json_t *run = path.failed ? NULL : json_load_file(path.data, 0, &error);
    bool whole = json_is_object(json_object_get(run, "settings"));
    if (!whole)
        mpc_error(s->sink, "E352", "can't read %s: %s", mpc_str_cstr(&path), run ? "it has no `settings`" : error.text);
    mpc_str_free(&path);
    if (whole) return run;
    json_decref(run);
    return NULL;
}

bool mpc_run_folder_check_settings(const mpc_run_folder *f, mpc_session *s) {
    json_t *run = read_run(f, s), *now = mpc_settings_json(s->train);
    const json_t *old = json_object_get(run, "settings");
    bool ok = run && refuse_changes(f, s, old, now) && refuse_lasting(f, s, old, now);
    json_decref(now);
    json_decref(run);
    return ok;
}

void mpc_run_note_changes(const mpc_session *s, const mpc_cursor *at, double applied) {
    json_t *now = mpc_settings_json(s->train);
    note_changes(s, json_object_get(s->run, "settings"), now, at, applied);
    note_device(s, s->run);
    json_decref(now);
}
