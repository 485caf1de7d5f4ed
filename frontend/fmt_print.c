/* Writes the lines. Within brackets the author's line ends stay; a line that is still too long breaks behind the last
 * comma of the outermost bracket where that helps, else before an operator. What stands behind a break begins below the
 * first thing in its bracket, or, when nothing follows the bracket on its line, indented below that line. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_fmt.h"
#include "mpg_parser.h"

typedef struct open_bracket {
    uint32_t inner, outer; /* columns: of what stands in it, of its closing bracket when that begins a line */
} open_bracket;

typedef struct row { /* a line of the new text */
    size_t end;      /* of its code in `code` */
    uint32_t width;
    uint32_t comment; /* behind the code, or FMT_NONE */
} row;

typedef struct printer {
    fmt *f;
    mpc_str code; /* rows one after the other, without line ends and comments behind code */
    MPC_ARRAY(row) rows;
    open_bracket open[FE_MAX_DEPTH];
    uint32_t depth;
    uint32_t column, start; /* where the row stands, and where it began */
    bool no_memory;
} printer;

static bool opens(const fmt_token *t) { return t->t.kind == '(' || t->t.kind == '['; }
static bool closes(const fmt_token *t) { return t->t.kind == ')' || t->t.kind == ']'; }

static void add_blanks(printer *p, uint32_t n) {
    static const char blanks[] = "                                ";
    p->column += n;
    for (; n > 32; n -= 32) mpc_str_append_n(&p->code, blanks, 32);
    mpc_str_append_n(&p->code, blanks, n);
}

static void begin_row(printer *p, uint32_t column) {
    p->column = 0;
    p->start = column;
    add_blanks(p, column);
}

static void end_row(printer *p, uint32_t comment) {
    row r = {.end = p->code.length, .width = p->column, .comment = comment};
    if (!mpc_array_push(&p->rows, r)) p->no_memory = true;
}

static void add_token(printer *p, const fmt_token *t) {
    const char *text = p->f->source->text + t->t.begin;
    uint32_t size = t->t.end - t->t.begin;
    p->column += t->width;
    if (t->t.kind != MPG_QUANTITY) mpc_str_append_n(&p->code, text, size);
    else { /* number and unit, whatever stood between them */
        uint32_t digits, unit;
        fmt_split_quantity(text, &digits, &unit);
        mpc_str_append_n(&p->code, text, digits);
        mpc_str_append(&p->code, " ");
        mpc_str_append_n(&p->code, text + unit, size - unit);
    }
    if (t->added) mpc_str_append(&p->code, t->added);
}

/* --- where to break --- */

static bool is_operator(const fmt *f, uint32_t token) {
    int kind = f->tokens.data[token].t.kind;
    if (kind == '-') return !fmt_is_unary(f, token);
    return kind == '+' || kind == '*' || kind == '/' || kind == MPG_OR || kind == MPG_AND;
}

typedef struct candidate {
    uint32_t token, depth;
    bool comma;
} candidate;

/* Commas before operators, outer brackets before inner ones, the last of equals. */
static bool is_better(const candidate *a, const candidate *b) {
    if (b->token == FMT_NONE || a->comma != b->comma) return b->token == FMT_NONE || a->comma;
    return a->depth <= b->depth;
}

/* The token before which the row that begins with `first` breaks, or FMT_NONE. */
static uint32_t find_break(const printer *p, uint32_t first, uint32_t last) {
    const fmt_token *t = p->f->tokens.data;
    uint32_t column = p->column, depth = p->depth;
    candidate best = {.token = FMT_NONE};
    for (uint32_t i = first; i < last && !(i > first && t[i].breaks); i++) {
        if (t[i].dropped || t[i].t.kind == FE_TOKEN_COMMENT) continue;
        bool comma = i > first && t[i - 1].t.kind == ',';
        bool may = i > first && depth > 0 && t[i].inside != '{' && !closes(&t[i]) && (comma || is_operator(p->f, i));
        candidate here = {i, depth, comma};
        if (may && column <= FMT_WIDTH && is_better(&here, &best)) best = here;
        if (may && column > FMT_WIDTH && best.token == FMT_NONE) return i;
        column += (i > first ? t[i].gap : 0) + t[i].width;
        if (column > FMT_WIDTH && best.token != FMT_NONE) return best.token;
        if (opens(&t[i])) depth++;
        else if (closes(&t[i]) && depth > 0) depth--;
    }
    return FMT_NONE;
}

