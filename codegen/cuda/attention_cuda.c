/* Attention in CUDA: chooses one instance of the templates in attention.h by format, head size, what a query sees, mask
 * and alignment; every extent and stride is an argument. Forward is one launch, backward two: sum(dy y) of every query,
 * to the workspace, then all three gradients. Which nodes come here at all is decided by expand{keep=attention}
 * (mpc_attention_fuses). */
#include "codegen/cg.h"

enum { THREADS = 128, ROWS = 64, DELTA_ROWS = 16, MOST_SIDES = 4 }; /* of a block: as in attention.h */

typedef struct side { /* q, k, v, dy: [b, rows, h, d] */
    mpc_pointer at;
    int64_t strides[3]; /* batch, row, head; elements */
    bool wide;          /* every row starts at a multiple of 16 bytes */
} side;

typedef struct attention {
    const char *math, *format; /* template arguments */
    int64_t b, h, t, s, d;
    int64_t share;         /* query heads that read one head of keys */
    int64_t behind, ahead; /* of a band */
    const char *sight;     /* template argument */
    uint32_t size;         /* bytes of an element */
    uint32_t padded;       /* width of tiles */
    side sides[MOST_SIDES];
    uint32_t side_count;
    bool masked, wide, exact; /* exact: no tensor cores */
    mpc_pointer mask;
    int64_t mask_strides[4];
    float scale;
} attention;

static const char unaligned[] = "rows of q, k, v or dy don't start at multiples of 16 bytes";

typedef struct format_row {
    mpc_format format, compute;
    const char *math, *name;
} format_row;
static const format_row format_rows[] = {
    {MPC_FMT_bf16, MPC_FMT_none, "mpc_at_mma16<mpc_at_bf16>", "mpc_at_bf16"},
    {MPC_FMT_f16, MPC_FMT_none, "mpc_at_mma16<mpc_at_f16>", "mpc_at_f16"},
    {MPC_FMT_f32, MPC_FMT_tf32, "mpc_at_tf32_mma", "mpc_at_f32"},
    {MPC_FMT_f32, MPC_FMT_none, "mpc_at_fma", "mpc_at_f32"},
};

static const format_row *find_format(mpc_format format, mpc_format compute) {
    for (size_t i = 0; i < sizeof format_rows / sizeof *format_rows; i++) {
        const format_row *row = &format_rows[i];
        if (row->format == format && (row->compute == MPC_FMT_none || row->compute == compute)) return row;
    }
    return NULL;
}

static side read_side(mpc_cg *cg, mpc_value_id v, uint32_t size) {
    mpc_strided layout;
    side s = {.at = mpc_cg_layout(cg, v, &layout)};
    s.wide = s.at.byte_offset % 16 == 0;
    for (uint32_t i = 0; i < 3; i++) {
        s.strides[i] = layout.strides[i];
        if (layout.dims[i] != 1 && layout.strides[i] * size % 16 != 0) s.wide = false;
    }
    return s;
}

/* Broadcast to [b,h,t,s]. */
static void read_mask(mpc_cg *cg, mpc_value_id v, attention *a) {
    const mpc_type *type = mpc_value_type(cg->g, v);
    mpc_strided dense = mpc_strided_dense(type);
    a->masked = true;
    a->mask = mpc_cg_pointer(cg, v);
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dims[i] != 1) a->mask_strides[4 - type->rank + i] = dense.strides[i];
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* A window that hides nothing is none. */
static void read_sight(const mpc_cg *cg, const mpc_node *n, attention *a) {
    int64_t window = mpc_attr_int(cg->g, n, "window"), longest = a->t > a->s ? a->t : a->s;
    bool causal = mpc_attr_bool(cg->g, n, "causal"), band = window > 0 && window < longest;
    a->sight = band ? "MPC_AT_BAND" : causal ? "MPC_AT_CAUSAL" : "MPC_AT_ALL";
    a->behind = band ? window - 1 : longest;
    a->ahead = causal ? 0 : a->behind;
}

static bool read_attention(mpc_cg *cg, const mpc_node *n, attention *a) {
    const mpc_graph *g = cg->g;
    bool backward = n->op == MPC_OP_attention_grad;
    const mpc_type *q = mpc_value_type(g, mpc_operand(g, n, 0));
    const format_row *row = find_format(q->format, mpc_attr_format(g, n, "prec"));
    *a = (attention){.b = q->dims[0], .t = q->dims[1], .h = q->dims[2], .d = q->dims[3]};
    if (row == NULL || a->d > 128) {
        mpc_cg_fail(cg, "no kernel for attention of %s with heads of %lld (value %s): expand it",
                    mpc_format_get(q->format)->name, (long long)a->d, mpc_value_name(g, mpc_result(n, 0)));
        return false;
    }
    const int64_t *k = mpc_value_type(g, mpc_operand(g, n, 1))->dims;
    a->s = k[1];
    a->share = k[2] > 0 ? a->h / k[2] : 1;
    read_sight(cg, n, a);
    a->math = row->math, a->format = row->name, a->exact = row->format == MPC_FMT_f32 && row->compute == MPC_FMT_none;
    a->size = mpc_format_get(q->format)->bytes;
    a->padded = ((uint32_t)a->d + 31) / 32 * 32;
    a->scale = (float)mpc_attr_float(g, n, "scale");
    a->wide = a->d % 2 == 0; /* results are stored by pairs */
    a->side_count = backward ? 4 : 3;
    for (uint32_t i = 0; i < a->side_count; i++) {
        a->sides[i] = read_side(cg, mpc_operand(g, n, i < 3 ? i : 5), a->size);
        if (!a->sides[i].wide) a->wide = false;
    }
    a->mask = a->sides[0].at;
    if (n->operand_count > (backward ? 6u : 3u)) read_mask(cg, mpc_operand(g, n, backward ? 6 : 3), a);
    return mpc_cg_ok(cg);
}

