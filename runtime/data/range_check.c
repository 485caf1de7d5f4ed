/* Integers against the range that the model needs of them: class numbers, rows of a table. The message counts how often
 * the first wrong value occurs, since one bad cell and labels that start at 1 have different remedies. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/data/dataset_impl.h"

void mpc_format_bounds(mpc_format format, double *low, double *high) {
    *low = format == MPC_FMT_i32 ? -2147483648.0 : format == MPC_FMT_i64 ? -9007199254740992.0 : 0;
    *high = format == MPC_FMT_i32    ? 2147483647.0
            : format == MPC_FMT_i64  ? 9007199254740992.0
            : format == MPC_FMT_bool ? 1
                                     : 255;
}

mpc_range_check mpc_range_begin(void) {
    return (mpc_range_check){.row = -1, .smallest = INFINITY, .largest = -INFINITY};
}

void mpc_range_see(mpc_range_check *c, const mpc_data_field *f, int64_t row, int64_t element, double v) {
    double lo = (double)f->lo, hi = (double)f->hi;
    c->smallest = fmin(c->smallest, v);
    c->largest = fmax(c->largest, v);
    c->total++;
    if (hi <= lo || (v >= lo && v < hi)) return;
    if (c->row < 0) {
        c->row = row;
        c->element = element;
        c->value = v;
    }
    c->bad++;
    c->same += v == c->value;
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

static void range_help(const mpc_data_field *f, const mpc_range_check *c, char *out, size_t size) {
    out[0] = '\0';
    if (c->smallest != (double)f->lo + 1 || c->largest != (double)f->hi) return;
    const char *where = f->where ? f->where : "";
    const char *arrow = strstr(where, " -> ");
    snprintf(out, size, "labels seem to start at %" PRId64 ": `input %.*s = %s - 1`", f->lo + 1,
             arrow ? (int)(arrow - where) : 1, arrow ? where : "x", f->source);
}

static void count_text(const mpc_range_check *c, bool label, mpc_str *out) {
    char same[32], all[32], bad[32];
    grouped(c->same, same);
    grouped(c->bad, bad);
    grouped(c->total, all);
    mpc_str_printf(out, "%s of %s rows have %.0f", same, all, c->value);
    if (c->bad != c->same) mpc_str_printf(out, ", %s are out of range", bad);
    mpc_str_printf(out, "; the smallest %s is %.0f", label ? "label" : "id", c->smallest);
}

mpc_status mpc_range_report(const mpc_dataset *d, const mpc_data_field *f, const mpc_range_check *c,
                            const char *place) {
    const char *where = f->where ? f->where : "";
    bool label = strstr(where, "embedding") == NULL;
    char message[160], help[256];
    snprintf(message, sizeof message, "%s %.0f in the data, but the model has %s %" PRId64 " to %" PRId64,
             label ? "class" : "id", c->value, label ? "classes" : "ids", f->lo, f->hi - 1);
    mpc_str at = {0}, note = {0};
    mpc_str_printf(&at, "%s: `%.0f`", place, c->value);
    mpc_str_printf(&note, "%s%s", where, where[0] && c->total > 1 ? "\n" : "");
    if (c->total > 1) count_text(c, label, &note);
    range_help(f, c, help, sizeof help);
    mpc_label about = {.text = mpc_str_cstr(&note)};
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E201",
                     .message = message,
                     .place = mpc_str_cstr(&at),
                     .notes = &about,
                     .note_count = note.length > 0,
                     .help = help[0] ? help : NULL};
    if (d->sink.emit) d->sink.emit(d->sink.user, &diag);
    mpc_str_free(&at);
    mpc_str_free(&note);
    return MPC_FAILED;
}
