/* CSV text to a table of f32. One pass over the bytes; cells that aren't numbers become NaN plus an issue of their
 * column, since a column that no field asks for may hold anything. Ragged rows and broken quotes are errors at once:
 * what they mean is unknown. */
#include "runtime/data/dataset_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

typedef struct csv_reader {
    mpc_dataset *d;
    const char *p, *end;
    char delimiter;
    uint32_t line;  /* of p, from 1 */
    bool irregular; /* empty lines or line ends inside quotes were seen: lines must be stored */
    mpc_str cell;   /* text of a cell that needed decoding */
} csv_reader;

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static bool at_cell_end(const csv_reader *r, const char *p) {
    return p == r->end || *p == r->delimiter || *p == '\n' || (*p == '\r' && (p + 1 == r->end || p[1] == '\n'));
}

/* A quoted cell at r->p, decoded into r->cell. */
static mpc_status quoted_cell(csv_reader *r) {
    uint32_t first = r->line;
    for (r->p++;; r->p++) {
        if (r->p == r->end)
            return mpc_data_error(r->d, "E215", first, 0, NULL, NULL, "a quote that begins here is never closed");
        if (*r->p == '"') {
            r->p++;
            if (r->p == r->end || *r->p != '"') break;
        }
        if (*r->p == '\n') {
            r->line++;
            r->irregular = true;
        }
        mpc_str_append_n(&r->cell, r->p, 1);
    }
    while (r->p < r->end && is_blank(*r->p) && *r->p != r->delimiter) r->p++;
    if (!at_cell_end(r, r->p))
        return mpc_data_error(r->d, "E215", r->line, 0, NULL, "a quote inside a quoted field is written twice: \"\"",
                              "text after the closing quote of a field");
    return MPC_OK;
}

/* Text of the cell at r->p, without blanks around it and quotes, in r->cell; r->p ends at the delimiter or line end. */
static mpc_status text_cell(csv_reader *r) {
    mpc_str_clear(&r->cell);
    while (r->p < r->end && is_blank(*r->p) && *r->p != r->delimiter) r->p++;
    if (r->p < r->end && *r->p == '"') return quoted_cell(r);
    const char *start = r->p;
    while (!at_cell_end(r, r->p)) r->p++;
    const char *stop = r->p;
    while (stop > start && is_blank(stop[-1])) stop--;
    mpc_str_append_n(&r->cell, start, (size_t)(stop - start));
    return MPC_OK;
}

/* Past a line end; true when there is one. */
static bool take_line_end(csv_reader *r) {
    if (r->p < r->end && *r->p == '\r') r->p++;
    if (r->p == r->end) return false;
    r->p++;
    r->line++;
    return true;
}

static void skip_empty_lines(csv_reader *r) {
    for (;;) {
        const char *q = r->p;
        while (q < r->end && is_blank(*q) && *q != r->delimiter) q++;
        if (q == r->end) r->p = q;
        if (q == r->end || (*q != '\n' && !(*q == '\r' && at_cell_end(r, q)))) return;
        r->p = q;
        r->irregular = true;
        if (!take_line_end(r)) return;
    }
}

static bool is_number_text(const char *text, size_t length, double *value) {
    const char *stop = mpc_data_parse_number(text, text + length, value);
    return stop == text + length && length > 0;
}

/* Counts the cells of the record at r->p; `text`: some cell is neither empty nor a number. Moves past the record. */
static mpc_status scan_record(csv_reader *r, int64_t *cells, bool *text) {
    *cells = 0;
    *text = false;
    for (;;) {
        if (text_cell(r) != MPC_OK) return MPC_FAILED;
        double value;
        if (r->cell.length > 0 && !is_number_text(r->cell.data, r->cell.length, &value)) *text = true;
        ++*cells;
        if (r->p == r->end || *r->p != r->delimiter) break;
        r->p++;
    }
    take_line_end(r);
    return r->cell.failed ? MPC_NO_MEMORY : MPC_OK;
}

static mpc_status read_names(csv_reader *r) {
    mpc_table *t = &r->d->table;
    t->names = mpc_alloc((size_t)t->columns * sizeof *t->names);
    if (!t->names) return MPC_NO_MEMORY;
    memset(t->names, 0, (size_t)t->columns * sizeof *t->names);
    for (int64_t c = 0; c < t->columns; c++) {
        if (text_cell(r) != MPC_OK) return MPC_FAILED;
        if (r->cell.failed) return MPC_NO_MEMORY;
        size_t good = mpc_data_utf8_prefix(mpc_str_cstr(&r->cell), r->cell.length);
        if (good < r->cell.length)
            return mpc_data_error(r->d, "E215", 1, c + 1, NULL, "save the file as UTF-8",
                                  "byte %zu of this name (0x%02X) is not UTF-8 text", good,
                                  (unsigned char)r->cell.data[good]);
        t->names[c] = mpc_alloc(r->cell.length + 1);
        if (!t->names[c]) return MPC_NO_MEMORY;
        memcpy(t->names[c], mpc_str_cstr(&r->cell), r->cell.length + 1);
        if (r->p < r->end && *r->p == r->delimiter) r->p++;
    }
    take_line_end(r);
    return MPC_OK;
}

