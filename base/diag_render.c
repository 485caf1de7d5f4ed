/* Diagnostics as people read them: message, place, the source line with carets, notes, help. Labels are grouped by
 * source line; the first label gives the place. A newcomer would print bytes as columns: carets are placed by
 * characters, and tabs of the source line are repeated so that they stay under it. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/diag.h"

typedef struct mark { /* a label on one source line; columns count characters from 0 */
    const mpc_label *label;
    uint32_t line, begin, end;
} mark;

typedef struct renderer {
    const mpc_sources *sources;
    mpc_str *out;
    bool color;
    unsigned gutter;    /* digits of the largest line number */
    const char *accent; /* of the severity */
} renderer;

typedef MPC_ARRAY(mark) mark_array;

static const char *severity_name(mpc_severity severity) {
    static const char *const names[] = {"note", "warning", "error"};
    return names[severity];
}

static const char *severity_color(mpc_severity severity) {
    static const char *const colors[] = {"\x1b[1;36m", "\x1b[1;33m", "\x1b[1;31m"};
    return colors[severity];
}

static void paint(renderer *r, const char *color) {
    if (r->color) mpc_str_append(r->out, color);
}

static void paint_off(renderer *r) { paint(r, "\x1b[0m"); }

static void append_heading(renderer *r, const mpc_diag *diag) {
    paint(r, r->accent);
    mpc_str_append(r->out, severity_name(diag->severity));
    if (diag->code && diag->code[0]) mpc_str_printf(r->out, "[%s]", diag->code);
    paint_off(r);
    mpc_str_printf(r->out, ": %s", diag->message);
}

static void append_position(renderer *r, mpc_span span) {
    uint32_t line, column;
    mpc_sources_locate(r->sources, span.file, span.begin, &line, &column);
    mpc_str_printf(r->out, "%s:%u:%u", mpc_sources_name(r->sources, span.file), line, column);
}

static void append_place(renderer *r, const mpc_diag *diag) {
    if (diag->label_count && diag->labels[0].span.file) append_position(r, diag->labels[0].span);
    else if (diag->place) mpc_str_append(r->out, diag->place);
}

/* First byte and length of a 1-based line. */
static const char *find_line(const renderer *r, uint32_t file, uint32_t offset, size_t *length) {
    size_t total;
    const char *text = mpc_sources_text(r->sources, file, &total);
    size_t begin = offset < total ? offset : total, end = begin;
    while (begin > 0 && text[begin - 1] != '\n') begin--;
    while (end < total && text[end] != '\n') end++;
    if (end > begin && text[end - 1] == '\r') end--;
    *length = end - begin;
    return text + begin;
}

