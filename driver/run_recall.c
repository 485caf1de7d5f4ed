/* run.json remembers the overrides that a run was made with and the names of its data's columns. Both are defaults and
 * hints: a checkpoint without run.json works as well, so whatever can't be read here is passed over in silence. */
#include "driver/run_recall.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"

static bool has_run(const char *folder, size_t length, const char *up, mpc_str *out) {
    mpc_str_clear(out);
    mpc_str_printf(out, "%.*s/%srun.json", (int)length, folder, up);
    if (out->failed || access(out->data, F_OK) != 0) return false;
    mpc_str_clear(out);
    mpc_str_printf(out, "%.*s/%s", (int)length, folder, up);
    char *plain = *up && !out->failed ? realpath(out->data, NULL) : NULL; /* runs/a/checkpoints/../ is hard to read */
    if (plain) {
        mpc_str_clear(out);
        mpc_str_printf(out, "%s/", plain);
    }
    free(plain);
    return !out->failed;
}

/* The folder of the run that `from` names, with a slash at its end: `from` is it, its checkpoints, or a checkpoint or
 * pointer among these. false: there is no run.json, and what `folder` has means nothing. */
static bool find_run(const char *from, mpc_str *folder) {
    size_t length = strlen(from);
    if (length > 1 && from[length - 1] == '/') length--;
    if (has_run(from, length, "", folder) || has_run(from, length, "../", folder) ||
        has_run(from, length, "../../", folder))
        return true;
    const char *slash = strrchr(from, '/'); /* `from` is the file checkpoints/best */
    return slash && has_run(from, (size_t)(slash - from), "../", folder);
}

/* `folder` ends with a slash. */
static json_t *read_run_json(const mpc_str *folder) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%srun.json", mpc_str_cstr(folder));
    json_t *run = path.failed ? NULL : json_load_file(path.data, 0, NULL);
    mpc_str_free(&path);
    return run;
}

static json_t *read_from(const char *from, mpc_str *folder) {
    if (find_run(from, folder)) return read_run_json(folder);
    mpc_str_clear(folder);
    return NULL;
}

static bool is_completed(const char *file) { return strcmp(mpc_path_name(file), "resolved.mpg") == 0; }

/* The model file in the folder of a run: model.mpg as it was, or completed. */
static bool lies_in_run(const char *file) {
    return is_completed(file) || strcmp(mpc_path_name(file), "model.mpg") == 0;
}

json_t *mpc_run_of_completed(const char *file, mpc_str *folder) {
    if (!is_completed(file)) return NULL;
    mpc_str_append_n(folder, file, (size_t)(mpc_path_name(file) - file));
    if (folder->length == 0) mpc_str_append(folder, "./");
    return read_run_json(folder);
}

void mpc_run_read(mpc_session *s) {
    const mpc_options *o = s->cli->options;
    const char *from = o->from ? o->from : o->resume, *slash = strrchr(o->file, '/');
    mpc_str folder = {0};
    if (!from && lies_in_run(o->file)) {
        mpc_str_append_n(&folder, slash ? o->file : ".", slash ? (size_t)(slash - o->file) : 1);
        from = folder.failed ? NULL : folder.data;
    }
    if (from) s->run = read_from(from, &s->run_folder);
    mpc_str_free(&folder);
}

const json_t *mpc_run_of_weights(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    return (o->from || o->resume) && !is_completed(o->file) ? s->run : NULL;
}

static bool is_given(const mpc_override_list *own, const mpc_override *o) {
    for (size_t i = 0; i < own->count; i++)
        if (own->data[i].is_const == o->is_const && strcmp(own->data[i].key, o->key) == 0) return true;
    return false;
}

/* One text of run.json, "--const width=8"; its parts are copied into the list's arena. false: out of memory. */
static bool recall_one(mpc_session *s, const char *text, mpc_override_list *list) {
    bool is_const = strncmp(text, "--const ", 8) == 0;
    if (!is_const && strncmp(text, "--set ", 6) != 0) return true;
    const char *key = text + (is_const ? 8 : 6), *equals = strchr(key, '=');
    if (!equals || equals == key) return true;
    mpc_override o = {.is_const = is_const,
                      .from = MPC_FROM_RUN,
                      .key = mpc_arena_strndup(s->overrides.owned, key, (size_t)(equals - key)),
                      .value = mpc_arena_strdup(s->overrides.owned, equals + 1)};
    if (!o.key || !o.value) return false;
    return is_given(&s->overrides, &o) || mpc_array_push(list, o);
}

static bool recall(mpc_session *s, const json_t *texts, mpc_override_list *list) {
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        if (text && !recall_one(s, text, list)) return false;
    }
    for (size_t i = 0; i < s->overrides.count; i++)
        if (!mpc_array_push(list, s->overrides.data[i])) return false;
    return true;
}

bool mpc_run_recall_overrides(mpc_session *s) {
    const json_t *run = mpc_run_of_weights(s);
    mpc_override_list list = {.owned = s->overrides.owned};
    bool ok = !run || recall(s, json_object_get(run, "overrides"), &list);
    if (ok && run) {
        mpc_array_free(&s->overrides);
        s->overrides = list;
    } else {
        mpc_array_free(&list);
    }
    return ok;
}

void mpc_run_say_overrides(const mpc_session *s) {
    mpc_str said = {0};
    for (size_t i = 0; i < s->overrides.count; i++) {
        const mpc_override *o = &s->overrides.data[i];
        bool passed_over = o->is_const && s->model && !mpc_model_has_const(s->model, o->key);
        if (o->from == MPC_FROM_RUN && !passed_over)
            mpc_str_printf(&said, " %s %s=%s", o->is_const ? "--const" : "--set", o->key, o->value);
    }
    if (said.length > 0) fprintf(stderr, "with%s, as the run was made\n", mpc_str_cstr(&said));
    mpc_str_free(&said);
}

/* "columns[3]" and "columns[0:64]" as [*begin, *end); false for a column by name. */
static bool read_positions(const char *source, int64_t *begin, int64_t *end) {
    if (strncmp(source, "columns[", 8) != 0) return false;
    char *stop;
    *begin = strtoll(source + 8, &stop, 10);
    *end = *stop == ':' ? strtoll(stop + 1, &stop, 10) : *begin + 1;
    return *stop == ']';
}

static bool compare_field(const mpc_step *step, const json_t *before, const mpc_dataset *d, const char *path,
                          const mpc_data_field *field) {
    int64_t begin, end, n = mpc_dataset_columns(d), known = (int64_t)json_array_size(before);
    const char *const *names = mpc_dataset_column_names(d);
    if (!read_positions(field->source, &begin, &end)) return true;
    for (int64_t i = begin; i < end && i < n && i < known; i++) {
        const char *old = json_string_value(json_array_get(before, (size_t)i));
        if (!old || strcmp(old, names[i]) == 0) continue;
        mpc_warn(step->session->sink, "W171", field->span,
                 "column %lld of %s is `%s`, that of the training data was `%s`; the model takes columns by position",
                 (long long)i, path, names[i], old);
        return false;
    }
    return true;
}

void mpc_run_compare_columns(const mpc_step *step, const mpc_dataset *d, const char *path) {
    const mpc_session *s = step->session;
    bool named = mpc_dataset_column_names(d) && s->cli->options->from;
    const json_t *before = named ? json_object_get(s->run, "columns") : NULL;
    for (uint32_t i = 0; before && i < step->field_count; i++)
        if (!compare_field(step, before, d, path, &step->fields[i])) break;
}
