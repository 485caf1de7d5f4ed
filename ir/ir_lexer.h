/* Tokens of the text form (docs/ir.md). Internal to ir; the printer uses the predicates to know what must be quoted. */
#ifndef MPC_IR_IR_LEXER_H
#define MPC_IR_IR_LEXER_H

#include "base/str.h"

typedef enum mpc_ir_token_kind {
    MPC_TOK_END,
    MPC_TOK_BAD,   /* lexer->code and lexer->error say why */
    MPC_TOK_VALUE, /* %name or %"name": text without the sign and quotes */
    MPC_TOK_GRAPH, /* @name */
    MPC_TOK_WORD,
    MPC_TOK_NUMBER,
    MPC_TOK_STRING,
    MPC_TOK_PUNCT, /* one of ( ) { } [ ] , : = */
} mpc_ir_token_kind;

typedef struct mpc_ir_token {
    mpc_ir_token_kind kind;
    char punct;
    uint32_t begin, end; /* bytes of the source */
    const char *text;    /* not NUL-terminated; valid until the next token */
    size_t length;
} mpc_ir_token;

typedef struct mpc_ir_lexer {
    const char *text;
    uint32_t length, at;
    mpc_str buffer;           /* unescaped text of the current token */
    const char *code, *error; /* of MPC_TOK_BAD; error NULL: out of memory */
} mpc_ir_lexer;

mpc_ir_token mpc_ir_lex(mpc_ir_lexer *lexer);

/* May stand behind % without quotes. */
bool mpc_ir_plain_name(const char *name);
/* May stand as a string attribute without quotes. */
bool mpc_ir_plain_word(const char *text);
/* In quotes, with escapes. */
void mpc_ir_print_quoted(const char *text, mpc_str *out);

#endif
