/* Reads the text of a pipeline: "name{key=value ...},@macro{pass.key=value}". Macros are the rows of
 * passes/pipelines.def and may hold macros. Every name, option and value is checked here, before anything runs; an
 * option handed to a macro must reach some pass. */
#include "passes/pipeline.h"

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

enum { MAX_DEPTH = 8, MAX_HINT_DISTANCE = 3 };

typedef struct setting { /* key=value as written */
    const char *key, *value;
    bool used;
} setting;
typedef MPC_ARRAY(setting) setting_list;

typedef struct parser {
    mpc_arena *arena;
    const mpc_context *ctx;
    const mpc_sink *sink;
    const char *text; /* of the pipeline or macro being read */
    const char *at;
    MPC_ARRAY(mpc_pipeline_item) items;
    int depth;
} parser;

static mpc_status no_memory(const parser *p) {
    mpc_error(p->sink, "E901", "out of memory while reading a pipeline");
    return MPC_NO_MEMORY;
}

static void skip_blanks(parser *p) {
    while (isspace((unsigned char)*p->at)) p->at++;
}

static mpc_status syntax_error(const parser *p, const char *expected) {
    return mpc_error(p->sink, "E101", "pipeline, at character %zu: expected %s, found `%.12s`",
                     (size_t)(p->at - p->text) + 1, expected, *p->at == '\0' ? "the end" : p->at);
}

/* A word up to one of `stop` or a blank; "quoted" values may hold anything but a quote. */
static const char *read_word(parser *p, const char *stop) {
    const char *begin = p->at;
    if (*begin == '"') {
        size_t length = strcspn(begin + 1, "\"");
        if (begin[1 + length] != '"') return "";
        p->at = begin + length + 2;
        return mpc_arena_strndup(p->arena, begin + 1, length);
    }
    while (*p->at != '\0' && strchr(stop, *p->at) == NULL && !isspace((unsigned char)*p->at)) p->at++;
    return mpc_arena_strndup(p->arena, begin, (size_t)(p->at - begin));
}

static mpc_status read_setting(parser *p, setting_list *list) {
    setting s = {.key = read_word(p, "=,}")};
    if (s.key == NULL) return no_memory(p);
    if (*s.key == '\0' || *p->at != '=') return syntax_error(p, "key=value");
    p->at++;
    s.value = read_word(p, ",}");
    if (s.value == NULL || !mpc_array_push(list, s)) return no_memory(p);
    return MPC_OK;
}

/* "{key=value key=value}", or nothing. */
static mpc_status read_settings(parser *p, setting_list *list) {
    skip_blanks(p);
    if (*p->at != '{') return MPC_OK;
    p->at++;
    for (;;) {
        skip_blanks(p);
        if (*p->at == ',') p->at++;
        else if (*p->at == '}') break;
        else if (*p->at == '\0') return syntax_error(p, "`}`");
        else {
            mpc_status status = read_setting(p, list);
            if (status != MPC_OK) return status;
        }
    }
    p->at++;
    return MPC_OK;
}

static const char *nearest_pass(const mpc_context *ctx, const char *name) {
    const char *best = NULL;
    unsigned limit = MAX_HINT_DISTANCE;
    for (uint32_t i = 0; mpc_pass_of(ctx, i) != NULL; i++) {
        unsigned distance = mpc_edit_distance(name, mpc_pass_of(ctx, i)->name, limit);
        if (distance > limit || (distance == limit && best != NULL)) continue;
        best = mpc_pass_of(ctx, i)->name;
        limit = distance;
    }
    return best;
}

static mpc_status unknown_pass(const parser *p, const char *name) {
    const char *hint = nearest_pass(p->ctx, name);
    if (hint != NULL) return mpc_error(p->sink, "E102", "there is no pass `%s`; did you mean `%s`?", name, hint);
    return mpc_error(p->sink, "E102", "there is no pass `%s`; `mpc passes` lists them", name);
}

static mpc_status unknown_option(const parser *p, const mpc_pass *pass, const char *key) {
    const char *cursor = pass->options;
    mpc_option_spec spec;
    char name[64];
    while (mpc_option_next(&cursor, &spec)) {
        if (spec.key_length >= sizeof name) continue;
        memcpy(name, spec.key, spec.key_length);
        name[spec.key_length] = '\0';
        if (mpc_edit_distance(key, name, MAX_HINT_DISTANCE) <= MAX_HINT_DISTANCE)
            return mpc_error(p->sink, "E104", "pass `%s` has no option `%s`; did you mean `%s`?", pass->name, key,
                             name);
    }
    return mpc_error(p->sink, "E104", "pass `%s` has no option `%s`; its options: %s", pass->name, key,
                     *pass->options == '\0' ? "none" : pass->options);
}

static bool declares(const mpc_pass *pass, const char *key, mpc_option_spec *spec) {
    const char *cursor = pass->options;
    while (mpc_option_next(&cursor, spec))
        if (strlen(key) == spec->key_length && strncmp(key, spec->key, spec->key_length) == 0) return true;
    return false;
}

static uint32_t count_options(const mpc_pass *pass) {
    const char *cursor = pass->options;
    mpc_option_spec spec;
    uint32_t count = 0;
    while (mpc_option_next(&cursor, &spec)) count++;
    return count;
}

