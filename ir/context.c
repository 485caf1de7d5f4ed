/* A context interns strings and tensor types, so that graphs hold 32-bit ids and compare them as numbers. Ids are dense;
 * they and the pointers from mpc_type_get and mpc_sym_text stay valid for the context's life. */
#include "ir/context.h"

#include <string.h>

#include "base/alloc.h"
#include "ir/context_internal.h"

static const mpc_type no_type;

static bool add_reserved_entries(mpc_context *ctx) {
    return mpc_array_push(&ctx->symbols, (mpc_symbol){"", 0}) && mpc_array_push(&ctx->types, &no_type);
}

mpc_context *mpc_context_create(const mpc_sink *sink, mpc_sources *sources) {
    mpc_context *ctx = mpc_alloc(sizeof *ctx);
    if (!ctx) return NULL;
    *ctx = (mpc_context){.arena = mpc_arena_create(), .sink = sink, .sources = sources};
    if (ctx->arena && add_reserved_entries(ctx) && mpc_op_registry_init(ctx) == MPC_OK) return ctx;
    mpc_context_destroy(ctx);
    return NULL;
}

void mpc_context_destroy(mpc_context *ctx) {
    if (!ctx) return;
    for (int i = 0; i < MPC_EXT_KINDS; i++) mpc_array_free(&ctx->extensions[i]);
    mpc_arena_destroy(ctx->arena);
    mpc_array_free(&ctx->symbols);
    mpc_array_free(&ctx->types);
    mpc_array_free(&ctx->ops);
    mpc_hash_index_free(&ctx->symbol_index);
    mpc_hash_index_free(&ctx->type_index);
    mpc_hash_index_free(&ctx->op_index);
    for (size_t i = ctx->owned.count; i > 0; i--) ctx->owned.data[i - 1].release(ctx->owned.data[i - 1].object);
    mpc_array_free(&ctx->owned);
    mpc_free(ctx);
}

const mpc_sink *mpc_context_sink(const mpc_context *ctx) { return ctx->sink; }
mpc_sources *mpc_context_sources(const mpc_context *ctx) { return ctx->sources; }

mpc_status mpc_context_extend(mpc_context *ctx, mpc_extension_kind kind, const char *name, const void *row) {
    bool added = mpc_array_push(&ctx->extensions[kind], ((mpc_extension){name, row}));
    return added ? MPC_OK : MPC_NO_MEMORY;
}

uint32_t mpc_context_extension_count(const mpc_context *ctx, mpc_extension_kind kind) {
    return (uint32_t)ctx->extensions[kind].count;
}

const void *mpc_context_extension_at(const mpc_context *ctx, mpc_extension_kind kind, uint32_t index) {
    return index < ctx->extensions[kind].count ? ctx->extensions[kind].data[index].row : NULL;
}

const void *mpc_context_find_extension(const mpc_context *ctx, mpc_extension_kind kind, const char *name) {
    for (size_t i = 0; i < ctx->extensions[kind].count; i++)
        if (strcmp(ctx->extensions[kind].data[i].name, name) == 0) return ctx->extensions[kind].data[i].row;
    return NULL;
}

void *mpc_context_alloc(mpc_context *ctx, size_t size) { return mpc_arena_alloc(ctx->arena, size); }

bool mpc_context_own(mpc_context *ctx, void (*release)(void *owned), void *owned) {
    return mpc_array_push(&ctx->owned, ((mpc_owned){release, owned}));
}

static bool symbol_is(const void *owner, uint32_t item, const void *key) {
    const mpc_context *ctx = owner;
    const mpc_symbol *wanted = key, *have = &ctx->symbols.data[item];
    return have->length == wanted->length && memcmp(have->text, wanted->text, have->length) == 0;
}

/* A NUL ends the text: symbols are C strings to everyone else. */
mpc_sym mpc_intern_n(mpc_context *ctx, const char *text, size_t length) {
    const char *nul = length ? memchr(text, '\0', length) : NULL;
    if (nul) length = (size_t)(nul - text);
    if (!length) return 0;
    mpc_symbol key = {text, length};
    uint64_t hash = mpc_hash_bytes(text, length);
    uint32_t found = mpc_hash_index_find(&ctx->symbol_index, hash, symbol_is, ctx, &key);
    if (found != UINT32_MAX) return found;
    if (ctx->symbols.count >= UINT32_MAX - 1 || !mpc_array_reserve(&ctx->symbols, 1)) return 0;
    key.text = mpc_arena_strndup(ctx->arena, text, length);
    if (!key.text || !mpc_hash_index_add(&ctx->symbol_index, hash, (uint32_t)ctx->symbols.count)) return 0;
    return mpc_array_push(&ctx->symbols, key) ? (mpc_sym)(ctx->symbols.count - 1) : 0;
}

mpc_sym mpc_intern(mpc_context *ctx, const char *text) { return mpc_intern_n(ctx, text, strlen(text)); }

const char *mpc_sym_text(const mpc_context *ctx, mpc_sym sym) {
    return sym < ctx->symbols.count ? ctx->symbols.data[sym].text : "";
}

static bool type_is(const void *owner, uint32_t item, const void *key) {
    const mpc_context *ctx = owner;
    const mpc_type *wanted = key, *have = ctx->types.data[item];
    return have->format == wanted->format && have->rank == wanted->rank &&
           memcmp(have->dims, wanted->dims, sizeof have->dims) == 0;
}

static uint64_t hash_type(const mpc_type *type) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t hash = ((uint64_t)type->format << 8 ^ type->rank) * odd;
    for (uint32_t i = 0; i < type->rank; i++) hash = (hash ^ hash >> 29 ^ (uint64_t)type->dims[i]) * odd;
    return hash;
}

static mpc_type_id intern_type(mpc_context *ctx, const mpc_type *type) {
    uint64_t hash = hash_type(type);
    uint32_t found = mpc_hash_index_find(&ctx->type_index, hash, type_is, ctx, type);
    if (found != UINT32_MAX) return found;
    if (ctx->types.count >= UINT32_MAX - 1 || !mpc_array_reserve(&ctx->types, 1)) return 0;
    mpc_type *kept = mpc_arena_alloc(ctx->arena, sizeof *kept);
    if (kept == NULL || !mpc_hash_index_add(&ctx->type_index, hash, (uint32_t)ctx->types.count)) return 0;
    *kept = *type;
    return mpc_array_push(&ctx->types, kept) ? (mpc_type_id)(ctx->types.count - 1) : 0;
}

mpc_type_id mpc_type_make(mpc_context *ctx, mpc_format format, uint32_t rank, const int64_t *dims) {
    if (rank > MPC_MAX_RANK || mpc_format_get(format)->bytes == 0) return 0;
    mpc_type type = {.format = format, .rank = rank};
    int64_t elements = 1; /* without the zeros: those mustn't hide an overflow of the others */
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && elements > (INT64_C(1) << 62) / dims[i])) return 0;
        if (dims[i] > 0) elements *= dims[i];
        type.dims[i] = dims[i];
    }
    return intern_type(ctx, &type);
}

const mpc_type *mpc_type_get(const mpc_context *ctx, mpc_type_id id) {
    return ctx->types.data[id < ctx->types.count ? id : 0];
}

mpc_type_id mpc_type_with_format(mpc_context *ctx, mpc_type_id id, mpc_format format) {
    mpc_type type = *mpc_type_get(ctx, id);
    if (!id || mpc_format_get(format)->bytes == 0) return 0;
    type.format = format;
    return intern_type(ctx, &type);
}
