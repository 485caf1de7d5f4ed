/* Open brackets of the text, and how reading goes on after an error. An error makes the parser skip to the end of its
 * line (or the closing brace of its body), where an `error` production of the grammar takes over; until then `quiet`
 * keeps everybody silent, and bodies that open meanwhile are skipped whole, so one mistake is one message. Newlines
 * inside ( and [ are no tokens, so a bracket that is never closed would swallow the lines below it: it is given up when
 * the text says so. */
#include <string.h>

#include "frontend/fe_diag.h"
#include "frontend/lex.h"
#include "mpg_parser.h"

static const char *source(const fe_parser *p, size_t *length) {
    return mpc_sources_text(mpc_context_sources(p->ctx), p->file, length);
}

bool fe_parse_stopped(const fe_parser *p) { return p->no_memory || p->deep || p->diag->errors >= FE_MAX_ERRORS; }

bool fe_lex_newline(const fe_parser *p) {
    if (p->depth && p->stack[p->depth - 1].kind != '{') return false;
    return !p->quiet || p->depth <= p->quiet_depth;
}

/* Are the innermost `levels` of ( and [ closed further on, before any brace? */
static bool closes_later(const fe_parser *p, uint32_t at, uint32_t levels) {
    size_t length = 0;
    const char *text = source(p, &length);
    uint32_t open = levels;
    for (size_t i = at; i < length && text[i] != '{' && text[i] != '}'; i++) {
        if (text[i] == '#')
            while (i + 1 < length && text[i + 1] != '\n') i++;
        else if (text[i] == '"')
            while (i + 1 < length && text[++i] != '"' && text[i] != '\n') i += text[i] == '\\';
        else if (text[i] == '(' || text[i] == '[') open++;
        else if ((text[i] == ')' || text[i] == ']') && --open == 0) return true;
    }
    return false;
}

/* Takes ( and [ number `from` to `to` off the stack; what lies above stays. */
static void give_up(fe_parser *p, uint32_t from, uint32_t to) {
    memmove(p->stack + from, p->stack + to, (p->depth - to) * sizeof *p->stack);
    p->depth -= to - from;
}

void fe_recover_begin(fe_parser *p, uint32_t depth) {
    p->failed = true;
    if (p->quiet) return;
    p->quiet = true;
    uint32_t keep = depth;
    while (keep && p->stack[keep - 1].kind != '{') keep--;
    if (keep < depth && !closes_later(p, p->end, depth - keep)) give_up(p, keep, depth);
    p->quiet_depth = keep;
}

fe_ast *fe_broken(fe_parser *p) {
    p->quiet = false;
    return &p->nothing;
}

/* --- brackets --- */

int fe_lex_open(fe_parser *p, char kind) {
    if (p->depth == FE_MAX_DEPTH) {
        p->deep = true;
        return fe_lex_error(p, "E004", "brackets nest deeper than %d here", FE_MAX_DEPTH);
    }
    p->stack[p->depth++] = (fe_bracket){kind, p->begin};
    return kind;
}

static fe_report unclosed(const fe_parser *p, fe_bracket open) {
    return fe_begin(p->diag, MPC_SEV_ERROR, "E005", (mpc_span){p->file, open.offset, open.offset + 1},
                    "this `%c` is never closed", open.kind);
}

/* A closing bracket without its opener. */
static int closes_nothing(fe_parser *p, char kind) {
    bool silent = p->quiet || (p->stray && p->depth == 0);
    bool skipped = p->quiet;
    if (!silent) {
        fe_report r = fe_begin(p->diag, MPC_SEV_ERROR, "E005", (mpc_span){p->file, p->begin, p->end},
                               "this `%c` closes nothing", kind);
        if (p->depth) {
            fe_bracket open = p->stack[p->depth - 1];
            fe_note(&r, (mpc_span){p->file, open.offset, open.offset + 1}, "the last open bracket is this `%c`",
                    open.kind);
        }
        fe_send(&r);
    }
    fe_recover_begin(p, p->depth);
    return skipped ? 0 : MPG_MPG_error;
}

