/* Attribute declarations: "stride:ints=[1,1] groups:int=1 name:str" becomes a table of keys, kinds and defaults. A
 * default is written as in the text IR; an empty one after `=` is the empty string. Names of formats and classes are
 * words, lists have brackets. */
#include <stdlib.h>
#include <string.h>

#include "ir/context_internal.h"

typedef struct piece { /* of the declaration's text */
    const char *begin;
    size_t length;
} piece;

static bool piece_is(piece p, const char *text) {
    return p.length == strlen(text) && memcmp(p.begin, text, p.length) == 0;
}

static bool find_kind(piece p, mpc_attr_kind *kind) {
    static const char *const names[] = {"int", "float", "bool", "str", "format", "ints"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (!piece_is(p, names[i])) continue;
        *kind = (mpc_attr_kind)i;
        return true;
    }
    return false;
}

static mpc_status parse_ints(mpc_context *ctx, const char *text, mpc_int_list *list) {
    if (*text != '[') return MPC_FAILED;
    int64_t *data = mpc_arena_alloc(ctx->arena, (strlen(text) / 2 + 1) * sizeof *data);
    if (!data) return MPC_NO_MEMORY;
    list->data = data;
    const char *at = text + 1;
    while (*at && *at != ']') {
        char *end;
        data[list->count++] = strtoll(at, &end, 10);
        if (end == at) return MPC_FAILED;
        at = *end == ',' ? end + 1 : end;
    }
    return strcmp(at, "]") == 0 ? MPC_OK : MPC_FAILED;
}

static mpc_status parse_default(mpc_context *ctx, const char *text, mpc_attr *attr) {
    char *end = NULL;
    switch (attr->kind) {
    case MPC_ATTR_INT:
        attr->i = strtoll(text, &end, 10);
        return *text && !*end ? MPC_OK : MPC_FAILED;
    case MPC_ATTR_FLOAT:
        attr->f = strtod(text, &end);
        return *text && !*end ? MPC_OK : MPC_FAILED;
    case MPC_ATTR_BOOL:
        attr->b = strcmp(text, "true") == 0;
        return attr->b || !strcmp(text, "false") ? MPC_OK : MPC_FAILED;
    case MPC_ATTR_STR:
        attr->s = mpc_intern(ctx, text);
        return attr->s || !*text ? MPC_OK : MPC_NO_MEMORY;
    case MPC_ATTR_FORMAT:
        attr->format = mpc_format_find(text);
        return attr->format || !strcmp(text, "none") ? MPC_OK : MPC_FAILED;
    case MPC_ATTR_INTS:
        return parse_ints(ctx, text, &attr->ints);
    }
    return MPC_FAILED;
}

static mpc_status parse_spec(mpc_context *ctx, piece word, mpc_attr_spec *spec) {
    const char *colon = memchr(word.begin, ':', word.length);
    if (!colon) return MPC_FAILED;
    const char *end = word.begin + word.length, *equals = memchr(colon, '=', (size_t)(end - colon));
    piece kind = {colon + 1, (size_t)((equals ? equals : end) - colon - 1)};
    if (colon == word.begin || !find_kind(kind, &spec->kind)) return MPC_FAILED;
    spec->key = mpc_intern_n(ctx, word.begin, (size_t)(colon - word.begin));
    if (!spec->key) return MPC_NO_MEMORY;
    spec->required = !equals;
    spec->fallback = (mpc_attr){.key = spec->key, .kind = spec->kind};
    if (!equals) return MPC_OK;
    char *text = mpc_arena_strndup(ctx->arena, equals + 1, (size_t)(end - equals - 1));
    return text ? parse_default(ctx, text, &spec->fallback) : MPC_NO_MEMORY;
}

static piece next_word(const char **at) {
    *at += strspn(*at, " ");
    piece word = {*at, strcspn(*at, " ")};
    *at += word.length;
    return word;
}

mpc_status mpc_attr_specs_parse(mpc_context *ctx, const char *text, mpc_attr_spec **specs, uint32_t *count) {
    uint32_t words = 0;
    for (const char *at = text; next_word(&at).length;) words++;
    *count = 0;
    *specs = mpc_arena_alloc(ctx->arena, words * sizeof **specs);
    if (!*specs) return MPC_NO_MEMORY;
    for (const char *at = text; *count < words; ++*count) {
        piece word = next_word(&at);
        mpc_status status = parse_spec(ctx, word, &(*specs)[*count]);
        if (status == MPC_FAILED)
            return mpc_error(ctx->sink, "E900", "attribute declaration `%.*s` can't be read", (int)word.length,
                             word.begin);
        if (status != MPC_OK) return status;
    }
    return MPC_OK;
}
