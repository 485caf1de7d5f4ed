/* Loading a checkpoint into a store: by name and shape, all or nothing. What differs is listed on both sides, since a
 * renamed layer shows as one name missing and one unused. */
#include "runtime/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "runtime/store_layout.h"

typedef struct loader {
    const char *folder, *place;
    mpc_store *store;
    const mpc_sink *sink;
    mpc_load_mode mode;
    mpc_safetensors *weights, *state;
} loader;

static bool has_role(const mpc_store_entry *e, const char *role) { return strcmp(e->role, role) == 0; }

/* The file that should hold an entry; NULL: it isn't loaded. */
static const mpc_safetensors *file_of(const loader *l, const mpc_store_entry *e) {
    if (e->derived != MPC_FMT_none) return NULL;
    if (has_role(e, "param")) return l->weights;
    return l->mode == MPC_LOAD_ALL || has_role(e, "stat") || has_role(e, "ema") ? l->state : NULL;
}

static bool same_shape(const mpc_type *a, const mpc_type *b) {
    bool same = a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

bool mpc_store_takes(const mpc_store_entry *e, const mpc_tensor_view *t) {
    mpc_format to = e->type.format, from = t->type.format;
    return same_shape(&e->type, &t->type) && (to == from || (mpc_format_is_float(to) && mpc_format_is_float(from)));
}

void mpc_store_take(mpc_store_entry *e, const mpc_tensor_view *t) {
    int64_t n = mpc_type_elements(&e->type);
    if (e->type.format == t->type.format) memcpy(e->data, t->data, (size_t)e->bytes);
    else
        for (int64_t i = 0; i < n; i++)
            mpc_element_set(e->type.format, e->data, i, mpc_element_get(t->type.format, t->data, i));
}

/* Parameters may change format, since a run may go on with masters or without; nothing else may. */
static bool fits(const loader *l, const mpc_store_entry *e) {
    const mpc_tensor_view *t = mpc_safetensors_find(file_of(l, e), e->name);
    return t && mpc_store_takes(e, t) && (has_role(e, "param") || e->type.format == t->type.format);
}

/* A parameter that only its average was wanted of. */
static bool is_averaged(const loader *l, const char *name) {
    mpc_str text = {0};
    mpc_str_printf(&text, "%s/ema", name);
    bool there = !text.failed && mpc_store_find(l->store, text.data, MPC_FMT_none) != NULL;
    mpc_str_free(&text);
    return there;
}

static void list_unused(const loader *l, const mpc_safetensors *file, mpc_checkpoint_diff *d) {
    for (uint32_t i = 0; file && i < mpc_safetensors_count(file); i++) {
        const mpc_tensor_view *t = mpc_safetensors_at(file, i);
        mpc_store_entry *e = mpc_store_find(l->store, t->name, MPC_FMT_none);
        if (e && file_of(l, e) == file) continue;
        if (l->mode == MPC_LOAD_WEIGHTS && file == l->weights && is_averaged(l, t->name)) continue;
        if (l->mode == MPC_LOAD_USED || (l->mode == MPC_LOAD_WEIGHTS && file == l->state)) continue;
        mpc_diff_unused(d, t->name, &t->type);
    }
}

/* Entries of the store that the files don't hold, and tensors of the files that the store doesn't want. */
static mpc_status compare(const loader *l) {
    mpc_checkpoint_diff d = {.place = l->place, .kind = l->mode == MPC_LOAD_ALL ? "states" : "parameters"};
    for (uint32_t i = 0; i < mpc_store_count(l->store); i++) {
        const mpc_store_entry *e = mpc_store_at(l->store, i);
        const mpc_safetensors *file = file_of(l, e);
        if (!file) continue;
        d.wanted++;
        if (fits(l, e)) continue;
        const mpc_tensor_view *t = mpc_safetensors_find(file, e->name);
        mpc_diff_missing(&d, e->name, &e->type, t ? &t->type : NULL);
    }
    list_unused(l, l->weights, &d);
    list_unused(l, l->state, &d);
    mpc_status status = d.missing.count || d.unused.count || d.failed ? mpc_diff_report(&d, l->sink) : MPC_OK;
    mpc_diff_free(&d);
    return status;
}

/* Parameters under numbers of `mine` in the store, and of the same name in the file. */
static mpc_status report_numbered(const loader *l, const mpc_numbered *mine, const mpc_numbered *other) {
    mpc_checkpoint_diff d = {.place = l->place, .kind = "parameters"};
    mpc_str head = {0};
    mpc_str_printf(&head, "%.*s.", (int)mine->length, mine->name);
    for (uint32_t i = 0; i < mpc_store_count(l->store); i++) {
        const mpc_store_entry *e = mpc_store_at(l->store, i);
        if (file_of(l, e) == l->weights && strncmp(e->name, mpc_str_cstr(&head), head.length) == 0)
            mpc_diff_missing(&d, e->name, &e->type, NULL);
    }
    for (uint32_t i = 0; i < mpc_safetensors_count(l->weights); i++) {
        const mpc_tensor_view *t = mpc_safetensors_at(l->weights, i);
        if (strncmp(t->name, mpc_str_cstr(&head), head.length) == 0) mpc_diff_unused(&d, t->name, &t->type);
    }
    d.failed = d.failed || head.failed;
    mpc_status status = mpc_diff_report_numbered(&d, mine, other, l->sink);
    mpc_str_free(&head);
    mpc_diff_free(&d);
    return status;
}

/* Numbered names load all or none: with another count of calls a number may mean another one. */
static mpc_status compare_numbers(const loader *l) {
    const char *there = mpc_safetensors_metadata(l->weights, "numbered");
    mpc_str here = {0};
    mpc_numbered mine, other;
    mpc_status status = there ? mpc_numbered_list(l->store, &here) : MPC_OK;
    if (status != MPC_OK) status = mpc_error(l->sink, "E901", "not enough memory for a checkpoint");
    for (uint32_t i = 0; status == MPC_OK && there && i < mpc_store_count(l->store); i++) {
        const mpc_store_entry *e = mpc_store_at(l->store, i);
        if (file_of(l, e) == l->weights && mpc_numbered_differs(mpc_str_cstr(&here), there, e->name, &mine, &other))
            status = report_numbered(l, &mine, &other);
    }
    mpc_str_free(&here);
    return status;
}

static mpc_status read_number(const loader *l, const char *key, uint64_t *out) {
    const char *text = mpc_safetensors_metadata(l->state, key);
    char *stop = NULL;
    if (text && text[0] >= '0' && text[0] <= '9') *out = strtoull(text, &stop, 10);
    if (stop && *stop == '\0') return MPC_OK;
    return mpc_error(l->sink, "E415", "%s/" MPC_STATE_FILE " has no usable `%s` in its metadata", l->folder, key);
}

static mpc_status read_cursor(const loader *l, mpc_cursor *cursor) {
    if (!cursor) return MPC_OK;
    *cursor = (mpc_cursor){0};
    if (read_number(l, "step", &cursor->step) != MPC_OK || read_number(l, "epoch", &cursor->epoch) != MPC_OK ||
        read_number(l, "row", &cursor->row) != MPC_OK || read_number(l, "seed", &cursor->seed) != MPC_OK)
        return MPC_FAILED;
    const char *extra = mpc_safetensors_metadata(l->state, "extra");
    if (!extra) return MPC_OK;
    char *copy = mpc_alloc(strlen(extra) + 1);
    if (!copy) return mpc_error(l->sink, "E901", "not enough memory for a checkpoint");
    memcpy(copy, extra, strlen(extra) + 1);
    cursor->extra = copy;
    return MPC_OK;
}

static mpc_status copy_states(const loader *l) {
    bool without_master = false;
    for (uint32_t i = 0; i < mpc_store_count(l->store); i++) {
        mpc_store_entry *e = mpc_store_at(l->store, i);
        const mpc_safetensors *file = file_of(l, e);
        if (!file) continue;
        const mpc_tensor_view *t = mpc_safetensors_find(file, e->name);
        without_master = without_master || mpc_type_bytes(&t->type) < mpc_type_bytes(&e->type);
        mpc_store_take(e, t);
    }
    if (without_master)
        mpc_warn(l->sink, "W173", (mpc_span){0},
                 "%s has no masters: parameters start from the rounded values that it holds", l->place);
    return mpc_store_derive(l->store);
}

static mpc_safetensors *read_part(const loader *l, const char *file) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s", l->folder, file);
    mpc_safetensors *f = NULL;
    if (path.failed) mpc_error(l->sink, "E901", "not enough memory for a checkpoint");
    else f = mpc_safetensors_read(path.data, l->sink);
    mpc_str_free(&path);
    return f;
}

