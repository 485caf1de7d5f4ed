/* A file as a list of tokens with comments: the lexer runs over it a second time, after the parser accepted it, so that
 * the list is only made for who asks. Line ends are counted from the text, since within brackets the lexer drops
 * them. */
#include "frontend/fe_tokens.h"

#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_diag.h"
#include "frontend/lex.h"
#include "mpg_parser.h"

static uint32_t characters(const char *text, size_t n) {
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

typedef struct position { /* walks over the text once */
    size_t at;
    uint32_t line_ends, column;
} position;

static void walk(position *p, const char *text, size_t to) {
    for (; p->at < to; p->at++) {
        char c = text[p->at];
        bool ends = c == '\n' || (c == '\r' && text[p->at + 1] != '\n');
        if (ends) p->line_ends++;
        p->column = ends ? 0 : p->column + (((unsigned char)c & 0xc0) != 0x80);
    }
}

static bool comes_first(const fe_spans *comments, size_t next, const fe_token *than) {
    return next < comments->count && comments->data[next].begin < than->begin;
}

/* `found` and the comments in one order, with columns and line ends. */
static bool merge(fe_text *t, const fe_token_list *found, const fe_spans *comments, size_t start) {
    position p = {.at = start};
    size_t comment = 0, i = 0;
    while (i < found->count || comment < comments->count) {
        fe_token token = {.kind = FE_TOKEN_COMMENT};
        if (i == found->count || comes_first(comments, comment, &found->data[i])) {
            token.begin = comments->data[comment].begin;
            token.end = comments->data[comment++].end;
        } else token = found->data[i++];
        uint32_t before = p.line_ends;
        walk(&p, t->text, token.begin);
        token.newlines = p.line_ends - before > 2 ? 2 : p.line_ends - before;
        token.column = p.column;
        while (token.kind == FE_TOKEN_COMMENT && strchr(" \t", t->text[token.end - 1])) token.end--;
        token.width = characters(t->text + token.begin, token.end - token.begin);
        walk(&p, t->text, token.end);
        if (!mpc_array_push(&t->tokens, token)) return false;
    }
    return true;
}

static bool scan(fe_parser *p, fe_text *t) {
    fe_token_list found = {0};
    fe_spans comments = {0};
    p->comments = &comments;
    void *scanner = NULL;
    bool ok = fe_scan_begin(p, &scanner);
    size_t start = p->end;
    MPG_STYPE value;
    for (mpc_span at; ok;) {
        int kind = mpg_lex(&value, &at, scanner);
        if (kind <= 0 || p->failed) break;
        if (kind != MPG_NL) ok = mpc_array_push(&found, (fe_token){.kind = kind, .begin = at.begin, .end = at.end});
    }
    fe_scan_end(p, scanner);
    ok = ok && !p->failed && !p->no_memory && merge(t, &found, &comments, start);
    mpc_array_free(&found);
    mpc_array_free(&comments);
    return ok;
}

bool fe_text_read(mpc_context *ctx, mpc_arena *arena, uint32_t file, fe_text *out) {
    *out = (fe_text){0};
    if (!arena) return mpc_error(mpc_context_sink(ctx), "E901", "not enough memory to read this file") == MPC_OK;
    fe_model_diag diag = {.ctx = ctx, .arena = arena};
    fe_parser *p = mpc_alloc(sizeof *p);
    bool ok = p != NULL;
    if (ok) {
        *p = (fe_parser){.ctx = ctx, .arena = arena, .diag = &diag, .file = file};
        out->text = mpc_sources_text(mpc_context_sources(ctx), file, &out->length);
        ok = fe_parse_file(p);
        out->items = p->items;
    }
    if (ok) {
        *p = (fe_parser){.ctx = ctx, .arena = arena, .diag = &diag, .file = file};
        ok = scan(p, out);
    }
    if (!ok && !diag.errors) fe_no_memory(&diag);
    mpc_free(p);
    fe_diag_deinit(&diag);
    return ok;
}

void fe_text_free(fe_text *text) { mpc_array_free(&text->tokens); }

size_t fe_token_at(const fe_text *t, uint32_t offset) {
    size_t low = 0, high = t->tokens.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->tokens.data[middle].end <= offset) low = middle + 1;
        else high = middle;
    }
    return low;
}
