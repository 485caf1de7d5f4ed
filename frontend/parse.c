/* From registered text to a tree: encoding check, byte order mark, the generated parser, and the words of syntax
 * errors. One error a line: the parser goes on at the next line, or at the next item (recover.c). */
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

bool fe_scan_begin(fe_parser *p, void **scanner) {
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(p->ctx), p->file, &length);
    p->begin = p->end = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    p->heap_size = length - p->end + 8192;
    p->heap = mpc_alloc(p->heap_size);
    *scanner = NULL;
    bool ok = p->heap && fe_lex_start(p, text + p->end, length - p->end, scanner) == 0;
    if (!ok) p->no_memory = true;
    return ok;
}

void fe_scan_end(fe_parser *p, void *scanner) {
    if (scanner) fe_lex_finish(scanner);
    mpc_free(p->heap);
    p->heap = NULL;
}

static bool run(fe_parser *p, int start) {
    size_t length = 0;
    const char *text = mpc_sources_text(mpc_context_sources(p->ctx), p->file, &length);
    if (!text || !check_text(p, text, length)) return false;
    void *scanner = NULL;
    p->start = start;
    bool ok = fe_scan_begin(p, &scanner) && mpg_parse(p, scanner) == 0;
    fe_scan_end(p, scanner);
    if (p->no_memory) fe_no_memory(p->diag);
    return ok && !p->failed;
}

bool fe_parse_file(fe_parser *p) { return run(p, MPG_START_FILE); }

fe_ast *fe_parse_expression(fe_parser *p) { return run(p, MPG_START_EXPRESSION) ? p->expression : NULL; }
