/* Between the generated lexer and parser and the code that serves them (lex.c, parse.c). */
#ifndef MPC_FRONTEND_LEX_H
#define MPC_FRONTEND_LEX_H

#include "frontend/ast.h"

void fe_lex_advance(fe_parser *p, uint32_t length, mpc_span *loc);
_Noreturn void fe_lex_fatal(const char *message);
/* Sends the error at the current token; returns the token that makes the parser give up silently. */
int fe_lex_error(fe_parser *p, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int fe_lex_unexpected(fe_parser *p, unsigned char byte);
int fe_lex_keyword(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node, int token);
int fe_lex_number(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node, bool is_float);
bool fe_lex_is_float(const char *text, uint32_t length);
bool fe_lex_is_unit(const char *text, size_t length);
/* Number and word: length of the token, which is the number's alone when the word is no unit. */
uint32_t fe_lex_quantity(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node);
int fe_lex_string(fe_parser *p, const char *text, uint32_t length, const mpc_span *loc, fe_ast **node);
void fe_lex_comment(fe_parser *p);
void *fe_lex_alloc(fe_parser *p, size_t size);

/* ---- brackets, and going on after an error (recover.c) ---- */
bool fe_lex_newline(const fe_parser *p); /* a newline here is a token */
int fe_lex_open(fe_parser *p, char kind);
int fe_lex_close(fe_parser *p, char kind); /* 0: skipped */
int fe_lex_end(fe_parser *p, mpc_span *loc);
/* A word that begins an item, at the beginning of a line and with brackets still open: the token that closes one of
 * them, and the word is to be read again. 0: nothing of the kind. */
int fe_lex_unclosed(fe_parser *p, uint32_t length);
/* Out of memory, too deep, or as many errors as are shown: the text ends here. */
bool fe_parse_stopped(const fe_parser *p);
/* Nothing is said from here to the end of the line; `depth` brackets surround it. */
void fe_recover_begin(fe_parser *p, uint32_t depth);
/* The node that stands for a broken statement, entry or item. */
fe_ast *fe_broken(fe_parser *p);
fe_ast *fe_broken_item(fe_parser *p, mpc_span at);

/* For the generated parser: its errors. Symbols are token names of the grammar. */
typedef struct fe_unexpected {
    mpc_span span;
    const char *symbol;
    const char *expected; /* "; expected `,` or `)`", or "" */
    bool wants_name;
} fe_unexpected;
void fe_parse_symbol(const char *symbol, mpc_str *out);
void fe_parse_unexpected(fe_parser *p, const fe_unexpected *u);
void fe_parse_exhausted(fe_parser *p, mpc_span span);
/* Gives the call under indices its label. */
void fe_label_call(fe_parser *p, fe_ast *node, const fe_ast *label);
/* The left side of `=`: names, `_` and `[a, b]`; anything else is an error. */
fe_list fe_targets(fe_parser *p, fe_list list);

/* The lexer on the parser's file, whose encoding was checked; fe_scan_end releases it, whatever fe_scan_begin said. */
bool fe_scan_begin(fe_parser *p, void **scanner);
void fe_scan_end(fe_parser *p, void *scanner);

/* In the generated lexer. */
union MPG_STYPE;
int mpg_lex(union MPG_STYPE *value, mpc_span *loc, void *scanner);
int fe_lex_start(struct fe_parser *p, const char *text, size_t length, void **scanner);
void fe_lex_finish(void *scanner);

#endif