static const char *format_name(const mpc_cg *cg, mpc_value_id v) {
    const format_row *row = find_format(mpc_value_format(cg->g, v), MPC_FMT_none);
    return row != NULL ? row->name : "";
}

static int64_t tiles(int64_t rows) { return (rows + ROWS - 1) / ROWS; }

static void add_ints(const attention *a, mpc_cg_args *args) {
    const int64_t extents[] = {a->h, a->t, a->s, a->d, a->b * a->h, a->share, a->behind, a->ahead};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) mpc_cg_add_int(args, extents[i]);
    for (uint32_t i = 0; i < a->side_count; i++)
        for (uint32_t k = 0; k < 3; k++) mpc_cg_add_int(args, a->sides[i].strides[k]);
    for (uint32_t k = 0; k < 4; k++) mpc_cg_add_int(args, a->mask_strides[k]);
}

static const char *word(bool value) { return value ? "true" : "false"; }

/* Streamed rows of a tile and tiles under way: what fits in 96 KiB and in registers. */
typedef struct shape {
    uint32_t rows, stages, shared_bytes;
} shape;

static shape forward_shape(const attention *a) {
    uint32_t pitch = a->padded * a->size + 16;
    shape s = {.rows = a->size == 2 ? 64 : 32, .stages = a->size == 2 ? 2 : 1};
    s.shared_bytes = ROWS * pitch + s.stages * 2 * s.rows * pitch;
    return s;
}

static shape backward_shape(const attention *a) {
    uint32_t pitch = a->padded * a->size + 16, most = a->size == 2 ? 64 : 32;
    shape s = {.rows = a->padded <= 64 ? most : most / 2, .stages = a->size == 2 ? 2 : 1};
    s.shared_bytes = 2 * ROWS * pitch + s.stages * (2 * s.rows * pitch + s.rows * 8);
    return s;
}

static uint32_t add_kernel(mpc_cg *cg, const attention *a, const char *body, const mpc_cg_args *args, const shape *s) {
    const char *note = a->wide ? NULL : unaligned;
    if (a->exact) note = "f32 is multiplied exactly; precision = tf32 takes tensor cores";
    cg->parts |= MPC_CG_PART_ATTENTION;
    return mpc_cg_add_cuda_kernel(cg, body, args, &(mpc_cg_cuda_shape){THREADS, s->shared_bytes, !a->exact, note});
}

/* Of the triangle of a causal one half, of a band its width. */
static double work_of(const attention *a, double products) {
    double seen =
        a->ahead == 0 && a->behind >= a->t ? (double)a->s / 2 : (double)smaller(a->s, a->behind + a->ahead + 1);
    return products * 2.0 * (double)(a->b * a->h * a->t) * seen * (double)a->d;
}

static double bytes_of(const mpc_cg *cg, const mpc_node *n) {
    double bytes = 0;
    for (uint32_t i = 0; i < n->operand_count; i++)
        bytes += (double)mpc_type_bytes(mpc_value_type(cg->g, mpc_operand(cg->g, n, i)));
    for (uint32_t r = 0; r < n->result_count; r++)
        bytes += (double)mpc_type_bytes(mpc_value_type(cg->g, mpc_result(n, r)));
    return bytes;
}

static void add_launch(mpc_cg *cg, const attention *a, const mpc_node *n, uint32_t kernel, mpc_cg_args *args) {
    bool backward = n->op == MPC_OP_attention_grad;
    mpc_launch *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, args);
    if (launch == NULL) return;
    launch->flops = work_of(a, backward ? 5 : 2);
    launch->bytes = bytes_of(cg, n);
    for (uint32_t r = 1; r < n->result_count; r++) mpc_cg_add_result(cg, launch, mpc_result(n, r));
}

