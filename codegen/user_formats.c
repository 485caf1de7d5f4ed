/* Formats of plugins in generated C: values lie in memory as f32, and are rounded in registers where f16 or bf16 would
 * be, by the same two steps (the fraction's bits, or below the smallest normal number an addition that pushes the
 * digits out). Only programs that use such a format get this text, so that those of others stay as they were. */
#include <math.h>

#include "codegen/cg.h"

static bool uses(const mpc_graph *g, mpc_format format) {
    for (mpc_value_id v = 0; v < g->value_count; v++)
        if (mpc_value_format(g, v) == format) return true;
    return false;
}

/* What is too large: the largest number, infinity or NaN. */
static const char *overflow_text(const mpc_numfmt *f) {
    if (f->saturate) return "return mpc_saturate(a, r, max);";
    return f->has_inf ? "const vf top = (vf)(((vi)a & INT32_MIN) | 0x7f800000);\n"
                        "    return mpc_select_f(a != a, a, mpc_select_f(mpc_abs_f(r) > max, top, r));"
                      : "const vf top = (vf)((vu){0} + 0x7fc00000u);\n"
                        "    return mpc_select_f(a != a, a, mpc_select_f(mpc_abs_f(r) > max, top, r));";
}

static void print_format(const mpc_format_info *info, mpc_str *out) {
    const mpc_numfmt *f = &info->fmt;
    const char *n = info->name;
    double last = mpc_numfmt_min_subnormal(f), tiny = ldexp(last, f->fraction_bits);
    mpc_str_printf(out, "MPC_FN vf mpc_load_%s(const void *p, int64_t m) { return mpc_load_f32(p, m); }\n", n);
    mpc_str_printf(out, "MPC_FN void mpc_store_%s(void *p, vf v, int64_t m) { mpc_store_f32(p, v, m); }\n", n);
    mpc_str_printf(out, "MPC_FN vf mpc_one_%s(const void *p) { return mpc_one_f32(p); }\n", n);
    mpc_str_printf(out, "MPC_FN vf mpc_round_%s(vf a) {\n    const float max = %af;\n", n, mpc_numfmt_max(f));
    mpc_str_printf(out, "    const vf r = mpc_round_fraction(a, %d, %af, %af);\n    %s\n}\n", 23 - f->fraction_bits,
                   ldexp(1.5 * last, 23), tiny, overflow_text(f));
}

bool mpc_cg_has_user_formats(const mpc_graph *g) {
    for (int f = MPC_FMT_user; f < MPC_FMT_count; f++)
        if (mpc_format_is_user((mpc_format)f) && uses(g, (mpc_format)f)) return true;
    return false;
}

const char *mpc_cg_user_prelude(mpc_cg *cg) {
    mpc_str text = {0};
    if (!mpc_cg_has_user_formats(cg->g)) return mpc_text_prelude_c_h;
    mpc_str_append(&text, mpc_text_prelude_c_h);
    mpc_str_append(&text, "/* formats of plugins, simulated in f32 */\n");
    for (int f = MPC_FMT_user; f < MPC_FMT_count; f++)
        if (mpc_format_is_user((mpc_format)f) && uses(cg->g, (mpc_format)f))
            print_format(mpc_format_get((mpc_format)f), &text);
    const char *copy = text.failed ? NULL : mpc_arena_strdup(cg->arena, mpc_str_cstr(&text));
    mpc_str_free(&text);
    if (copy == NULL) mpc_cg_no_memory(cg);
    return copy;
}
