/* `load = "file.safetensors"` in params: what a selector names starts as the file has it, instead of being initialised.
 * A tensor is found by the parameter's path, or by what is left of the path behind the selector's fixed part, so that
 * "backbone.**" takes a file of the backbone alone. Parameters must all be there; statistics are taken where they are:
 * in the file, or in the other file of a checkpoint.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "driver/placed_sink.h"
#include "driver/session.h"
#include "runtime/checkpoint.h"

static const mpc_tensor_view *find_tensor(const mpc_safetensors *file, const mpc_store_entry *e) {
    const mpc_tensor_view *t = mpc_safetensors_find(file, e->name);
    return t || !*e->from ? t : mpc_safetensors_find(file, e->from);
}

static bool is_parameter(const mpc_store_entry *e) { return strcmp(e->role, "param") == 0; }

/* Both names are said: the parameter's, and the one that was looked for in the file. */
static bool refuse(const mpc_session *s, const mpc_store_entry *e, const mpc_tensor_view *t) {
    mpc_str text = {0};
    mpc_str_printf(&text, "`%s` ", e->name);
    mpc_type_print(&e->type, &text);
    if (t) {
        mpc_str_printf(&text, " can't be loaded: `%s` in %s is ", t->name, e->path);
        mpc_type_print(&t->type, &text);
    } else {
        mpc_str_printf(&text, " can't be loaded: %s has no tensor `%s`", e->path, e->name);
        if (*e->from && strcmp(e->from, e->name) != 0) mpc_str_printf(&text, " or `%s`", e->from);
    }
    mpc_error(s->sink, "E403", "%s", mpc_str_cstr(&text));
    mpc_str_free(&text);
    return false;
}

/* Everything that one file is named for, `first` and others. */
static bool load_file(const mpc_session *s, mpc_store *store, uint32_t first) {
    const char *path = mpc_store_at(store, first)->path;
    mpc_placed place = {.to = s->sink,
                        .span = mpc_model_param_line(s->model, mpc_store_at(store, first)->name, "init")};
    mpc_sink sink = mpc_placed_sink(&place);
    mpc_safetensors *states = NULL, *file = mpc_safetensors_read(path, &sink);
    uint32_t loaded = 0;
    bool ok = file && mpc_states_beside(path, &states, &sink);
    for (uint32_t i = 0; file && i < mpc_store_count(store); i++) {
        mpc_store_entry *e = mpc_store_at(store, i);
        if (e->derived != MPC_FMT_none || strcmp(e->path, path) != 0) continue;
        const mpc_tensor_view *t = find_tensor(file, e);
        if (!t && states && !is_parameter(e)) t = find_tensor(states, e);
        bool fits = t && mpc_store_takes(e, t);
        if (fits) mpc_store_take(e, t);
        else if (t || is_parameter(e)) ok = refuse(s, e, t);
        loaded += fits;
    }
    if (ok) fprintf(stderr, "%" PRIu32 " tensors from %s\n", loaded, path);
    mpc_safetensors_destroy(states);
    mpc_safetensors_destroy(file);
    return ok;
}

static bool seen_before(mpc_store *store, uint32_t index) {
    const char *path = mpc_store_at(store, index)->path;
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(mpc_store_at(store, i)->path, path) == 0) return true;
    return false;
}

bool mpc_session_start_states(const mpc_session *s, mpc_store *store) {
    if (mpc_store_init(store, s->train->seed) != MPC_OK) {
        mpc_error(s->sink, "E901", "not enough memory for the states of the model");
        return false;
    }
    bool ok = true, some = false;
    for (uint32_t i = 0; i < mpc_store_count(store); i++) {
        const mpc_store_entry *e = mpc_store_at(store, i);
        if (!*e->path || e->derived != MPC_FMT_none || seen_before(store, i)) continue;
        some = true;
        ok = load_file(s, store, i) && ok;
    }
    if (!some || !ok) return ok;
    mpc_store_restart_averages(store);
    return mpc_store_derive(store) == MPC_OK;
}
