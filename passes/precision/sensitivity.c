/* The table of sensitivities by value name, and its text: a head line, a line of column names, a line per value, tab-separated, that reads back to the same
 * numbers. Names are those of the forward graph, so a table of one precision serves every other. */
#include "passes/precision/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"

struct mpc_sensitivity {
    mpc_map *index; /* name -> position in lines */
    MPC_ARRAY(mpc_sensitive) lines;
};

mpc_sensitivity *mpc_sensitivity_create(void) {
    mpc_sensitivity *s = mpc_alloc(sizeof *s);
    if (s == NULL) return NULL;
    *s = (mpc_sensitivity){.index = mpc_map_create()};
    if (s->index != NULL) return s;
    mpc_free(s);
    return NULL;
}

void mpc_sensitivity_destroy(mpc_sensitivity *s) {
    if (s == NULL) return;
    mpc_map_destroy(s->index);
    mpc_array_free(&s->lines);
    mpc_free(s);
}

size_t mpc_sensitivity_count(const mpc_sensitivity *s) { return s->lines.count; }

const mpc_sensitive *mpc_sensitivity_find(const mpc_sensitivity *s, const char *value) {
    uint32_t at;
    return mpc_map_get(s->index, value, &at) ? &s->lines.data[at] : NULL;
}

bool mpc_sensitivity_add(mpc_sensitivity *s, const char *value, const mpc_sensitive *more) {
    uint32_t at;
    if (!mpc_map_get(s->index, value, &at)) {
        at = (uint32_t)s->lines.count;
        if (!mpc_array_push(&s->lines, (mpc_sensitive){0})) return false;
        if (!mpc_map_set(s->index, value, at)) {
            s->lines.count--;
            return false;
        }
    }
    for (int i = 0; i < MPC_SENSE_COLUMNS; i++) {
        s->lines.data[at].cast[i] += more->cast[i];
        s->lines.data[at].stored[i] += more->stored[i];
    }
    return true;
}

double mpc_sensitivity_of(const mpc_sensitive *e, bool stored, mpc_format f) {
    const double *columns = stored ? e->stored : e->cast;
    if (f == MPC_FMT_bf16) return columns[MPC_SENSE_BF16];
    if (f == MPC_FMT_f16) return columns[MPC_SENSE_F16];
    double u = ldexp(1, -(mpc_format_get(f)->fmt.fraction_bits + 1));
    return columns[MPC_SENSE_UNIT] * u * u;
}

/* --- text --- */

static const char HEAD[] = "mpc-sensitivity 1";

void mpc_sensitivity_print(const mpc_sensitivity *s, mpc_str *out) {
    mpc_str_printf(out, "%s\nvalue\tcast_bf16\tcast_f16\tcast_unit\tstored_bf16\tstored_f16\tstored_unit\n", HEAD);
    for (size_t i = 0; i < mpc_map_count(s->index); i++) {
        const mpc_sensitive *e = &s->lines.data[mpc_map_value(s->index, i)];
        mpc_str_append(out, mpc_map_key(s->index, i));
        for (int k = 0; k < 2 * MPC_SENSE_COLUMNS; k++) {
            mpc_str_append(out, "\t");
            mpc_str_append_double(out, k < MPC_SENSE_COLUMNS ? e->cast[k] : e->stored[k - MPC_SENSE_COLUMNS]);
        }
        mpc_str_append(out, "\n");
    }
}

static bool read_line(mpc_sensitivity *s, char *line) {
    mpc_sensitive e = {0};
    char *at = strchr(line, '\t');
    if (at == NULL || at == line) return false;
    *at++ = '\0';
    for (int k = 0; k < 2 * MPC_SENSE_COLUMNS; k++) {
        char *stop;
        double x = strtod(at, &stop);
        if (stop == at || *stop != (k + 1 < 2 * MPC_SENSE_COLUMNS ? '\t' : '\0') || !(x >= 0)) return false;
        *(k < MPC_SENSE_COLUMNS ? &e.cast[k] : &e.stored[k - MPC_SENSE_COLUMNS]) = x;
        at = stop + 1;
    }
    return mpc_sensitivity_find(s, line) == NULL && mpc_sensitivity_add(s, line, &e);
}

mpc_status mpc_sensitivity_parse(mpc_sensitivity *s, const char *text, const char *file, const mpc_sink *sink) {
    unsigned number = 0;
    mpc_str line = {0};
    mpc_status status = MPC_OK;
    for (const char *at = text; *at != '\0' && status == MPC_OK;) {
        size_t length = strcspn(at, "\n");
        mpc_str_clear(&line);
        mpc_str_append_n(&line, at, length - (length > 0 && at[length - 1] == '\r'));
        at += length + (at[length] == '\n');
        number++;
        if (line.failed) status = mpc_error(sink, "E901", "out of memory");
        else if (number == 1 ? strcmp(mpc_str_cstr(&line), HEAD) != 0 : number > 2 && !read_line(s, line.data))
            status = mpc_error(sink, "E156", "%s:%u: this is no line of a table of sensitivities", file, number);
    }
    if (status == MPC_OK && number < 2) status = mpc_error(sink, "E156", "%s: this is no table of sensitivities", file);
    mpc_str_free(&line);
    return status;
}
