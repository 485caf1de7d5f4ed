/* Numbers, types and attribute lists of the text form. An attribute is read by the kind that the op declares, so
 * `skip=keep` and `to=bf16` need no quotes. Numbers are copied out before strtod sees them: the source isn't
 * NUL-terminated where a token ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/attrs.h"
#include "ir/ir_parser.h"

enum { LONGEST_NUMBER = 400 }; /* bytes; the longest exact double has fewer significant digits than anyone prints */

/* The next token's text with a NUL; false (silently) if it is no number token or too long. */
static bool number_text(const mpc_ir_parser *p, char text[LONGEST_NUMBER + 1]) {
    bool number = p->token.kind == MPC_TOK_NUMBER || p->token.kind == MPC_TOK_WORD;
    if (!number || p->token.length > LONGEST_NUMBER) return false;
    memcpy(text, p->token.text, p->token.length);
    text[p->token.length] = '\0';
    return true;
}

static bool parse_int(mpc_ir_parser *p, int64_t *value) {
    char text[LONGEST_NUMBER + 1], *end = NULL;
    if (p->token.kind != MPC_TOK_NUMBER || !number_text(p, text)) return mpc_ir_unexpected(p, "an integer");
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (*end || end == text) return mpc_ir_unexpected(p, "an integer");
    if (errno) return mpc_ir_fail(p, "E510", mpc_ir_span(p), "this integer needs more than 64 bits");
    mpc_ir_advance(p);
    return true;
}

bool mpc_ir_parse_unsigned(mpc_ir_parser *p, uint64_t limit, uint64_t *value) {
    char text[LONGEST_NUMBER + 1], *end = NULL;
    if (p->token.kind != MPC_TOK_NUMBER || !number_text(p, text)) return mpc_ir_unexpected(p, "a number");
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (*end || end == text) return mpc_ir_unexpected(p, "a number");
    if (errno || text[0] == '-' || *value > limit)
        return mpc_ir_fail(p, "E510", mpc_ir_span(p), "this number must be between 0 and %llu",
                           (unsigned long long)limit);
    mpc_ir_advance(p);
    return true;
}

static bool parse_float(mpc_ir_parser *p, double *value) {
    char text[LONGEST_NUMBER + 1], *end = NULL;
    if (!number_text(p, text)) return mpc_ir_unexpected(p, "a number");
    *value = strtod(text, &end);
    if (*end || end == text) return mpc_ir_unexpected(p, "a number");
    mpc_ir_advance(p);
    return true;
}

static bool parse_bool(mpc_ir_parser *p, bool *value) {
    *value = mpc_ir_at_word(p, "true");
    if (!*value && !mpc_ir_at_word(p, "false")) return mpc_ir_unexpected(p, "true or false");
    mpc_ir_advance(p);
    return true;
}

static bool parse_str(mpc_ir_parser *p, mpc_sym *value) {
    if (p->token.kind != MPC_TOK_STRING && p->token.kind != MPC_TOK_WORD) return mpc_ir_unexpected(p, "a text");
    *value = mpc_intern_n(p->ctx, p->token.text, p->token.length);
    if (!*value && p->token.length) return mpc_ir_no_memory(p);
    mpc_ir_advance(p);
    return true;
}

/* "none" where `none` is allowed: the caller looks at the result. */
static mpc_format format_of_token(const mpc_ir_parser *p) {
    char text[16];
    if (p->token.kind != MPC_TOK_WORD || p->token.length >= sizeof text) return MPC_FMT_none;
    memcpy(text, p->token.text, p->token.length);
    text[p->token.length] = '\0';
    return mpc_format_find(text);
}

bool mpc_ir_parse_format(mpc_ir_parser *p, mpc_format *format) {
    *format = format_of_token(p);
    if (*format == MPC_FMT_none && !mpc_ir_at_word(p, "none")) {
        if (p->token.kind != MPC_TOK_WORD) return mpc_ir_unexpected(p, "a number format");
        return mpc_ir_fail(p, "E508", mpc_ir_span(p), "there is no number format `%.*s`", (int)p->token.length,
                           p->token.text);
    }
    mpc_ir_advance(p);
    return true;
}

/* "[1,2,3]" into p->ints. */
static bool parse_int_list(mpc_ir_parser *p) {
    p->ints.count = 0;
    if (!mpc_ir_expect(p, '[')) return false;
    if (mpc_ir_accept(p, ']')) return true;
    do {
        int64_t value;
        if (!parse_int(p, &value)) return false;
        if (!mpc_array_push(&p->ints, value)) return mpc_ir_no_memory(p);
    } while (mpc_ir_accept(p, ','));
    return mpc_ir_expect(p, ']');
}