/* The first integer of a column that f32 can't hold: from here on the column is kept in double too. */
static mpc_status make_wide(mpc_table *t, int64_t row, int64_t column) {
    double *wide = mpc_alloc((size_t)t->wide_rows * sizeof *wide);
    if (!wide) return MPC_NO_MEMORY;
    for (int64_t i = 0; i < row; i++) wide[i] = (double)t->values[i * t->columns + column];
    t->wide[column] = wide;
    return MPC_OK;
}

static mpc_status store_number(mpc_table *t, int64_t row, int64_t column, double value) {
    float narrow = (float)value;
    t->values[row * t->columns + column] = narrow;
    if (!t->wide[column]) {
        bool exact = (double)narrow == value || value != floor(value) || !isfinite(value);
        if (exact) return MPC_OK;
        if (make_wide(t, row, column) != MPC_OK) return MPC_NO_MEMORY;
    }
    t->wide[column][row] = value;
    return MPC_OK;
}

static void note_issue(mpc_table *t, int64_t row, int64_t column, mpc_cell_issue kind, const char *text) {
    t->values[row * t->columns + column] = NAN;
    if (t->wide[column]) t->wide[column][row] = NAN;
    mpc_column_issue *issue = &t->issues[column];
    if (issue->count++ > 0) return;
    issue->kind = kind;
    issue->row = (uint32_t)row;
    size_t n = strlen(text);
    if (n >= sizeof issue->text) {
        n = sizeof issue->text - 4;
        while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80) n--;
        memcpy(issue->text, text, n);
        memcpy(issue->text + n, "...", 4);
        return;
    }
    memcpy(issue->text, text, n + 1);
}

/* A cell the fast path refused: quoted, empty, not a number, or not finite. */
static mpc_status slow_cell(csv_reader *r, int64_t row, int64_t column) {
    if (text_cell(r) != MPC_OK) return MPC_FAILED;
    if (r->cell.failed) return MPC_NO_MEMORY;
    mpc_table *t = &r->d->table;
    const char *text = mpc_str_cstr(&r->cell);
    double value;
    if (r->cell.length == 0) note_issue(t, row, column, MPC_CELL_EMPTY, text);
    else if (!is_number_text(text, r->cell.length, &value)) note_issue(t, row, column, MPC_CELL_NOT_NUMBER, text);
    else if (!r->d->keep_nonfinite && !isfinite((float)value)) note_issue(t, row, column, MPC_CELL_NONFINITE, text);
    else return store_number(t, row, column, value);
    return MPC_OK;
}

static mpc_status read_cell(csv_reader *r, int64_t row, int64_t column) {
    const char *start = r->p;
    while (r->p < r->end && *r->p == ' ') r->p++;
    double value;
    const char *stop = mpc_data_parse_number(r->p, r->end, &value);
    if (stop && at_cell_end(r, stop) && isfinite((float)value)) {
        r->p = stop;
        return store_number(&r->d->table, row, column, value);
    }
    r->p = start;
    return slow_cell(r, row, column);
}

static mpc_status ragged(csv_reader *r, uint32_t line, int64_t got) {
    int64_t columns = r->d->table.columns;
    bool cut = r->p == r->end && got < columns;
    return mpc_data_error(r->d, "E211", line, 0, NULL, cut ? "this is the last row: is the file cut off?" : NULL,
                          "%lld fields, but the rows before have %lld", (long long)got, (long long)columns);
}

static mpc_status read_row(csv_reader *r, int64_t row) {
    int64_t columns = r->d->table.columns;
    uint32_t line = r->line;
    for (int64_t c = 0; c < columns; c++) {
        mpc_status status = read_cell(r, row, c);
        if (status != MPC_OK) return status;
        bool more = r->p < r->end && *r->p == r->delimiter;
        if (more != (c + 1 < columns)) {
            int64_t got = c + 1;
            while (r->p < r->end && *r->p == r->delimiter) {
                r->p++;
                got++;
                if (text_cell(r) != MPC_OK) return MPC_FAILED;
            }
            return ragged(r, line, got);
        }
        if (more) r->p++;
    }
    take_line_end(r);
    return MPC_OK;
}

