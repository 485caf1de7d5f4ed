/* Between the parts of the canonical layout: fmt.c cuts the tokens into lines, fmt_spacing.c says how many blanks stand
 * before each, fmt_align.c widens some of these, fmt_print.c breaks what is too long and writes. */
#ifndef MPC_FRONTEND_FE_FMT_H
#define MPC_FRONTEND_FE_FMT_H

#include "base/str.h"
#include "frontend/fe_tokens.h"

enum { FMT_WIDTH = 120, FMT_INDENT = 4, FMT_ANCHORS = 3 };
#define FMT_NONE UINT32_MAX

typedef struct fmt_token {
    fe_token t;
    const char *added; /* written behind it; NULL: nothing */
    uint32_t width;    /* characters as it is written */
    uint32_t match;    /* of brackets: the partner */
    uint32_t gap;      /* blanks before it in its line */
    char inside;       /* innermost bracket around it: ( [ { or 0 */
    bool modifier;     /* where, weight or trains as a word of the language */
    bool split;        /* `{`, `}`: the body has lines of its own. `(`, `[`: their content stands indented below them */
    bool breaks;       /* in brackets: a new line begins here */
    bool dropped;      /* a comma before a closing bracket */
} fmt_token;

typedef enum fmt_class { FMT_STATEMENT, FMT_CONST, FMT_ENTRY, FMT_INPUT, FMT_GLOBS } fmt_class;

typedef struct fmt_line { /* a statement, entry or item up to its `{`; a closing brace; or a comment */
    uint32_t first, last; /* tokens [first, last) */
    uint32_t comment;     /* behind it, or FMT_NONE */
    uint32_t indent;      /* levels */
    bool blank;           /* a blank line before it */
    fmt_class kind;
    uint32_t anchors[FMT_ANCHORS]; /* tokens that may stand below each other: name of a loss, `=` or `{`, weight; or
                                      FMT_NONE */
} fmt_line;

typedef struct fmt {
    const fe_text *source;
    MPC_ARRAY(fmt_token) tokens; /* one for each of the source's */
    MPC_ARRAY(fmt_line) lines;
    bool no_memory;
} fmt;

/* The token that begins there, or NULL. */
fmt_token *fmt_find_token(fmt *f, uint32_t begin);
/* Of a number with its unit: how long the number is, and where the unit begins. */
void fmt_split_quantity(const char *text, uint32_t *digits, uint32_t *unit);
/* `words` stand behind the token, though not in the text; they live as long as the layout. */
void fmt_write_behind(fmt_token *t, const char *words);
/* Labels for calls that a number tells apart (fmt_name.c); their texts live in the arena. false: out of memory. */
bool fmt_name(fmt *f, mpc_arena *arena, const fe_list *items);
/* Characters of tokens [first, last) and the blanks between them, as if nothing broke. */
uint32_t fmt_flat_width(const fmt *f, uint32_t first, uint32_t last);
/* Is it a comment that stands on the line of what is before it? */
bool fmt_is_behind(const fmt *f, uint32_t token);
/* Is it a minus that is a sign? */
bool fmt_is_unary(const fmt *f, uint32_t token);
/* Sets `gap` and `modifier` of every token. */
void fmt_space(fmt *f);
/* Widens gaps so that what stands below each other in the text, and all keys of a section, do so. */
void fmt_align(fmt *f);
/* Appends all lines. false: out of memory. */
bool fmt_print(fmt *f, mpc_str *out);

#endif
