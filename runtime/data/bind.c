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

static mpc_status locate_window(const mpc_dataset *d, const mpc_data_field *f, mpc_bound_field *out) {
    out->begin = strcmp(f->source, "next(window)") == 0;
    if (!out->begin && strcmp(f->source, "window") != 0)
        return field_error(d, f, "text and tokens have only `window` and `next(window)`", "", d->root->path);
    out->stride = d->root->tokens.length;
    out->end = out->begin + out->stride;
    out->array = &d->root->arrays.data[0];
    return MPC_OK;
}

static mpc_status no_such_array(const mpc_dataset *d, const mpc_data_field *f) {
    mpc_str message = {0}, note = {0};
    mpc_str_printf(&message, "the data have no `%s`", f->source);
    mpc_str_printf(&note, "%s has", d->root->path);
    for (size_t i = 0; i < d->root->arrays.count; i++)
        mpc_str_printf(&note, "%s field[\"%s\"]", i ? "," : "", d->root->arrays.data[i].name);
    if (d->root->table.columns > 0) mpc_str_printf(&note, " %" PRId64 " columns", d->root->table.columns);
    mpc_status status = field_error(d, f, mpc_str_cstr(&message), "", mpc_str_cstr(&note));
    mpc_str_free(&message);
    mpc_str_free(&note);
    return status;
}

/* field["x"], images, labels. */
static mpc_status locate_array(const mpc_dataset *d, const mpc_data_field *f, mpc_bound_field *out) {
    const char *name = f->source;
    size_t n = strlen(name);
    if (strncmp(name, "field[\"", 7) == 0 && n > 9) {
        name += 7;
        n -= 9;
    }
    for (size_t i = 0; i < d->root->arrays.count; i++) {
        mpc_array *a = &d->root->arrays.data[i];
        if (strlen(a->name) != n || memcmp(a->name, name, n) != 0) continue;
        out->array = a;
        out->begin = 0;
        out->end = out->stride = mpc_array_width(a);
        if (a->dims[0] != d->root->rows)
            return field_error(d, f, "this field has another number of rows than the fields beside it", "", a->shown);
        return MPC_OK;
    }
    return no_such_array(d, f);
}

static mpc_status locate_field(const mpc_dataset *d, const mpc_data_field *f, mpc_bound_field *out) {
    *out = (mpc_bound_field){.field = *f};
    if (d->is_sequence) return locate_window(d, f, out);
    bool named = strncmp(f->source, "column[", 7) == 0, by_number = strncmp(f->source, "columns[", 8) == 0;
    if (!named && !by_number) return locate_array(d, f, out);
    if (d->root->table.columns == 0) return no_such_array(d, f);
    if (named) return find_named(d, f, out);
    return parse_range(f->source + 8, d->root->table.columns, &out->begin, &out->end) ? MPC_OK : no_such_columns(d, f);
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
    const char *unit = d->is_text       ? "a window of %" PRId64 " characters"
                       : d->is_sequence ? "a window of %" PRId64 " tokens"
                       : b->array       ? "%" PRId64 " numbers in a row"
                                        : "%" PRId64 " columns";
    snprintf(label, sizeof label, unit, have);
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

static double cell(const mpc_dataset *d, const mpc_bound_field *b, int64_t row, int64_t i) {
    int64_t r = mpc_dataset_root_row(d, row);
    return mpc_table_value(&d->root->table, r, b->begin + i);
}

static mpc_status check_integer(const mpc_dataset *d, const mpc_bound_field *b, int64_t row, int64_t column, double v) {
    double low, high;
    mpc_format_bounds(b->field.row_type.format, &low, &high);
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

static mpc_status scan_ints(const mpc_dataset *d, const mpc_bound_field *b, mpc_range_check *c) {
    int64_t rows = mpc_dataset_rows(d), width = b->end - b->begin;
    *c = mpc_range_begin();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < width; i++) {
            double v = cell(d, b, r, i);
            if (check_integer(d, b, r, i, v) != MPC_OK) return MPC_FAILED;
            mpc_range_see(c, &b->field, r, i, v);
        }
    return MPC_OK;
}

static mpc_status report_range(const mpc_dataset *d, const mpc_bound_field *b, const mpc_range_check *c) {
    char place[1100];
    snprintf(place, sizeof place, "%s, row %u, column %" PRId64, d->root->path,
             mpc_dataset_line(d, mpc_dataset_root_row(d, c->row)), b->begin + c->element + 1);
    return mpc_range_report(d, &b->field, c, place);
}

static mpc_status check_values(mpc_dataset *d, const mpc_bound_field *b) {
    if (b->array) {
        mpc_array *a = &d->root->arrays.data[b->array - d->root->arrays.data];
        return mpc_array_prepare(d, a) == MPC_OK ? mpc_array_check(d, b) : MPC_FAILED;
    }
    for (int64_t c = b->begin; c < b->end; c++)
        if (d->root->table.issues[c].count > 0) return report_issue(d, c);
    if (b->field.row_type.format == MPC_FMT_f32) return MPC_OK;
    mpc_range_check c;
    if (scan_ints(d, b, &c) != MPC_OK) return MPC_FAILED;
    return c.row < 0 ? MPC_OK : report_range(d, b, &c);
}

static mpc_status check_format(const mpc_dataset *d, const mpc_data_field *f) {
    mpc_format format = f->row_type.format;
    bool integer = format == MPC_FMT_i32 || format == MPC_FMT_i64 || format == MPC_FMT_u8 || format == MPC_FMT_bool;
    if (integer || (format == MPC_FMT_f32 && !d->is_sequence)) return MPC_OK;
    return field_error(d, f,
                       d->is_sequence ? "characters and tokens are integers: the input must be i32"
                                      : "an input from data is f32, i32, i64, u8 or bool",
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
