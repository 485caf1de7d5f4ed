/* Canonical layout of a `.mpg` file. It works on tokens, so nothing that the file says can be lost or changed: only
 * blanks, line ends, a comma before a closing bracket and what is added (the unit of a bare number, labels when they
 * are asked for) are the layout's to decide. Bodies stay on one line where they were written so and fit; everything
 * depends on the text alone, never on what names mean. Formatting twice gives what formatting once gave: whatever is
 * decided here by the old layout must come out the same from the new one. */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_fmt.h"
#include "frontend/fe_model.h"
#include "frontend/fe_train.h"
#include "mpg_parser.h"

/* --- brackets --- */

static bool opens(int kind) { return kind == '(' || kind == '[' || kind == '{'; }
static bool closes(int kind) { return kind == ')' || kind == ']' || kind == '}'; }

/* The parser accepted the text, so they pair. */
static void match_brackets(fmt *f) {
    uint32_t open = FMT_NONE; /* the innermost; `match` of an open one is the one around it meanwhile */
    for (uint32_t i = 0; i < f->tokens.count; i++) {
        fmt_token *t = &f->tokens.data[i];
        t->match = FMT_NONE;
        if (closes(t->t.kind) && open != FMT_NONE) {
            uint32_t around = f->tokens.data[open].match;
            f->tokens.data[open].match = i;
            t->match = open;
            open = around;
        }
        t->inside = open == FMT_NONE ? 0 : (char)f->tokens.data[open].t.kind;
        if (!opens(t->t.kind)) continue;
        t->match = open;
        open = i;
    }
}

/* What stands between an opening bracket and the end of its line decides where the rest goes. */
static void place_round(fmt *f, uint32_t open) {
    fmt_token *o = &f->tokens.data[open], *c = &f->tokens.data[o->match];
    const fmt_token *next = o + 1;
    o->split = c->split = next != c && (next->t.newlines > 0 || next->t.kind == FE_TOKEN_COMMENT);
    const fmt_token *end = c - 1;
    c->breaks = o->split || (end != o && end->t.kind == FE_TOKEN_COMMENT);
    if (end != o && end->t.kind == ',' && !o->split) f->tokens.data[o->match - 1].dropped = true;
}

static bool has_line_end(const fmt *f, uint32_t open) {
    uint32_t close = f->tokens.data[open].match;
    for (uint32_t i = open + 1; i <= close && close > open + 1; i++)
        if (f->tokens.data[i].t.newlines > 0 || f->tokens.data[i].t.kind == FE_TOKEN_COMMENT) return true;
    return false;
}

/* The body of the `else` behind a closing brace, or FMT_NONE. */
static uint32_t next_branch(const fmt *f, uint32_t close) {
    uint32_t i = close + 1;
    if (i >= f->tokens.count || f->tokens.data[i].t.kind != MPG_ELSE) return FMT_NONE;
    while (i < f->tokens.count && f->tokens.data[i].t.kind != '{') i++;
    return i < f->tokens.count ? i : FMT_NONE;
}

static void set_split(fmt *f, uint32_t open) {
    f->tokens.data[open].split = f->tokens.data[f->tokens.data[open].match].split = true;
}

/* All branches of an `if` are laid out alike. */
static void split_chain(fmt *f, uint32_t open) {
    for (uint32_t i = open; i != FMT_NONE; i = next_branch(f, f->tokens.data[i].match)) set_split(f, i);
}

static void place_braces(fmt *f, uint32_t open) {
    const fmt_token *before = open ? &f->tokens.data[open - 1] : NULL;
    fmt_token *o = &f->tokens.data[open];
    if (o->match == open + 1) f->tokens.data[o->match].t.newlines = 0;
    if (o->split || (before && before->t.kind == MPG_ELSE)) return; /* decided with the first branch */
    for (uint32_t i = open; i != FMT_NONE; i = next_branch(f, f->tokens.data[i].match)) {
        if (!has_line_end(f, i)) continue;
        split_chain(f, open);
        return;
    }
}

static void place_brackets(fmt *f) {
    for (uint32_t i = 0; i < f->tokens.count; i++) {
        fmt_token *t = &f->tokens.data[i];
        bool round = t->inside == '(' || t->inside == '[';
        if (round && !closes(t->t.kind)) t->breaks = t->t.newlines > 0;
        if (t->t.kind == '{') place_braces(f, i);
        else if (opens(t->t.kind)) place_round(f, i);
    }
}

/* --- lines --- */

uint32_t fmt_flat_width(const fmt *f, uint32_t first, uint32_t last) {
    uint64_t width = 0;
    for (uint32_t i = first; i < last; i++) {
        const fmt_token *t = &f->tokens.data[i];
        if (t->dropped || t->t.kind == FE_TOKEN_COMMENT) continue;
        width += t->width + (i > first ? t->gap : 0);
    }
    return width < UINT32_MAX ? (uint32_t)width : UINT32_MAX;
}

