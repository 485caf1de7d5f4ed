/* A dataset: a table or a text, or a view of some of its rows. Views share the root's memory and have fields of their
 * own; row numbers are the view's everywhere but in messages, which name lines of the file. */
#include "runtime/data/dataset_impl.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/str.h"

mpc_dataset *mpc_dataset_create(const char *path, const mpc_sink *sink) {
    mpc_dataset *d = mpc_alloc(sizeof *d);
    if (!d) return NULL;
    *d = (mpc_dataset){.root = d};
    if (sink) d->sink = *sink;
    d->path = mpc_alloc(strlen(path) + 1);
    if (!d->path) {
        mpc_free(d);
        return NULL;
    }
    memcpy(d->path, path, strlen(path) + 1);
    return d;
}

void mpc_dataset_destroy(mpc_dataset *d) {
    if (!d) return;
    mpc_table_free(&d->table);
    mpc_free(d->tokens.data);
    mpc_free(d->tokens.points);
    mpc_free(d->tokens.text);
    mpc_free(d->view);
    mpc_free(d->fields);
    mpc_free(d->path);
    mpc_free(d);
}

mpc_dataset *mpc_dataset_open_csv(const char *path, const mpc_csv_options *options, const mpc_sink *sink) {
    char *text;
    size_t size;
    if (mpc_data_read_file(path, sink, &text, &size) != MPC_OK) return NULL;
    mpc_dataset *d = mpc_dataset_create(path, sink);
    mpc_status status = MPC_NO_MEMORY;
    if (d) {
        d->keep_nonfinite = options->keep_nonfinite;
        status = mpc_csv_parse(d, text, size, options);
    }
    mpc_free(text);
    if (status == MPC_OK) return d;
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "not enough memory for %s", path);
    mpc_dataset_destroy(d);
    return NULL;
}

static int64_t root_rows(const mpc_dataset *root) {
    return root->is_text ? (root->tokens.count - 1) / root->tokens.length : root->table.rows;
}

int64_t mpc_dataset_rows(const mpc_dataset *d) { return d->view ? d->view_rows : root_rows(d->root); }

int64_t mpc_dataset_root_row(const mpc_dataset *d, int64_t row) { return d->view ? d->view[row] : row; }

uint32_t mpc_dataset_line(const mpc_dataset *d, int64_t root_row) {
    const mpc_table *t = &d->root->table;
    return t->lines ? t->lines[root_row] : t->first_line + (uint32_t)root_row;
}

int64_t mpc_dataset_columns(const mpc_dataset *d) { return d->root->table.columns; }

const char *const *mpc_dataset_column_names(const mpc_dataset *d) { return (const char *const *)d->root->table.names; }

/* Marks the rows of the part: text is cut in two, so that no window of one part overlaps the other's; tables are drawn.
 */
static mpc_status mark_part(const mpc_dataset *of, int64_t n, int64_t part, uint64_t seed, bool *in_part) {
    memset(in_part, 0, (size_t)n);
    if (of->is_text) {
        for (int64_t i = n - part; i < n; i++) in_part[i] = true;
        return MPC_OK;
    }
    uint32_t *order = mpc_alloc((size_t)n * sizeof *order);
    if (!order) return MPC_NO_MEMORY;
    mpc_random_permutation(seed, mpc_hash_str("split"), 0, order, (uint32_t)n);
    for (int64_t i = n - part; i < n; i++) in_part[order[i]] = true;
    mpc_free(order);
    return MPC_OK;
}

static mpc_dataset *make_view(mpc_dataset *of, const bool *in_part, bool wanted, int64_t count) {
    mpc_dataset *d = mpc_dataset_create(of->path, &of->sink);
    if (!d) return NULL;
    d->root = of->root;
    d->is_text = of->is_text;
    d->keep_nonfinite = of->keep_nonfinite;
    d->view = mpc_alloc((size_t)count * sizeof *d->view);
    if (!d->view) {
        mpc_dataset_destroy(d);
        return NULL;
    }
    int64_t n = mpc_dataset_rows(of);
    for (int64_t i = 0; i < n; i++)
        if (in_part[i] == wanted) d->view[d->view_rows++] = (uint32_t)mpc_dataset_root_row(of, i);
    return d;
}

