/* Pools over [n,h,w,c], vectors along the channels. Gradients are gathered, not scattered: each input element looks at
 * the windows that cover it, so units never write the same place and sums have one order. */
#include "codegen/cg.h"

/* n[]: 0 images, 1 h, 2 w, 3 channels, 4 rows out, 5 columns out, 6 7 kernel, 8 9 stride, 10 11 padding */
static void add_ints(mpc_cg *cg, const mpc_node *n, const int64_t *x, const int64_t *y, mpc_cg_args *args) {
    for (int i = 0; i < 4; i++) mpc_cg_add_int(args, x[i]);
    mpc_cg_add_int(args, y[1]);
    mpc_cg_add_int(args, y[2]);
    static const char *const keys[] = {"kernel", "stride", "pad"};
    for (int k = 0; k < 3; k++) {
        mpc_int_list pair = mpc_attr_ints(cg->g, n, keys[k]);
        mpc_cg_add_int(args, pair.data[0]);
        mpc_cg_add_int(args, pair.data[1]);
    }
}

static void print_window(mpc_str *o, const char *indent) {
    mpc_str_printf(o, "%sint64_t h0 = i * n[8] - n[10], h1 = h0 + n[6], w0 = j * n[9] - n[11], w1 = w0 + n[7];\n",
                   indent);
    mpc_str_printf(
        o, "%sh0 = h0 > 0 ? h0 : 0, w0 = w0 > 0 ? w0 : 0, h1 = h1 < n[1] ? h1 : n[1], w1 = w1 < n[2] ? w1 : n[2];\n",
        indent);
}

static const mpc_format_info *format_of(const mpc_cg *cg, mpc_value_id v) {
    return mpc_format_get(mpc_value_format(cg->g, v));
}

static void print_store(const mpc_cg *cg, mpc_value_id result, int pointer, const char *value, mpc_str *o) {
    const mpc_format_info *f = format_of(cg, result);
    if (mpc_cg_rounds(mpc_value_format(cg->g, result)))
        mpc_str_printf(o, "                %s = mpc_round_%s(%s);\n", value, f->name, value);
    mpc_str_printf(o, "                mpc_store_%s((char *)p[%d] + ((r * %s + j) * n[3] + c) * %u, %s, n[3] - c);\n",
                   f->name, pointer, pointer == 1 ? "n[5]" : "n[2]", f->bytes, value);
}

/* Units: rows of the result. Of two equal ones mpc_max_f gives its second operand: the first maximum stays, whose zero
 * may have a sign. */
static void print_forward(const mpc_cg *cg, const mpc_node *n, bool max, mpc_str *o) {
    const mpc_format_info *f = format_of(cg, mpc_operand(cg->g, n, 0));
    mpc_str_append(o, "    for (int64_t r = begin; r < end; r++)\n        for (int64_t j = 0; j < n[5]; j++) {\n");
    mpc_str_append(o, "            const int64_t b = r / n[4], i = r % n[4];\n");
    print_window(o, "            ");
    mpc_str_append(o, "            for (int64_t c = 0; c < n[3]; c += 16) {\n");
    mpc_str_printf(o, "                vf t = mpc_splat(%s);\n", max ? "-__builtin_inff()" : "0.0f");
    mpc_str_append(
        o,
        "                for (int64_t h = h0; h < h1; h++)\n                    for (int64_t w = w0; w < w1; w++)\n");
    mpc_str_printf(o,
                   "                        t = mpc_%s_f(mpc_load_%s((const char *)p[0] + (((b * n[1] + h) * n[2] + "
                   "w) * n[3] + c) * %u, n[3] - c), t);\n",
                   max ? "max" : "sum", f->name, f->bytes);
    if (!max) mpc_str_append(o, "                t = t / (float)((h1 - h0) * (w1 - w0));\n");
    print_store(cg, mpc_result(n, 0), 1, "t", o);
    mpc_str_append(o, "            }\n        }\n");
}

