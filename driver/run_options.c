/* Options that a run remembers beside its text. Files are known by path and hash: one that has changed is never taken
 * in silence, since a repetition with it would be another run. The assignment of a run is taken as it is only where
 * neither the text nor the command line asks for anything else; otherwise it is made anew, for the same costs.
 */
#include "driver/run_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/json_values.h"
#include "driver/run_recall.h"
#include "runtime/checkpoint.h"

static bool no_memory(const mpc_sink *sink) {
    mpc_error(sink, "E901", "out of memory");
    return false;
}

/* Mapped: weights may be larger than what memory is left. false: it is no file that can be read. */
static bool hash_file(const char *path, char hash[17]) {
    struct stat info;
    hash[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0;
    size_t size = ok ? (size_t)info.st_size : 0;
    void *data = ok ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (data != MAP_FAILED) {
        mpc_hash_text(data, size, hash);
        munmap(data, size);
    }
    if (fd >= 0) close(fd);
    return data != MAP_FAILED;
}

bool mpc_completed_hash(const char *folder, const json_t *used, char hash[17]) {
    mpc_str path = {0}, all = {0};
    bool ok = true;
    for (size_t i = 0; ok && i <= json_array_size(used); i++) {
        const char *copy = i ? json_string_value(json_object_get(json_array_get(used, i - 1), "copy")) : "resolved.mpg";
        mpc_str_clear(&path);
        mpc_str_printf(&path, "%s%s", folder, copy ? copy : "");
        char one[17];
        ok = !path.failed && hash_file(path.data, one);
        if (ok) mpc_str_append(&all, one);
    }
    ok = ok && !all.failed;
    if (ok) mpc_hash_text(all.data, all.length, hash);
    mpc_str_free(&path);
    mpc_str_free(&all);
    return ok;
}

/* ---- what a run says ---- */

/* {path, hash}; a name of something that is no file has no hash. */
static json_t *file_json(const char *path) {
    char hash[17], *whole = realpath(path, NULL);
    json_t *row = json_pack("{s:s}", "path", whole ? whole : path);
    if (hash_file(path, hash)) json_object_set_new(row, "hash", json_string(hash));
    free(whole);
    return row;
}

/* Statistics come from the file beside the weights. */
static void append_states_path(const char *weights, mpc_str *out) {
    mpc_str_append_n(out, weights, (size_t)(mpc_path_name(weights) - weights));
    mpc_str_append(out, MPC_STATE_FILE);
}

static json_t *init_json(const char *path) {
    json_t *row = file_json(path);
    mpc_str states = {0};
    char hash[17];
    append_states_path(path, &states);
    if (strcmp(mpc_path_name(path), MPC_WEIGHTS_FILE) == 0 && !states.failed && hash_file(states.data, hash))
        json_object_set_new(row, "states", json_string(hash));
    mpc_str_free(&states);
    return row;
}

static void set_texts(json_t *options, const char *key, const mpc_text_list *list) {
    json_object_del(options, key);
    if (list->count) json_object_set_new(options, key, mpc_json_texts(list->data, list->count));
}

json_t *mpc_run_options_json(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    json_t *before = o->resume || o->repeats ? json_object_get(s->run, "options") : NULL;
    json_t *options = before ? json_deep_copy(before) : json_object();
    if (o->init) {
        json_object_set_new(options, "init", init_json(mpc_str_cstr(&s->init_file)));
        set_texts(options, "rename", &o->renames);
        set_texts(options, "allow_missing", &o->allow_missing);
    }
    bool is_file = o->cost_target && s->cost_target_is_file;
    if (o->cost_target)
        json_object_set_new(options, "cost_target",
                            is_file ? file_json(o->cost_target) : json_pack("{s:s}", "path", o->cost_target));
    if (o->profile_data) json_object_set_new(options, "profile_data", file_json(o->profile_data));
    return options;
}

static const char *path_of(const json_t *options, const char *key) {
    return json_string_value(json_object_get(json_object_get(options, key), "path"));
}

static void append_words(const json_t *texts, const char *option, mpc_str *out) {
    for (size_t i = 0; i < json_array_size(texts); i++)
        mpc_str_printf(out, " %s '%s'", option, json_string_value(json_array_get(texts, i)));
}

static void append_init(const json_t *options, mpc_str *out) {
    if (!path_of(options, "init")) return;
    mpc_str_printf(out, " --init %s", path_of(options, "init"));
    append_words(json_object_get(options, "rename"), "--rename", out);
    append_words(json_object_get(options, "allow_missing"), "--allow-missing", out);
}

void mpc_run_options_words(const json_t *options, mpc_str *out) {
    append_init(options, out);
    if (path_of(options, "cost_target")) mpc_str_printf(out, " --cost-target %s", path_of(options, "cost_target"));
    if (path_of(options, "profile_data")) mpc_str_printf(out, " --profile-data %s", path_of(options, "profile_data"));
}

/* ---- taken by another command ---- */

typedef struct told_file {            /* what a run says of one */
    const char *option, *path, *hash; /* hash NULL: it wasn't a file then */
    const char *named;                /* that the option takes: `path`, or the file that it lies beside */
} told_file;

static bool refuse(const mpc_sink *sink, const told_file *f, const char *now) {
    mpc_str help = {0}, what = {0};
    mpc_str_printf(&help, "%s %s takes %s: another run, then", f->option, now ? f->named : "FILE",
                   now ? "it as it is now" : "another one");
    if (now)
        mpc_str_printf(&what, "has changed since: its hash is %s, the run's was %s", now,
                       f->hash ? f->hash : "not known");
    else mpc_str_append(&what, "is missing");
    mpc_error_help(sink, "E388", NULL, mpc_str_cstr(&help), "the run was made with %s %s, which %s", f->option, f->path,
                   mpc_str_cstr(&what));
    mpc_str_free(&help);
    mpc_str_free(&what);
    return false;
}

static bool check_file(const mpc_sink *sink, const told_file *f) {
    char now[17];
    bool there = hash_file(f->path, now);
    return (there && f->hash && strcmp(now, f->hash) == 0) || refuse(sink, f, there ? now : NULL);
}

bool mpc_run_file_option(const mpc_session *s, const char *key, const char *given, const char **value) {
    const json_t *row = json_object_get(json_object_get(s->run, "options"), key);
    *value = given ? given : json_string_value(json_object_get(row, "path"));
    if (given || !*value) return true;
    const told_file f = {.option = strcmp(key, "cost_target") == 0 ? "--cost-target" : "--profile-data",
                         .path = *value,
                         .named = *value,
                         .hash = json_string_value(json_object_get(row, "hash"))};
    if (f.hash && !check_file(s->sink, &f)) return false; /* a built-in profile has none */
    fprintf(stderr, "with %s %s, as the run was made\n", f.option, *value);
    return true;
}

static bool take_texts(const json_t *texts, mpc_text_list *list) {
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        if (text && !mpc_array_push(list, text)) return false;
    }
    return true;
}