mpc_dataset *mpc_dataset_split(mpc_dataset *of, double fraction, uint64_t seed, bool rest) {
    int64_t n = mpc_dataset_rows(of);
    int64_t part = (int64_t)llround(fraction * (double)n);
    if (part < 0) part = 0;
    if (part > n) part = n;
    bool *in_part = mpc_alloc((size_t)n);
    mpc_dataset *d = NULL;
    if (in_part && mark_part(of, n, part, seed, in_part) == MPC_OK)
        d = make_view(of, in_part, !rest, rest ? n - part : part);
    mpc_free(in_part);
    return d;
}

void mpc_dataset_shuffle(const mpc_dataset *d, uint64_t seed, uint32_t epoch, uint32_t *order) {
    mpc_random_permutation(seed, mpc_hash_str("epoch"), epoch, order, (uint32_t)mpc_dataset_rows(d));
}

static void gather_floats(const mpc_dataset *d, const mpc_bound_field *f, const uint32_t *rows, int64_t n, float *out) {
    const mpc_table *t = &d->root->table;
    size_t width = (size_t)(f->end - f->begin);
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * width, t->values + mpc_dataset_root_row(d, rows[i]) * t->columns + f->begin,
               width * sizeof *out);
}

static void store_int(mpc_format format, void *out, size_t index, double value) {
    if (format == MPC_FMT_i32) ((int32_t *)out)[index] = (int32_t)value;
    else if (format == MPC_FMT_i64) ((int64_t *)out)[index] = (int64_t)value;
    else ((uint8_t *)out)[index] = (uint8_t)value;
}

static void gather_ints(const mpc_dataset *d, const mpc_bound_field *f, const uint32_t *rows, int64_t n, void *out) {
    const mpc_table *t = &d->root->table;
    size_t k = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t row = mpc_dataset_root_row(d, rows[i]);
        for (int64_t c = f->begin; c < f->end; c++)
            store_int(f->field.row_type.format, out, k++, mpc_table_value(t, row, c));
    }
}

static void gather_tokens(const mpc_dataset *d, const mpc_bound_field *f, const uint32_t *rows, int64_t n, void *out) {
    const mpc_tokens *t = &d->root->tokens;
    size_t length = (size_t)t->length;
    for (int64_t i = 0; i < n; i++) {
        const int32_t *from = t->data + mpc_dataset_root_row(d, rows[i]) * t->length + f->begin;
        if (f->field.row_type.format == MPC_FMT_i32)
            memcpy((int32_t *)out + (size_t)i * length, from, length * sizeof *from);
        else
            for (size_t k = 0; k < length; k++)
                store_int(f->field.row_type.format, out, (size_t)i * length + k, (double)from[k]);
    }
}

void mpc_dataset_gather(const mpc_dataset *d, uint32_t field, const uint32_t *rows, int64_t n, void *out) {
    const mpc_bound_field *f = &d->fields[field];
    if (d->is_text) gather_tokens(d, f, rows, n, out);
    else if (f->field.row_type.format == MPC_FMT_f32) gather_floats(d, f, rows, n, out);
    else gather_ints(d, f, rows, n, out);
}

mpc_status mpc_data_error(const mpc_dataset *d, const char *code, uint32_t line, int64_t column, const char *text,
                          const char *help, const char *format, ...) {
    char message[512], place[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    int n = snprintf(place, sizeof place, "%s", d->root->path);
    if (line && n > 0 && (size_t)n < sizeof place) n += snprintf(place + n, sizeof place - (size_t)n, ", row %u", line);
    if (column && n > 0 && (size_t)n < sizeof place)
        n += snprintf(place + n, sizeof place - (size_t)n, ", column %lld", (long long)column);
    if (text && n > 0 && (size_t)n < sizeof place) snprintf(place + n, sizeof place - (size_t)n, ": `%s`", text);
    mpc_diag diag = {.severity = MPC_SEV_ERROR, .code = code, .message = message, .place = place, .help = help};
    if (d->sink.emit) d->sink.emit(d->sink.user, &diag);
    return MPC_FAILED;
}

mpc_status mpc_data_no_memory(const mpc_dataset *d) {
    mpc_data_error(d, "E901", 0, 0, NULL, NULL, "not enough memory for this file");
    return MPC_FAILED;
}