/* Is element (y, x) the first maximum of the window? `hit` tells per lane. */
static void print_hit(const mpc_format_info *f, mpc_str *o) {
    mpc_str_append(
        o, "                        vf best = mpc_splat(0.0f);\n                        vi hit = mpc_splat_i(0);\n");
    mpc_str_append(o, "                        for (int64_t h = h0; h < h1; h++)\n                            for "
                      "(int64_t w = w0; w < w1; w++) {\n");
    mpc_str_printf(o,
                   "                                const vf v = mpc_load_%s((const char *)p[0] + (((b * n[1] + h) * "
                   "n[2] + w) * n[3] + c) * %u, n[3] - c);\n",
                   f->name, f->bytes);
    mpc_str_append(o, "                                const vi g = (~(v <= best) & (best == best)) | mpc_splat_i(h == "
                      "h0 && w == w0 ? -1 : 0);\n");
    mpc_str_append(o, "                                best = mpc_select_f(g, v, best);\n");
    mpc_str_append(
        o, "                                hit = mpc_select_i(g, mpc_splat_i(h == y && w == j_ ? -1 : 0), hit);\n");
    mpc_str_append(o, "                            }\n");
}

/* Units: rows of the image; `dy` is p[1] (max, after x) or p[0] (avg), the result the last pointer. */
static void print_backward(const mpc_cg *cg, const mpc_node *n, bool max, mpc_str *o) {
    const mpc_format_info *fd = format_of(cg, mpc_operand(cg->g, n, max ? 1 : 0));
    mpc_str_append(o, "    for (int64_t r = begin; r < end; r++)\n        for (int64_t j_ = 0; j_ < n[2]; j_++) {\n");
    mpc_str_append(o, "            const int64_t b = r / n[1], y = r % n[1];\n");
    mpc_str_append(o,
                   "            for (int64_t c = 0; c < n[3]; c += 16) {\n                vf t = mpc_splat(0.0f);\n");
    mpc_str_append(o, "                for (int64_t i = 0; i < n[4]; i++) {\n                    if (i * n[8] - n[10] "
                      "> y || i * n[8] - n[10] + n[6] <= y) continue;\n");
    mpc_str_append(o, "                    for (int64_t j = 0; j < n[5]; j++) {\n                        if (j * n[9] "
                      "- n[11] > j_ || j * n[9] - n[11] + n[7] <= j_) continue;\n");
    print_window(o, "                        ");
    if (max) print_hit(format_of(cg, mpc_operand(cg->g, n, 0)), o);
    mpc_str_printf(o,
                   "                        const vf d = mpc_load_%s((const char *)p[%d] + (((b * n[4] + i) * n[5] + "
                   "j) * n[3] + c) * %u, n[3] - c);\n",
                   fd->name, max ? 1 : 0, fd->bytes);
    if (max) mpc_str_append(o, "                        t = t + mpc_select_f(hit, d, mpc_splat(0.0f));\n");
    else mpc_str_append(o, "                        t = t + d / (float)((h1 - h0) * (w1 - w0));\n");
    mpc_str_append(o, "                    }\n                }\n                const int64_t j = j_;\n");
    const mpc_format_info *fr = format_of(cg, mpc_result(n, 0));
    if (mpc_cg_rounds(mpc_value_format(cg->g, mpc_result(n, 0))))
        mpc_str_printf(o, "                t = mpc_round_%s(t);\n", fr->name);
    mpc_str_printf(o, "                mpc_store_%s((char *)p[%d] + ((r * n[2] + j) * n[3] + c) * %u, t, n[3] - c);\n",
                   fr->name, max ? 2 : 1, fr->bytes);
    mpc_str_append(o, "            }\n        }\n");
}

void mpc_cg_pool(mpc_cg *cg, const mpc_node *n) {
    bool backward = n->op == MPC_OP_max_pool_grad || n->op == MPC_OP_avg_pool_grad;
    bool max = n->op == MPC_OP_max_pool || n->op == MPC_OP_max_pool_grad;
    mpc_value_id result = mpc_result(n, 0), last = mpc_operand(cg->g, n, n->operand_count - 1);
    const int64_t *x = mpc_value_type(cg->g, backward ? result : last)->dims,
                  *y = mpc_value_type(cg->g, backward ? last : result)->dims;
    mpc_cg_args args = {.units = backward ? x[0] * x[1] : y[0] * y[1]};
    mpc_str o = {0};
    for (uint32_t i = 0; i < n->operand_count; i++)
        mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, i)));
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, result));
    add_ints(cg, n, x, y, &args);
    if (backward) print_backward(cg, n, max, &o);
    else print_forward(cg, n, max, &o);
    if (o.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_kernel(cg, mpc_str_cstr(&o), &args, 0);
    mpc_cg_add_launch(cg, n, result, kernel, &args);
    mpc_str_free(&o);
}