static bool check_init(const mpc_sink *sink, const json_t *row, const char *path) {
    const char *states = json_string_value(json_object_get(row, "states"));
    mpc_str beside = {0};
    append_states_path(path, &beside);
    told_file f = {"--init", path, json_string_value(json_object_get(row, "hash")), path};
    bool same = beside.failed ? no_memory(sink) : check_file(sink, &f);
    f.path = beside.data;
    f.hash = states;
    same = same && (!states || check_file(sink, &f));
    mpc_str_free(&beside);
    return same;
}

/* The three belong together: a name of one file means nothing in another. */
static bool take_init(mpc_repeat *r, const json_t *options, mpc_str *said) {
    mpc_options *o = &r->options;
    const char *path = path_of(options, "init");
    if (!path || o->init || o->renames.count || o->allow_missing.count) return true;
    if (!check_init(&r->cli.sink, json_object_get(options, "init"), path)) return false;
    r->took_names = true;
    o->init = path;
    append_init(options, said);
    return (take_texts(json_object_get(options, "rename"), &o->renames) &&
            take_texts(json_object_get(options, "allow_missing"), &o->allow_missing)) ||
           no_memory(&r->cli.sink);
}

static void take_device(mpc_repeat *r, mpc_str *said) {
    const char *device = json_string_value(json_object_get(r->run, "device"));
    if (!device || r->options.has_device) return;
    if (strcmp(device, r->options.device) != 0) mpc_str_printf(said, " --device %s", device);
    r->options.device = device;
}

static void take_budget(mpc_repeat *r, mpc_str *said) {
    double budget = json_number_value(json_object_get(r->run, "loss_budget"));
    if (r->options.has_loss_budget || !(budget > 0)) return;
    r->options.has_loss_budget = true;
    r->options.loss_budget = budget;
    mpc_str_printf(said, " --loss-budget %g", budget);
}

/* Asks for nothing that an assignment could depend on. */
static bool asks_for_nothing(const mpc_repeat *r) {
    const mpc_options *o = &r->options;
    const char *device = json_string_value(json_object_get(r->run, "device"));
    bool same_device = !o->has_device || (device && strcmp(device, o->device) == 0);
    return same_device && !o->cost_target && !o->profile_data && !o->has_loss_budget && o->set.count == 0 &&
           o->consts.count == 0 && o->shorthand.count == 0 && o->plugins.count == 0 && o->added_passes.count == 0;
}

/* Also of its `used` files, which users may edit as well. */
static bool text_is_the_runs(const mpc_repeat *r) {
    char now[17];
    const char *then = json_string_value(json_object_get(r->run, "completed_hash"));
    return then && mpc_completed_hash(mpc_str_cstr(&r->folder), json_object_get(r->run, "used"), now) &&
           strcmp(now, then) == 0;
}

static void warn_of_changes(const mpc_repeat *r) {
    if (json_is_true(json_object_get(r->run, "changed")))
        mpc_warn(&r->cli.sink, "W175", (mpc_span){0},
                 "%s was changed on its way by --resume: this trains with its last settings from the start, which is "
                 "another course",
                 mpc_str_cstr(&r->folder));
}

bool mpc_repeat_prepare(mpc_repeat *r, const mpc_cli *cli) {
    *r = (mpc_repeat){.cli = *cli, .options = *cli->options};
    r->cli.options = &r->options;
    if (r->options.resume) return true;
    r->run = mpc_run_of_completed(cli->options->file, &r->folder);
    if (!r->run) return true;
    mpc_str said = {0};
    r->options.repeats = true;
    r->options.same_assignment = asks_for_nothing(r) && text_is_the_runs(r);
    warn_of_changes(r);
    take_device(r, &said);
    bool ok = take_init(r, json_object_get(r->run, "options"), &said);
    if (ok) take_budget(r, &said);
    if (ok && said.length) fprintf(stderr, "with%s, as the run was made\n", mpc_str_cstr(&said));
    mpc_str_free(&said);
    return ok;
}

void mpc_repeat_finish(mpc_repeat *r) {
    if (r->took_names) {
        mpc_array_free(&r->options.renames);
        mpc_array_free(&r->options.allow_missing);
    }
    json_decref(r->run);
    mpc_str_free(&r->folder);
}