bool fmt_is_behind(const fmt *f, uint32_t token) {
    const fe_token *t = &f->tokens.data[token].t;
    return t->kind == FE_TOKEN_COMMENT && t->newlines == 0;
}

/* The token behind the line that begins at `first`; comments behind it are not part of it. */
static uint32_t line_end(const fmt *f, uint32_t first) {
    const fmt_token *t = f->tokens.data;
    if (t[first].t.kind == FE_TOKEN_COMMENT) return first + 1;
    for (uint32_t i = first; i < f->tokens.count; i++) {
        bool round = t[i].inside == '(' || t[i].inside == '[' || t[i].t.kind == ')' || t[i].t.kind == ']';
        if (i > first && !round && (t[i].t.newlines > 0 || t[i].t.kind == FE_TOKEN_COMMENT)) return i;
        if (i > first && t[i].t.kind == '}' && t[i].split) return i;
        if (t[i].t.kind == '{' && t[i].split) return i + 1;
        bool leaves = t[i].t.kind == '}' && t[i].split && i + 1 < f->tokens.count && t[i + 1].t.kind != MPG_ELSE;
        if (leaves) return i + 1;
    }
    return (uint32_t)f->tokens.count;
}

/* Bodies in a line that is too long get lines of their own, the outer ones first. */
static bool split_long(fmt *f, uint32_t first, uint32_t last, uint32_t indent) {
    if (indent * FMT_INDENT + fmt_flat_width(f, first, last) <= FMT_WIDTH) return false;
    bool any = false;
    for (uint32_t i = first; i < last; i++) {
        const fmt_token *t = &f->tokens.data[i];
        if (t->t.kind != '{' || t->split || t->match == i + 1) continue;
        split_chain(f, i);
        any = true;
        i = t->match;
    }
    return any;
}

static bool is_loss_like(int kind) { return kind == MPG_LOSS || kind == MPG_METRIC || kind == MPG_OUTPUT; }

static void find_anchors(const fmt *f, fmt_line *l) {
    const fmt_token *t = f->tokens.data;
    int kind = t[l->first].t.kind;
    bool globs = l->kind == FMT_ENTRY && kind == MPG_STRING;
    for (uint32_t i = l->first; i < l->last; i++) {
        if (t[i].breaks) break;
        if (opens(t[i].t.kind) && !(globs && t[i].t.kind == '{')) {
            if (l->anchors[1] == FMT_NONE) l->anchors[1] = l->first; /* none further on: a bracket may break */
            if (t[i].t.kind == '{') break;
        }
        bool outside = t[i].inside == t[l->first].inside;
        if (!outside) continue;
        bool aligned = t[i].t.kind == '=' || (globs && t[i].t.kind == '{');
        if (aligned && l->anchors[1] == FMT_NONE) l->anchors[1] = i;
        if (aligned && t[i].t.kind == '{') l->kind = FMT_GLOBS;
        if (t[i].modifier && t[i].gap == 2 && l->anchors[2] == FMT_NONE) l->anchors[2] = i;
    }
    if (l->anchors[1] == l->first) l->anchors[1] = FMT_NONE;
    if (is_loss_like(kind) && l->anchors[1] == l->first + 2) l->anchors[0] = l->first + 1;
}

static fmt_class class_of(const fmt *f, uint32_t first, bool section) {
    int kind = f->tokens.data[first].t.kind;
    bool names_input = kind == MPG_INPUT && first + 1 < f->tokens.count && f->tokens.data[first + 1].t.kind != '=';
    if (section) return names_input ? FMT_INPUT : FMT_ENTRY;
    return kind == MPG_CONST ? FMT_CONST : FMT_STATEMENT;
}

static bool begins_section(const fmt *f, uint32_t first) {
    int kind = f->tokens.data[first].t.kind;
    bool word = kind == MPG_DATA || kind == MPG_TRAIN || kind == MPG_PARAMS || kind == MPG_POLICY;
    return word && first + 1 < f->tokens.count && f->tokens.data[first + 1].t.kind == '{';
}

/* A blank line at the beginning or the end of a body is nobody's. */
static bool keeps_blank(const fmt *f, uint32_t first) {
    const fmt_token *t = &f->tokens.data[first];
    if (first == 0 || t->t.newlines < 2 || t->t.kind == '}') return false;
    const fmt_line *before = &f->lines.data[f->lines.count - 1];
    return f->tokens.data[before->last - 1].t.kind != '{' || !f->tokens.data[before->last - 1].split;
}

