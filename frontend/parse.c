/* From registered text to a tree: encoding check, byte order mark, the generated parser, and the words of syntax
 * errors. The first syntax error ends the parse: what a parser guesses after it is noise. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_diag.h"
#include "frontend/lex.h"
#include "mpg_parser.h"

/* Length of the UTF-8 sequence at `s` (`left` bytes remain), 0 when it isn't one (overlong forms and surrogates
 * included). */
static size_t sequence(const unsigned char *s, size_t left) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || n > left || s[0] > 0xf4) return 0;
    if (n == 1) return 1;
    uint32_t code = s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : n;
}

static bool check_text(fe_parser *p, const char *text, size_t length) {
    if (length > 64u << 20) {
        fe_error(p->diag, "E001", (mpc_span){0}, "the file is larger than 64 MiB: this is no model");
        return false;
    }
    for (size_t i = 0; i < length;) {
        size_t n = sequence((const unsigned char *)text + i, length - i);
        mpc_span at = {p->file, (uint32_t)i, (uint32_t)i + 1};
        if (n == 0) fe_error(p->diag, "E003", at, "byte 0x%02x at offset %zu is not UTF-8", (unsigned char)text[i], i);
        else if (text[i] == 0) fe_error(p->diag, "E003", at, "a zero byte at offset %zu: this is not a text", i);
        if (n == 0 || text[i] == 0) return false;
        i += n;
    }
    return true;
}

static bool run(fe_parser *p, int start) {
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(p->ctx), p->file, &length);
    if (!text || !check_text(p, text, length)) return false;
    p->begin = p->end = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    p->start = start;
    p->heap_size = length - p->end + 8192;
    p->heap = mpc_alloc(p->heap_size);
    void *scanner = NULL;
    bool ok = p->heap && fe_lex_start(p, text + p->end, length - p->end, &scanner) == 0;
    if (!ok) p->no_memory = true;
    if (ok) ok = mpg_parse(p, scanner) == 0;
    if (scanner) fe_lex_finish(scanner);
    mpc_free(p->heap);
    p->heap = NULL;
    if (p->no_memory) fe_no_memory(p->diag);
    return ok && !p->failed;
}

bool fe_parse_file(fe_parser *p) { return run(p, MPG_START_FILE); }

fe_ast *fe_parse_expression(fe_parser *p) { return run(p, MPG_START_EXPRESSION) ? p->expression : NULL; }

void fe_parse_symbol(const char *symbol, mpc_str *out) {
    bool words = strchr(symbol, ' ') != NULL;
    mpc_str_printf(out, words ? "%s" : "`%s`", symbol);
}

/* What the user most likely meant, for the mistakes that other languages teach. */
static const char *syntax_help(const char *symbol, const char *word, size_t length) {
    if (length == 4 && memcmp(word, "else", 4) == 0) return "`else` stands on the line of the closing brace: } else {";
    if (length == 3 && (memcmp(word, "def", 3) == 0 || memcmp(word, "for", 3) == 0))
        return "blocks are written `block name(x) { ... }`, loops `repeat i in n { ... }`";
    if (strcmp(symbol, "the end of the line") == 0)
        return "`{` stands on the line of what it opens; only inside ( ) and [ ] may a statement go on in the next "
               "line";
    if (strcmp(symbol, "{") == 0) return "`{` opens the body of block, model, repeat, if, or a section";
    if (strcmp(symbol, "=") == 0) return "keywords are written once, after the positional arguments: f(x, size = 3)";
    return NULL;
}

void fe_parse_unexpected(fe_parser *p, mpc_span span, const char *symbol, const char *expected) {
    if (p->failed) return;
    p->failed = true;
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(p->ctx), p->file, &length);
    size_t width = span.end - span.begin;
    bool shown = span.end <= length && width > 0 && text[span.begin] != '\n' && text[span.begin] != '\r';
    mpc_str what = {0};
    if (shown) mpc_str_printf(&what, "`%.*s`", (int)(width > 40 ? 40 : width), text + span.begin);
    else if (strcmp(symbol, "end of file") == 0 || strcmp(symbol, "\"end of file\"") == 0)
        mpc_str_append(&what, "the end of the text");
    else fe_parse_symbol(symbol, &what);
    fe_report r =
        fe_begin(p->diag, MPC_SEV_ERROR, "E002", span, "%s was not expected here%s", mpc_str_cstr(&what), expected);
    const char *help = syntax_help(symbol, text + (shown ? span.begin : 0), shown ? width : 0);
    if (help) fe_help(&r, "%s", help);
    fe_send(&r);
    mpc_str_free(&what);
}

void fe_parse_exhausted(fe_parser *p, mpc_span span) {
    if (p->failed) return;
    p->failed = true;
    fe_error(p->diag, "E004", span, "this nests too deeply to be read");
}
