/* A file as its tokens, with what the grammar doesn't see: comments and line ends. For whoever has to do with the text
 * itself (fmt.c, documents.c). */
#ifndef MPC_FRONTEND_FE_TOKENS_H
#define MPC_FRONTEND_FE_TOKENS_H

#include "base/array.h"
#include "frontend/ast.h"

typedef struct fe_token {
    int kind;            /* of the parser (mpg_parser.h), or FE_TOKEN_COMMENT */
    uint32_t begin, end; /* bytes of the text */
    uint32_t newlines;   /* line ends before it: 0, 1, or 2 for one and blank lines */
    uint32_t column;     /* characters before it in its line */
    uint32_t width;      /* characters; of a comment without blanks at its end */
} fe_token;

enum { FE_TOKEN_COMMENT = -1 };

typedef struct fe_token_list {
    fe_token *data;
    size_t count, capacity;
} fe_token_list;

typedef struct fe_text { /* a parsed file with its tokens */
    const char *text;
    size_t length;
    fe_list items;
    fe_token_list tokens;
} fe_text;

/* Parses a registered file and takes it apart; the tree lives in `arena` (NULL: there was no memory for one). false
 * after diagnostics; free it either way.
 */
bool fe_text_read(mpc_context *ctx, mpc_arena *arena, uint32_t file, fe_text *out);
void fe_text_free(fe_text *text);
/* The first token that ends behind `offset`; the count of tokens when there is none. */
size_t fe_token_at(const fe_text *text, uint32_t offset);
/* Name of an item, parameter or output and what the file says of it, in one line: "mlp(x: [n, c]) -> [n, c]"
 * (documents.c). */
void fe_head(const fe_text *text, const fe_ast *at, mpc_str *head);
/* The `##` comments of an item, parameter or statement, as one line (documents.c). */
void fe_document(const fe_text *text, const fe_ast *at, mpc_str *out);
/* The first of those that stand above it, line by line; the first token of the item when there are none. */
size_t fe_document_begin(const fe_text *text, const fe_ast *at);

#endif
