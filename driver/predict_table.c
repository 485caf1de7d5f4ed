/* Predictions as CSV, JSON lines or a NumPy array. Numbers are the shortest text that reads back the same f32. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/predict.h"
#include "driver/run_log.h"
#include "runtime/store_layout.h"

static int64_t width_of(const mpc_step *step, uint32_t output) {
    return mpc_type_elements(&step->exec->output_types[output]) / step->batch;
}

static const char *short_name(const mpc_step *step, uint32_t output) {
    const char *name = step->exec->outputs[output].name;
    return strncmp(name, "output.", 7) == 0 ? name + 7 : name;
}

static bool choose_outputs(mpc_table_writer *w, mpc_step *step) {
    const mpc_exec *e = step->exec;
    w->outputs = mpc_alloc((e->output_count + 1) * sizeof *w->outputs);
    for (uint32_t i = 0; w->outputs && i < e->output_count; i++) {
        const mpc_type *type = &e->output_types[i];
        if (type->rank == 0 || type->dims[0] != step->batch) continue;
        w->outputs[w->output_count++] = i;
        w->columns += width_of(step, i);
    }
    if (w->output_count > 0) return true;
    mpc_error(w->sink, "E359",
              "this model has no output with a value per row: `output NAME = ...` in the model adds one");
    return false;
}

static void write_header(mpc_table_writer *w, const mpc_step *step) {
    const char *comma = "";
    for (uint32_t k = 0; k < w->output_count; k++) {
        int64_t width = width_of(step, w->outputs[k]);
        const char *name = short_name(step, w->outputs[k]);
        for (int64_t i = 0; i < width; i++, comma = ",")
            if (width == 1 && step->exec->output_types[w->outputs[k]].rank == 1) fprintf(w->to, "%s%s", comma, name);
            else fprintf(w->to, "%s%s.%" PRId64, comma, name, i);
    }
    fputc('\n', w->to);
}

/* Version 1.0 of the .npy format: magic, header length, a Python literal padded to 64 bytes. */
static void write_npy_header(mpc_table_writer *w, int64_t rows) {
    char header[118];
    int n =
        snprintf(header, sizeof header,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }", rows, w->columns);
    memset(header + n, ' ', sizeof header - (size_t)n);
    header[sizeof header - 1] = '\n';
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, w->to);
    fwrite(header, 1, sizeof header, w->to);
}

bool mpc_table_open(mpc_table_writer *w, mpc_step *step, const char *path, int64_t rows) {
    bool to_stdout = !path || strcmp(path, "-") == 0;
    *w = (mpc_table_writer){.sink = step->session->sink, .path = to_stdout ? "standard output" : path, .to = stdout};
    if (!choose_outputs(w, step)) return false;
    if (!to_stdout)
        w->form = mpc_ends_with(path, ".jsonl") ? MPC_TABLE_JSONL
                  : mpc_ends_with(path, ".npy") ? MPC_TABLE_NPY
                                                : MPC_TABLE_CSV;
    if (!to_stdout) w->to = fopen(path, "wb");
    if (!w->to) {
        mpc_error(w->sink, "E420", "can't write %s: %s", path, strerror(errno));
        return false;
    }
    if (w->form == MPC_TABLE_CSV) write_header(w, step);
    if (w->form == MPC_TABLE_NPY) write_npy_header(w, rows);
    return true;
}

static void append_value(mpc_str *out, mpc_format format, const void *data, int64_t i, bool json) {
    double v = mpc_element_get(format, data, i);
    if (!mpc_format_is_float(format)) mpc_str_printf(out, "%.0f", v);
    else if (json && !isfinite(v)) mpc_str_append(out, "null");
    else if (format == MPC_FMT_f64) mpc_str_append_double(out, v);
    else mpc_str_append_float(out, (float)v);
}

static void csv_row(mpc_table_writer *w, mpc_step *step, int64_t row, mpc_str *line) {
    const char *comma = "";
    for (uint32_t k = 0; k < w->output_count; k++) {
        int64_t width = width_of(step, w->outputs[k]);
        const void *data = step->exec->vtable->output(step->exec, w->outputs[k]);
        for (int64_t i = 0; i < width; i++, comma = ",") {
            mpc_str_append(line, comma);
            append_value(line, step->exec->output_types[w->outputs[k]].format, data, row * width + i, false);
        }
    }
    mpc_str_append(line, "\n");
}

/* Elements from *i on as nested arrays of the axes from `axis` on. */
static void nested(const mpc_type *type, uint32_t axis, const void *data, int64_t *i, mpc_str *line) {
    if (axis == type->rank) {
        append_value(line, type->format, data, (*i)++, true);
        return;
    }
    mpc_str_append(line, "[");
    for (int64_t k = 0; k < type->dims[axis]; k++) {
        if (k) mpc_str_append(line, ",");
        nested(type, axis + 1, data, i, line);
    }
    mpc_str_append(line, "]");
}

static void json_row(mpc_table_writer *w, mpc_step *step, int64_t row, mpc_str *line) {
    for (uint32_t k = 0; k < w->output_count; k++) {
        int64_t at = row * width_of(step, w->outputs[k]);
        mpc_str_append(line, k ? "," : "{");
        mpc_json_append_string(line, short_name(step, w->outputs[k]));
        mpc_str_append(line, ":");
        nested(&step->exec->output_types[w->outputs[k]], 1, step->exec->vtable->output(step->exec, w->outputs[k]), &at,
               line);
    }
    mpc_str_append(line, "}\n");
}

static void npy_row(mpc_table_writer *w, mpc_step *step, int64_t row, mpc_str *line) {
    for (uint32_t k = 0; k < w->output_count; k++) {
        int64_t width = width_of(step, w->outputs[k]);
        const void *data = step->exec->vtable->output(step->exec, w->outputs[k]);
        for (int64_t i = 0; i < width; i++) {
            float v = (float)mpc_element_get(step->exec->output_types[w->outputs[k]].format, data, row * width + i);
            mpc_str_append_n(line, (const char *)&v, sizeof v);
        }
    }
}

bool mpc_table_rows(mpc_table_writer *w, mpc_step *step) {
    mpc_str line = {0};
    bool ok = true;
    for (int64_t row = 0; ok && row < step->batch; row++) {
        mpc_str_clear(&line);
        if (w->form == MPC_TABLE_CSV) csv_row(w, step, row, &line);
        if (w->form == MPC_TABLE_JSONL) json_row(w, step, row, &line);
        if (w->form == MPC_TABLE_NPY) npy_row(w, step, row, &line);
        ok = !line.failed && fwrite(line.data, 1, line.length, w->to) == line.length;
    }
    if (!ok) mpc_error(w->sink, "E420", "can't write %s: %s", w->path, strerror(errno));
    mpc_str_free(&line);
    return ok;
}

bool mpc_table_close(mpc_table_writer *w) {
    mpc_free(w->outputs);
    if (!w->to) return false;
    bool ok = w->to == stdout ? fflush(stdout) == 0 : fclose(w->to) == 0;
    if (!ok) mpc_error(w->sink, "E420", "can't write %s: %s", w->path, strerror(errno));
    return ok;
}
