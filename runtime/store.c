/* The store: every state of a session in one touched block, sorted by class and format so that equal ones lie in flat
 * regions. Entries never move. An entry is found by (name, derived format): a parameter and its low copies share a
 * name, so the name alone isn't a key. Initial values depend on (seed, name, element) only, never on what else the
 * model holds. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "base/numfmt.h"
#include "runtime/block.h"
#include "runtime/initial_value.h"
#include "runtime/store_layout.h"

typedef struct state_entry {
    mpc_store_entry entry; /* first: an entry's address is its state_entry's */
    mpc_buffer_class cls;
    uint32_t order; /* of its node, keeps the sort stable */
    uint64_t offset;
} state_entry;

struct mpc_store {
    state_entry *entries;
    uint32_t count;
    mpc_map *index; /* key -> position in entries */
    mpc_arena *names;
    mpc_block block;
    mpc_growing workspace;
    uint64_t control_offset, control_bytes;
    bool has_told;
    mpc_store_mirror mirror; /* all NULL: none */
};

/* ---- elements ---- */

typedef union element { /* one element of any storable format */
    double d;
    float f;
    int64_t i64;
    int32_t i32;
    uint16_t u16;
    uint8_t u8;
} element;

double mpc_element_get(mpc_format format, const void *data, int64_t i) {
    const mpc_format_info *info = mpc_format_get(format);
    const uint8_t *p = (const uint8_t *)data + (size_t)i * info->bytes;
    element u = {0};
    memcpy(&u, p, info->bytes);
    if (format == MPC_FMT_f32 || format == MPC_FMT_tf32 || mpc_format_is_user(format)) return (double)u.f;
    if (format == MPC_FMT_f64) return u.d;
    if (format == MPC_FMT_f16) return (double)mpc_f16_to_f32(u.u16);
    if (format == MPC_FMT_bf16) return (double)mpc_bf16_to_f32(u.u16);
    if (format == MPC_FMT_f8e4m3) return (double)mpc_f8e4m3_to_f32(u.u8);
    if (format == MPC_FMT_f8e5m2) return (double)mpc_f8e5m2_to_f32(u.u8);
    if (info->bytes == 8) return (double)u.i64;
    if (info->bytes == 4) return (double)u.i32;
    return (double)u.u8;
}

void mpc_element_set(mpc_format format, void *data, int64_t i, double value) {
    const mpc_format_info *info = mpc_format_get(format);
    element u = {0};
    if (format == MPC_FMT_f64) u.d = value;
    else if (format == MPC_FMT_f32) u.f = (float)value;
    else if (mpc_format_is_user(format)) u.f = (float)mpc_numfmt_round(&info->fmt, value);
    else if (format == MPC_FMT_tf32) u.f = mpc_f32_to_tf32((float)value);
    else if (format == MPC_FMT_f16) u.u16 = mpc_f32_to_f16((float)value);
    else if (format == MPC_FMT_bf16) u.u16 = mpc_f32_to_bf16((float)value);
    else if (format == MPC_FMT_f8e4m3) u.u8 = mpc_f32_to_f8e4m3((float)value);
    else if (format == MPC_FMT_f8e5m2) u.u8 = mpc_f32_to_f8e5m2((float)value);
    else if (info->kind == MPC_FORMAT_BOOL) u.u8 = value != 0;
    else if (info->bytes == 8) u.i64 = (int64_t)value;
    else if (info->bytes == 4) u.i32 = (int32_t)value;
    else u.u8 = (uint8_t)value;
    memcpy((uint8_t *)data + (size_t)i * info->bytes, &u, info->bytes);
}

/* ---- layout ---- */

mpc_buffer_class mpc_state_class(const char *role, mpc_format derived) {
    static const struct {
        const char *role;
        mpc_buffer_class cls;
    } rows[] = {
        {"param", MPC_BUF_MASTER}, {"moment", MPC_BUF_MOMENT}, {"copy", MPC_BUF_COPY},
        {"stat", MPC_BUF_STAT},    {"accum", MPC_BUF_ACCUM},
        {"ema", MPC_BUF_MOMENT},
    };
    if (derived != MPC_FMT_none) return MPC_BUF_COPY;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(role, rows[i].role) == 0) return rows[i].cls;
    return MPC_BUF_CONTROL;
}

static bool comes_before(const state_entry *a, const state_entry *b) {
    if (a->cls != b->cls) return a->cls < b->cls;
    if (a->entry.type.format != b->entry.type.format) return a->entry.type.format < b->entry.type.format;
    return a->order < b->order;
}

