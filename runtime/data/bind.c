/* Fields of the model against the data: which columns they mean, and a check of every value they will ever gather, so
 * that a wrong label is found before the first step and with its row, not as a NaN an hour later. */
#include "runtime/data/dataset_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static mpc_status field_error(const mpc_dataset *d, const mpc_data_field *f, const char *message, const char *label,
                              const char *note) {
    mpc_label at = {.span = f->span, .text = label};
    mpc_label about = {.text = note};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E203",
                     .message = message,
                     .place = f->span.file ? NULL : d->root->path,
                     .labels = &at,
                     .label_count = f->span.file ? 1 : 0,
                     .notes = &about,
                     .note_count = 1};
    if (d->sink.emit) d->sink.emit(d->sink.user, &diag);
    return MPC_FAILED;
}

static mpc_status no_such_columns(const mpc_dataset *d, const mpc_data_field *f) {
    char message[256], note[1200];
    const mpc_table *t = &d->root->table;
    snprintf(message, sizeof message, "the data have no `%s`", f->source);
    snprintf(note, sizeof note, "%s has %" PRId64 " columns, 0 to %" PRId64 ", and %s", d->root->path, t->columns,
             t->columns - 1, t->names ? "a header" : "no header");
    return field_error(d, f, message, "", note);
}

static mpc_status find_named(const mpc_dataset *d, const mpc_data_field *f, mpc_bound_field *out) {
    const mpc_table *t = &d->root->table;
    const char *begin = strchr(f->source, '"');
    const char *end = begin ? strrchr(begin + 1, '"') : NULL;
    if (!end || !t->names) return no_such_columns(d, f);
    int64_t found = -1;
    for (int64_t c = 0; c < t->columns; c++) {
        size_t n = (size_t)(end - begin - 1);
        if (strlen(t->names[c]) != n || memcmp(t->names[c], begin + 1, n) != 0) continue;
        if (found >= 0) return field_error(d, f, "two columns have this name", "", "take it by number: columns[i]");
        found = c;
    }
    if (found < 0) return no_such_columns(d, f);
    out->begin = found;
    out->end = found + 1;
    return MPC_OK;
}

/* "columns[i]", "columns[i:j]"; negative numbers count from the end, a missing one is the end. */
static bool parse_range(const char *text, int64_t columns, int64_t *begin, int64_t *end) {
    char *stop;
    *begin = strtoll(text, &stop, 10);
    bool one = *stop == ']';
    *end = one ? *begin + 1 : columns;
    if (one && *begin < 0) *begin += columns, *end = *begin + 1;
    if (!one && *stop != ':') return false;
    if (!one && stop[1] != ']') *end = strtoll(stop + 1, &stop, 10);
    if (*begin < 0) *begin += columns;
    if (*end < 0) *end += columns;
    return *begin >= 0 && *begin < *end && *end <= columns;
}

static mpc_status locate_field(const mpc_dataset *d, const mpc_data_field *f, mpc_bound_field *out) {
    out->field = *f;
    if (d->is_text) {
        out->begin = strcmp(f->source, "next(window)") == 0;
        if (!out->begin && strcmp(f->source, "window") != 0)
            return field_error(d, f, "a text has only `window` and `next(window)`", "", d->root->path);
        out->end = out->begin + d->root->tokens.length;
        return MPC_OK;
    }
    if (strncmp(f->source, "column[", 7) == 0) return find_named(d, f, out);
    if (strncmp(f->source, "columns[", 8) != 0 ||
        !parse_range(f->source + 8, d->root->table.columns, &out->begin, &out->end))
        return no_such_columns(d, f);
    return MPC_OK;
}

static mpc_status check_size(const mpc_dataset *d, const mpc_bound_field *b) {
    int64_t want = mpc_type_elements(&b->field.row_type), have = b->end - b->begin;
    if (want == have) return MPC_OK;
    mpc_str shape = {0};
    mpc_type_print(&b->field.row_type, &shape);
    char message[256], label[64];
    snprintf(message, sizeof message, "%" PRId64 " values can't become %s (%" PRId64 ")", have, mpc_str_cstr(&shape),
             want);
    mpc_str_free(&shape);
    snprintf(label, sizeof label, d->is_text ? "a window of %" PRId64 " characters" : "%" PRId64 " columns", have);
    return field_error(d, &b->field, message, label, d->root->path);
}