static bool parse_ints(mpc_ir_parser *p, mpc_int_list *list) {
    if (!parse_int_list(p)) return false;
    int64_t *data = mpc_arena_alloc(p->scratch, (p->ints.count + 1) * sizeof *data);
    if (!data) return mpc_ir_no_memory(p);
    if (p->ints.count) memcpy(data, p->ints.data, p->ints.count * sizeof *data);
    *list = (mpc_int_list){data, (uint32_t)p->ints.count};
    return true;
}

bool mpc_ir_parse_type(mpc_ir_parser *p, mpc_type_id *type) {
    mpc_span span = mpc_ir_span(p);
    mpc_format format;
    if (!mpc_ir_parse_format(p, &format)) return false;
    if (format == MPC_FMT_none) return mpc_ir_fail(p, "E508", span, "a value needs a number format");
    if (!parse_int_list(p)) return false;
    span.end = p->token.begin > span.begin ? p->token.begin : span.end;
    if (p->ints.count > MPC_MAX_RANK)
        return mpc_ir_fail(p, "E510", span, "a tensor has at most %d dimensions", MPC_MAX_RANK);
    double elements = 1;
    for (size_t i = 0; i < p->ints.count; i++) {
        if (p->ints.data[i] < 0) return mpc_ir_fail(p, "E510", span, "a dimension is never negative");
        elements *= p->ints.data[i] ? (double)p->ints.data[i] : 1;
    }
    *type = mpc_type_make(p->ctx, format, (uint32_t)p->ints.count, p->ints.data);
    if (*type) return true;
    return elements < 0x1p62 ? mpc_ir_no_memory(p) : mpc_ir_fail(p, "E510", span, "this tensor has too many elements");
}

static bool parse_value(mpc_ir_parser *p, mpc_attr *attr) {
    switch (attr->kind) {
    case MPC_ATTR_INT:
        return parse_int(p, &attr->i);
    case MPC_ATTR_FLOAT:
        return parse_float(p, &attr->f);
    case MPC_ATTR_BOOL:
        return parse_bool(p, &attr->b);
    case MPC_ATTR_STR:
        return parse_str(p, &attr->s);
    case MPC_ATTR_FORMAT:
        return mpc_ir_parse_format(p, &attr->format);
    case MPC_ATTR_INTS:
        return parse_ints(p, &attr->ints);
    }
    return false;
}

static const mpc_attr_spec *find_spec(const mpc_ir_parser *p, const mpc_attr_spec *specs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const char *key = mpc_sym_text(p->ctx, specs[i].key);
        if (strlen(key) == p->token.length && memcmp(key, p->token.text, p->token.length) == 0) return &specs[i];
    }
    return NULL;
}

static bool parse_attr(mpc_ir_parser *p, const char *owner, const mpc_attr_spec *specs, uint32_t count) {
    mpc_span span = mpc_ir_span(p);
    if (p->token.kind != MPC_TOK_WORD) return mpc_ir_unexpected(p, "an attribute or `}`");
    const mpc_attr_spec *spec = find_spec(p, specs, count);
    if (!spec)
        return mpc_ir_fail(p, "E506", span, "%s has no attribute `%.*s`", owner, (int)p->token.length, p->token.text);
    if (mpc_attr_stored(p->attrs.data, (uint32_t)p->attrs.count, spec->key))
        return mpc_ir_fail(p, "E506", span, "the attribute `%s` is given twice", mpc_sym_text(p->ctx, spec->key));
    mpc_attr attr = {.key = spec->key, .kind = spec->kind};
    mpc_ir_advance(p);
    if (!mpc_ir_expect(p, '=') || !parse_value(p, &attr)) return false;
    return mpc_array_push(&p->attrs, attr) || mpc_ir_no_memory(p);
}

/* Into the order of the declarations; an op has few, so the second array is on the same list's tail. */
static bool sort_attrs(mpc_ir_parser *p, const mpc_attr_spec *specs, uint32_t count, bool drop) {
    size_t given = p->attrs.count, kept = 0;
    if (!mpc_array_reserve(&p->attrs, given)) return mpc_ir_no_memory(p);
    mpc_attr *sorted = p->attrs.data + given;
    for (uint32_t i = 0; i < count; i++) {
        const mpc_attr *attr = mpc_attr_stored(p->attrs.data, (uint32_t)given, specs[i].key);
        if (attr && (!drop || specs[i].required || !mpc_attr_same(attr, &specs[i].fallback))) sorted[kept++] = *attr;
    }
    memmove(p->attrs.data, sorted, kept * sizeof *sorted);
    p->attrs.count = kept;
    return true;
}

bool mpc_ir_parse_attrs(mpc_ir_parser *p, const char *owner, const mpc_attr_spec *specs, uint32_t count, bool drop) {
    p->attrs.count = 0;
    if (!mpc_ir_accept(p, '{')) return true;
    while (!mpc_ir_at_punct(p, '}'))
        if (!parse_attr(p, owner, specs, count)) return false;
    mpc_ir_advance(p);
    return p->attrs.count == 0 || sort_attrs(p, specs, count, drop);
}
