/* The syntax tree of a `.mpg` file. One struct for every kind of node; children in `kid`, lists linked by `next`. Nodes
 * live in the model's arena and never change after naming (fe_name_sites). */
#ifndef MPC_FRONTEND_AST_H
#define MPC_FRONTEND_AST_H

#include "ir/context.h"

enum { FE_MAX_DEPTH = 256 }; /* of brackets in the text and of expressions in the tree */

typedef enum fe_ast_kind {
    /* expressions */
    AST_INT,      /* integer */
    AST_FLOAT,    /* number */
    AST_QUANTITY, /* number, text = unit */
    AST_STRING,   /* text */
    AST_BOOL,     /* integer */
    AST_NAME,     /* text, sym */
    AST_HOLE,
    AST_LIST,   /* list of elements */
    AST_BINARY, /* text = operator, kid[0], kid[1] */
    AST_UNARY,  /* text = "-" or "not", kid[0] */
    AST_CALL,   /* kid[0] callee, list of AST_ARG, text = label or NULL */
    AST_ARG,    /* kid[0] value, text = keyword or NULL */
    AST_INDEX,  /* kid[0], list of AST_SUB */
    AST_SUB,    /* integer: FE_SUB_*, kid[0] begin or index, kid[1] end */
    AST_ATTR,   /* kid[0], text */
    AST_ELLIPSIS,
    /* statements */
    AST_ASSIGN, /* list of targets, kid[0] value, text = format of `@f32` or NULL */
    AST_REGION, /* text = format, list of statements */
    AST_RETURN, /* list of values */
    AST_REPEAT, /* kid[0] count or list, kid[1] index name, kid[2] element name (both may be NULL), list of statements
                 */
    AST_IF,     /* kid[0] condition, list = then, other = else */
    AST_LOSS,   /* text = name or NULL, kid[0] value, kid[1] where, kid[2] weight, list of `trains` globs */
    AST_METRIC, /* text, kid[0], kid[1] where */
    AST_OUTPUT, /* text, kid[0] */
    AST_EXPR_STATEMENT, /* a value that goes nowhere: an error with its own words */
    /* items */
    AST_USE,         /* text = file, list of names (none: all), integer: its index in the model, once it is opened */
    AST_CONST,       /* text, kid[0] */
    AST_BLOCK,       /* text, list of AST_PARM, other = body, kid[0] = result types (linked) */
    AST_MODEL,       /* text, list of AST_PARM, other = body */
    AST_PARM,        /* text, kid[0] type or NULL, kid[1] default or NULL */
    AST_TYPE,        /* text = word or NULL, list of dims, integer: 1 when it has brackets */
    AST_SECTION,     /* text, list of entries */
    AST_ENTRY,       /* text = key, kid[0] value */
    AST_INPUT_ENTRY, /* text = input, kid[0] value */
    AST_GLOBS,       /* list of strings, other = entries, or kid[0] = value */
} fe_ast_kind;

enum { FE_SUB_INDEX, FE_SUB_RANGE, FE_SUB_ELLIPSIS };

typedef struct fe_ast fe_ast;
typedef struct fe_list {
    fe_ast *first, *last;
    uint32_t count;
} fe_list;

struct fe_ast {
    fe_ast_kind kind;
    uint32_t depth; /* of the expression */
    mpc_span span;
    mpc_span name_span; /* of the label, name or key that `text` holds, when it isn't the whole span */
    mpc_sym sym;        /* of `text` */
    const char *text;
    int64_t integer;
    double number;
    fe_ast *kid[3];
    fe_list list, other;
    fe_ast *next;
    const char *site; /* of calls: name of its parameters within the block (language: names that survive edits) */
    uint32_t siblings; /* how many calls are numbered under that name; 0: it isn't numbered */
};

/* What the parser fills and the lexer reads. */
typedef struct fe_bracket {
    char kind;
    uint32_t offset;
} fe_bracket;

typedef struct fe_spans {
    mpc_span *data;
    size_t count, capacity;
} fe_spans;

struct fe_model_diag;
typedef struct fe_parser {
    mpc_context *ctx;
    mpc_arena *arena;
    struct fe_model_diag *diag;
    uint32_t file;
    uint32_t base;       /* offset of the first byte that was scanned (after a byte order mark) */
    uint32_t begin, end; /* of the current token */
    fe_bracket stack[FE_MAX_DEPTH];
    uint32_t depth;
    int start;   /* token that chooses what is parsed, then 0 */
    fe_spans *comments; /* out; NULL: they aren't wanted */
    bool failed; /* an error was sent, or out of memory */
    bool no_memory;
    bool deep; /* too deep: nothing more is read */
    /* After an error, see recover.c. */
    bool quiet;           /* nothing is said until the parser stands at a line end or brace again */
    uint32_t quiet_depth; /* brackets open around the broken line; what opens deeper is skipped */
    bool stray;           /* the item before was broken: lines that begin no item are its remains */
    bool newline_due;     /* after braces that were closed for the user */
    fe_ast nothing;       /* stands for every node once memory ran out */
    fe_list items;        /* out, of a file */
    fe_ast *expression;   /* out, of an override */
    char *heap;           /* the lexer's own memory, sized beforehand so that it can't run out */
    size_t heap_size, heap_used;
} fe_parser;

/* Constructors never return NULL; after an allocation failure they give &parser->nothing and set `failed`. */
fe_ast *fe_node(fe_parser *p, fe_ast_kind kind, mpc_span span);
fe_ast *fe_node_text(fe_parser *p, fe_ast_kind kind, mpc_span span, const fe_ast *name);
fe_ast *fe_node_unary(fe_parser *p, const char *op, mpc_span span, fe_ast *a);
fe_ast *fe_node_binary(fe_parser *p, const char *op, fe_ast *a, fe_ast *b);
fe_ast *fe_node_sub(fe_parser *p, mpc_span span, int kind, fe_ast *begin, fe_ast *end);
/* Fixes the depth of a node after its children were set; sends E004 past the limit. */
fe_ast *fe_node_close(fe_parser *p, fe_ast *node);
void fe_list_add(fe_parser *p, fe_list *list, fe_ast *node);
mpc_span fe_span_join(mpc_span a, mpc_span b);

/* Parses a registered file, or the text of an override as one expression. NULL/false after errors. */
bool fe_parse_file(fe_parser *p);
fe_ast *fe_parse_expression(fe_parser *p);

/* Gives every call of a body its `site`. */
bool fe_name_sites(mpc_arena *arena, const fe_list *parameters, fe_list *body);
/* Does the name stand anywhere below as something that is read? */
bool fe_ast_mentions(const fe_ast *at, mpc_sym sym);
/* Statements of a body that surely assign `sym`, its branches included. */
bool fe_body_assigns(const fe_list *body, mpc_sym sym);

#endif
