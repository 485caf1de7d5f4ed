/* Pools over [n,h,w,c] in CUDA, packs along the channels. Gradients are gathered, not scattered: each input element
 * looks at the windows that cover it, so no two threads write the same place and sums have one order, the one of the C
 * kernels. */
#include "codegen/cuda/grid.h"

/* n[]: 0 images, 1 h, 2 w, 3 channels, 4 rows out, 5 columns out, 6 7 kernel, 8 9 stride, 10 11 padding, then divisors
 * of an item's number: packs of a pixel, columns and rows of the result */
enum { ARG_PACKS = 12, ARG_COLUMNS = 15, ARG_ROWS = 18 };

typedef struct pool {
    bool max, backward;
    mpc_value_id x, dy, result; /* x: MPC_NONE for avg_pool_grad; dy: of gradients */
    const int64_t *in, *out;    /* extents of the image and of what the windows give */
    int width;
    bool narrow;
} pool;

static const mpc_format_info *format_of(const mpc_cg *cg, mpc_value_id v) {
    return mpc_format_get(mpc_value_format(cg->g, v));
}

static int64_t choose_width(mpc_cg *cg, const mpc_node *n, const pool *p) {
    uint32_t bytes = format_of(cg, p->result)->bytes;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        uint32_t b = format_of(cg, mpc_operand(cg->g, n, i))->bytes;
        if (b > bytes) bytes = b;
    }
    int64_t most = bytes == 1 ? 8 : 16 / bytes;
    if (p->backward && most > 4) most = 4; /* registers */
    int64_t width = mpc_grid_width(p->in[3], most);
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(cg->g, n, i);
        width = mpc_grid_align(width, mpc_cg_pointer(cg, v), format_of(cg, v)->bytes);
    }
    return mpc_grid_align(width, mpc_cg_pointer(cg, p->result), format_of(cg, p->result)->bytes);
}

static pool describe(mpc_cg *cg, const mpc_node *n) {
    pool p = {.max = n->op == MPC_OP_max_pool || n->op == MPC_OP_max_pool_grad,
              .backward = n->op == MPC_OP_max_pool_grad || n->op == MPC_OP_avg_pool_grad,
              .result = mpc_result(n, 0)};
    mpc_value_id last = mpc_operand(cg->g, n, n->operand_count - 1);
    p.x = p.backward && !p.max ? MPC_NONE : mpc_operand(cg->g, n, 0);
    p.dy = p.backward ? last : MPC_NONE;
    p.in = mpc_value_type(cg->g, p.backward ? p.result : last)->dims;
    p.out = mpc_value_type(cg->g, p.backward ? last : p.result)->dims;
    p.width = (int)choose_width(cg, n, &p);
    return p;
}

static void add_args(mpc_cg *cg, const mpc_node *n, pool *p, mpc_cg_args *args) {
    const int64_t *walked = p->backward ? p->in : p->out;
    for (uint32_t i = 0; i < n->operand_count; i++)
        mpc_cg_add_pointer(args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, i)));
    mpc_cg_add_pointer(args, mpc_cg_pointer(cg, p->result));
    for (int i = 0; i < 4; i++) mpc_cg_add_int(args, p->in[i]);
    mpc_cg_add_int(args, p->out[1]);
    mpc_cg_add_int(args, p->out[2]);
    static const char *const keys[] = {"kernel", "stride", "pad"};
    for (int k = 0; k < 3; k++) {
        mpc_int_list pair = mpc_attr_ints(cg->g, n, keys[k]);
        mpc_cg_add_int(args, pair.data[0]);
        mpc_cg_add_int(args, pair.data[1]);
    }
    int64_t packs = p->in[3] / p->width;
    mpc_grid_add_divisor(args, packs);
    mpc_grid_add_divisor(args, walked[2]);
    mpc_grid_add_divisor(args, walked[1]);
    args->units = walked[0] * walked[1] * walked[2] * packs;
    args->blocks = mpc_grid_blocks(args->units, MPC_GRID_THREADS);
    p->narrow = mpc_grid_is_narrow(args->units);
}

