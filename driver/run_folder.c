/* Making and finding run folders. A folder is claimed by mkdir, which only one of two processes can win; --overwrite
 * removes the files that a run writes and nothing else. */
#include "driver/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/event_file.h"
#include "runtime/checkpoint.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/file_sync.h"

enum { MOST_RUNS = 100000 };

static bool no_memory(const mpc_sink *sink) {
    mpc_error(sink, "E901", "out of memory");
    return false;
}

static bool set_paths(mpc_run_folder *f, const mpc_sink *sink) {
    mpc_str_printf(&f->checkpoints, "%s/checkpoints", mpc_str_cstr(&f->path));
    mpc_str_printf(&f->log, "%s/log.jsonl", mpc_str_cstr(&f->path));
    return f->path.failed || f->checkpoints.failed || f->log.failed ? no_memory(sink) : true;
}

static bool make_folder(const char *path, const mpc_sink *sink) {
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return true;
    mpc_error(sink, "E420", "can't make %s: %s", path, strerror(errno));
    return false;
}

bool mpc_make_folders(const char *path, const mpc_sink *sink) {
    mpc_str part = {0};
    bool ok = true;
    for (const char *p = path; ok && *p;) {
        size_t n = strcspn(p + 1, "/") + 1;
        mpc_str_append_n(&part, p, n);
        p += n;
        ok = part.failed ? no_memory(sink) : make_folder(part.data, sink);
    }
    mpc_str_free(&part);
    return ok;
}

bool mpc_folder_is_empty(const char *path) {
    DIR *d = opendir(path);
    if (!d) return errno == ENOENT;
    int entries = 0;
    while (readdir(d)) entries++;
    closedir(d);
    return entries <= 2;
}

void mpc_trim_slashes(mpc_str *path) {
    while (path->length > 1 && path->data[path->length - 1] == '/') path->data[--path->length] = '\0';
}

static bool remove_run(const char *path, const mpc_sink *sink) {
    static const char *const files[] = {"model.mpg",        "resolved.mpg",    "run.json",     "assignment.txt",
                                        "profile.json",     "log.jsonl",       "metrics.json", "choices.txt",
                                        "checkpoints/best", "checkpoints/last"};
    mpc_str name = {0};
    bool ok = true;
    mpc_events_remove(path);
    mpc_str_printf(&name, "%s/used", path);
    if (!name.failed) mpc_folder_remove(name.data, NULL); /* folders that others put there stay */
    mpc_str_clear(&name);
    mpc_str_printf(&name, "%s/checkpoints", path);
    if (!name.failed && access(name.data, F_OK) == 0) ok = mpc_checkpoint_prune(name.data, 0, NULL, sink) == MPC_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        mpc_str_clear(&name);
        mpc_str_printf(&name, "%s/%s", path, files[i]);
        if (!name.failed) unlink(name.data);
    }
    mpc_str_free(&name);
    return ok;
}

static bool may_take(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    if (mpc_folder_is_empty(o->out) || o->overwrite) return true;
    mpc_error_help(s->sink, "E351", o->out, "another --out, or --overwrite to start afresh there, or --resume to go on",
                   "this folder is not empty");
    return false;
}

/* Asked twice, since another training may take the folder meanwhile. */
static bool take_given(mpc_run_folder *f, mpc_session *s) {
    const mpc_options *o = s->cli->options;
    if (!may_take(s)) return false;
    mpc_str_append(&f->path, o->out);
    mpc_trim_slashes(&f->path);
    return !f->path.failed && mpc_make_folders(f->path.data, s->sink) &&
           mpc_folder_take(&f->hold, f->path.data, s->sink) && may_take(s) &&
           (mpc_folder_is_empty(o->out) || remove_run(o->out, s->sink));
}

bool mpc_make_numbered_folder(const char *name, mpc_str *path, const mpc_sink *sink) {
    if (!make_folder("runs", sink)) return false;
    for (int i = 1; i < MOST_RUNS; i++) {
        mpc_str_clear(path);
        mpc_str_printf(path, "runs/%s-%03d", name, i);
        if (path->failed) return no_memory(sink);
        if (mkdir(path->data, 0777) == 0) return true;
        if (errno != EEXIST) break;
    }
    mpc_error(sink, "E420", "can't make %s: %s", path->data, strerror(errno));
    return false;
}

bool mpc_run_folder_create(mpc_run_folder *f, mpc_session *s) {
    *f = (mpc_run_folder){0};
    bool made =
        s->cli->options->out ? take_given(f, s) : mpc_make_numbered_folder(mpc_model_name(s->model), &f->path, s->sink);
    if (!made) return false;
    if (!f->hold.held && !mpc_folder_take(&f->hold, f->path.data, s->sink)) return false;
    return set_paths(f, s->sink) && make_folder(f->checkpoints.data, s->sink);
}