static void emit_forward(mpc_cg *cg, const attention *a, const mpc_node *n) {
    shape s = forward_shape(a);
    mpc_cg_args args = {.units = a->b * a->h * a->t, .blocks = (uint32_t)(a->b * a->h * tiles(a->t))};
    mpc_str body = {0};
    for (uint32_t i = 0; i < 3; i++) mpc_cg_add_pointer(&args, a->sides[i].at);
    for (uint32_t r = 0; r < 2; r++) mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_result(n, r)));
    mpc_cg_add_pointer(&args, a->mask);
    add_ints(a, &args);
    mpc_cg_add_float(&args, (float)((double)a->scale * 1.4426950408889634));
    mpc_str_printf(&body, "    mpc_attention<%s, %s, %u, %u, %u, %s, %s, %s>::run(p, n, f, block);\n", a->math,
                   format_name(cg, mpc_result(n, 0)), a->padded, s.rows, s.stages, a->sight, word(a->masked),
                   word(a->wide));
    if (body.failed) mpc_cg_no_memory(cg);
    add_launch(cg, a, n, add_kernel(cg, a, mpc_str_cstr(&body), &args, &s), &args);
    mpc_str_free(&body);
}

/* A few rows a block: the launch makes only a part. */
static void emit_delta(mpc_cg *cg, const attention *a, const mpc_node *n, mpc_pointer delta) {
    int64_t queries = a->b * a->h * a->t;
    mpc_cg_args args = {.units = queries};
    mpc_value_id y = mpc_operand(cg->g, n, 3);
    mpc_str body = {0};
    mpc_pointer from = mpc_cg_pointer(cg, y);
    bool wide = a->sides[3].wide && a->d * a->size % 16 == 0 && from.byte_offset % 16 == 0;
    args.blocks = (uint32_t)((queries + DELTA_ROWS - 1) / DELTA_ROWS);
    mpc_cg_add_pointer(&args, from);
    mpc_cg_add_pointer(&args, a->sides[3].at);
    mpc_cg_add_pointer(&args, delta);
    add_ints(a, &args);
    mpc_str_printf(&body, "    mpc_attention_delta<%s, %s, %s>(p, n, units, block);\n", format_name(cg, y), a->format,
                   word(wide));
    if (body.failed) mpc_cg_no_memory(cg);
    cg->parts |= MPC_CG_PART_ATTENTION;
    mpc_cg_cuda_shape launched = {.threads = THREADS,
                                  .note = wide ? "sums over rows: no products of matrices" : unaligned};
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), &args, &launched);
    mpc_launch *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
    if (launch != NULL) {
        launch->result_count = 0;
        launch->flops = 2.0 * (double)(queries * a->d);
        launch->bytes = (double)(mpc_type_bytes(mpc_value_type(cg->g, y)) + queries * a->d * a->size);
    }
    mpc_str_free(&body);
}

static void emit_backward(mpc_cg *cg, const attention *a, const mpc_node *n) {
    shape s = backward_shape(a);
    int64_t key_heads = a->h / a->share;
    mpc_cg_args args = {.units = a->b * (a->h * a->t + key_heads * a->s),
                        .blocks = (uint32_t)(a->b * (a->h * tiles(a->t) + key_heads * tiles(a->s)))};
    mpc_str body = {0};
    cg->workspace_used = 0;
    mpc_pointer delta = mpc_cg_workspace(cg, (uint64_t)(a->b * a->h * a->t) * sizeof(float));
    emit_delta(cg, a, n, delta);
    for (uint32_t i = 0; i < 4; i++) mpc_cg_add_pointer(&args, a->sides[i].at);
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_operand(cg->g, n, 4)));
    mpc_cg_add_pointer(&args, delta);
    for (uint32_t r = 0; r < 3; r++) mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, mpc_result(n, r)));
    mpc_cg_add_pointer(&args, a->mask);
    add_ints(a, &args);
    mpc_cg_add_float(&args, (float)((double)a->scale * 1.4426950408889634));
    mpc_cg_add_float(&args, a->scale);
    mpc_str_printf(&body, "    mpc_attention_grad<%s", a->math);
    for (uint32_t r = 0; r < 3; r++) mpc_str_printf(&body, ", %s", format_name(cg, mpc_result(n, r)));
    mpc_str_printf(&body, ", %u, %u, %u, %s, %s, %s, %s>(p, n, f, block);\n", a->padded, s.rows, s.stages, a->sight,
                   word(a->masked), word(a->wide), word(a->share > 1));
    if (body.failed) mpc_cg_no_memory(cg);
    add_launch(cg, a, n, add_kernel(cg, a, mpc_str_cstr(&body), &args, &s), &args);
    mpc_str_free(&body);
}

void mpc_cuda_attention(mpc_cg *cg, const mpc_node *n) {
    attention a;
    if (n->op != MPC_OP_attention && n->op != MPC_OP_attention_grad) {
        mpc_cg_fail(cg, "no kernel for %s (value %s): expand the graph first", mpc_op_get(cg->g->ctx, n->op)->name,
                    mpc_value_name(cg->g, mpc_result(n, 0)));
        return;
    }
    if (!read_attention(cg, n, &a)) return;
    if (n->op == MPC_OP_attention) emit_forward(cg, &a, n);
    else emit_backward(cg, &a, n);
}
