/* Reads the text of index notation. Words are axes and are separated by blanks, so that they may be longer than a
 * letter: "bh" is one axis, never two. Spans point into the text, so that the caret stands under the axis; where the
 * text is no literal, or has escapes, they are the whole argument. */
#include <string.h>

#include "frontend/fe_axes.h"

typedef struct reader {
    fe_pattern *p;
    const char *text;
    uint32_t at;
    bool exact; /* offsets in the text are offsets in the file */
} reader;

static mpc_span span_of(const reader *r, uint32_t begin, uint32_t end) {
    mpc_span s = r->p->at->span;
    if (!r->exact) return s;
    return (mpc_span){s.file, s.begin + 1 + begin, s.begin + 1 + end};
}

static void refuse(reader *r, uint32_t begin, uint32_t end, const char *message, const char *help) {
    if (r->p->bad) return;
    r->p->bad = true;
    fe_report report = fe_begin(r->p->e->d, MPC_SEV_ERROR, "E028", span_of(r, begin, end), "%s", message);
    fe_help(&report, "%s", help);
    fe_send(&report);
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || ((unsigned char)c & 0x80);
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void skip_blanks(reader *r) {
    while (r->text[r->at] == ' ' || r->text[r->at] == '\t' || r->text[r->at] == '\n') r->at++;
}

static uint32_t find_word(const fe_pattern *p, const char *word, uint32_t length) {
    for (uint32_t i = 0; i < p->axis_count; i++)
        if (strlen(p->axes[i].word) == length && memcmp(p->axes[i].word, word, length) == 0) return i;
    return UINT32_MAX;
}

static uint32_t axis_of(reader *r, uint32_t begin, uint32_t length) {
    fe_pattern *p = r->p;
    uint32_t i = find_word(p, r->text + begin, length);
    if (i != UINT32_MAX) return i;
    if (p->axis_count == FE_MAX_AXES) {
        refuse(r, begin, begin + length, "this text names more axes than tensors have", "at most 24 in all");
        return 0;
    }
    const char *word = fe_format(p->e, "%.*s", (int)length, r->text + begin);
    p->axes[p->axis_count] = (fe_axis){.word = word, .span = span_of(r, begin, begin + length), .size = -1};
    return p->axis_count++;
}

static void add_axis(reader *r, fe_term *t, uint32_t axis, uint32_t begin, uint32_t end) {
    if (t->axis_count == FE_MAX_AXES) return;
    if (fe_find_axis(t, axis) != UINT32_MAX) {
        const char *word = r->p->axes[axis].word;
        refuse(r, begin, end, fe_format(r->p->e, "the axis `%s` stands here twice", word),
               t == &r->p->out ? "each axis of the result stands once"
                               : "a diagonal is not taken; give the second axis a name of its own");
        return;
    }
    t->axes[t->axis_count++] = axis;
}

static fe_group *begin_group(reader *r, fe_term *t, uint32_t begin) {
    if (t->group_count == FE_MAX_GROUPS) {
        refuse(r, begin, begin + 1, "a tensor has at most 8 axes", "join some of them: (a b)");
        return &t->groups[0];
    }
    fe_group *g = &t->groups[t->group_count++];
    *g = (fe_group){.first = t->axis_count};
    return g;
}

/* A word or `1`; false: it is neither. */
static bool read_axis(reader *r, fe_term *t) {
    uint32_t begin = r->at;
    if (r->text[begin] == '1' && !is_digit(r->text[begin + 1]) && !is_letter(r->text[begin + 1])) {
        r->at++;
        return true;
    }
    if (!is_letter(r->text[begin])) return false;
    while (is_letter(r->text[r->at]) || is_digit(r->text[r->at])) r->at++;
    add_axis(r, t, axis_of(r, begin, r->at - begin), begin, r->at);
    return true;
}

static void unexpected(reader *r) {
    uint32_t begin = r->at, end = r->at + (r->text[r->at] != 0);
    while (is_digit(r->text[end]) && is_digit(r->text[begin])) end++;
    refuse(r, begin, end, r->text[begin] ? "this is no axis" : "the pattern ends too early",
           "axes are words with blanks between them: \"b t (h d) -> b t h d\"; 1 is an axis of size 1, ... any axes");
}

static void read_joined(reader *r, fe_term *t) {
    uint32_t begin = r->at++;
    fe_group *g = begin_group(r, t, begin);
    for (skip_blanks(r); r->text[r->at] != ')' && !r->p->bad; skip_blanks(r))
        if (!read_axis(r, t)) unexpected(r);
    r->at += r->text[r->at] == ')';
    g->count = t->axis_count - g->first;
    g->span = span_of(r, begin, r->at);
}

static void read_group(reader *r, fe_term *t) {
    uint32_t begin = r->at;
    if (r->text[begin] == '(') {
        read_joined(r, t);
        return;
    }
    if (strncmp(r->text + begin, "...", 3) == 0) {
        r->at += 3;
        for (uint32_t i = 0; i < t->group_count; i++)
            if (t->groups[i].rest) refuse(r, begin, r->at, "`...` stands here twice", "it may stand once in a term");
        fe_group *g = begin_group(r, t, begin);
        g->rest = true;
        g->span = span_of(r, begin, r->at);
        return;
    }
    fe_group *g = begin_group(r, t, begin);
    if (!read_axis(r, t)) unexpected(r);
    g->count = t->axis_count - g->first;
    g->span = span_of(r, begin, r->at);
}

/* Up to a comma, an arrow or the end. */
static void read_term(reader *r, fe_term *t) {
    skip_blanks(r);
    uint32_t begin = r->at, end = r->at;
    while (r->text[r->at] && r->text[r->at] != ',' && strncmp(r->text + r->at, "->", 2) != 0 && !r->p->bad) {
        read_group(r, t);
        end = r->at;
        skip_blanks(r);
    }
    t->span = span_of(r, begin, end > begin ? end : begin + 1);
}

static void read_terms(reader *r) {
    fe_pattern *p = r->p;
    for (bool more = true; more && !p->bad;) {
        if (p->in_count == FE_MAX_TERMS) {
            refuse(r, r->at, r->at + 1, "too many operands", "at most 12");
            return;
        }
        read_term(r, &p->in[p->in_count++]);
        more = r->text[r->at] == ',';
        r->at += more;
    }
    if (p->bad) return;
    if (r->text[r->at] != '-') {
        refuse(r, 0, (uint32_t)strlen(r->text), "this pattern doesn't say what the axes of the result are",
               "write them after an arrow: \"i k, k j -> i j\"; \"i j ->\" is one number");
        return;
    }
    r->at += 2;
    read_term(r, &p->out);
    if (r->text[r->at]) unexpected(r);
}

/* Every axis of the result comes from an operand. */
static void check_sources(fe_pattern *p) {
    for (uint32_t k = 0; k < p->out.axis_count && !p->bad; k++) {
        uint32_t axis = p->out.axes[k];
        bool found = false;
        for (uint32_t i = 0; i < p->in_count; i++) found = found || fe_find_axis(&p->in[i], axis) != UINT32_MAX;
        if (found) continue;
        p->bad = true;
        fe_report r = fe_begin(p->e->d, MPC_SEV_ERROR, "E028", p->axes[axis].span, "the axis `%s` has no source",
                               p->axes[axis].word);
        fe_label(&r, "it stands in no operand");
        fe_help(&r, "an axis of size 1 is written 1; expand(x, shape) repeats a value along it");
        fe_send(&r);
    }
}

uint32_t fe_find_axis(const fe_term *t, uint32_t axis) {
    for (uint32_t i = 0; i < t->axis_count; i++)
        if (t->axes[i] == axis) return i;
    return UINT32_MAX;
}

fe_pattern *fe_parse_pattern(fe_call *c) {
    if (c->v[0].kind != FE_STRING) {
        fe_error(c->e->d, "E014", fe_arg_span(c, 0), "%s begins with a text of axes: \"b t (h d) -> b t h d\"",
                 c->fn->name);
        return NULL;
    }
    fe_pattern *p = fe_alloc(c->e, sizeof *p);
    if (!p) return NULL;
    memset(p, 0, sizeof *p);
    p->e = c->e;
    p->at = c->ast[0];
    mpc_span s = p->at->span;
    reader r = {.p = p, .text = c->v[0].s};
    r.exact = p->at->kind == AST_STRING && s.end - s.begin == strlen(r.text) + 2;
    read_terms(&r);
    if (!p->bad) check_sources(p);
    return p->bad ? NULL : p;
}