static int64_t count_lines(const char *p, const char *end) {
    int64_t n = 1;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        n++;
        p++;
    }
    return n;
}

static mpc_status allocate_table(mpc_table *t, int64_t lines, int64_t bytes) {
    int64_t rows = (bytes + 1) / t->columns + 1; /* a cell takes a byte at least */
    if (rows > lines) rows = lines;
    t->wide_rows = rows;
    t->values = mpc_alloc((size_t)rows * (size_t)t->columns * sizeof *t->values);
    t->wide = mpc_alloc((size_t)t->columns * sizeof *t->wide);
    t->issues = mpc_alloc((size_t)t->columns * sizeof *t->issues);
    t->lines = mpc_alloc((size_t)rows * sizeof *t->lines);
    if (t->wide) memset(t->wide, 0, (size_t)t->columns * sizeof *t->wide);
    if (t->issues) memset(t->issues, 0, (size_t)t->columns * sizeof *t->issues);
    return t->values && t->wide && t->issues && t->lines ? MPC_OK : MPC_NO_MEMORY;
}

static mpc_status read_rows(csv_reader *r) {
    mpc_table *t = &r->d->table;
    int64_t lines = count_lines(r->p, r->end);
    if (lines >= UINT32_MAX) return mpc_data_error(r->d, "E215", 0, 0, NULL, NULL, "more than %u rows", UINT32_MAX - 1);
    mpc_status status = allocate_table(t, lines, r->end - r->p);
    if (status != MPC_OK) return status;
    r->irregular = false;
    t->first_line = r->line;
    for (skip_empty_lines(r); r->p < r->end; skip_empty_lines(r)) {
        t->lines[t->rows] = r->line;
        status = read_row(r, t->rows);
        if (status != MPC_OK) return status;
        t->rows++;
    }
    if (t->rows == 0) return mpc_data_error(r->d, "E214", 0, 0, NULL, NULL, "no rows of data in this file");
    if (!r->irregular) {
        mpc_free(t->lines);
        t->lines = NULL;
    }
    return MPC_OK;
}

static mpc_status check_bytes(const mpc_dataset *d, const char *text, size_t size) {
    const unsigned char *b = (const unsigned char *)text;
    if (size >= 2 && ((b[0] == 0xFF && b[1] == 0xFE) || (b[0] == 0xFE && b[1] == 0xFF)))
        return mpc_data_error(d, "E215", 0, 0, NULL, "save it as UTF-8", "this file is UTF-16 text");
    const char *zero = memchr(text, 0, size);
    if (zero)
        return mpc_data_error(d, "E215", 0, 0, NULL, NULL, "a zero byte at byte %zu: this is not a CSV file",
                              (size_t)(zero - text));
    return MPC_OK;
}

static mpc_status read_head(csv_reader *r, int header) {
    skip_empty_lines(r);
    if (r->p == r->end) return mpc_data_error(r->d, "E214", 0, 0, NULL, NULL, "this file is empty");
    csv_reader ahead = *r;
    bool text;
    mpc_status status = scan_record(&ahead, &r->d->table.columns, &text);
    r->cell = ahead.cell;
    if (status != MPC_OK) return status;
    if (header == 1 || (header < 0 && text)) return read_names(r);
    return MPC_OK;
}

mpc_status mpc_csv_parse(mpc_dataset *d, const char *text, size_t size, const mpc_csv_options *options) {
    if (check_bytes(d, text, size) != MPC_OK) return MPC_FAILED;
    csv_reader r = {
        .d = d, .p = text, .end = text + size, .line = 1, .delimiter = options->delimiter ? options->delimiter : ','};
    if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) r.p += 3;
    mpc_status status = read_head(&r, options->header);
    if (status == MPC_OK) status = read_rows(&r);
    mpc_str_free(&r.cell);
    return status;
}

double mpc_table_value(const mpc_table *t, int64_t row, int64_t column) {
    return t->wide[column] ? t->wide[column][row] : (double)t->values[row * t->columns + column];
}

void mpc_table_free(mpc_table *t) {
    for (int64_t c = 0; c < t->columns; c++) {
        if (t->wide) mpc_free(t->wide[c]);
        if (t->names) mpc_free(t->names[c]);
    }
    mpc_free(t->values);
    mpc_free(t->wide);
    mpc_free(t->issues);
    mpc_free(t->names);
    mpc_free(t->lines);
    *t = (mpc_table){0};
}
