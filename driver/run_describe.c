/* What was run: the model file, its completed form, the settings (run_settings.c), the host. A field that is new in
 * run.json is absent in those of older runs, so whoever reads it has to do without. */
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
#include "driver/json_values.h"
#include "driver/run_folder.h"
#include "driver/run_options.h"
#include "driver/run_plugins.h"
#include "driver/run_settings.h"
#include "driver/used_files.h"
#include "driver/version.h"
#include "passes/precision/cost.h"

static json_t *command_line(const mpc_cli *cli) {
    return mpc_json_texts((const char *const *)cli->argv, (size_t)cli->argc);
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
    return s->facts.column_names ? mpc_json_texts(s->facts.column_names, (size_t)s->facts.columns) : json_null();
}

/* What a training of resolved.mpg needs besides its text. */
static void add_options(const mpc_run_folder *f, const mpc_session *s, json_t *options, json_t *run) {
    mpc_str folder = {0};
    char hash[17];
    mpc_str_printf(&folder, "%s/", mpc_str_cstr(&f->path));
    json_object_set(run, "options", options);
    if (mpc_completed_hash(mpc_str_cstr(&folder), json_object_get(run, "used"), hash))
        json_object_set_new(run, "completed_hash", json_string(hash));
    if (s->cli->options->resume) json_object_set_new(run, "changed", json_true());
    mpc_str_free(&folder);
}

static json_t *run_json(const mpc_run_folder *f, mpc_session *s, json_t *options) {
    struct utsname host;
    if (uname(&host) != 0) memset(&host, 0, sizeof host);
    char hash[17], when[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    mpc_hash_text(s->text, s->text_length, hash);
    mpc_str found = {0};
    mpc_runtime_info(&found);
    json_t *run = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "schema", 1, "version",
                            MPC_VERSION, "model", mpc_model_name(s->model), "file", s->cli->options->file, "file_hash",
                            hash, "device", mpc_device_name(s->device), "started", when, "host", host.nodename,
                            "arguments", command_line(s->cli), "overrides", overrides_json(s), "columns",
                            columns_json(s), "found", mpc_str_cstr(&found), "settings", mpc_settings_json(s->train));
    json_object_set_new(run, "target", json_string(s->profile->name));
    json_object_set_new(run, "plugins", mpc_run_plugins_json(s));
    json_object_set_new(run, "added_passes", mpc_json_texts(s->added_passes.data, s->added_passes.count));
    json_object_set_new(run, "used", mpc_used_files_json(s));
    add_options(f, s, options, run);
    if (s->formats_asked) json_object_set_new(run, "formats_asked", json_string(s->formats_asked));
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

/* Above the completed file, since no line of it can say this. */
static void say_command(const mpc_session *s, const json_t *options, mpc_str *out) {
    mpc_str words = {0};
    if (s->device != MPC_DEVICE_CPU) mpc_str_printf(&words, " --device %s", mpc_device_name(s->device));
    mpc_run_options_words(options, &words);
    if (s->loss_budget > 0) mpc_str_printf(&words, " --loss-budget %g", s->loss_budget);
    if (words.length)
        mpc_str_printf(out, "# Made with%s; `mpc train` takes that from run.json in this folder.\n\n",
                       mpc_str_cstr(&words));
    out->failed = out->failed || words.failed;
    mpc_str_free(&words);
}

bool mpc_run_folder_describe(const mpc_run_folder *f, mpc_session *s) {
    mpc_str used = {0}, resolved = {0}, assignment = {0};
    mpc_str_printf(&used, "%s/used", mpc_str_cstr(&f->path));
    if (!used.failed) mkdir(used.data, 0777);
    mpc_str_free(&used);
    char here[4096];
    json_t *options = mpc_run_options_json(s); /* reads the weights of --init whole, for their hash */
    say_command(s, options, &resolved);
    mpc_model_print_resolved(s->model, getcwd(here, sizeof here), &resolved);
    mpc_assignment_print(s->assignment, &assignment);
    bool ok = put_str(f, "resolved.mpg", &resolved, s->sink);
    ok = put_str(f, "assignment.txt", &assignment, s->sink) && ok;
    ok = ok && mpc_run_keep_plugins(f, s) && mpc_keep_used_files(f, s);
    ok = ok && mpc_run_folder_put(f, "model.mpg", s->text, s->text_length, s->sink) &&
         put_json(f, "run.json", run_json(f, s, options), s->sink);
    json_decref(options);
    return ok;
}