bool mpc_run_folder_open(mpc_run_folder *f, const char *path, const mpc_sink *sink) {
    *f = (mpc_run_folder){0};
    mpc_str_append(&f->path, path);
    mpc_trim_slashes(&f->path);
    if (!set_paths(f, sink)) return false;
    if (access(f->checkpoints.data, F_OK) == 0) return mpc_folder_take(&f->hold, f->path.data, sink);
    mpc_error(sink, "E352", "%s is not the folder of a run: it has no `checkpoints`", path);
    return false;
}

void mpc_run_folder_free(mpc_run_folder *f) {
    mpc_folder_release(&f->hold);
    mpc_str_free(&f->path);
    mpc_str_free(&f->checkpoints);
    mpc_str_free(&f->log);
}

bool mpc_run_folder_put(const mpc_run_folder *f, const char *name, const char *text, size_t size,
                        const mpc_sink *sink) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s", mpc_str_cstr(&f->path), name);
    bool ok = path.failed ? no_memory(sink) : mpc_file_replace(path.data, text, size, sink) == MPC_OK;
    mpc_str_free(&path);
    return ok;
}

/* Content of a small text file without its line end; false when it isn't there. */
static bool read_name(const char *folder, const char *file, mpc_str *out) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s", folder, file);
    FILE *f = path.failed ? NULL : fopen(path.data, "rb");
    mpc_str_free(&path);
    if (!f) return false;
    char line[64] = "";
    bool ok = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    line[strcspn(line, "\r\n")] = '\0';
    mpc_str_append(out, line);
    return ok && line[0] && !strchr(line, '/');
}

static bool is_checkpoint(const char *path) {
    mpc_str file = {0};
    mpc_str_printf(&file, "%s/weights.safetensors", path);
    bool is = !file.failed && access(file.data, F_OK) == 0;
    mpc_str_free(&file);
    return is;
}

/* Name of the wanted checkpoint in DIR/checkpoints; "" when there is none. */
static void choose_checkpoint(const char *dir, const char *which, mpc_str *name) {
    if ((!which || strcmp(which, "best") == 0) && read_name(dir, "best", name)) return;
    mpc_str_clear(name);
    if (which && which[0] >= '0' && which[0] <= '9') {
        mpc_str_printf(name, "step-%08llu", strtoull(which, NULL, 10));
        return;
    }
    char newest[64];
    if ((!which || strcmp(which, "last") == 0) && mpc_checkpoint_newest(dir, newest, sizeof newest, NULL) == MPC_OK)
        mpc_str_append(name, newest);
}

/* `from` is the file checkpoints/best or last: the checkpoint beside it that it names. */
static bool follow_pointer(const char *from, mpc_str *out) {
    mpc_str folder = {0}, name = {0};
    const char *slash = strrchr(from, '/'), *file = mpc_path_name(from);
    if (slash) mpc_str_append_n(&folder, from, (size_t)(slash - from));
    else mpc_str_append(&folder, ".");
    bool ok = read_name(mpc_str_cstr(&folder), file, &name);
    if (ok) mpc_str_printf(out, "%s/%s", mpc_str_cstr(&folder), mpc_str_cstr(&name));
    ok = ok && !out->failed && is_checkpoint(out->data);
    mpc_str_free(&folder);
    mpc_str_free(&name);
    return ok;
}

bool mpc_find_checkpoint(const char *from, const char *which, mpc_str *out, const mpc_sink *sink) {
    mpc_str_clear(out);
    if (is_checkpoint(from)) mpc_str_append(out, from);
    if (out->length > 0 || follow_pointer(from, out)) return !out->failed || no_memory(sink);
    mpc_str_clear(out);
    mpc_str dir = {0}, name = {0};
    mpc_str_printf(&dir, "%s/checkpoints", from);
    choose_checkpoint(mpc_str_cstr(&dir), which, &name);
    mpc_str_printf(out, "%s/%s", mpc_str_cstr(&dir), mpc_str_cstr(&name));
    bool ok = name.length > 0 && !out->failed && is_checkpoint(out->data);
    if (!ok && access(from, F_OK) != 0) mpc_error(sink, "E352", "there is no %s", from);
    else if (!ok) mpc_error(sink, "E352", "%s holds no %s checkpoint", from, which ? which : "whole");
    mpc_str_free(&dir);
    mpc_str_free(&name);
    return ok;
}

void mpc_checkpoint_place(const char *from, const char *path, mpc_str *out) {
    mpc_str dir = {0}, best = {0};
    const char *name = strrchr(path, '/');
    mpc_str_append(out, from);
    mpc_str_printf(&dir, "%s/checkpoints", from);
    bool inside = name && strncmp(path, mpc_str_cstr(&dir), dir.length) == 0;
    if (inside && read_name(mpc_str_cstr(&dir), "best", &best) && strcmp(mpc_str_cstr(&best), name + 1) == 0)
        mpc_str_append(out, " (best)");
    else if (inside) mpc_str_printf(out, " (%s)", name + 1);
    mpc_str_free(&dir);
    mpc_str_free(&best);
}