/* Bottom-up merge sort through `spare`: models have thousands of states, and equal keys can't occur. */
static void sort_entries(state_entry *entries, state_entry *spare, uint32_t count) {
    for (uint32_t width = 1; width < count; width *= 2) {
        for (uint32_t begin = 0; begin < count; begin += 2 * width) {
            uint32_t middle = begin + width < count ? begin + width : count;
            uint32_t end = middle + width < count ? middle + width : count;
            uint32_t a = begin, b = middle;
            for (uint32_t to = begin; to < end; to++) {
                bool take_b = a == middle || (b < end && comes_before(&entries[b], &entries[a]));
                spare[to] = entries[take_b ? b++ : a++];
            }
        }
        memcpy(entries, spare, count * sizeof *entries);
    }
}

static void key_of(const char *name, mpc_format derived, mpc_str *key) {
    mpc_str_clear(key);
    mpc_str_append(key, name);
    mpc_str_printf(key, "\x1f%d", (int)derived);
}

static bool fill_entry(mpc_store *store, const mpc_graph *g, mpc_node_id id, state_entry *out) {
    const mpc_node *n = &g->nodes[id];
    mpc_store_entry *e = &out->entry;
    e->name = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "name"));
    e->derived = mpc_attr_format(g, n, "derived");
    e->skip = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "skip"));
    e->role = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "role"));
    e->init = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "init"));
    e->path = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "path"));
    e->from = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "from"));
    e->numbered = mpc_arena_strdup(store->names, mpc_attr_str(g, n, "numbered"));
    e->a = mpc_attr_float(g, n, "a");
    e->b = mpc_attr_float(g, n, "b");
    e->type = *mpc_value_type(g, mpc_result(n, 0));
    e->bytes = (uint64_t)mpc_type_bytes(&e->type);
    if (!e->name || !e->skip || !e->role || !e->init || !e->path || !e->from || !e->numbered) return false;
    out->cls = mpc_state_class(e->role, e->derived);
    out->order = id;
    return true;
}

static uint32_t count_states(const mpc_graph *g) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++) count += g->nodes[i].op == MPC_OP_state;
    return count;
}

static bool collect_entries(mpc_store *store, const mpc_graph *g) {
    uint32_t count = count_states(g);
    store->entries = mpc_alloc(2 * (size_t)count * sizeof *store->entries); /* the second half is the sort's */
    store->names = mpc_arena_create();
    store->index = mpc_map_create();
    if (!store->entries || !store->names || !store->index) return false;
    memset(store->entries, 0, 2 * (size_t)count * sizeof *store->entries);
    for (uint32_t i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == MPC_OP_state && !fill_entry(store, g, i, &store->entries[store->count++])) return false;
    sort_entries(store->entries, store->entries + count, count);
    return true;
}

static bool index_entries(mpc_store *store) {
    mpc_str key = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < store->count; i++) {
        key_of(store->entries[i].entry.name, store->entries[i].entry.derived, &key);
        ok = !key.failed && mpc_map_set(store->index, mpc_str_cstr(&key), i);
    }
    mpc_str_free(&key);
    return ok;
}

static bool place_entries(mpc_store *store) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < store->count; i++) {
        state_entry *e = &store->entries[i];
        if (e->cls == MPC_BUF_CONTROL && store->control_bytes == 0) store->control_offset = offset;
        e->offset = offset;
        offset += mpc_align64(e->entry.bytes);
        if (e->cls == MPC_BUF_CONTROL) store->control_bytes = offset - store->control_offset;
    }
    if (!mpc_block_create(&store->block, offset)) return false;
    for (uint32_t i = 0; i < store->count; i++)
        store->entries[i].entry.data = store->block.data + store->entries[i].offset;
    return true;
}

static const mpc_store_entry *find_unknown_init(const mpc_store *store) {
    for (uint32_t i = 0; i < store->count; i++)
        if (!mpc_is_known_init(store->entries[i].entry.init)) return &store->entries[i].entry;
    return NULL;
}

mpc_store *mpc_store_create(const mpc_graph *g, const mpc_sink *sink) {
    mpc_store *store = mpc_alloc(sizeof *store);
    if (store) {
        memset(store, 0, sizeof *store);
        bool ok = collect_entries(store, g) && index_entries(store) && place_entries(store);
        const mpc_store_entry *unknown = ok ? find_unknown_init(store) : NULL;
        if (ok && !unknown) return store;
        if (unknown)
            mpc_error(sink, "E650", "state `%s` has an unknown initial value `%s`", unknown->name, unknown->init);
        mpc_store_destroy(store);
        if (unknown) return NULL;
    }
    mpc_error(sink, "E901", "there isn't enough memory for the states of the model");
    return NULL;
}