static mpc_status fill_defaults(parser *p, const mpc_pass *pass, mpc_pass_options *out) {
    uint32_t count = count_options(pass);
    const char **keys = mpc_arena_alloc(p->arena, (count + 1) * sizeof *keys);
    const char **values = mpc_arena_alloc(p->arena, (count + 1) * sizeof *values);
    const char *cursor = pass->options;
    mpc_option_spec spec;
    if (keys == NULL || values == NULL) return no_memory(p);
    for (uint32_t i = 0; mpc_option_next(&cursor, &spec); i++) {
        keys[i] = mpc_arena_strndup(p->arena, spec.key, spec.key_length);
        values[i] = mpc_arena_strndup(p->arena, spec.fallback, spec.fallback_length);
        if (keys[i] == NULL || values[i] == NULL) return no_memory(p);
    }
    *out = (mpc_pass_options){.pass = pass, .keys = keys, .values = values, .count = count};
    return MPC_OK;
}

static mpc_status set_option(parser *p, mpc_pass_options *o, const char *key, const char *value) {
    mpc_option_spec spec;
    if (!declares(o->pass, key, &spec)) return unknown_option(p, o->pass, key);
    if (!mpc_option_valid(&spec, value))
        return mpc_error(p->sink, "E105", "pass `%s`: option `%s` must be %.*s, it is `%s`", o->pass->name, key,
                         (int)spec.kind_length, spec.kind, value);
    const char **values =
        (const char **)(uintptr_t)o->values; /* made by fill_defaults, ours until the parser returns */
    for (uint32_t i = 0; i < o->count; i++)
        if (strcmp(o->keys[i], key) == 0) values[i] = value;
    return MPC_OK;
}

/* The part of "pass.key" after the pass's name, or NULL when it is for another pass. */
static const char *key_for_pass(const char *key, const char *pass) {
    size_t length = strlen(pass);
    return strncmp(key, pass, length) == 0 && key[length] == '.' ? key + length + 1 : NULL;
}

static mpc_status add_pass(parser *p, const char *name, const setting_list *own, setting_list *handed) {
    mpc_pipeline_item item = {.pass = mpc_pass_named(p->ctx, name)};
    if (item.pass == NULL) return unknown_pass(p, name);
    mpc_status status = fill_defaults(p, item.pass, &item.options);
    for (size_t i = 0; status == MPC_OK && i < own->count; i++)
        status = set_option(p, &item.options, own->data[i].key, own->data[i].value);
    for (size_t i = 0; status == MPC_OK && i < handed->count; i++) {
        const char *key = key_for_pass(handed->data[i].key, name);
        if (key == NULL) continue;
        handed->data[i].used = true;
        status = set_option(p, &item.options, key, handed->data[i].value);
    }
    if (status == MPC_OK && !mpc_array_push(&p->items, item)) return no_memory(p);
    return status;
}

static const char *find_pipeline(const char *name) {
    for (uint32_t i = 0; i < mpc_pipeline_count(); i++)
        if (strcmp(mpc_pipeline_name(i), name) == 0) return mpc_pipeline_text(i);
    return NULL;
}

static mpc_status read_items(parser *p, setting_list *handed);

static mpc_status add_macro(parser *p, const char *name, setting_list *own, setting_list *handed) {
    const char *text = find_pipeline(name + 1), *outer_text = p->text, *outer_at = p->at;
    if (text == NULL) return mpc_error(p->sink, "E103", "there is no pipeline `%s`; `mpc passes` lists them", name);
    if (p->depth == MAX_DEPTH) return mpc_error(p->sink, "E103", "pipelines are nested too deeply at `%s`", name);
    size_t first_own = handed->count;
    for (size_t i = 0; i < own->count; i++)
        if (!mpc_array_push(handed, own->data[i])) return no_memory(p);
    p->depth++;
    p->text = p->at = text;
    mpc_status status = read_items(p, handed);
    p->depth--;
    p->text = outer_text;
    p->at = outer_at;
    for (size_t i = first_own; status == MPC_OK && i < handed->count; i++)
        if (!handed->data[i].used)
            status = mpc_error(p->sink, "E104", "no pass of `%s` takes `%s`; write pass.option=value", name,
                               handed->data[i].key);
    handed->count = first_own;
    return status;
}

static mpc_status read_item(parser *p, setting_list *handed) {
    setting_list own = {0};
    skip_blanks(p);
    const char *name = read_word(p, ",{}");
    mpc_status status = name == NULL    ? no_memory(p)
                        : *name == '\0' ? syntax_error(p, "a pass")
                                        : read_settings(p, &own);
    if (status == MPC_OK) status = *name == '@' ? add_macro(p, name, &own, handed) : add_pass(p, name, &own, handed);
    mpc_array_free(&own);
    return status;
}

static mpc_status read_items(parser *p, setting_list *handed) {
    for (;;) {
        mpc_status status = read_item(p, handed);
        if (status != MPC_OK) return status;
        skip_blanks(p);
        if (*p->at == '\0') return MPC_OK;
        if (*p->at != ',') return syntax_error(p, "`,`");
        p->at++;
    }
}

mpc_status mpc_pipeline_parse(const char *text, mpc_arena *arena, const mpc_context *ctx, mpc_pipeline *out) {
    parser p = {.arena = arena, .ctx = ctx, .sink = mpc_context_sink(ctx), .text = text, .at = text};
    setting_list handed = {0};
    *out = (mpc_pipeline){0};
    skip_blanks(&p);
    mpc_status status = *p.at == '\0' ? MPC_OK : read_items(&p, &handed);
    mpc_array_free(&handed);
    if (status == MPC_OK && p.items.count > 0) {
        out->items = mpc_arena_alloc(arena, p.items.count * sizeof *out->items);
        if (out->items == NULL) status = no_memory(&p);
        else memcpy(out->items, p.items.data, p.items.count * sizeof *out->items);
        out->count = out->items == NULL ? 0 : (uint32_t)p.items.count;
    }
    mpc_array_free(&p.items);
    return status;
}