/* The item's image b, row and column (named) and first channel c. */
static void print_place(const pool *p, const char *row, const char *column, mpc_str *o) {
    mpc_grid_print_items(o, p->narrow);
    mpc_str_append(o, p->narrow ? "        uint32_t q = i;\n" : "        int64_t q = i;\n");
    mpc_grid_print_digit(o, "        ", "d0", "q", ARG_PACKS, p->narrow);
    mpc_grid_print_digit(o, "        ", "d1", "q", ARG_COLUMNS, p->narrow);
    mpc_grid_print_digit(o, "        ", "d2", "q", ARG_ROWS, p->narrow);
    mpc_str_printf(
        o, "        const int b = (int)q, %s = (int)d2, %s = (int)d1;\n        const int64_t c = (int64_t)d0 * %d;\n",
        row, column, p->width);
}

/* Rows [h0, h1) and columns [w0, w1) of window (i, j). */
static void print_window(const char *i, const char *j, mpc_str *o) {
    mpc_str_printf(o,
                   "        int h0 = %s * (int)n[8] - (int)n[10], h1 = h0 + (int)n[6], w0 = %s * (int)n[9] - "
                   "(int)n[11], w1 = w0 + (int)n[7];\n",
                   i, j);
    mpc_str_append(o, "        h0 = h0 > 0 ? h0 : 0, w0 = w0 > 0 ? w0 : 0, h1 = h1 < (int)n[1] ? h1 : (int)n[1], w1 = "
                      "w1 < (int)n[2] ? w1 : (int)n[2];\n");
}

static void print_load(const mpc_cg *cg, mpc_value_id v, int width, const char *pixel, int pointer, mpc_str *o) {
    const mpc_format_info *f = format_of(cg, v);
    mpc_str_printf(o, "mpc_load_%s<%d, true>((const char *)p[%d] + ((%s) * n[3] + c) * %u, %d)", f->name, width,
                   pointer, pixel, f->bytes, width);
}

static void print_store(const mpc_cg *cg, const pool *p, int pointer, mpc_str *o) {
    const mpc_format_info *f = format_of(cg, p->result);
    if (mpc_cg_rounds(mpc_value_format(cg->g, p->result))) mpc_str_printf(o, "        t = mpc_round_%s(t);\n", f->name);
    mpc_str_printf(o, "        mpc_store_%s<%d, true>((char *)p[%d] + (int64_t)i * %u, t, %d);\n    }\n", f->name,
                   p->width, pointer, (unsigned)p->width * f->bytes, p->width);
}

static void print_forward(const mpc_cg *cg, const pool *p, mpc_str *o) {
    print_place(p, "row", "column", o);
    print_window("row", "column", o);
    mpc_str_printf(o, "        auto t = mpc_splat<%d>(%s);\n", p->width, p->max ? "-MPC_INFINITY" : "0.0f");
    mpc_str_append(
        o, "        MPC_ROLLED for (int h = h0; h < h1; h++)\n            MPC_ROLLED for (int w = w0; w < w1; w++)\n");
    /* of two equal ones the second operand stays: the first maximum, whose zero may have a sign */
    mpc_str_printf(o, "                t = mpc_%s_f(", p->max ? "max" : "sum");
    print_load(cg, p->x, p->width, "(b * n[1] + h) * n[2] + w", 0, o);
    mpc_str_append(o, ", t);\n");
    if (!p->max) mpc_str_append(o, "        t = t / (float)((h1 - h0) * (w1 - w0));\n");
    print_store(cg, p, 1, o);
}

