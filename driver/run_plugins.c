/* What a run remembers of its plugins. A plugin is known by its file name: a rebuilt one has the path it had, so the
 * path can't tell whether it is the same, and the hash does. A changed plugin is never taken in silence, nor is the
 * run's own copy: either may be what the user wants, and the message says how to ask for it. */
#include "driver/run_plugins.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "passes/plugins.h"
#include "runtime/data/dataset_impl.h"

static bool no_memory(const mpc_session *s) {
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

/* Hash of a file's bytes as text in the session's arena; NULL: it can't be read. */
static const char *hash_of(const mpc_session *s, const char *path) {
    char *data, text[17];
    size_t size;
    if (mpc_data_read_file(path, NULL, &data, &size) != MPC_OK) return NULL;
    mpc_hash_text(data, size, text);
    mpc_free(data);
    return mpc_arena_strdup(s->overrides.owned, text);
}

static bool load(mpc_session *s, const char *path, const char *hash) {
    if (mpc_plugin_load(s->ctx, path) != MPC_OK) return false;
    char *whole = realpath(path, NULL); /* another folder may be the current one when the run is gone on with */
    const char *kept = mpc_arena_strdup(s->overrides.owned, whole ? whole : path);
    free(whole);
    return (kept && mpc_array_push(&s->plugins, (mpc_session_plugin){.path = kept, .hash = hash})) || no_memory(s);
}

/* The first one of the command line with this file name; NULL: none. */
static const char *given(const mpc_session *s, const char *name) {
    const mpc_text_list *list = &s->cli->options->plugins;
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(mpc_path_name(list->data[i]), name) == 0) return list->data[i];
    return NULL;
}

static void refuse(const mpc_session *s, const char *folder, const json_t *row, const char *now) {
    const char *path = json_string_value(json_object_get(row, "path")),
               *copy = json_string_value(json_object_get(row, "copy"));
    const char *hash = json_string_value(json_object_get(row, "hash"));
    mpc_str message = {0}, help = {0};
    if (now)
        mpc_str_printf(&message, "the plugin %s has changed since this run was made: its hash is %s, the run's was %s",
                       mpc_path_name(path), now, hash);
    else
        mpc_str_printf(&message, "the plugin %s of this run (hash %s) is missing: there is no %s", mpc_path_name(path),
                       hash, path);
    if (copy) mpc_str_printf(&help, "--load-plugin %s%s goes on with the copy that the run kept, ", folder, copy);
    if (now) mpc_str_printf(&help, "--load-plugin %s with the plugin as it is now", path);
    else mpc_str_printf(&help, "--load-plugin FILE with another %s", mpc_path_name(path));
    mpc_error_help(s->sink, "E375", folder, mpc_str_cstr(&help), "%s", mpc_str_cstr(&message));
    mpc_str_free(&message);
    mpc_str_free(&help);
}

/* A plugin of the run, as it is where it was. */
static bool load_remembered(mpc_session *s, const char *folder, const json_t *row) {
    const char *path = json_string_value(json_object_get(row, "path")),
               *hash = json_string_value(json_object_get(row, "hash"));
    if (!path || !hash) return true;
    const char *other = given(s, mpc_path_name(path)), *now = hash_of(s, other ? other : path);
    if (other) {
        if (now && strcmp(now, hash) != 0) {
            fprintf(stderr, "plugin %s: hash %s, the run's was %s\n", mpc_path_name(other), now, hash);
            s->plugins_changed = true;
        }
        return load(s, other, now ? now : "");
    }
    if (!now || strcmp(now, hash) != 0) {
        refuse(s, folder, row, now);
        return false;
    }
    fprintf(stderr, "with --load-plugin %s, as the run was made\n", path);
    return load(s, path, now);
}

static bool is_remembered(const json_t *rows, const char *name) {
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *path = json_string_value(json_object_get(json_array_get(rows, i), "path"));
        if (path && strcmp(mpc_path_name(path), name) == 0) return true;
    }
    return false;
}

/* Those of the command line that haven't taken the place of one of the run. */
static bool load_given(mpc_session *s, const json_t *rows) {
    const mpc_text_list *list = &s->cli->options->plugins;
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->data[i], *name = mpc_path_name(path);
        if (given(s, name) == path && is_remembered(rows, name)) continue;
        const char *hash = hash_of(s, path);
        if (!load(s, path, hash ? hash : "")) return false;
    }
    return true;
}

static bool take_passes(mpc_session *s, const json_t *remembered) {
    const mpc_text_list *own = &s->cli->options->added_passes;
    for (size_t i = 0; i < own->count; i++)
        if (!mpc_text_list_push(&s->added_passes, own->data[i])) return no_memory(s);
    for (size_t i = 0; !own->count && i < json_array_size(remembered); i++) {
        const char *text = json_string_value(json_array_get(remembered, i));
        if (!text || !strchr(text, '=')) continue;
        const char *kept = mpc_arena_strdup(s->overrides.owned, text);
        if (!kept || !mpc_text_list_push(&s->added_passes, kept)) return no_memory(s);
        fprintf(stderr, "with --add-pass %s, as the run was made\n", text);
    }
    return true;
}

bool mpc_run_load_plugins(mpc_session *s) {
    const json_t *rows = json_object_get(s->run, "plugins");
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(rows); i++)
        ok = load_remembered(s, mpc_str_cstr(&s->run_folder), json_array_get(rows, i));
    return ok && load_given(s, rows) && take_passes(s, json_object_get(s->run, "added_passes"));
}

/* Two plugins of one file name: only the first has a copy. */
static bool has_copy(const mpc_session *s, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (strcmp(mpc_path_name(s->plugins.data[k].path), mpc_path_name(s->plugins.data[i].path)) == 0) return false;
    return true;
}

json_t *mpc_run_plugins_json(const mpc_session *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->plugins.count; i++) {
        const mpc_session_plugin *p = &s->plugins.data[i];
        json_t *row = json_pack("{s:s, s:s}", "path", p->path, "hash", p->hash);
        if (has_copy(s, i)) json_object_set_new(row, "copy", json_sprintf("used/%s", mpc_path_name(p->path)));
        json_array_append_new(list, row);
    }
    return list;
}

bool mpc_run_keep_plugins(const mpc_run_folder *f, const mpc_session *s) {
    bool ok = true;
    for (size_t i = 0; ok && i < s->plugins.count; i++) {
        const char *path = s->plugins.data[i].path;
        char *data;
        size_t size;
        if (!has_copy(s, i)) continue;
        if (mpc_data_read_file(path, s->sink, &data, &size) != MPC_OK) return false;
        mpc_str name = {0};
        mpc_str_printf(&name, "used/%s", mpc_path_name(path));
        ok = name.failed ? no_memory(s) : mpc_run_folder_put(f, name.data, data, size, s->sink);
        mpc_str_free(&name);
        mpc_free(data);
    }
    return ok;
}
