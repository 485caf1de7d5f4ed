/* Blanks between two tokens of one line. What a token is depends on the one before it: a minus is a sign unless an
 * operand ends there, and `where`, `weight`, `trains` are names unless one does. */
#include "frontend/fe_fmt.h"

#include "mpg_parser.h"

static int kind_of(const fmt *f, uint32_t token) { return token == FMT_NONE ? 0 : f->tokens.data[token].t.kind; }

static uint32_t before(const fmt *f, uint32_t token) {
    while (token != FMT_NONE && token-- > 0)
        if (f->tokens.data[token].t.kind != FE_TOKEN_COMMENT && !f->tokens.data[token].dropped) return token;
    return FMT_NONE;
}

static bool is_soft_word(int kind) {
    static const int words[] = {MPG_IDENT,  MPG_INPUT, MPG_USE,   MPG_FROM,   MPG_WHERE, MPG_WEIGHT,
                                MPG_TRAINS, MPG_DATA,  MPG_TRAIN, MPG_PARAMS, MPG_POLICY};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i] == kind) return true;
    return false;
}

/* Does the token end an operand, so that what follows is an operator, a call or an index? FMT_NONE: no. */
static bool ends_operand(const fmt *f, uint32_t token) {
    int kind = kind_of(f, token);
    if (token == FMT_NONE || f->tokens.data[token].modifier) return false;
    if (is_soft_word(kind)) return true;
    if (kind_of(f, before(f, token)) == '.') return true;
    return kind == MPG_NUMBER || kind == MPG_QUANTITY || kind == MPG_STRING || kind == MPG_HOLE || kind == MPG_TRUE ||
           kind == MPG_FALSE || kind == ')' || kind == ']';
}

/* The tokens of a statement follow those of the one before, which may end with an operand. */
static bool begins_statement(const fmt *f, uint32_t token) {
    const fmt_token *t = &f->tokens.data[token];
    uint32_t previous = before(f, token);
    return previous == FMT_NONE || (t->t.newlines > 0 && t->inside != '(' && t->inside != '[') ||
           kind_of(f, previous) == '{' || f->tokens.data[previous].t.kind == '}';
}

bool fmt_is_unary(const fmt *f, uint32_t token) {
    return kind_of(f, token) == '-' && (begins_statement(f, token) || !ends_operand(f, before(f, token)));
}

static bool is_modifier(const fmt *f, uint32_t token) {
    int kind = kind_of(f, token);
    if (kind != MPG_WHERE && kind != MPG_WEIGHT && kind != MPG_TRAINS) return false;
    return !begins_statement(f, token) && ends_operand(f, before(f, token));
}

static bool follows_sign(const fmt *f, uint32_t token) { return fmt_is_unary(f, before(f, token)); }

static uint32_t gap_of_opener(const fmt *f, uint32_t previous) {
    bool format = kind_of(f, before(f, previous)) == '@';
    return format || !ends_operand(f, previous);
}

static uint32_t gap_of_colon(const fmt *f, uint32_t token, uint32_t previous) {
    return f->tokens.data[token].inside == '[' && kind_of(f, previous) == ',';
}

static uint32_t gap_before(const fmt *f, uint32_t token) {
    const fmt_token *t = &f->tokens.data[token];
    uint32_t previous = before(f, token);
    int kind = t->t.kind, last = kind_of(f, previous);
    if (previous == FMT_NONE || last == '(' || last == '[' || last == '@' || last == '.') return 0;
    if (kind == ',' || kind == ')' || kind == ']' || kind == '.') return 0;
    if (kind == '}') return last != '{';
    if (kind == ':') return gap_of_colon(f, token, previous);
    if (follows_sign(f, token) || (last == ':' && t->inside == '[')) return 0;
    if (kind == '(' || kind == '[') return gap_of_opener(f, previous);
    return t->modifier && kind != MPG_WHERE ? 2 : 1;
}

void fmt_space(fmt *f) {
    for (uint32_t i = 0; i < f->tokens.count; i++) {
        fmt_token *t = &f->tokens.data[i];
        t->modifier = is_modifier(f, i);
        if (t->t.kind != FE_TOKEN_COMMENT) t->gap = gap_before(f, i);
    }
}
