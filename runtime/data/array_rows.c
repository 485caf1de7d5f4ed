/* Rows of arrays as the numbers a model takes. What is in memory was checked as a whole when it was bound; what is read
 * from a large file is checked here, batch by batch, with the place of the wrong value. Places count rows and elements
 * from 0, as numpy does. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/data/dataset_impl.h"

enum { CHUNK = 1 << 15 };

typedef struct row_check { /* of one value of a field */
    const mpc_dataset *d;
    const mpc_bound_field *b;
    int64_t row, element; /* of the root; within the row */
} row_check;

/* "x.npy, row 3, element 7 (byte 164): `-1`" */
static void print_place(const row_check *c, const char *value, char *out, size_t size) {
    const mpc_array *a = c->b->array;
    int64_t number = c->row * c->b->stride + c->b->begin + c->element;
    int n;
    if (c->d->root->is_text) n = snprintf(out, size, "%s, character %" PRId64, a->shown, number + 1);
    else if (c->d->root->is_sequence) n = snprintf(out, size, "%s, token %" PRId64, a->shown, number);
    else n = snprintf(out, size, "%s, row %" PRId64, a->shown, c->row);
    if (!c->d->root->is_sequence && a->rank > 1 && n > 0 && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, ", element %" PRId64, c->element);
    if (a->member < 0 && !a->columns_first && !c->d->root->is_text && n > 0 && (size_t)n < size)
        n += snprintf(out + n, size - (size_t)n, " (byte %" PRIu64 ")", a->offset + (uint64_t)number * a->element.size);
    if (value && n > 0 && (size_t)n < size) snprintf(out + n, size - (size_t)n, ": `%s`", value);
}

static mpc_status refuse(const row_check *c, const char *code, double value, const char *message, const char *help) {
    char text[40], place[1400];
    if (value == floor(value) && fabs(value) < 1e15) snprintf(text, sizeof text, "%.0f", value);
    else snprintf(text, sizeof text, "%.9g", value);
    print_place(c, text, place, sizeof place);
    mpc_diag diag = {.severity = MPC_SEV_ERROR, .code = code, .message = message, .place = place, .help = help};
    if (c->d->sink.emit) c->d->sink.emit(c->d->sink.user, &diag);
    return MPC_FAILED;
}

static mpc_status refuse_type(const row_check *c, double value) {
    const char *type = mpc_format_get(c->b->field.row_type.format)->name;
    char message[128];
    snprintf(message, sizeof message,
             value == floor(value) ? "this number does not fit the input's type %s"
                                   : "a whole number is needed here (the input is %s)",
             type);
    return refuse(c, "E212", value, message, NULL);
}

static mpc_status refuse_range(const row_check *c, double value) {
    mpc_range_check found = mpc_range_begin();
    mpc_range_see(&found, &c->b->field, c->row, c->element, value);
    char place[1400];
    print_place(c, NULL, place, sizeof place);
    return mpc_range_report(c->d, &c->b->field, &found, place);
}

static bool fits(mpc_format format, int64_t v) {
    double low, high;
    if (format == MPC_FMT_i64) return true;
    mpc_format_bounds(format, &low, &high);
    return (double)v >= low && (double)v <= high;
}

static mpc_status take_integer(const row_check *c, const unsigned char *p, int64_t *v) {
    const mpc_data_field *f = &c->b->field;
    mpc_element e = c->b->array->element;
    if (mpc_element_integer(e, p, v) && fits(f->row_type.format, *v)) return MPC_OK;
    return refuse_type(c, mpc_element_number(e, p));
}

static mpc_status take_float(const row_check *c, const unsigned char *p, float *v) {
    mpc_element e = c->b->array->element;
    int64_t whole;
    bool integer = e.kind != MPC_ELEMENT_FLOAT && mpc_element_integer(e, p, &whole);
    double wide = mpc_element_number(e, p);
    *v = integer ? (float)whole : (float)wide;
    if (isfinite(*v) || c->d->keep_nonfinite) return MPC_OK;
    return refuse(c, "E213", wide, "a value that is not finite",
                  "`nonfinite = keep` in the train section lets it through");
}

