/* Number formats (rows of ir/formats.def) and what can be asked of a tensor type without a context. */
#include <string.h>

#include "ir/context.h"

static const mpc_format_info formats[MPC_FMT_count] = {
    {.name = "none"},
#define FORMAT(name_, bytes_, kind_, e, f, inf, sat, storable_) \
    [MPC_FMT_##name_] = { \
        .name = #name_, .bytes = bytes_, .kind = MPC_FORMAT_##kind_, .fmt = {e, f, inf, sat}, .storable = storable_},
#include "ir/formats.def"
#undef FORMAT
};

const mpc_format_info *mpc_format_get(mpc_format format) {
    return &formats[format < MPC_FMT_count ? format : MPC_FMT_none];
}

mpc_format mpc_format_find(const char *name) {
    for (int i = 1; i < MPC_FMT_count; i++)
        if (strcmp(formats[i].name, name) == 0) return (mpc_format)i;
    return MPC_FMT_none;
}

bool mpc_format_is_float(mpc_format format) {
    return format != MPC_FMT_none && format < MPC_FMT_count && formats[format].kind == MPC_FORMAT_FLOAT;
}

bool mpc_format_is_low(mpc_format format) { return mpc_format_is_float(format) && formats[format].bytes < 4; }

/* Every number of `b` is one of `a`. */
static bool includes(const mpc_format_info *a, const mpc_format_info *b) {
    return a->fmt.exponent_bits >= b->fmt.exponent_bits && a->fmt.fraction_bits >= b->fmt.fraction_bits &&
           (a->fmt.has_inf || !b->fmt.has_inf);
}

/* f8 pairs join to f32 too: no storable format between holds both and is worth a surprise. Integers: the wider; with a
 * float: the float (as numpy and the front end do for constants). */
mpc_format mpc_format_join(mpc_format a, mpc_format b) {
    const mpc_format_info *x = mpc_format_get(a), *y = mpc_format_get(b);
    if (a == b || b == MPC_FMT_none) return a;
    if (a == MPC_FMT_none) return b;
    if (x->kind == MPC_FORMAT_FLOAT && y->kind == MPC_FORMAT_FLOAT) {
        if (includes(x, y)) return a;
        return includes(y, x) ? b : MPC_FMT_f32;
    }
    if (x->kind == MPC_FORMAT_FLOAT) return a;
    if (y->kind == MPC_FORMAT_FLOAT) return b;
    if (x->kind != y->kind) return x->kind == MPC_FORMAT_INT ? a : b;
    return x->bytes >= y->bytes ? a : b;
}

int64_t mpc_type_elements(const mpc_type *type) {
    int64_t count = 1;
    for (uint32_t i = 0; i < type->rank; i++) count *= type->dims[i];
    return count;
}

int64_t mpc_type_bytes(const mpc_type *type) {
    return mpc_type_elements(type) * (int64_t)mpc_format_get(type->format)->bytes;
}

void mpc_type_print(const mpc_type *type, mpc_str *out) {
    mpc_str_append(out, mpc_format_get(type->format)->name);
    mpc_str_append(out, "[");
    for (uint32_t i = 0; i < type->rank; i++) mpc_str_printf(out, "%s%lld", i ? "," : "", (long long)type->dims[i]);
    mpc_str_append(out, "]");
}