static mpc_status report_issue(const mpc_dataset *d, int64_t column) {
    const mpc_column_issue *issue = &d->root->table.issues[column];
    uint32_t line = mpc_dataset_line(d, issue->row);
    bool first = issue->row == 0 && !d->root->table.names;
    char more[96] = "";
    if (issue->count > 1) snprintf(more, sizeof more, " (%" PRId64 " of this column's cells)", issue->count);
    if (issue->kind == MPC_CELL_NONFINITE)
        return mpc_data_error(d, "E213", line, column + 1, issue->text,
                              "`nonfinite = keep` in the train section lets it through", "a value that is not finite%s",
                              more);
    if (issue->kind == MPC_CELL_EMPTY)
        return mpc_data_error(d, "E212", line, column + 1, NULL, NULL, "an empty field where a number is needed%s",
                              more);
    return mpc_data_error(d, "E212", line, column + 1, issue->text,
                          first ? "is this row a header? csv(..., header = true)" : NULL, "a number is needed here%s",
                          more);
}

typedef struct int_check { /* what one pass over an integer field found */
    int64_t bad;           /* rows out of range */
    int64_t same;          /* rows that hold the first bad value */
    int64_t row, column;   /* of the first bad value; row -1: none */
    double value, smallest, largest;
} int_check;

static void format_bounds(mpc_format format, double *low, double *high) {
    *low = format == MPC_FMT_i32 ? -2147483648.0 : format == MPC_FMT_i64 ? -9007199254740992.0 : 0;
    *high = format == MPC_FMT_i32    ? 2147483647.0
            : format == MPC_FMT_i64  ? 9007199254740992.0
            : format == MPC_FMT_bool ? 1
                                     : 255;
}

static double cell(const mpc_dataset *d, const mpc_bound_field *b, int64_t row, int64_t i) {
    int64_t r = mpc_dataset_root_row(d, row);
    if (d->is_text) return (double)d->root->tokens.data[r * d->root->tokens.length + b->begin + i];
    return mpc_table_value(&d->root->table, r, b->begin + i);
}

static mpc_status check_integer(const mpc_dataset *d, const mpc_bound_field *b, int64_t row, int64_t column, double v) {
    double low, high;
    format_bounds(b->field.row_type.format, &low, &high);
    if (v == floor(v) && v >= low && v <= high) return MPC_OK;
    mpc_str text = {0};
    if (v == floor(v) && fabs(v) < 1e15) mpc_str_printf(&text, "%.0f", v);
    else mpc_str_append_float(&text, (float)v);
    mpc_data_error(d, "E212", mpc_dataset_line(d, mpc_dataset_root_row(d, row)), b->begin + column + 1,
                   mpc_str_cstr(&text), NULL,
                   v == floor(v) ? "this number does not fit the input's type %s"
                                 : "a whole number is needed here (the input is %s)",
                   mpc_format_get(b->field.row_type.format)->name);
    mpc_str_free(&text);
    return MPC_FAILED;
}

static mpc_status scan_ints(const mpc_dataset *d, const mpc_bound_field *b, int_check *c) {
    int64_t rows = mpc_dataset_rows(d), width = b->end - b->begin;
    double lo = (double)b->field.lo, hi = (double)b->field.hi;
    *c = (int_check){.row = -1, .smallest = INFINITY, .largest = -INFINITY};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) {
            double v = cell(d, b, r, i);
            if (check_integer(d, b, r, i, v) != MPC_OK) return MPC_FAILED;
            c->smallest = fmin(c->smallest, v);
            c->largest = fmax(c->largest, v);
            if (hi <= lo || (v >= lo && v < hi)) continue;
            if (c->row < 0) c->row = r, c->column = i, c->value = v;
            c->bad++;
            c->same += v == c->value;
        }
    return MPC_OK;
}

