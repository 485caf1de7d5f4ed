/* What every executor has in common: the public calls that go through its table, and the words in which a value that is
 * not finite is reported. The index in a report counts elements of the stored tensor in row-major order. */
#include "runtime/exec.h"

#include <math.h>
#include <string.h>

#include "base/numfmt.h"
#include "runtime/store_layout.h"

mpc_status mpc_exec_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc) {
    *loc = (mpc_loc){0};
    return e->vtable->find_nonfinite(e, what, loc);
}

mpc_status mpc_exec_step(mpc_exec *e) {
    mpc_status status = e->vtable->step(e);
    if (status == MPC_OK) e->fetched = false;
    return status;
}

mpc_record_state mpc_exec_record(mpc_exec *e, bool wait) {
    if (e->vtable->record != NULL) return e->vtable->record(e, wait);
    if (e->fetched) return MPC_RECORD_NONE;
    e->fetched = true;
    return MPC_RECORD_READY;
}

void mpc_exec_memory(const mpc_exec *e, mpc_memory_report *report) {
    memset(report, 0, sizeof *report);
    e->vtable->memory(e, report);
}

/* Exponent bits all set, for the formats of activations: a fast test that a debug build can afford on every launch. */
static bool find_bits(const void *data, int64_t n, uint16_t mask, int64_t *at) {
    const uint16_t *bits = data;
    for (int64_t i = 0; i < n; i++) {
        if ((bits[i] & mask) != mask) continue;
        *at = i;
        return true;
    }
    return false;
}

static bool find_bits_f32(const void *data, int64_t n, int64_t *at) {
    const uint32_t *bits = data;
    for (int64_t i = 0; i < n; i++) {
        if ((bits[i] & 0x7f800000u) != 0x7f800000u) continue;
        *at = i;
        return true;
    }
    return false;
}

bool mpc_find_nonfinite(const mpc_type *type, const void *data, int64_t *at) {
    int64_t n = mpc_type_elements(type);
    if (type->format == MPC_FMT_f32) return find_bits_f32(data, n, at);
    if (type->format == MPC_FMT_bf16) return find_bits(data, n, 0x7f80u, at);
    if (type->format == MPC_FMT_f16) return find_bits(data, n, 0x7c00u, at);
    if (!mpc_format_is_float(type->format)) return false;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(mpc_element_get(type->format, data, i))) continue;
        *at = i;
        return true;
    }
    return false;
}

double mpc_largest_magnitude(const mpc_type *type, const void *data) {
    if (!mpc_format_is_float(type->format)) return 0;
    double largest = 0;
    int64_t n = mpc_type_elements(type);
    for (int64_t i = 0; i < n; i++) {
        double value = fabs(mpc_element_get(type->format, data, i));
        if (isfinite(value) && value > largest) largest = value;
    }
    return largest;
}

const char *mpc_nonfinite_word(double value) { return isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }
