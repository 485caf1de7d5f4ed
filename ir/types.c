/* Number formats (rows of ir/formats.def) and what can be asked of a tensor type without a context. */
#include <string.h>

#include "ir/context.h"

/* One table for the process: formats are numbers everywhere, without a context at hand. The places for users' formats are written
 * once each, at start-up, and never changed (mpc_format_register). */
static mpc_format_info formats[MPC_FMT_count] = {
    {.name = "none"},
#define FORMAT(name_, bytes_, kind_, e, f, inf, sat, storable_) \
    [MPC_FMT_##name_] = {.name = #name_, \
                         .bytes = bytes_, \
                         .bits = 8 * bytes_, \
                         .kind = MPC_FORMAT_##kind_, \
                         .fmt = {e, f, inf, sat}, \
                         .storable = storable_},
#include "ir/formats.def"
#undef FORMAT
};

const mpc_format_info *mpc_format_get(mpc_format format) {
    return &formats[format < MPC_FMT_count && formats[format].name != NULL ? format : MPC_FMT_none];
}

mpc_format mpc_format_find(const char *name) {
    for (int i = 1; i < MPC_FMT_count; i++)
        if (formats[i].name != NULL && strcmp(formats[i].name, name) == 0) return (mpc_format)i;
    return MPC_FMT_none;
}

bool mpc_format_is_float(mpc_format format) {
    const mpc_format_info *info = mpc_format_get(format);
    return info->bytes != 0 && info->kind == MPC_FORMAT_FLOAT;
}

bool mpc_format_is_low(mpc_format format) {
    const mpc_format_info *info = mpc_format_get(format);
    return mpc_format_is_float(format) && info->storable && info->bits < 32;
}

bool mpc_format_is_user(mpc_format format) {
    return format >= MPC_FMT_user && format < MPC_FMT_count && formats[format].name != NULL;
}

/* --- users' formats --- */

enum { NAME_SIZE = 16 };

static bool same_numbers(const mpc_numfmt *a, const mpc_numfmt *b) {
    return a->exponent_bits == b->exponent_bits && a->fraction_bits == b->fraction_bits && a->has_inf == b->has_inf &&
           a->saturate == b->saturate;
}

/* A word that can stand where formats stand in a text, in generated code too. */
static bool is_format_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return length > 0 && length < NAME_SIZE && name[length] == '\0' && name[0] >= 'a' && strcmp(name, "none") != 0;
}

mpc_status mpc_format_check(const char *name, const mpc_numfmt *fmt, const mpc_sink *sink) {
    if (!is_format_name(name))
        return mpc_error(sink, "E372", "`%s` can't be the name of a format: small letters and digits, at most %d", name,
                         NAME_SIZE - 1);
    if (fmt->exponent_bits < 2 || fmt->exponent_bits > 8 || fmt->fraction_bits < 1 || fmt->fraction_bits > 22)
        return mpc_error(sink, "E372", "format `%s`: 2 to 8 exponent bits and 1 to 22 fraction bits, not %d and %d", name,
                         fmt->exponent_bits, fmt->fraction_bits);
    if (fmt->exponent_bits == 8 && !fmt->has_inf) /* its largest numbers would be none of f32, in which it is simulated */
        return mpc_error(sink, "E372", "format `%s`: with 8 exponent bits it must have infinities", name);
    mpc_format known = mpc_format_find(name);
    if (mpc_format_is_user(known) && same_numbers(&formats[known].fmt, fmt)) return MPC_OK;
    if (known != MPC_FMT_none) return mpc_error(sink, "E372", "there is already another format `%s`", name);
    if (formats[MPC_FMT_count - 1].name == NULL) return MPC_OK;
    return mpc_error(sink, "E372", "format `%s`: there is room for %d formats of plugins, all taken", name, MPC_USER_FORMATS);
}

mpc_status mpc_format_register(const char *name, const mpc_numfmt *fmt, const mpc_sink *sink, mpc_format *format) {
    static char names[MPC_USER_FORMATS][NAME_SIZE];
    mpc_status status = mpc_format_check(name, fmt, sink);
    if (status != MPC_OK) return status;
    *format = mpc_format_find(name);
    if (*format != MPC_FMT_none) return MPC_OK;
    int place = 0;
    while (formats[MPC_FMT_user + place].name != NULL) place++;
    strcpy(names[place], name);
    *format = (mpc_format)(MPC_FMT_user + place);
    formats[*format] = (mpc_format_info){.name = names[place],
                                         .bytes = sizeof(float),
                                         .bits = (unsigned)(1 + fmt->exponent_bits + fmt->fraction_bits),
                                         .kind = MPC_FORMAT_FLOAT,
                                         .fmt = *fmt,
                                         .storable = true};
    return MPC_OK;
}

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