/* --- tokens --- */

static void open_or_close(printer *p, const fmt_token *t) {
    if (opens(t)) {
        uint32_t inner = t->split ? p->start + FMT_INDENT : p->column;
        if (p->depth < FE_MAX_DEPTH) p->open[p->depth++] = (open_bracket){inner, t->split ? p->start : p->column};
    } else if (closes(t) && p->depth > 0) p->depth--;
}

static uint32_t column_after_break(const printer *p, const fmt_token *t) {
    if (!p->depth) return p->start;
    const open_bracket *o = &p->open[p->depth - 1];
    return closes(t) ? o->outer : o->inner;
}

static void break_row(printer *p, uint32_t token, bool from_text) {
    const fmt_token *t = &p->f->tokens.data[token];
    end_row(p, fmt_is_behind(p->f, token - 1) ? token - 1 : FMT_NONE);
    if (from_text && t->t.newlines > 1 && !closes(t)) {
        p->column = 0;
        end_row(p, FMT_NONE);
    }
    begin_row(p, column_after_break(p, t));
}

static void print_line(printer *p, const fmt_line *l) {
    fmt_token *t = p->f->tokens.data;
    p->depth = 0;
    begin_row(p, l->indent * FMT_INDENT);
    uint32_t wrap = find_break(p, l->first, l->last);
    for (uint32_t i = l->first; i < l->last; i++) {
        if (t[i].dropped || (i > l->first && fmt_is_behind(p->f, i))) continue;
        bool breaks = i > l->first && (t[i].breaks || i == wrap);
        if (breaks) {
            break_row(p, i, t[i].breaks);
            wrap = find_break(p, i, l->last);
        } else if (i > l->first) add_blanks(p, t[i].gap);
        add_token(p, &t[i]);
        open_or_close(p, &t[i]);
    }
    end_row(p, l->comment);
}

/* --- comments behind code --- */

enum { COMMENT_GAP = 2 };

/* Comments of neighbouring rows that stand below each other in the text stay so: the end of such a run, and where its
 * comments go; 0: each close to its code. */
static size_t comment_run(const printer *p, size_t first, uint32_t *column) {
    const fmt_token *t = p->f->tokens.data;
    uint32_t source = t[p->rows.data[first].comment].t.column, widest = 0;
    bool padded = false;
    size_t i = first;
    for (; i < p->rows.count; i++) {
        const row *r = &p->rows.data[i];
        if (r->comment == FMT_NONE || t[r->comment].t.column != source) break;
        const fe_token *before = &t[r->comment - 1].t;
        padded = padded || source > before->column + before->width + COMMENT_GAP;
        if (r->width > widest) widest = r->width;
    }
    *column = padded && i > first + 1 ? widest + COMMENT_GAP : 0;
    return i;
}

static void write_row(const printer *p, size_t i, uint32_t column, mpc_str *out) {
    const row *r = &p->rows.data[i];
    size_t begin = i ? p->rows.data[i - 1].end : 0;
    mpc_str_append_n(out, p->code.data + begin, r->end - begin);
    if (r->comment != FMT_NONE) {
        const fe_token *c = &p->f->tokens.data[r->comment].t;
        mpc_str_printf(out, "%*s", (int)(column > r->width ? column - r->width : COMMENT_GAP), "");
        mpc_str_append_n(out, p->f->source->text + c->begin, c->end - c->begin);
    }
    mpc_str_append(out, "\n");
}

static void write_rows(const printer *p, mpc_str *out) {
    for (size_t i = 0; i < p->rows.count;) {
        uint32_t column = 0;
        size_t end = p->rows.data[i].comment == FMT_NONE ? i + 1 : comment_run(p, i, &column);
        for (; i < end; i++) write_row(p, i, column, out);
    }
}

bool fmt_print(fmt *f, mpc_str *out) {
    printer p = {.f = f};
    for (size_t i = 0; i < f->lines.count; i++) {
        if (f->lines.data[i].blank) {
            p.column = 0;
            end_row(&p, FMT_NONE);
        }
        print_line(&p, &f->lines.data[i]);
    }
    bool ok = !p.no_memory && !p.code.failed;
    if (ok) write_rows(&p, out);
    mpc_array_free(&p.rows);
    mpc_str_free(&p.code);
    return ok && !out->failed;
}
