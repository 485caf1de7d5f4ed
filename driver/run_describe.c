/* What was run: the model file, its completed form, the settings, the host. run.json's `settings` are what a resume is
 * compared with. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/run_folder.h"
#include "driver/run_plugins.h"
#include "driver/train_settings.h"
#include "driver/version.h"
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
static json_t *settings_json(const mpc_train_config *t) {
    json_t *s = json_object();
    const mpc_train_setting *row;
    json_object_set_new(s, "precision", json_string(t->precision));
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

static json_t *command_line(const mpc_cli *cli) {
    json_t *list = json_array();
    for (int i = 0; i < cli->argc; i++) json_array_append_new(list, json_string(cli->argv[i]));
    return list;
}

/* As eval, predict and --resume take them for defaults: "--const width=8", "--set precision=f16", later ones win. */
static json_t *overrides_json(const mpc_session *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->overrides.count; i++) {
        const mpc_override *o = &s->overrides.data[i];
        json_array_append_new(list, json_sprintf("%s %s=%s", o->is_const ? "--const" : "--set", o->key, o->value));
    }
    return list;
}

/* Names of the training data's columns; null without a header. */
static json_t *columns_json(const mpc_session *s) {
    if (!s->facts.column_names) return json_null();
    json_t *list = json_array();
    for (int64_t i = 0; i < s->facts.columns; i++) json_array_append_new(list, json_string(s->facts.column_names[i]));
    return list;
}

static json_t *added_passes_json(const mpc_session *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->added_passes.count; i++)
        json_array_append_new(list, json_string(s->added_passes.data[i]));
    return list;
}

static json_t *run_json(mpc_session *s) {
    struct utsname host;
    if (uname(&host) != 0) memset(&host, 0, sizeof host);
    char hash[24], when[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)mpc_hash_bytes(s->text, s->text_length));
    mpc_str found = {0};
    mpc_runtime_info(&found);
    json_t *run = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "schema", 1, "version",
                            MPC_VERSION, "model", mpc_model_name(s->model), "file", s->cli->options->file, "file_hash",
                            hash, "device", mpc_device_name(s->device), "started", when, "host", host.nodename,
                            "arguments", command_line(s->cli), "overrides", overrides_json(s), "columns",
                            columns_json(s), "found", mpc_str_cstr(&found), "settings", settings_json(s->train));
    json_object_set_new(run, "plugins", mpc_run_plugins_json(s));
    json_object_set_new(run, "added_passes", added_passes_json(s));
    if (s->loss_budget > 0) json_object_set_new(run, "loss_budget", json_real(s->loss_budget));
    mpc_str_free(&found);
    return run;
}

static bool put_json(const mpc_run_folder *f, const char *name, json_t *value, const mpc_sink *sink) {
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    json_decref(value);
    if (!text) {
        mpc_error(sink, "E901", "out of memory");
        return false;
    }
    bool ok = mpc_run_folder_put(f, name, text, strlen(text), sink);
    mpc_free(text);
    return ok;
}

static bool put_str(const mpc_run_folder *f, const char *name, mpc_str *text, const mpc_sink *sink) {
    bool ok = !text->failed && mpc_run_folder_put(f, name, mpc_str_cstr(text), text->length, sink);
    if (text->failed) mpc_error(sink, "E901", "out of memory");
    mpc_str_free(text);
    return ok;
}

bool mpc_run_folder_describe(const mpc_run_folder *f, mpc_session *s) {
    mpc_str used = {0}, resolved = {0}, assignment = {0};
    mpc_str_printf(&used, "%s/used", mpc_str_cstr(&f->path));
    if (!used.failed) mkdir(used.data, 0777);
    mpc_str_free(&used);
    char here[4096];
    mpc_model_print_resolved(s->model, getcwd(here, sizeof here), &resolved);
    mpc_assignment_print(s->assignment, &assignment);
    bool ok = put_str(f, "resolved.mpg", &resolved, s->sink);
    ok = put_str(f, "assignment.txt", &assignment, s->sink) && ok;
    return ok && mpc_run_keep_plugins(f, s) && mpc_run_folder_put(f, "model.mpg", s->text, s->text_length, s->sink) &&
           put_json(f, "run.json", run_json(s), s->sink);
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
        if (json_equal(before, value) || is_changed_key(o, key) != allowed) continue;
        char a[64], b[64];
        value_text(before, a);
        value_text(value, b);
        mpc_str_printf(out, "\n  %-24s %s, now %s", key, a, b);
        count++;
    }
    return count;
}

static double in_updates(const mpc_session *s, mpc_quantity q) {
    return q.unit == MPC_UNIT_EPOCHS ? q.value * (double)s->updates_per_epoch : q.value;
}

static double rate_after(const mpc_session *s, double applied) {
    const mpc_schedule_config *c = &s->train->schedule;
    mpc_schedule_rule rule = {.kind = c->kind,
                              .rate = s->train->optimizer.lr,
                              .warmup = in_updates(s, c->warmup),
                              .total = s->total_updates,
                              .final = c->final,
                              .every = in_updates(s, c->every),
                              .factor = c->factor};
    return mpc_schedule_rate(&rule, applied);
}

static void note_changes(const mpc_session *s, const json_t *old, json_t *now, uint64_t step) {
    mpc_str text = {0};
    if (list_changes(s->cli->options, old, now, true, &text) > 0)
        fprintf(stderr, "changed:%s\nlearning rate after step %llu: %.4g\n", mpc_str_cstr(&text),
                (unsigned long long)step, rate_after(s, (double)step));
    mpc_str_free(&text);
}

/* Devices add in different orders. */
static void note_device(const mpc_session *s, const json_t *run) {
    const char *was = json_string_value(json_object_get(run, "device")), *is = mpc_device_name(s->device);
    if (was && strcmp(was, is) != 0)
        fprintf(stderr, "the run was on %s and goes on on %s: figures agree within rounding, not to the bit\n", was,
                is);
}

static bool refuse_changes(const mpc_run_folder *f, mpc_session *s, const json_t *old, json_t *now) {
    mpc_str message = {0}, lines = {0};
    uint32_t count = list_changes(s->cli->options, old, now, false, &lines);
    mpc_str_printf(&message, "%u setting%s differ%s from those of %s%s", count, count == 1 ? "" : "s",
                   count == 1 ? "s" : "", mpc_str_cstr(&f->path), mpc_str_cstr(&lines));
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E353",
                     .message = mpc_str_cstr(&message),
                     .help = "leave them as they were, or say --change KEY=VALUE for each to go on with another value"};
    if (count) s->sink->emit(s->sink->user, &diag);
    mpc_str_free(&message);
    mpc_str_free(&lines);
    return count == 0;
}

bool mpc_run_folder_check_settings(const mpc_run_folder *f, mpc_session *s, uint64_t step) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/run.json", mpc_str_cstr(&f->path));
    json_error_t error = {0};
    json_t *run = path.failed ? NULL : json_load_file(path.data, 0, &error);
    bool ok = false;
    if (!run) {
        mpc_error(s->sink, "E352", "can't read %s: %s", mpc_str_cstr(&path), error.text);
    } else {
        json_t *now = settings_json(s->train);
        const json_t *old = json_object_get(run, "settings");
        ok = refuse_changes(f, s, old, now);
        if (ok) note_changes(s, old, now, step);
        if (ok) note_device(s, run);
        json_decref(now);
    }
    json_decref(run);
    mpc_str_free(&path);
    return ok;
}
