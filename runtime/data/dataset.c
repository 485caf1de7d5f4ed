/* A dataset: rows of a table, of arrays or of windows, or a view of some of its rows. Views share the root's memory and
 * have fields of their own; row numbers are the view's everywhere but in messages, which name lines or rows of the
 * file. */
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
    for (size_t i = 0; i < d->arrays.count; i++) mpc_array_free_parts(&d->arrays.data[i]);
    mpc_array_free(&d->arrays);
    mpc_free(d->tokens.points);
    mpc_free(d->tokens.text);
    mpc_free(d->view.list);
    mpc_free(d->order);
    mpc_free(d->fields);
    mpc_free(d->path);
    mpc_free(d);
}

mpc_dataset *mpc_dataset_opened(mpc_dataset *d, mpc_status status, const char *path, const mpc_sink *sink) {
    if (status == MPC_OK) return d;
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "not enough memory for %s", path);
    mpc_dataset_destroy(d);
    return NULL;
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
        d->rows = d->table.rows;
    }
    mpc_free(text);
    return mpc_dataset_opened(d, status, path, sink);
}

int64_t mpc_dataset_rows(const mpc_dataset *d) { return d->of ? d->view.rows : d->rows; }

int64_t mpc_dataset_root_row(const mpc_dataset *d, int64_t row) {
    for (; d->of; d = d->of) {
        const mpc_view *v = &d->view;
        if (v->kind == MPC_VIEW_LIST) row = v->list[row];
        else if (v->kind == MPC_VIEW_RANGE) row += v->first;
        else row = mpc_drawn_row(v->seed, mpc_hash_str("split"), 0, (uint64_t)mpc_dataset_rows(d->of), v->first + row);
    }
    return row;
}

uint32_t mpc_dataset_line(const mpc_dataset *d, int64_t root_row) {
    const mpc_table *t = &d->root->table;
    return t->lines ? t->lines[root_row] : t->first_line + (uint32_t)root_row;
}

int64_t mpc_dataset_columns(const mpc_dataset *d) { return d->root->table.columns; }

const char *const *mpc_dataset_column_names(const mpc_dataset *d) { return (const char *const *)d->root->table.names; }

uint32_t mpc_dataset_array_count(const mpc_dataset *d) { return d->is_sequence ? 0 : (uint32_t)d->root->arrays.count; }

mpc_data_array mpc_dataset_array(const mpc_dataset *d, uint32_t index) {
    const mpc_array *a = &d->root->arrays.data[index];
    mpc_data_array info = {.name = a->name, .rank = a->rank ? a->rank - 1 : 0}; /* one that no mapping takes has no shape */
    for (uint32_t i = 1; i < a->rank; i++) info.dims[i - 1] = a->dims[i];
    return info;
}

/* Marks the rows of the part. */
static mpc_status mark_part(int64_t n, int64_t part, uint64_t seed, bool *in_part) {
    memset(in_part, 0, (size_t)n);
    uint32_t *order = mpc_alloc((size_t)n * sizeof *order);
    if (!order) return MPC_NO_MEMORY;
    mpc_random_permutation(seed, mpc_hash_str("split"), 0, order, (uint32_t)n);
    for (int64_t i = n - part; i < n; i++) in_part[order[i]] = true;
    mpc_free(order);
    return MPC_OK;
}

/* The drawn rows, or the others, in the order of the file. */
static mpc_status list_rows(mpc_view *v, int64_t n, int64_t part, uint64_t seed, bool rest) {
    bool *in_part = mpc_alloc((size_t)n);
    v->list = mpc_alloc((size_t)(rest ? n - part : part) * sizeof *v->list);
    mpc_status status = in_part && v->list ? mark_part(n, part, seed, in_part) : MPC_NO_MEMORY;
    for (int64_t i = 0, k = 0; status == MPC_OK && i < n; i++)
        if (in_part[i] != rest) v->list[k++] = (uint32_t)i;
    mpc_free(in_part);
    return status;
}

mpc_dataset *mpc_dataset_split(mpc_dataset *of, double fraction, uint64_t seed, bool rest) {
    int64_t n = mpc_dataset_rows(of);
    int64_t part = (int64_t)llround(fraction * (double)n);
    if (part < 0) part = 0;
    if (part > n) part = n;
    mpc_dataset *d = mpc_dataset_create(of->path, &of->sink);
    if (!d) return NULL;
    d->root = of->root;
    d->of = of;
    d->is_text = of->is_text;
    d->is_sequence = of->is_sequence;
    d->keep_nonfinite = of->keep_nonfinite;
    d->view = (mpc_view){.rows = rest ? n - part : part, .first = rest ? 0 : n - part, .seed = seed};
    /* windows are cut in two, so that none of one part overlaps the other's; other rows are drawn */
    d->view.kind = of->is_sequence ? MPC_VIEW_RANGE : n > MPC_DATA_LISTED_ROWS ? MPC_VIEW_DRAWN : MPC_VIEW_LIST;
    if (d->view.kind != MPC_VIEW_LIST || list_rows(&d->view, n, part, seed, rest) == MPC_OK) return d;
    mpc_dataset_destroy(d);
    return NULL;
}

/* The whole order of an epoch, made once and kept. */
static mpc_status make_order(mpc_dataset *d, uint64_t seed, uint32_t epoch, int64_t rows) {
    bool made = d->order != NULL;
    if (made && d->order_seed == seed && d->order_epoch == epoch) return MPC_OK;
    if (!made) d->order = mpc_alloc((size_t)rows * sizeof *d->order);
    if (!d->order) return mpc_data_no_memory(d);
    mpc_random_permutation(seed, mpc_hash_str("epoch"), epoch, d->order, (uint32_t)rows);
    d->order_seed = seed;
    d->order_epoch = epoch;
    return MPC_OK;
}

mpc_status mpc_dataset_order(mpc_dataset *d, uint64_t seed, uint32_t epoch, int64_t first, int64_t n, uint32_t *rows) {
    int64_t all = mpc_dataset_rows(d);
    if (all > MPC_DATA_LISTED_ROWS) {
        for (int64_t i = 0; i < n; i++)
            rows[i] = (uint32_t)mpc_drawn_row(seed, mpc_hash_str("epoch"), epoch, (uint64_t)all, first + i);
        return MPC_OK;
    }
    if (make_order(d, seed, epoch, all) != MPC_OK) return MPC_FAILED;
    memcpy(rows, d->order + first, (size_t)n * sizeof *rows);
    return MPC_OK;
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

mpc_status mpc_dataset_gather(const mpc_dataset *d, uint32_t field, const uint32_t *rows, int64_t n, void *out) {
    const mpc_bound_field *f = &d->fields[field];
    if (f->array) return mpc_array_gather(d, f, rows, n, out);
    if (f->field.row_type.format == MPC_FMT_f32) gather_floats(d, f, rows, n, out);
    else gather_ints(d, f, rows, n, out);
    return MPC_OK;
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
