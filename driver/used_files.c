/* `use` on disk: a name is relative to the file that says it, and two names are one file when their real paths are
 * equal, whatever links lie between. What can't be a model file (a folder, a pipe, more than 64 MiB) is refused before
 * it is read. */
#include "driver/used_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/run_recall.h"
#include "runtime/checkpoint.h"
#include "runtime/data/dataset_impl.h"

enum { LARGEST = 64 << 20 };

typedef struct opened_file {
    const char *real;
    uint32_t id;
} opened_file;

typedef struct file_opener {
    const char *model;         /* its file, as the command line names it */
    const mpc_text_edit *edit; /* NULL: texts as they stand */
    mpc_sources *sources;
    mpc_arena *arena;
    MPC_ARRAY(opened_file) files;
} file_opener;

static void keep_message(void *user, const mpc_diag *diag) {
    mpc_str *why = user;
    mpc_str_clear(why);
    mpc_str_append(why, diag->message);
}

static bool remember(file_opener *o, const char *real, uint32_t id) {
    const char *copy = mpc_arena_strdup(o->arena, real);
    return copy && mpc_array_push(&o->files, (opened_file){copy, id});
}

static uint32_t read_file(file_opener *o, const char *path, const char *real, mpc_str *why) {
    struct stat info;
    bool known = stat(path, &info) == 0, is_file = known && S_ISREG(info.st_mode);
    if (known && !is_file && !S_ISDIR(info.st_mode)) mpc_str_printf(why, "%s is a pipe or a device, not a file", path);
    if (is_file && info.st_size > LARGEST)
        mpc_str_printf(why, "%s is larger than 64 MiB: this is no file of blocks", path);
    if (why->length) return 0;
    char *text;
    size_t length;
    mpc_sink sink = {.emit = keep_message, .user = why};
    if (mpc_data_read_file(path, &sink, &text, &length) != MPC_OK) return 0;
    uint32_t id = mpc_sources_add(o->sources, path, text, length);
    mpc_free(text);
    if (id && o->edit) id = mpc_edit_source(o->sources, id, o->edit);
    if (id && remember(o, real, id)) return id;
    mpc_str_printf(why, "not enough memory to read %s", path);
    return 0;
}

/* A run's model.mpg is the file as it was; what it used lies elsewhere, or has gone. */
static void point_to_copies(const char *model, mpc_str *why) {
    const char *name = mpc_path_name(model);
    mpc_str resolved = {0};
    mpc_str_printf(&resolved, "%.*sresolved.mpg", (int)(name - model), model);
    bool points = strcmp(name, "model.mpg") == 0 && !resolved.failed && access(resolved.data, F_OK) == 0;
    if (points) mpc_str_printf(why, "; %s uses the copies of its run", resolved.data);
    mpc_str_free(&resolved);
}

static uint32_t open_path(file_opener *o, const char *path, mpc_str *why) {
    char real[PATH_MAX];
    if (!realpath(path, real)) {
        mpc_str_printf(why, "can't open %s: %s", path, strerror(errno));
        point_to_copies(o->model, why);
        return 0;
    }
    for (size_t i = 0; i < o->files.count; i++)
        if (strcmp(o->files.data[i].real, real) == 0) return o->files.data[i].id;
    return read_file(o, path, real, why);
}

static uint32_t open_beside(void *user, uint32_t from, const char *said, mpc_str *why) {
    file_opener *o = user;
    const char *name = mpc_sources_name(o->sources, from), *slash = strrchr(name, '/');
    mpc_str path = {0};
    if (*said != '/' && slash) mpc_str_append_n(&path, name, (size_t)(slash + 1 - name));
    mpc_str_append(&path, said);
    uint32_t id = 0;
    if (path.failed) mpc_str_append(why, "out of memory");
    else if (!*said) mpc_str_append(why, "this names no file");
    else id = open_path(o, path.data, why);
    mpc_str_free(&path);
    return id;
}

mpc_model *mpc_load_model_files(mpc_session *s, uint32_t file) {
    file_opener o = {
        .model = s->cli->options->file, .edit = s->cli->edit, .sources = s->sources, .arena = s->overrides.owned};
    char real[PATH_MAX];
    mpc_model *model = NULL;
    mpc_other_files others = {.open = open_beside, .user = &o};
    if (realpath(s->cli->options->file, real) && !remember(&o, real, file)) mpc_error(s->sink, "E901", "out of memory");
    else model = mpc_model_load_using(s->ctx, file, &others, s->overrides.data, s->overrides.count);
    mpc_array_free(&o.files);
    return model;
}

/* --- in a run's folder --- */

bool mpc_keep_used_files(const mpc_run_folder *f, mpc_session *s) {
    bool ok = true;
    for (size_t i = 0; ok && i < mpc_model_used_count(s->model); i++) {
        mpc_str name = {0}, text = {0};
        mpc_str_printf(&name, "used/%s", mpc_model_used_copy(s->model, i));
        mpc_model_print_used(s->model, i, &text);
        ok = !name.failed && !text.failed;
        if (!ok) mpc_error(s->sink, "E901", "out of memory");
        else ok = mpc_run_folder_put(f, name.data, mpc_str_cstr(&text), text.length, s->sink);
        mpc_str_free(&name);
        mpc_str_free(&text);
    }
    return ok;
}

static void hash_file(const mpc_session *s, uint32_t file, char hash[17]) {
    size_t length = 0;
    const char *text = mpc_sources_text(s->sources, file, &length);
    mpc_hash_text(text, length, hash);
}

json_t *mpc_used_files_json(const mpc_session *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < mpc_model_used_count(s->model); i++) {
        uint32_t id = mpc_model_used_file(s->model, i);
        char hash[17];
        hash_file(s, id, hash);
        json_array_append_new(list, json_pack("{s:s, s:s+, s:s}", "file", mpc_sources_name(s->sources, id), "copy",
                                              "used/", mpc_model_used_copy(s->model, i), "hash", hash));
    }
    return list;
}

/* By the name of the copy: that of the file depends on the folder that mpc is called in. */
static const char *hash_of_run(const json_t *used, const char *copy) {
    for (size_t i = 0; i < json_array_size(used); i++) {
        const json_t *entry = json_array_get(used, i);
        const char *name = json_string_value(json_object_get(entry, "copy"));
        if (name && strncmp(name, "used/", 5) == 0 && strcmp(name + 5, copy) == 0)
            return json_string_value(json_object_get(entry, "hash"));
    }
    return NULL;
}

void mpc_compare_used_files(const mpc_session *s) {
    const json_t *run = mpc_run_of_weights(s);
    for (size_t i = 0; run && i < mpc_model_used_count(s->model); i++) {
        uint32_t id = mpc_model_used_file(s->model, i);
        char hash[17];
        hash_file(s, id, hash);
        const char *before = hash_of_run(json_object_get(run, "used"), mpc_model_used_copy(s->model, i));
        if (before && strcmp(before, hash) != 0)
            mpc_warn(s->sink, "W174", (mpc_span){0},
                     "%s has changed since the run was made; %sresolved.mpg uses what it was then",
                     mpc_sources_name(s->sources, id), mpc_str_cstr(&s->run_folder));
    }
}