/* How many brackets stay open below the one that `opener` closes; -1: there is none in this body. */
static int64_t find_opener(const fe_parser *p, char opener) {
    for (uint32_t at = p->depth; at > 0; at--) {
        if (p->stack[at - 1].kind == opener) return at - 1;
        if (p->stack[at - 1].kind == '{') return -1;
    }
    return -1;
}

int fe_lex_close(fe_parser *p, char kind) {
    int64_t below = find_opener(p, kind == ')' ? '(' : kind == ']' ? '[' : '{');
    if (below < 0) return closes_nothing(p, kind);
    if (below + 1 < p->depth) {
        fe_report r = unclosed(p, p->stack[p->depth - 1]);
        fe_second(&r, (mpc_span){p->file, p->begin, p->end}, "this one closes what was opened before it");
        if (!p->quiet) fe_send(&r);
        p->depth = (uint32_t)below;
        fe_recover_begin(p, p->depth);
        return kind;
    }
    p->depth = (uint32_t)below;
    bool seen = !p->quiet || (kind == '}' && p->depth < p->quiet_depth);
    return seen ? kind : 0;
}

int fe_lex_end(fe_parser *p, mpc_span *loc) {
    *loc = (mpc_span){p->file, p->end, p->end};
    if (!p->depth || p->quiet) return 0;
    fe_report r = unclosed(p, p->stack[p->depth - 1]);
    fe_send(&r);
    p->depth = 0;
    fe_recover_begin(p, 0);
    return MPG_MPG_error;
}

/* --- items inside of what was never closed --- */

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool first_on_line(const char *text, uint32_t at) {
    while (at > 0 && is_blank(text[at - 1])) at--;
    return at == 0 || text[at - 1] == '\n' || text[at - 1] == '\r';
}

/* "const name", "block name", "model name", or a section's word with its brace. */
static bool begins_item(const fe_parser *p, uint32_t length) {
    size_t size;
    const char *text = source(p, &size);
    uint32_t next = p->begin + length;
    if (!first_on_line(text, p->begin)) return false;
    while (next < size && is_blank(text[next])) next++;
    if (next == size) return false;
    bool hard = strchr("cbm", text[p->begin]) != NULL;
    char c = text[next];
    return hard ? (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') : c == '{';
}

int fe_lex_unclosed(fe_parser *p, uint32_t length) {
    if ((!p->depth && !p->newline_due) || !begins_item(p, length)) return 0;
    mpc_span word = {p->file, p->begin, p->begin + length};
    p->end = p->begin;
    if (p->quiet && p->depth > p->quiet_depth) p->depth = p->quiet_depth;
    if (p->depth && !p->quiet && !p->newline_due) {
        fe_report r = unclosed(p, p->stack[p->depth - 1]);
        fe_second(&r, word, "this can only stand outside of it");
        fe_send(&r);
        p->failed = true;
    }
    bool in_line = p->depth && p->stack[p->depth - 1].kind != '{';
    while (p->depth && p->stack[p->depth - 1].kind != '{') p->depth--;
    if (in_line) fe_recover_begin(p, p->depth);
    p->newline_due = p->depth > 0;
    if (!p->depth) return MPG_NL;
    p->depth--;
    return '}';
}

/* --- words for what the parser didn't expect --- */

void fe_parse_symbol(const char *symbol, mpc_str *out) {
    bool words = strchr(symbol, ' ') != NULL;
    mpc_str_printf(out, words ? "%s" : "`%s`", symbol);
}

static bool is_word(const char *word, size_t length, const char *wanted) {
    return strlen(wanted) == length && memcmp(word, wanted, length) == 0;
}

static bool is_one_of(const char *word, size_t length, const char *const *list) {
    for (; *list; list++)
        if (is_word(word, length, *list)) return true;
    return false;
}

/* The first word of the line of `at`. */
static const char *line_word(const char *text, uint32_t at, size_t *length) {
    uint32_t begin = at;
    while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '\r') begin--;
    while (begin < at && (is_blank(text[begin]) || text[begin] == '}')) begin++;
    uint32_t end = begin;
    while ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '_') end++;
    *length = end - begin;
    return text + begin;
}