/* 1437 -> "1,437" */
static void grouped(int64_t n, char out[32]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%" PRId64, n), k = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

static void range_help(const mpc_bound_field *b, const int_check *c, char *out, size_t size) {
    out[0] = '\0';
    if (c->smallest != (double)b->field.lo + 1 || c->largest != (double)b->field.hi) return;
    const char *where = b->field.where ? b->field.where : "";
    const char *arrow = strstr(where, " -> ");
    snprintf(out, size, "labels seem to start at %" PRId64 ": `input %.*s = %s - 1`", b->field.lo + 1,
             arrow ? (int)(arrow - where) : 1, arrow ? where : "x", b->field.source);
}

static mpc_status report_range(const mpc_dataset *d, const mpc_bound_field *b, const int_check *c) {
    const char *where = b->field.where ? b->field.where : "";
    bool label = strstr(where, "embedding") == NULL;
    char message[160], place[1100], note[1400], help[256], same[32], rows[32], bad[32], rest[64] = "";
    const char *kind = label ? "class" : "id", *kinds = label ? "classes" : "ids";
    snprintf(message, sizeof message, "%s %.0f in the data, but the model has %s %" PRId64 " to %" PRId64, kind,
             c->value, kinds, b->field.lo, b->field.hi - 1);
    uint32_t line = d->is_text ? 0 : mpc_dataset_line(d, mpc_dataset_root_row(d, c->row));
    snprintf(place, sizeof place, "%s, row %u, column %" PRId64 ": `%.0f`", d->root->path, line,
             b->begin + c->column + 1, c->value);
    grouped(c->same, same);
    grouped(c->bad, bad);
    grouped(mpc_dataset_rows(d) * (b->end - b->begin), rows);
    if (c->bad != c->same) snprintf(rest, sizeof rest, ", %s are out of range", bad);
    snprintf(note, sizeof note, "%s%s%s of %s rows have %.0f%s; the smallest %s is %.0f", where, where[0] ? "\n" : "",
             same, rows, c->value, rest, label ? "label" : "id", c->smallest);
    range_help(b, c, help, sizeof help);
    mpc_label about = {.text = note};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E201",
                     .message = message,
                     .place = place,
                     .notes = &about,
                     .note_count = 1,
                     .help = help[0] ? help : NULL};
    if (d->sink.emit) d->sink.emit(d->sink.user, &diag);
    return MPC_FAILED;
}

static mpc_status check_values(const mpc_dataset *d, const mpc_bound_field *b) {
    for (int64_t c = b->begin; !d->is_text && c < b->end; c++)
        if (d->root->table.issues[c].count > 0) return report_issue(d, c);
    if (b->field.row_type.format == MPC_FMT_f32) return MPC_OK;
    int_check c;
    if (d->is_text && b->field.lo <= 0 && d->root->tokens.vocabulary <= b->field.hi) return MPC_OK;
    if (scan_ints(d, b, &c) != MPC_OK) return MPC_FAILED;
    return c.row < 0 ? MPC_OK : report_range(d, b, &c);
}

static mpc_status check_format(const mpc_dataset *d, const mpc_data_field *f) {
    mpc_format format = f->row_type.format;
    bool integer = format == MPC_FMT_i32 || format == MPC_FMT_i64 || format == MPC_FMT_u8 || format == MPC_FMT_bool;
    if (integer || (format == MPC_FMT_f32 && !d->is_text)) return MPC_OK;
    return field_error(d, f,
                       d->is_text ? "characters are integers: the input must be i32"
                                  : "an input from a CSV is f32, i32, i64, u8 or bool",
                       "", d->root->path);
}

mpc_status mpc_dataset_bind(mpc_dataset *d, const mpc_data_field *fields, uint32_t field_count) {
    mpc_bound_field *bound = mpc_alloc((field_count ? field_count : 1) * sizeof *bound);
    if (!bound) return mpc_data_no_memory(d);
    mpc_status status = MPC_OK;
    for (uint32_t i = 0; i < field_count && status == MPC_OK; i++) {
        status = check_format(d, &fields[i]);
        if (status == MPC_OK) status = locate_field(d, &fields[i], &bound[i]);
        if (status == MPC_OK) status = check_size(d, &bound[i]);
        if (status == MPC_OK) status = check_values(d, &bound[i]);
    }
    if (status != MPC_OK) {
        mpc_free(bound);
        return status;
    }
    mpc_free(d->fields);
    d->fields = bound;
    d->field_count = field_count;
    return MPC_OK;
}
