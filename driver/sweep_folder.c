/* The folder of a sweep: sweep.json says what it is, sweep.jsonl has a line for every run that ended. A sweep that is
 * begun again in its folder takes the finished runs from there; only the same sweep of the same text may. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/json_values.h"
#include "driver/sweep.h"
#include "driver/used_files.h"
#include "runtime/file_sync.h"

static bool out_of_memory(const mpc_sweep *s) {
    mpc_error(&s->cli->sink, "E901", "out of memory");
    return false;
}

static char *path_in(mpc_sweep *s, const char *name) {
    char *path = mpc_arena_printf(s->arena, "%s/%s", mpc_str_cstr(&s->folder), name);
    if (!path) out_of_memory(s);
    return path;
}

/* What the sweep is: two with equal descriptions have equal runs under equal names. */
static json_t *describe(mpc_sweep *s) {
    const mpc_options *o = s->cli->options;
    mpc_text_list words = {0};
    bool ok = mpc_sweep_common_words(s, false, &words);
    char hash[17];
    mpc_hash_text(s->session->text, s->session->text_length, hash);
    json_t *what = json_pack("{s:i, s:s, s:s, s:o, s:o, s:I, s:I}", "schema", 1, "file", o->file, "hash", hash, "over",
                             mpc_json_texts(o->over.data, o->over.count), "arguments", mpc_json_texts(words.data, words.count), "random", (json_int_t)o->random,
                             "seed", (json_int_t)(o->has_seed ? o->seed : 0));
    json_object_set_new(what, "used", mpc_used_files_json(s->session));
    mpc_array_free(&words);
    if (ok) return what;
    json_decref(what);
    return NULL;
}

static bool write_description(mpc_sweep *s, const json_t *what) {
    char *path = path_in(s, "sweep.json"), *text = json_dumps(what, JSON_INDENT(1));
    bool ok = path && text && mpc_file_replace(path, text, strlen(text), &s->cli->sink) == MPC_OK;
    if (path && !text) out_of_memory(s);
    mpc_free(text);
    return ok;
}

/* ---- an earlier sweep in the folder ---- */

static bool is_another(mpc_sweep *s, const json_t *then, const json_t *what) {
    if (json_equal(then, what)) return false;
    bool text = json_equal(json_object_get(then, "hash"), json_object_get(what, "hash")) &&
                json_equal(json_object_get(then, "used"), json_object_get(what, "used"));
    mpc_error(&s->cli->sink, "E384", "%s holds %s; take another --out", s->folder.data,
              text ? "a sweep over other values, or with other options" : "a sweep of another text of the model");
    return true;
}

static bool is_final(const json_t *record) {
    json_int_t status = json_integer_value(json_object_get(record, "status"));
    return status == MPC_EXIT_DONE || status == MPC_EXIT_DIVERGED;
}

static void take_line(mpc_sweep *s, const char *line) {
    json_t *record = json_loads(line, 0, NULL);
    const char *name = json_string_value(json_object_get(record, "run"));
    for (uint32_t i = 0; name && i < s->run_count; i++) {
        mpc_sweep_run *run = &s->runs[i];
        if (strcmp(run->name, name) != 0) continue;
        json_decref(run->record);
        run->record = is_final(record) ? json_incref(record) : NULL;
    }
    json_decref(record);
}

/* A crash may have cut the last line: it is dropped, its run isn't finished. */
static bool read_lines(mpc_sweep *s) {
    char *path = path_in(s, "sweep.jsonl"), *line = NULL;
    FILE *f = path ? fopen(path, "r") : NULL;
    size_t capacity = 0;
    ssize_t length;
    off_t whole = 0;
    while (f && (length = getline(&line, &capacity, f)) > 0 && line[length - 1] == '\n') {
        whole += length;
        take_line(s, line);
    }
    free(line); /* getline's */
    bool ok = path && (!f || truncate(path, whole) == 0);
    if (f) fclose(f);
    if (path && !ok) mpc_error(&s->cli->sink, "E420", "can't write %s: %s", path, strerror(errno));
    return ok;
}

static bool find_checkpoints(mpc_sweep *s) {
    for (uint32_t i = 0; i < s->run_count; i++) {
        char newest[64] = "", *path = mpc_arena_printf(s->arena, "%s/%s/checkpoints", s->folder.data, s->runs[i].name);
        if (!path) return out_of_memory(s);
        bool found = mpc_checkpoint_newest(path, newest, sizeof newest, NULL) == MPC_OK && newest[0];
        s->runs[i].resumes = !s->runs[i].record && found;
    }
    return true;
}

/* *found: the folder holds this sweep. */
static bool look_for_sweep(mpc_sweep *s, const json_t *what, bool *found) {
    char *path = path_in(s, "sweep.json");
    json_t *then = path ? json_load_file(path, 0, NULL) : NULL;
    bool ok = path && (!then || !is_another(s, then, what));
    *found = ok && then;
    json_decref(then);
    return ok && (!*found || (read_lines(s) && find_checkpoints(s)));
}

static bool is_empty_or_new(mpc_sweep *s) {
    if (rmdir(s->folder.data) == 0 || errno == ENOENT) return true;
    mpc_error(&s->cli->sink, errno == ENOTEMPTY || errno == EEXIST ? "E351" : "E420",
              errno == ENOTEMPTY || errno == EEXIST ? "%s is not empty and holds no sweep" : "%s can't be a folder",
              s->folder.data);
    return false;
}

static bool hold(mpc_sweep *s) { return mpc_folder_take(&s->hold, s->folder.data, &s->cli->sink); }

/* What was held so far may have been an empty folder of that name, which was removed. */
static bool make(mpc_sweep *s, const json_t *what) {
    mpc_folder_release(&s->hold);
    return mpc_make_folders(s->folder.data, &s->cli->sink) && hold(s) && write_description(s, what);
}

static bool open_given(mpc_sweep *s, const json_t *what) {
    bool found = false;
    mpc_str_append(&s->folder, s->cli->options->out);
    mpc_trim_slashes(&s->folder);
    if (s->folder.failed) return out_of_memory(s);
    return hold(s) && look_for_sweep(s, what, &found) && (found || (is_empty_or_new(s) && make(s, what)));
}

static bool open_numbered(mpc_sweep *s, const json_t *what) {
    char *name = mpc_arena_printf(s->arena, "%s-sweep", mpc_model_name(s->session->model));
    if (!name) return out_of_memory(s);
    return mpc_make_numbered_folder(name, &s->folder, &s->cli->sink) && hold(s) && write_description(s, what);
}

bool mpc_sweep_open_folder(mpc_sweep *s) {
    json_t *what = describe(s);
    bool ok = !what ? out_of_memory(s) : s->cli->options->out ? open_given(s, what) : open_numbered(s, what);
    json_decref(what);
    return ok;
}

bool mpc_sweep_append(mpc_sweep *s, const mpc_sweep_run *run) {
    char *path = path_in(s, "sweep.jsonl");
    char *text = path ? json_dumps(run->record, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    mpc_str line = {0};
    mpc_str_printf(&line, "%s\n", text ? text : "");
    mpc_free(text);
    if (path && (!text || line.failed)) out_of_memory(s);
    bool ok = path && text && !line.failed;
    int fd = ok ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
    bool written = fd >= 0 && mpc_write_whole(fd, line.data, line.length) == line.length;
    if (fd >= 0 && close(fd) != 0) written = false;
    if (ok && !written) mpc_error(&s->cli->sink, "E420", "can't write %s: %s", path, strerror(errno));
    mpc_str_free(&line);
    return written;
}