static uint32_t characters(const char *text, size_t length) {
    uint32_t count = 0;
    for (size_t i = 0; i < length; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* A span that goes on over the line's end is marked up to it. */
static mark make_mark(const renderer *r, const mpc_label *label) {
    mark m = {.label = label};
    mpc_sources_locate(r->sources, label->span.file, label->span.begin, &m.line, &m.begin);
    m.begin--;
    size_t length;
    const char *line = find_line(r, label->span.file, label->span.begin, &length);
    size_t total = 0;
    const char *text = mpc_sources_text(r->sources, label->span.file, &total);
    size_t begin = label->span.begin < total ? label->span.begin : total,
           end = label->span.end < total ? label->span.end : total;
    size_t line_end = (size_t)(line - text) + length;
    if (end > line_end) end = line_end;
    m.end = end > begin ? m.begin + characters(text + begin, end - begin) : m.begin + 1;
    if (m.end == m.begin) m.end++;
    return m;
}

static void append_gutter(renderer *r) { mpc_str_printf(r->out, "%*s | ", (int)r->gutter, ""); }

/* Blanks up to `column` from `*at`, with the source line's tabs. */
static void pad_to(renderer *r, const char *line, size_t length, uint32_t *at, uint32_t column) {
    size_t byte = 0;
    for (uint32_t c = 0; c < column; c++) {
        bool tab = byte < length && line[byte] == '\t';
        if (c >= *at) mpc_str_append(r->out, tab ? "\t" : " ");
        if (byte < length) byte++;
        while (byte < length && ((unsigned char)line[byte] & 0xc0) == 0x80) byte++;
    }
    if (column > *at) *at = column;
}

static void append_carets(renderer *r, const mark *m, uint32_t *at) {
    uint32_t begin = m->begin > *at ? m->begin : *at;
    if (begin >= m->end) return;
    paint(r, r->accent);
    for (uint32_t c = begin; c < m->end; c++) mpc_str_append(r->out, "^");
    paint_off(r);
    *at = m->end;
}

static void append_label_text(renderer *r, const mark *m) {
    if (m->label->text && m->label->text[0]) mpc_str_printf(r->out, " %s", m->label->text);
    mpc_str_append(r->out, "\n");
}

static void append_separate(renderer *r, const char *line, size_t length, const mark *marks, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t at = 0;
        append_gutter(r);
        pad_to(r, line, length, &at, marks[i].begin);
        append_carets(r, &marks[i], &at);
        append_label_text(r, &marks[i]);
    }
}

/* All carets in one row with the last label's text; the other texts below, from right to left, each under its caret. */
static void append_shared(renderer *r, const char *line, size_t length, const mark *marks, size_t count) {
    uint32_t at = 0;
    append_gutter(r);
    for (size_t i = 0; i < count; i++) {
        pad_to(r, line, length, &at, marks[i].begin);
        append_carets(r, &marks[i], &at);
    }
    append_label_text(r, &marks[count - 1]);
    for (size_t i = count - 1; i-- > 0;) {
        if (!marks[i].label->text || !marks[i].label->text[0]) continue;
        append_gutter(r);
        at = 0;
        pad_to(r, line, length, &at, marks[i].begin);
        mpc_str_printf(r->out, "%s\n", marks[i].label->text);
    }
}

static bool is_silent(const mark *m) { return !m->label->text || !m->label->text[0]; }

/* Labels of one line. One without text only gives the place, if another one has something to say. */
static void append_line(renderer *r, mark *marks, size_t count) {
    size_t length, kept = 0;
    const char *line = find_line(r, marks[0].label->span.file, marks[0].label->span.begin, &length);
    mpc_str_printf(r->out, "%*u | ", (int)r->gutter, marks[0].line);
    mpc_str_append_n(r->out, line, length);
    mpc_str_append(r->out, "\n");
    bool any_text = false, short_marks = true;
    for (size_t i = 0; i < count; i++) any_text = any_text || !is_silent(&marks[i]);
    for (size_t i = 0; i < count; i++)
        if (!any_text || !is_silent(&marks[i])) marks[kept++] = marks[i];
    for (size_t i = 0; i < kept; i++) short_marks = short_marks && marks[i].end - marks[i].begin == 1;
    if (short_marks) append_shared(r, line, length, marks, kept);
    else append_separate(r, line, length, marks, kept);
}

static bool comes_before(const mark *a, const mark *b) {
    if (a->line != b->line) return a->line < b->line;
    return a->begin < b->begin;
}

static void sort_marks(mark *marks, size_t count) {
    for (size_t i = 1; i < count; i++) {
        mark m = marks[i];
        size_t j = i;
        for (; j > 0 && comes_before(&m, &marks[j - 1]); j--) marks[j] = marks[j - 1];
        marks[j] = m;
    }
}

/* Marks of one file, as lines in order. */
static void append_file(renderer *r, mark *marks, size_t count) {
    sort_marks(marks, count);
    for (size_t i = 0; i < count;) {
        size_t next = i + 1;
        while (next < count && marks[next].line == marks[i].line) next++;
        append_line(r, marks + i, next - i);
        i = next;
    }
}

static void set_gutter(renderer *r, const mark_array *marks) {
    uint32_t largest = 1;
    for (size_t i = 0; i < marks->count; i++)
        if (marks->data[i].line > largest) largest = marks->data[i].line;
    for (r->gutter = 0; largest; largest /= 10) r->gutter++;
}

/* The labels' files in order of their first label; moves the marks of one file to the front of the rest. */
static void append_labels(renderer *r, mark_array *marks) {
    for (size_t begin = 0; begin < marks->count;) {
        uint32_t file = marks->data[begin].label->span.file;
        size_t end = begin + 1;
        for (size_t i = end; i < marks->count; i++) {
            if (marks->data[i].label->span.file != file) continue;
            mark m = marks->data[i];
            memmove(&marks->data[end + 1], &marks->data[end], (i - end) * sizeof m);
            marks->data[end++] = m;
        }
        if (begin) {
            mpc_str_append(r->out, "  --> ");
            append_position(r, marks->data[begin].label->span);
            mpc_str_append(r->out, "\n");
        }
        append_file(r, marks->data + begin, end - begin);
        begin = end;
    }
}

/* Later lines of a text stand under the first. */
static void append_indented(renderer *r, const char *prefix, const char *text) {
    mpc_str_append(r->out, prefix);
    for (const char *newline; (newline = strchr(text, '\n')); text = newline + 1) {
        mpc_str_append_n(r->out, text, (size_t)(newline - text));
        mpc_str_append(r->out, "\n      ");
    }
    mpc_str_append(r->out, text);
    mpc_str_append(r->out, "\n");
}

static bool is_call_chain(const mpc_label *note) { return strncmp(note->text, "called from ", 12) == 0; }

static void append_notes(renderer *r, const mpc_diag *diag) {
    for (size_t i = 0; i < diag->note_count; i++) {
        if (is_call_chain(&diag->notes[i])) continue;
        append_indented(r, "note: ", diag->notes[i].text);
        if (!diag->notes[i].span.file) continue;
        mpc_str_append(r->out, "  --> ");
        append_position(r, diag->notes[i].span);
        mpc_str_append(r->out, "\n");
    }
    if (diag->help) append_indented(r, "help: ", diag->help);
    for (size_t i = 0; i < diag->note_count; i++)
        if (is_call_chain(&diag->notes[i])) mpc_str_printf(r->out, "%s\n", diag->notes[i].text);
}

static void render_short(renderer *r, const mpc_diag *diag) {
    size_t before = r->out->length;
    append_place(r, diag);
    if (r->out->length > before) mpc_str_append(r->out, ": ");
    append_heading(r, diag);
    mpc_str_append(r->out, "\n");
}

void mpc_diag_render(const mpc_diag *diag, const mpc_sources *sources, bool short_form, bool color, mpc_str *out) {
    renderer r = {.sources = sources, .out = out, .color = color, .accent = severity_color(diag->severity)};
    if (short_form) {
        render_short(&r, diag);
        return;
    }
    append_heading(&r, diag);
    mpc_str_append(out, "\n");
    mark_array marks = {0};
    for (size_t i = 0; i < diag->label_count; i++)
        if (diag->labels[i].span.file && !mpc_array_push(&marks, make_mark(&r, &diag->labels[i]))) out->failed = true;
    if (marks.count || diag->place) {
        mpc_str_append(out, "  --> ");
        append_place(&r, diag);
        mpc_str_append(out, "\n");
    }
    set_gutter(&r, &marks);
    append_labels(&r, &marks);
    append_notes(&r, diag);
    mpc_array_free(&marks);
}
