/* What was seen of each value in a run: counts, the largest and smallest magnitude, and how often each exponent came.
 * The text form has a line per value, tab-separated, and reads back to the same numbers. Values are found by name, so a
 * profile of one precision serves another. */
#include "passes/precision/range.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"

struct mpc_observations {
    mpc_map *index; /* name -> position in data */
    mpc_observed *data;
    size_t count, capacity;
};

mpc_observations *mpc_observations_create(void) {
    mpc_observations *o = mpc_alloc(sizeof *o);
    if (o == NULL) return NULL;
    *o = (mpc_observations){.index = mpc_map_create()};
    if (o->index != NULL) return o;
    mpc_free(o);
    return NULL;
}

void mpc_observations_destroy(mpc_observations *o) {
    if (o == NULL) return;
    mpc_map_destroy(o->index);
    mpc_free(o->data);
    mpc_free(o);
}

size_t mpc_observations_count(const mpc_observations *o) { return o->count; }

const mpc_observed *mpc_observations_find(const mpc_observations *o, const char *value) {
    uint32_t at = 0;
    return mpc_map_get(o->index, value, &at) ? &o->data[at] : NULL;
}

/* The entry of a name, made if there is none. */
static mpc_observed *entry_of(mpc_observations *o, const char *value) {
    uint32_t at = 0;
    if (mpc_map_get(o->index, value, &at)) return &o->data[at];
    mpc_observed fresh = {0};
    if (!mpc_array_push(o, fresh)) return NULL;
    if (mpc_map_set(o->index, value, (uint32_t)(o->count - 1))) return &o->data[o->count - 1];
    o->count--;
    return NULL;
}

static void add_magnitude(mpc_observed *e, double x) {
    int exponent = ilogb(x);
    if (exponent < MPC_EXPONENT_MIN) exponent = MPC_EXPONENT_MIN;
    if (exponent >= MPC_EXPONENT_MIN + MPC_EXPONENT_COUNT) exponent = MPC_EXPONENT_MIN + MPC_EXPONENT_COUNT - 1;
    e->exponents[exponent - MPC_EXPONENT_MIN]++;
    e->subnormal_f16 += x < 0x1p-14;
    if (x > e->largest) e->largest = x;
    if (e->smallest == 0 || x < e->smallest) e->smallest = x;
}

bool mpc_observations_add(mpc_observations *o, const char *value, const double *data, int64_t count) {
    mpc_observed *e = entry_of(o, value);
    if (e == NULL) return false;
    e->count += (uint64_t)count;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs(data[i]);
        if (isnan(x)) e->nan++;
        else if (isinf(x)) e->infinite++;
        else if (x == 0) e->zeros++;
        else add_magnitude(e, x);
    }
    return true;
}

/* --- text --- */

static const char HEAD[] = "mpc-profile 1";

static void print_entry(const mpc_observed *e, const char *name, mpc_str *out) {
    mpc_str_printf(out, "%s\t%llu\t%llu\t%llu\t%llu\t%llu\t", name, (unsigned long long)e->count,
                   (unsigned long long)e->zeros, (unsigned long long)e->subnormal_f16, (unsigned long long)e->infinite,
                   (unsigned long long)e->nan);
    mpc_str_append_double(out, e->smallest);
    mpc_str_append(out, "\t");
    mpc_str_append_double(out, e->largest);
    mpc_str_append(out, "\t");
    for (int i = 0, first = 1; i < MPC_EXPONENT_COUNT; i++) {
        if (e->exponents[i] == 0) continue;
        mpc_str_printf(out, "%s%d:%llu", first ? "" : " ", i + MPC_EXPONENT_MIN, (unsigned long long)e->exponents[i]);
        first = 0;
    }
    mpc_str_append(out, "\n");
}

void mpc_observations_print(const mpc_observations *o, mpc_str *out) {
    mpc_str_printf(out, "%s\nvalue\tcount\tzeros\tsubnormal_f16\tinfinite\tnan\tsmallest\tlargest\texponents\n", HEAD);
    for (size_t i = 0; i < mpc_map_count(o->index); i++)
        print_entry(&o->data[mpc_map_value(o->index, i)], mpc_map_key(o->index, i), out);
}

/* Moves past one unsigned number and the tab or blank behind it. */
static bool read_count(const char **at, uint64_t *out) {
    char *stop;
    if (**at < '0' || **at > '9') return false;
    *out = strtoull(*at, &stop, 10);
    *at = stop + (*stop == '\t' || *stop == ' ');
    return true;
}

static bool read_number(const char **at, double *out) {
    char *stop;
    *out = strtod(*at, &stop);
    if (stop == *at || *stop != '\t' || !(*out >= 0) || isinf(*out)) return false;
    *at = stop + 1;
    return true;
}

static bool read_exponents(const char *at, mpc_observed *e) {
    while (*at != '\0') {
        char *stop;
        long exponent = strtol(at, &stop, 10);
        if (stop == at || *stop != ':' || exponent < MPC_EXPONENT_MIN ||
            exponent >= MPC_EXPONENT_MIN + MPC_EXPONENT_COUNT)
            return false;
        at = stop + 1;
        if (!read_count(&at, &e->exponents[exponent - MPC_EXPONENT_MIN])) return false;
    }
    return true;
}

/* `line` is NUL-terminated and writable. */
static bool read_line(mpc_observations *o, char *line) {
    char *tab = strchr(line, '\t');
    if (tab == NULL || tab == line) return false;
    *tab = '\0';
    const char *at = tab + 1;
    mpc_observed e = {0};
    if (!read_count(&at, &e.count) || !read_count(&at, &e.zeros) || !read_count(&at, &e.subnormal_f16) ||
        !read_count(&at, &e.infinite) || !read_count(&at, &e.nan) || !read_number(&at, &e.smallest) ||
        !read_number(&at, &e.largest) || !read_exponents(at, &e))
        return false;
    mpc_observed *entry = entry_of(o, line);
    if (entry != NULL) *entry = e;
    return entry != NULL;
}

mpc_status mpc_observations_parse(mpc_observations *o, const char *text, const char *file, const mpc_sink *sink) {
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
        else if (number == 1 ? strcmp(mpc_str_cstr(&line), HEAD) != 0 : number > 2 && !read_line(o, line.data))
            status =
                mpc_error(sink, "E155", "%s:%u: this is no line of a profile that `mpc profile` wrote", file, number);
    }
    if (status == MPC_OK && number < 2) status = mpc_error(sink, "E155", "%s: this is no profile", file);
    mpc_str_free(&line);
    return status;
}