static void add_line(fmt *f, uint32_t first, uint32_t last, uint32_t indent, bool section) {
    fmt_line l = {.first = first,
                  .last = last,
                  .comment = FMT_NONE,
                  .indent = indent,
                  .blank = keeps_blank(f, first),
                  .kind = class_of(f, first, section),
                  .anchors = {FMT_NONE, FMT_NONE, FMT_NONE}};
    if (f->tokens.data[first].t.kind != FE_TOKEN_COMMENT) find_anchors(f, &l);
    if (last < f->tokens.count && fmt_is_behind(f, last)) l.comment = last;
    if (!mpc_array_push(&f->lines, l)) f->no_memory = true;
}

static void cut_lines(fmt *f) {
    uint32_t indent = 0;
    bool section = false;
    for (uint32_t i = 0; i < f->tokens.count && !f->no_memory;) {
        bool leaves = f->tokens.data[i].t.kind == '}' && f->tokens.data[i].split;
        uint32_t level = indent - (leaves && indent > 0);
        uint32_t last = line_end(f, i);
        if (split_long(f, i, last, level)) continue;
        if (level == 0) section = false;
        add_line(f, i, last, level, section);
        if (level == 0) section = begins_section(f, i);
        bool enters = f->tokens.data[last - 1].t.kind == '{' && f->tokens.data[last - 1].split;
        indent = level + enters;
        i = f->no_memory || f->lines.data[f->lines.count - 1].comment == FMT_NONE ? last : last + 1;
    }
}

/* --- what is written behind tokens --- */

fmt_token *fmt_find_token(fmt *f, uint32_t begin) {
    size_t at = fe_token_at(f->source, begin);
    return at < f->tokens.count && f->tokens.data[at].t.begin == begin ? &f->tokens.data[at] : NULL;
}

void fmt_split_quantity(const char *text, uint32_t *digits, uint32_t *unit) {
    *digits = (uint32_t)strcspn(text, " \t");
    *unit = *digits + (uint32_t)strspn(text + *digits, " \t");
}

void fmt_write_behind(fmt_token *t, const char *words) {
    t->added = words;
    t->width += (uint32_t)strlen(words);
}

static void add_unit(fmt *f, const fe_ast *number, const char *unit) {
    fmt_token *t = fmt_find_token(f, number->span.begin);
    if (t && t->t.kind == MPG_NUMBER) fmt_write_behind(t, unit);
}

/* A number of which only steps can be meant says so. */
static void complete_units(fmt *f, const fe_list *items) {
    for (const fe_ast *item = items->first; item; item = item->next) {
        if (item->kind != AST_SECTION || strcmp(item->text, "train") != 0) continue;
        for (const fe_ast *e = item->list.first; e; e = e->next) {
            const fe_ast *call = e->kind == AST_ENTRY && e->kid[0]->kind == AST_CALL ? e->kid[0] : NULL;
            bool named = call && call->kid[0]->kind == AST_NAME;
            for (const fe_ast *a = named ? call->list.first : NULL; a; a = a->next) {
                bool bare = a->text && (a->kid[0]->kind == AST_INT || a->kid[0]->kind == AST_FLOAT);
                if (bare && fe_train_counts_steps(call->kid[0]->text, a->text)) add_unit(f, a->kid[0], " steps");
            }
        }
    }
}

/* --- the whole --- */

/* Number and unit are one token, which keeps one of the blanks between them. */
static uint32_t written_width(const fmt *f, const fe_token *t) {
    if (t->kind != MPG_QUANTITY) return t->width;
    uint32_t digits, unit;
    fmt_split_quantity(f->source->text + t->begin, &digits, &unit);
    return t->width + 1 - (unit - digits);
}

static bool layout(fmt *f, mpc_arena *labels, mpc_str *out) {
    const fe_text *t = f->source;
    for (size_t i = 0; i < t->tokens.count; i++) {
        fmt_token token = {.t = t->tokens.data[i], .width = written_width(f, &t->tokens.data[i])};
        if (!mpc_array_push(&f->tokens, token)) return false;
    }
    match_brackets(f);
    place_brackets(f);
    complete_units(f, &t->items);
    if (labels && !fmt_name(f, labels, &t->items)) return false;
    fmt_space(f);
    cut_lines(f);
    if (f->no_memory) return false;
    fmt_align(f);
    return fmt_print(f, out);
}

bool mpc_format_file(mpc_context *ctx, uint32_t file, bool label, mpc_str *out) {
    mpc_arena *arena = mpc_arena_create();
    fe_text text = {0};
    bool ok = fe_text_read(ctx, arena, file, &text);
    if (ok) {
        fmt f = {.source = &text};
        ok = layout(&f, label ? arena : NULL, out) && !out->failed;
        mpc_array_free(&f.tokens);
        mpc_array_free(&f.lines);
        if (!ok) mpc_error(mpc_context_sink(ctx), "E901", "not enough memory to format this file");
    }
    fe_text_free(&text);
    mpc_arena_destroy(arena);
    return ok;
}
