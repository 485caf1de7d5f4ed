/* What stands below each other. Keys of a section always do; in bodies it is the author's choice, which is seen from
 * the text: tokens of neighbouring lines that begin in one column there, one of them behind more blanks than it needs.
 * So aligned lines stay aligned when one of them changes its length, and others are left alone. */
#include "frontend/fe_fmt.h"

typedef struct run { /* neighbouring lines with an anchor in one column of the text */
    uint32_t first, last;
    int anchor;
    bool padded, always;
} run;

/* Column of a token in the new layout, if nothing breaks before it. */
static uint32_t column_of(const fmt *f, const fmt_line *l, uint32_t token) {
    return l->indent * FMT_INDENT + fmt_flat_width(f, l->first, token) + f->tokens.data[token].gap;
}

static bool is_comment(const fmt *f, const fmt_line *l) { return f->tokens.data[l->first].t.kind == FE_TOKEN_COMMENT; }

/* Had the text more blanks before the token than it needs? */
static bool is_padded(const fmt *f, uint32_t token) {
    const fe_token *t = &f->tokens.data[token].t, *before = &f->tokens.data[token - 1].t;
    return t->newlines == 0 && t->column > before->column + before->width + f->tokens.data[token].gap;
}

static bool is_always(const fmt_line *l, int anchor) {
    return anchor == 1 && (l->kind == FMT_ENTRY || l->kind == FMT_INPUT);
}

static bool belongs(const fmt *f, const run *r, const fmt_line *l) {
    const fmt_line *first = &f->lines.data[r->first];
    uint32_t a = first->anchors[r->anchor], b = l->anchors[r->anchor];
    if (l->blank || l->kind != first->kind || l->indent != first->indent || b == FMT_NONE) return false;
    return r->always || f->tokens.data[a].t.column == f->tokens.data[b].t.column;
}

/* A weight stands on the line of its loss only if all of it fits there. */
static bool fits(const fmt *f, const fmt_line *l, int anchor, uint32_t pad) {
    if (anchor != 2) return true;
    return l->indent * FMT_INDENT + fmt_flat_width(f, l->first, l->last) + pad <= FMT_WIDTH;
}

static void align_run(fmt *f, const run *r) {
    if (!r->always && !r->padded) return;
    uint32_t column = 0;
    for (uint32_t i = r->first; i < r->last; i++) {
        const fmt_line *l = &f->lines.data[i];
        uint32_t at = is_comment(f, l) ? 0 : column_of(f, l, l->anchors[r->anchor]);
        if (at > column) column = at;
    }
    for (uint32_t i = r->first; i < r->last; i++) {
        const fmt_line *l = &f->lines.data[i];
        if (!is_comment(f, l) && !fits(f, l, r->anchor, column - column_of(f, l, l->anchors[r->anchor]))) return;
    }
    for (uint32_t i = r->first; i < r->last; i++) {
        const fmt_line *l = &f->lines.data[i];
        if (is_comment(f, l)) continue;
        uint32_t token = l->anchors[r->anchor];
        f->tokens.data[token].gap += column - column_of(f, l, token);
    }
}

static void align_anchor(fmt *f, int anchor) {
    for (uint32_t i = 0; i < f->lines.count;) {
        const fmt_line *l = &f->lines.data[i];
        run r = {.first = i, .last = i + 1, .anchor = anchor};
        if (l->anchors[anchor] == FMT_NONE) {
            i++;
            continue;
        }
        r.always = is_always(l, anchor);
        r.padded = is_padded(f, l->anchors[anchor]);
        for (uint32_t k = i + 1; k < f->lines.count; k++) {
            const fmt_line *next = &f->lines.data[k];
            if (is_comment(f, next) && !next->blank) continue;
            if (!belongs(f, &r, next)) break;
            r.padded = r.padded || is_padded(f, next->anchors[anchor]);
            r.last = k + 1;
        }
        if (r.last > r.first + 1 || r.always) align_run(f, &r);
        i = r.last;
    }
}

void fmt_align(fmt *f) {
    for (int anchor = 0; anchor < FMT_ANCHORS; anchor++) align_anchor(f, anchor);
}