/* Is element (y, x) the first maximum of the window? `hit` tells per channel. Addresses step, which saves registers. */
static void print_hit(const mpc_cg *cg, const pool *p, mpc_str *o) {
    const mpc_format_info *f = format_of(cg, p->x);
    int w = p->width;
    mpc_str_printf(o, "        auto best = mpc_splat<%d>(0.0f);\n        auto hit = mpc_splat_i<%d>(0);\n", w, w);
    mpc_str_printf(o,
                   "        const char *line = (const char *)p[0] + (((b * n[1] + h0) * n[2] + w0) * n[3] + c) * %u;\n",
                   f->bytes);
    mpc_str_printf(o, "        MPC_ROLLED for (int h = h0; h < h1; h++, line += n[2] * n[3] * %u) {\n", f->bytes);
    mpc_str_append(o, "            const char *at = line;\n");
    mpc_str_printf(o, "            MPC_ROLLED for (int w = w0; w < w1; w++, at += n[3] * %u) {\n", f->bytes);
    mpc_str_printf(o, "                const auto v = mpc_load_%s<%d, true>(at, %d);\n", f->name, w, w);
    mpc_str_printf(o,
                   "                const auto g = (~(v <= best) & (best == best)) | mpc_splat_i<%d>(h == h0 && w == "
                   "w0 ? -1 : 0);\n",
                   w);
    mpc_str_append(o, "                best = mpc_select(g, v, best);\n");
    mpc_str_printf(o,
                   "                hit = mpc_select(g, mpc_splat_i<%d>(h == y && w == x ? -1 : 0), hit);\n            "
                   "}\n        }\n",
                   w);
}

/* The windows that cover `at` on one axis: numbers [lo, hi). */
static void print_cover(const char *name, const char *at, int axis, mpc_str *o) {
    mpc_str_printf(o, "        const int %s_ = %s + (int)n[%d], %s_first = %s_ - (int)n[%d] + 1;\n", name, at,
                   10 + axis, name, name, 6 + axis);
    mpc_str_printf(o, "        const int %s0 = %s_first > 0 ? (%s_first + (int)n[%d] - 1) / (int)n[%d] : 0;\n", name,
                   name, name, 8 + axis, 8 + axis);
    mpc_str_printf(
        o, "        const int %s_last = %s_ / (int)n[%d] + 1, %s1 = %s_last < (int)n[%d] ? %s_last : (int)n[%d];\n",
        name, name, 8 + axis, name, name, 4 + axis, name, 4 + axis);
}

static void print_backward(const mpc_cg *cg, const pool *p, mpc_str *o) {
    int dy = p->max ? 1 : 0;
    print_place(p, "y", "x", o);
    print_cover("i", "y", 0, o);
    print_cover("j", "x", 1, o);
    mpc_str_printf(o, "        auto t = mpc_splat<%d>(0.0f);\n", p->width);
    mpc_str_append(
        o,
        "        MPC_ROLLED for (int wi = i0; wi < i1; wi++)\n        MPC_ROLLED for (int wj = j0; wj < j1; wj++) {\n");
    print_window("wi", "wj", o);
    if (p->max) print_hit(cg, p, o);
    mpc_str_append(o, "        const auto d = ");
    print_load(cg, p->dy, p->width, "(b * n[4] + wi) * n[5] + wj", dy, o);
    mpc_str_append(o, ";\n");
    if (p->max) mpc_str_printf(o, "        t = t + mpc_select(hit, d, mpc_splat<%d>(0.0f));\n        }\n", p->width);
    else mpc_str_append(o, "        t = t + d / (float)((h1 - h0) * (w1 - w0));\n        }\n");
    print_store(cg, p, dy + 1, o);
}

void mpc_cuda_pool(mpc_cg *cg, const mpc_node *n) {
    pool p = describe(cg, n);
    mpc_cg_args args = {0};
    mpc_str o = {0};
    add_args(cg, n, &p, &args);
    if (p.backward) print_backward(cg, &p, &o);
    else print_forward(cg, &p, &o);
    mpc_launch *launch = mpc_grid_launch(cg, n, p.result, &o, &args);
    if (launch == NULL) return;
    launch->bytes += (double)(mpc_type_bytes(mpc_value_type(cg->g, p.result)));
    for (uint32_t i = 0; i < n->operand_count; i++)
        launch->bytes += (double)mpc_type_bytes(mpc_value_type(cg->g, mpc_operand(cg->g, n, i)));
}