mpc_status mpc_checkpoint_load_from(const char *folder, const char *place, mpc_store *store, mpc_load_mode mode,
                                    mpc_cursor *cursor, const mpc_sink *sink) {
    loader l = {.folder = folder, .place = place, .store = store, .sink = sink, .mode = mode};
    l.weights = read_part(&l, MPC_WEIGHTS_FILE);
    if (l.weights) l.state = read_part(&l, MPC_STATE_FILE);
    mpc_status status = l.state ? compare_numbers(&l) : MPC_FAILED;
    if (status == MPC_OK) status = compare(&l);
    if (status == MPC_OK) status = read_cursor(&l, cursor);
    if (status == MPC_OK) status = copy_states(&l);
    mpc_safetensors_destroy(l.weights);
    mpc_safetensors_destroy(l.state);
    return status;
}

mpc_status mpc_checkpoint_load(const char *folder, mpc_store *store, mpc_load_mode mode, mpc_cursor *cursor,
                               const mpc_sink *sink) {
    return mpc_checkpoint_load_from(folder, folder, store, mode, cursor, sink);
}

bool mpc_states_beside(const char *weights, mpc_safetensors **states, const mpc_sink *sink) {
    const char *name = mpc_path_name(weights);
    mpc_str path = {0};
    *states = NULL;
    if (strcmp(name, MPC_WEIGHTS_FILE) != 0) return true;
    mpc_str_append_n(&path, weights, (size_t)(name - weights));
    mpc_str_append(&path, MPC_STATE_FILE);
    bool there = !path.failed && access(path.data, F_OK) == 0;
    if (there) *states = mpc_safetensors_read(path.data, sink);
    bool ok = !path.failed && (!there || *states);
    mpc_str_free(&path);
    return ok;
}
