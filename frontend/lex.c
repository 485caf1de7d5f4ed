/* What the generated lexer does with a token. Every function takes the bytes of the token, which are not NUL-terminated
 * in a useful way. An error sends its diagnostic and returns bison's error token, which makes the parser stop without a
 * message of its own. */
#include "frontend/lex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "frontend/fe_diag.h"
#include "mpg_parser.h"

void fe_lex_advance(fe_parser *p, uint32_t length, mpc_span *loc) {
    p->begin = p->end;
    p->end = p->begin + length;
    *loc = (mpc_span){p->file, p->begin, p->end};
}

/* Can't happen: the whole text is one buffer and its memory is there before the first token. */
_Noreturn void fe_lex_fatal(const char *message) {
    (void)message;
    abort();
}

void *fe_lex_alloc(fe_parser *p, size_t size) {
    size_t need = (size + 15) & ~(size_t)15;
    if (need > p->heap_size - p->heap_used) return NULL;
    void *at = p->heap + p->heap_used;
    p->heap_used += need;
    return at;
}

int fe_lex_error(fe_parser *p, const char *code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    mpc_str s = {0};
    mpc_str_vprintf(&s, format, args);
    va_end(args);
    if (!p->quiet) fe_error(p->diag, code, (mpc_span){p->file, p->begin, p->end}, "%s", mpc_str_cstr(&s));
    mpc_str_free(&s);
    fe_recover_begin(p, p->depth);
    return MPG_MPG_error;
}

static int semicolon(fe_parser *p) {
    fe_report r =
        fe_begin(p->diag, MPC_SEV_ERROR, "E001", (mpc_span){p->file, p->begin, p->end}, "`;` has no meaning here");
    fe_help(&r, "statements end with the line: leave it out, or begin a new line");
    if (!p->quiet) fe_send(&r);
    fe_recover_begin(p, p->depth);
    return MPG_MPG_error;
}

int fe_lex_unexpected(fe_parser *p, unsigned char byte) {
    if (byte == ';') return semicolon(p);
    if (byte == '\'') return fe_lex_error(p, "E001", "a text stands in double quotes");
    if (byte > 32 && byte < 127) return fe_lex_error(p, "E001", "the character `%c` has no meaning here", byte);
    return fe_lex_error(p, "E001", "the byte 0x%02x has no meaning here", byte);
}

void fe_lex_comment(fe_parser *p) {
    if (p->comments && !mpc_array_push(p->comments, (mpc_span){p->file, p->begin, p->end}))
        p->failed = p->no_memory = true;
}

static fe_ast *leaf(fe_parser *p, fe_ast_kind kind, const mpc_span *loc) { return fe_node(p, kind, *loc); }

static void set_text(fe_parser *p, fe_ast *n, const char *text, uint32_t length) {
    n->sym = mpc_intern_n(p->ctx, text, length);
    if (!n->sym && length) p->failed = p->no_memory = true;
    n->text = n->sym ? mpc_sym_text(p->ctx, n->sym) : "";
    n->name_span = n->span;
}

int fe_lex_keyword(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node, int token) {
    *node = leaf(p, AST_NAME, loc);
    set_text(p, *node, text, length);
    return p->no_memory ? MPG_MPG_error : token;
}

bool fe_lex_is_float(const char *text, uint32_t length) {
    for (uint32_t i = 0; i < length; i++)
        if (text[i] == '.' || text[i] == 'e' || text[i] == 'E') return true;
    return false;
}

int fe_lex_number(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node, bool is_float) {
    char digits[64];
    if (length >= sizeof digits) return fe_lex_error(p, "E001", "this number has more digits than mpc reads (63)");
    memcpy(digits, text, length);
    digits[length] = 0;
    fe_ast *n = *node = leaf(p, is_float ? AST_FLOAT : AST_INT, loc);
    errno = 0;
    n->number = strtod(digits, NULL);
    if (is_float) return p->no_memory ? MPG_MPG_error : MPG_NUMBER;
    errno = 0;
    n->integer = strtoll(digits, NULL, 10);
    if (errno == ERANGE) return fe_lex_error(p, "E001", "this integer doesn't fit in 64 bits");
    return p->no_memory ? MPG_MPG_error : MPG_NUMBER;
}

bool fe_lex_is_unit(const char *text, size_t length) {
    static const char *const units[] = {"step", "steps", "epoch", "epochs", "min", "minute", "minutes", "x"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == length && memcmp(units[i], text, length) == 0) return true;
    return false;
}

uint32_t fe_lex_quantity(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node) {
    uint32_t digits = 0, word;
    while (text[digits] != ' ' && text[digits] != '\t') digits++;
    for (word = digits; text[word] == ' ' || text[word] == '\t';) word++;
    if (!fe_lex_is_unit(text + word, length - word)) return digits;
    if (fe_lex_number(p, text, digits, loc, node, fe_lex_is_float(text, digits)) != MPG_NUMBER) return length;
    (*node)->kind = AST_QUANTITY;
    set_text(p, *node, text + word, length - word);
    return length;
}

int fe_lex_string(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node) {
    mpc_str s = {0};
    for (uint32_t i = 1; i + 1 < length; i++) {
        char c = text[i];
        if (c == '\\') {
            c = text[++i];
            if (c == 'n') c = '\n';
            else if (c == 't') c = '\t';
            else if (c != '"' && c != '\\') {
                mpc_str_free(&s);
                return fe_lex_error(p, "E001", "`\\%c` has no meaning in a text; there are \\n, \\t, \\\" and \\\\", c);
            }
        }
        mpc_str_append_n(&s, &c, 1);
    }
    *node = leaf(p, AST_STRING, loc);
    if (s.failed) p->failed = p->no_memory = true;
    else set_text(p, *node, mpc_str_cstr(&s), (uint32_t)s.length);
    mpc_str_free(&s);
    return p->no_memory ? MPG_MPG_error : MPG_STRING;
}