static const char *foreign_help(const char *word, size_t length) {
    static const char *const blocks[] = {"def", "fn", "func", "function", "class", NULL},
                             *const loops[] = {"for", "while", NULL}, *const names[] = {"let", "var", "val", NULL};
    if (is_one_of(word, length, blocks)) return "a block is written `block name(x, size: int) { ... }`";
    if (is_one_of(word, length, loops)) return "a loop is written `repeat i in n { ... }`";
    if (is_one_of(word, length, names)) return "a value gets its name by `name = ...` alone";
    if (is_word(word, length, "elif")) return "this is written `} else if condition {`";
    return NULL;
}

static const char *equals_help(const fe_parser *p, const char *word, size_t length) {
    static const char *const conditions[] = {"if", "else", "repeat", NULL}, *const named[] = {"loss", "metric",
                                                                                              "output", NULL};
    if (is_one_of(word, length, conditions)) return "`==` compares two values; `=` gives one a name";
    if (is_one_of(word, length, named))
        return "the name stands between the word and `=`: loss ce = cross_entropy(logits, y)";
    if (!p->depth || p->stack[p->depth - 1].kind != '(') return NULL;
    return "keywords are written once, after the positional arguments: f(x, size = 3)";
}

/* A broken block, model or section may leave lines behind, a constant doesn't. */
fe_ast *fe_broken_item(fe_parser *p, mpc_span at) {
    static const char *const lines[] = {"const", "use", NULL};
    size_t size, length;
    const char *text = source(p, &size);
    const char *word = line_word(text, at.begin, &length);
    if (!is_one_of(word, length, lines)) p->stray = true;
    return fe_broken(p);
}

static bool ends_line(const char *text, uint32_t at) {
    while (is_blank(text[at])) at++;
    return !text[at] || text[at] == '\n' || text[at] == '\r' || text[at] == '#';
}

static const char *values_help(const fe_parser *p) {
    if (p->depth && p->stack[p->depth - 1].kind != '{') return "a `,` stands between two values";
    return "an operator stands between two values; a statement ends with its line";
}

/* At the first or second character of `//` or `/ *`. */
static bool is_foreign_comment(const char *text, uint32_t at) {
    bool slash = at > 0 && text[at - 1] == '/';
    if (text[at] == '/') return slash || text[at + 1] == '/' || text[at + 1] == '*';
    return text[at] == '*' && slash;
}

/* What the user most likely meant, for the mistakes that other languages teach. */
static const char *syntax_help(const fe_parser *p, const fe_unexpected *u, const char *text, bool shown) {
    size_t length = 0;
    const char *word = line_word(text, u->span.begin, &length);
    size_t width = shown ? u->span.end - u->span.begin : 0;
    if (shown && is_foreign_comment(text, u->span.begin)) return "comments begin with `#`";
    if (is_word(text + u->span.begin, width, "else")) return "`else` stands on the line of the closing brace: } else {";
    const char *help = foreign_help(word, length);
    if (help) return help;
    if (strcmp(u->symbol, "the end of the line") == 0)
        return strstr(u->expected, "`{`") ? "`{` stands on the line of what it opens"
                                          : "a statement goes on in the next line only inside of ( ) and [ ]";
    if (strcmp(u->symbol, ":") == 0 && ends_line(text, u->span.end)) return "a body stands in braces: { ... }";
    if (strcmp(u->symbol, "=") == 0) return equals_help(p, word, length);
    if (is_word(text + u->span.begin, width, "@")) return "the product of matrices is matmul(a, b)";
    if (p->depth == 0 && first_on_line(text, u->span.begin))
        return "outside of braces stand `const`, `block`, `model` and the sections `data`, `train`, `params`, "
               "`policy`; was something closed too early?";
    if (strcmp(u->symbol, "{") == 0) return "`{` opens the body of block, model, repeat, if, or a section";
    if (strncmp(u->symbol, "a ", 2) == 0 && !first_on_line(text, u->span.begin)) return values_help(p);
    return NULL;
}

