/* What the canonical layout promises, for the test over all files and for the fuzzer: the same tokens and comments in
 * the same order, and nothing left to do the second time. */
#ifndef MPC_TESTS_LANG_LAYOUT_H
#define MPC_TESTS_LANG_LAYOUT_H

#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_tokens.h"
#include "frontend/frontend.h"

typedef struct layout_side { /* a text as tokens */
    mpc_sources *sources;
    mpc_context *ctx;
    mpc_arena *arena;
    uint32_t file;
    fe_text text;
    bool ok;
} layout_side;

static inline layout_side layout_open(const mpc_sink *sink, const char *text, size_t length) {
    layout_side s = {.sources = mpc_sources_create(), .arena = mpc_arena_create()};
    s.file = mpc_sources_add(s.sources, "layout.mpg", text, length);
    s.ctx = mpc_context_create(sink, s.sources);
    s.ok = s.ctx && fe_text_read(s.ctx, s.arena, s.file, &s.text);
    return s;
}

static inline void layout_close(layout_side *s) {
    fe_text_free(&s->text);
    mpc_context_destroy(s->ctx);
    mpc_arena_destroy(s->arena);
    mpc_sources_destroy(s->sources);
}

/* The next token that a layout may not change; NULL at the end. */
static inline const fe_token *layout_next(const layout_side *s, size_t *at) {
    const fe_token_list *list = &s->text.tokens;
    for (; *at < list->count; ++*at) {
        const fe_token *t = &list->data[*at];
        size_t next = *at + 1;
        while (next < list->count && list->data[next].kind == FE_TOKEN_COMMENT) next++;
        bool spare =
            t->kind == ',' && next < list->count && (list->data[next].kind == ')' || list->data[next].kind == ']');
        if (!spare) return &list->data[(*at)++];
    }
    return NULL;
}

/* Equal but for blanks and the unit of a number, which may be added. */
static inline bool layout_same_text(const char *a, size_t n, const char *b, size_t m) {
    size_t i = 0, k = 0;
    while (i < n || k < m) {
        bool blank = (i < n && strchr(" \t", a[i])) || (k < m && strchr(" \t", b[k]));
        if (blank) {
            if (i == n) return m - k == 6 && memcmp(b + k, " steps", 6) == 0;
            while (i < n && strchr(" \t", a[i])) i++;
            while (k < m && strchr(" \t", b[k])) k++;
        } else if (i == n || k == m || a[i++] != b[k++]) return false;
    }
    return true;
}

static inline bool layout_same(const layout_side *a, const layout_side *b) {
    size_t i = 0, k = 0;
    for (;;) {
        const fe_token *s = layout_next(a, &i), *t = layout_next(b, &k);
        if (!s || !t) return !s && !t;
        const char *before = a->text.text + s->begin, *after = b->text.text + t->begin;
        bool exact = s->kind == t->kind && s->end - s->begin == t->end - t->begin &&
                     memcmp(before, after, s->end - s->begin) == 0;
        bool number = s->kind > 0 && s->kind != ',' && s->width > 0 && strchr("0123456789", *before) != NULL;
        if (!exact && !(number && layout_same_text(before, s->end - s->begin, after, t->end - t->begin))) return false;
    }
}

/* NULL, or the promise that is broken. A text that isn't parsed is none of it. `out`: the layout. */
static inline const char *layout_broken(const mpc_sink *sink, const char *text, size_t length, mpc_str *out) {
    const char *broken = NULL;
    mpc_str again = {0};
    layout_side a = layout_open(sink, text, length), b = {0};
    bool formatted = a.ctx && mpc_format_file(a.ctx, a.file, false, out);
    if (formatted != a.ok) broken = "what parses is formatted, and nothing else";
    if (!broken && formatted) {
        b = layout_open(sink, mpc_str_cstr(out), out->length);
        if (!b.ok) broken = "the layout of what parses does so too";
        else if (!layout_same(&a, &b)) broken = "tokens and comments stay as they are";
        else if (!mpc_format_file(b.ctx, b.file, false, &again) || strcmp(mpc_str_cstr(out), mpc_str_cstr(&again)) != 0)
            broken = "formatting twice gives what formatting once gave";
        layout_close(&b);
    }
    layout_close(&a);
    mpc_str_free(&again);
    return broken;
}

#endif