void mpc_store_destroy(mpc_store *store) {
    if (!store) return;
    if (store->mirror.destroy) store->mirror.destroy(store->mirror.user);
    mpc_block_destroy(&store->block);
    mpc_growing_destroy(&store->workspace);
    if (store->index) mpc_map_destroy(store->index);
    mpc_arena_destroy(store->names);
    if (store->entries) mpc_free(store->entries);
    mpc_free(store);
}

uint32_t mpc_store_count(const mpc_store *store) { return store->count; }

mpc_store_entry *mpc_store_at(mpc_store *store, uint32_t index) { return &store->entries[index].entry; }

mpc_store_entry *mpc_store_find(mpc_store *store, const char *name, mpc_format derived) {
    mpc_str key = {0};
    key_of(name, derived, &key);
    uint32_t position = 0;
    bool found = !key.failed && mpc_map_get(store->index, mpc_str_cstr(&key), &position);
    mpc_str_free(&key);
    return found ? &store->entries[position].entry : NULL;
}

void *mpc_store_control(mpc_store *store, uint64_t *bytes) {
    *bytes = store->control_bytes;
    return store->block.data + store->control_offset;
}

uint64_t mpc_store_bytes(const mpc_store *store) { return store->block.bytes; }

void *mpc_store_base(mpc_store *store) { return store->block.data; }

uint8_t *mpc_store_workspace(mpc_store *store, uint64_t bytes) { return mpc_growing_need(&store->workspace, bytes); }

bool mpc_store_first_time(mpc_store *store) {
    bool first = !store->has_told;
    store->has_told = true;
    return first;
}

/* ---- initial values ---- */

/* f32 to bf16 and f16 are what all models have; the rest goes element by element. */
static void convert(const mpc_store_entry *from, const mpc_store_entry *to) {
    int64_t n = mpc_type_elements(&to->type);
    const float *source = from->data;
    uint16_t *target = to->data;
    bool plain = from->type.format == MPC_FMT_f32;
    if (plain && to->type.format == MPC_FMT_bf16) {
        for (int64_t i = 0; i < n; i++) target[i] = mpc_f32_to_bf16(source[i]);
    } else if (plain && to->type.format == MPC_FMT_f16) {
        for (int64_t i = 0; i < n; i++) target[i] = mpc_f32_to_f16(source[i]);
    } else {
        for (int64_t i = 0; i < n; i++)
            mpc_element_set(to->type.format, to->data, i, mpc_element_get(from->type.format, from->data, i));
    }
}

mpc_status mpc_store_init(mpc_store *store, uint64_t seed) {
    for (uint32_t i = 0; i < store->count; i++) {
        const mpc_store_entry *e = &store->entries[i].entry;
        if (e->derived == MPC_FMT_none && !mpc_init_state(e, seed)) return MPC_NO_MEMORY;
    }
    mpc_store_restart_averages(store);
    return mpc_store_derive(store);
}

void mpc_store_restart_averages(mpc_store *store) {
    for (uint32_t i = 0; i < store->count; i++) {
        const mpc_store_entry *to = &store->entries[i].entry;
        const char *slash = strcmp(to->init, "copy") == 0 ? strrchr(to->name, '/') : NULL;
        char *name = slash ? mpc_arena_strndup(store->names, to->name, (size_t)(slash - to->name)) : NULL;
        const mpc_store_entry *from = name ? mpc_store_find(store, name, MPC_FMT_none) : NULL;
        if (from && mpc_type_elements(&from->type) == mpc_type_elements(&to->type)) convert(from, to);
    }
}

mpc_status mpc_store_derive(mpc_store *store) {
    for (uint32_t i = 0; i < store->count; i++) {
        const mpc_store_entry *copy = &store->entries[i].entry;
        if (copy->derived == MPC_FMT_none) continue;
        const mpc_store_entry *master = mpc_store_find(store, copy->name, MPC_FMT_none);
        if (master && mpc_type_elements(&master->type) == mpc_type_elements(&copy->type)) convert(master, copy);
    }
    return mpc_store_to_device(store);
}

/* ---- a copy on a device ---- */

void mpc_store_set_mirror(mpc_store *store, mpc_store_mirror mirror) { store->mirror = mirror; }

const mpc_store_mirror *mpc_store_get_mirror(const mpc_store *store) {
    return store->mirror.to_host ? &store->mirror : NULL;
}

mpc_status mpc_store_to_host(mpc_store *store) {
    return store->mirror.to_host ? store->mirror.to_host(store->mirror.user) : MPC_OK;
}

mpc_status mpc_store_to_device(mpc_store *store) {
    return store->mirror.to_device ? store->mirror.to_device(store->mirror.user) : MPC_OK;
}