/* "y = relu(x" and the next line, or a brace: said of the bracket, which is given up. `depth` brackets surround the
 * token. When the bracket is closed further on, the mistake is another one. */
static bool report_open_bracket(fe_parser *p, const fe_unexpected *u, const char *text, uint32_t depth) {
    if (!depth || p->stack[depth - 1].kind == '{') return false;
    size_t word = 0;
    const char *first = line_word(text, u->span.begin, &word);
    bool assigns = strcmp(u->symbol, "=") == 0 && word > 0;
    bool next_line =
        (first_on_line(text, u->span.begin) || assigns) && (size_t)(first - text) > p->stack[depth - 1].offset;
    if (!next_line && strcmp(u->symbol, "{") != 0) return false;
    if (closes_later(p, u->span.begin, 1)) return false;
    fe_report r = unclosed(p, p->stack[depth - 1]);
    fe_second(&r, u->span, "before this a `%c` was needed", p->stack[depth - 1].kind == '(' ? ')' : ']');
    fe_send(&r);
    uint32_t keep = depth;
    while (keep && p->stack[keep - 1].kind != '{') keep--;
    give_up(p, keep, depth);
    fe_recover_begin(p, keep);
    return true;
}

static bool is_assigned(const char *text, uint32_t at) {
    while (is_blank(text[at])) at++;
    return text[at] == '=' && text[at + 1] != '=';
}

static void report(const fe_parser *p, const fe_unexpected *u, const char *text, size_t length) {
    static const char *const words[] = {"const", "block",  "model",  "return", "repeat", "if",  "else", "in",    "as",
                                        "loss",  "metric", "output", "or",     "and",    "not", "true", "false", NULL};
    size_t width = u->span.end - u->span.begin;
    bool shown = u->span.end <= length && width > 0 && text[u->span.begin] != '\n' && text[u->span.begin] != '\r';
    mpc_str what = {0};
    if (shown) mpc_str_printf(&what, "`%.*s`", (int)(width > 40 ? 40 : width), text + u->span.begin);
    else if (strcmp(u->symbol, "end of file") == 0 || strcmp(u->symbol, "\"end of file\"") == 0)
        mpc_str_append(&what, "the end of the text");
    else fe_parse_symbol(u->symbol, &what);
    bool taken = shown && u->wants_name && is_one_of(text + u->span.begin, width, words) &&
                 (!first_on_line(text, u->span.begin) || is_assigned(text, u->span.end));
    fe_report r = taken ? fe_begin(p->diag, MPC_SEV_ERROR, "E002", u->span,
                                   "%s is a word of the language and can't be a name", mpc_str_cstr(&what))
                        : fe_begin(p->diag, MPC_SEV_ERROR, "E002", u->span, "%s was not expected here%s",
                                   mpc_str_cstr(&what), u->expected);
    const char *help = syntax_help(p, u, text, shown);
    size_t digits = shown && strcmp(u->symbol, ".") == 0 ? strspn(text + u->span.end, "0123456789") : 0;
    if (digits) fe_help(&r, "a number begins with a digit: 0.%.*s", (int)digits, text + u->span.end);
    else if (help) fe_help(&r, "%s", help);
    fe_send(&r);
    mpc_str_free(&what);
}

void fe_parse_unexpected(fe_parser *p, const fe_unexpected *u) {
    size_t length = 0;
    const char *text = source(p, &length);
    /* the token may be a bracket that is on the stack already */
    uint32_t depth = p->depth && p->stack[p->depth - 1].offset == u->span.begin && u->span.end > u->span.begin
                         ? p->depth - 1
                         : p->depth;
    if (p->quiet || p->deep || p->no_memory) return;
    if (p->stray && depth == 0 && first_on_line(text, u->span.begin)) {
        fe_recover_begin(p, depth);
        return;
    }
    if (report_open_bracket(p, u, text, depth)) return;
    report(p, u, text, length);
    fe_recover_begin(p, depth);
}

void fe_parse_exhausted(fe_parser *p, mpc_span span) {
    if (!p->quiet && !p->deep && !p->no_memory) fe_error(p->diag, "E004", span, "this nests too deeply to be read");
    p->failed = p->deep = true;
}