static void store(mpc_format format, void *out, size_t index, int64_t v) {
    if (format == MPC_FMT_i32) ((int32_t *)out)[index] = (int32_t)v;
    else if (format == MPC_FMT_i64) ((int64_t *)out)[index] = v;
    else ((uint8_t *)out)[index] = (uint8_t)v;
}

/* `count` elements at `p`, from c->element on, into out[index...]. */
static mpc_status convert(row_check *c, const unsigned char *p, int64_t count, void *out, size_t index) {
    const mpc_data_field *f = &c->b->field;
    mpc_format format = f->row_type.format;
    size_t size = c->b->array->element.size;
    mpc_status status = MPC_OK;
    for (int64_t i = 0; i < count && status == MPC_OK; i++, p += size, c->element++, index++) {
        if (format == MPC_FMT_f32) {
            status = take_float(c, p, (float *)out + index);
            continue;
        }
        int64_t v;
        status = take_integer(c, p, &v);
        if (status != MPC_OK) return status;
        if (f->hi > f->lo && (v < f->lo || v >= f->hi)) return refuse_range(c, (double)v);
        store(format, out, index, v);
    }
    return status;
}

static mpc_status gather_row(const mpc_dataset *d, const mpc_bound_field *b, int64_t row, void *out, size_t index) {
    const mpc_array *a = b->array;
    int64_t width = b->end - b->begin, first = row * b->stride + b->begin;
    row_check c = {.d = d, .b = b, .row = row};
    if (a->memory) return convert(&c, a->memory + (size_t)first * a->element.size, width, out, index);
    unsigned char raw[CHUNK];
    int64_t step = CHUNK / a->element.size;
    for (int64_t i = 0; i < width; i += step) {
        int64_t n = width - i < step ? width - i : step;
        mpc_status status = mpc_array_read(d, a, first + i, n, raw);
        if (status == MPC_OK) status = convert(&c, raw, n, out, index + (size_t)i);
        if (status != MPC_OK) return status;
    }
    return MPC_OK;
}

mpc_status mpc_array_gather(const mpc_dataset *d, const mpc_bound_field *b, const uint32_t *rows, int64_t n,
                            void *out) {
    size_t width = (size_t)(b->end - b->begin);
    for (int64_t i = 0; i < n; i++)
        if (gather_row(d, b, mpc_dataset_root_row(d, rows[i]), out, (size_t)i * width) != MPC_OK) return MPC_FAILED;
    return MPC_OK;
}

/* One row of an integer field into `seen`, or the check of one row of a float field. */
static mpc_status check_row(row_check *c, mpc_range_check *seen) {
    const mpc_array *a = c->b->array;
    int64_t width = c->b->end - c->b->begin;
    const unsigned char *p = a->memory + (size_t)(c->row * c->b->stride + c->b->begin) * a->element.size;
    mpc_status status = MPC_OK;
    for (c->element = 0; c->element < width && status == MPC_OK; c->element++, p += a->element.size) {
        float f;
        int64_t v = 0;
        if (!seen) status = take_float(c, p, &f);
        else status = take_integer(c, p, &v);
        if (status != MPC_OK) return status;
        if (seen) mpc_range_see(seen, &c->b->field, c->row, c->element, (double)v);
    }
    return status;
}

mpc_status mpc_array_check(const mpc_dataset *d, const mpc_bound_field *b) {
    bool integer = b->field.row_type.format != MPC_FMT_f32;
    if (!b->array->memory) return MPC_OK; /* as it is gathered */
    if (!integer && (d->keep_nonfinite || b->array->element.kind != MPC_ELEMENT_FLOAT)) return MPC_OK;
    if (d->is_text && b->field.lo <= 0 && d->root->tokens.vocabulary <= b->field.hi) return MPC_OK;
    mpc_range_check seen = mpc_range_begin();
    int64_t rows = mpc_dataset_rows(d);
    row_check c = {.d = d, .b = b};
    for (int64_t r = 0; r < rows; r++) {
        c.row = mpc_dataset_root_row(d, r);
        if (check_row(&c, integer ? &seen : NULL) != MPC_OK) return MPC_FAILED;
    }
    if (seen.row < 0) return MPC_OK;
    char place[1400];
    c.row = seen.row;
    c.element = seen.element;
    print_place(&c, NULL, place, sizeof place);
    return mpc_range_report(d, &b->field, &seen, place);
}
