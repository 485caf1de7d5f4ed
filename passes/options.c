/* Options of passes: the notation of their rows, and typed access for the passes. The pipeline parser fills in every
 * option of the row and checks every value, so access cannot fail; an option that the row doesn't declare is a mistake
 * of the pass's author. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "passes/pipeline.h"

static size_t word_length(const char *text, const char *stop) { return strcspn(text, stop); }

bool mpc_option_next(const char **cursor, mpc_option_spec *spec) {
    const char *at = *cursor + strspn(*cursor, " ");
    if (*at == '\0') return false;
    *spec = (mpc_option_spec){.key = at, .key_length = word_length(at, ": ")};
    at += spec->key_length;
    if (*at == ':') at++;
    spec->kind = at;
    spec->kind_length = word_length(at, "= ");
    at += spec->kind_length;
    if (*at == '=') at++;
    spec->fallback = at;
    spec->fallback_length = word_length(at, " ");
    *cursor = at + spec->fallback_length;
    return true;
}

static bool is_kind(const mpc_option_spec *spec, const char *kind) {
    return spec->kind_length == strlen(kind) && strncmp(spec->kind, kind, spec->kind_length) == 0;
}

static bool parse_bool(const char *value, bool *out) {
    *out = strcmp(value, "true") == 0;
    return *out || strcmp(value, "false") == 0;
}

bool mpc_option_valid(const mpc_option_spec *spec, const char *value) {
    char *end = NULL;
    bool flag;
    if (is_kind(spec, "str")) return true;
    if (is_kind(spec, "bool")) return parse_bool(value, &flag);
    if (*value == '\0') return false;
    if (is_kind(spec, "int")) (void)strtoll(value, &end, 10);
    else (void)strtod(value, &end);
    return end != NULL && *end == '\0';
}

const char *mpc_option_str(const mpc_pass_options *o, const char *key) {
    for (uint32_t i = 0; i < o->count; i++)
        if (strcmp(o->keys[i], key) == 0) return o->values[i];
    assert(o->count > UINT32_MAX); /* not declared in passes/passes.def */
    return "";
}

int64_t mpc_option_int(const mpc_pass_options *o, const char *key) { return strtoll(mpc_option_str(o, key), NULL, 10); }

double mpc_option_float(const mpc_pass_options *o, const char *key) { return strtod(mpc_option_str(o, key), NULL); }

bool mpc_option_bool(const mpc_pass_options *o, const char *key) {
    bool flag;
    return parse_bool(mpc_option_str(o, key), &flag) && flag;
}
