/* Convolutions in CUDA: each becomes a few lines of text that instantiate a template of conv.h: tiles on tensor cores
 * (f32: fused multiply-adds), or one result a thread where groups are narrow. 1x1 convolutions become matmuls. What is
 * chosen depends on shapes and formats only; extents are arguments, so batches of all sizes share a kernel where the
 * tile is the same. The order of n[] and the bytes of shared memory are written down twice, here and in conv.h: the
 * kernel's text asserts the latter. */
#include "codegen/cg.h"

enum { DIRECT_THREADS = 256, NARROW_GROUP = 8, STRIP_ROWS = 64, STAGES = 3, STAGE_BYTES_OF_K = 64 };
enum { MOST_PIXELS = 1 << 30 }; /* a kernel counts them in 32 bits */
/* Blocks that fill a large GPU; pixels a part of a weight gradient has at least; bytes of all parts at most. */
enum { FULL_GPU = 264, LEAST_PART = 512, MOST_PART_BYTES = 1 << 26, PART_MULTIPLE = 32 };

typedef struct tile_shape {
    int rows, columns;
    double speed; /* relative, of a full tile: how often shared memory is read for each product */
} tile_shape;
static const tile_shape tiles[] = {{128, 128, 1.0}, {128, 64, 0.85}, {64, 64, 0.7}, {128, 32, 0.65}, {64, 32, 0.55}};
enum { TILE_COUNT = sizeof tiles / sizeof *tiles };

typedef struct plan {
    mpc_conv conv;
    int64_t c_group, oc_group;
    mpc_pointer a, b, result;
    mpc_format fa, fb, out;       /* out: of what the kernel stores, f32 for parts */
    int64_t rows, columns, outer; /* of the product of one group and phase; groups and phases, without parts */
    int64_t parts, part_pixels;
    tile_shape tile;
    bool direct;
} plan;

/* --- what it is --- */

static const char *const directions[] = {"MPC_CONV_FORWARD", "MPC_CONV_GRAD_INPUT", "MPC_CONV_GRAD_WEIGHT"};

/* Name in conv.h; NULL: not among its formats. */
static const char *type_name(mpc_format format, bool tf32) {
    if (format == MPC_FMT_f32) return tf32 ? "MPC_CONV_TF32" : "MPC_CONV_F32";
    static const struct {
        mpc_format format;
        const char *name;
    } low[] = {{MPC_FMT_bf16, "MPC_CONV_BF16"},
               {MPC_FMT_f16, "MPC_CONV_F16"},
               {MPC_FMT_f8e4m3, "MPC_CONV_F8E4M3"},
               {MPC_FMT_f8e5m2, "MPC_CONV_F8E5M2"}};
    for (size_t i = 0; i < sizeof low / sizeof *low; i++)
        if (low[i].format == format) return low[i].name;
    return NULL;
}

/* Operands that tensor cores, or f32 units, multiply as they are. */
static bool has_products(const plan *p) { return p->fa == p->fb && mpc_format_get(p->fa)->bytes > 1; }

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void find_operands(plan *p) {
    const mpc_conv *c = &p->conv;
    bool forward = c->kind == MPC_CONV_FORWARD, input = c->kind == MPC_CONV_GRAD_INPUT;
    p->a = input ? c->y : c->x, p->fa = input ? c->fy : c->fx;
    p->b = forward || input ? c->w : c->y, p->fb = forward || input ? c->fw : c->fy;
    p->result = forward ? c->y : input ? c->x : c->w;
    p->out = forward ? c->fy : input ? c->fx : c->fw;
}

static void find_extents(plan *p) {
    const mpc_conv *c = &p->conv;
    bool forward = c->kind == MPC_CONV_FORWARD, input = c->kind == MPC_CONV_GRAD_INPUT;
    p->c_group = c->c / c->groups;
    p->oc_group = c->oc / c->groups;
    p->columns = input ? p->c_group : p->oc_group;
    p->rows = forward ? c->n * c->oh * c->ow
              : input ? c->n * divide_up(c->h, c->stride[0]) * divide_up(c->wd, c->stride[1])
                      : c->kh * c->kw * p->c_group;
    p->outer = c->groups * (input ? c->stride[0] * c->stride[1] : 1);
}

static bool can_do(mpc_cg *cg, const plan *p, const char *name) {
    const mpc_conv *c = &p->conv;
    const mpc_format formats[] = {p->fa, p->fb, p->out};
    for (int i = 0; i < 3; i++)
        if (type_name(formats[i], false) == NULL)
            mpc_cg_fail(cg, "%s: the cuda device convolves f32, bf16, f16 and f8, not %s", name,
                        mpc_format_get(formats[i])->name);
    if (c->acc != MPC_FMT_f32 && c->acc != MPC_FMT_none)
        mpc_cg_fail(cg, "%s: the cuda device accumulates in f32, not in %s", name, mpc_format_get(c->acc)->name);
    const int64_t extents[] = {c->n * c->h * c->wd, c->n * c->oh * c->ow, c->kh * c->kw * p->c_group,
                               c->kh * c->kw * p->oc_group};
    for (int i = 0; i < 4; i++)
        if (extents[i] > MOST_PIXELS) mpc_cg_fail(cg, "%s: a convolution over more than 2^30 pixels", name);
    return mpc_cg_ok(cg);
}

/* --- 1x1: a product of [pixels, c] and [c, oc] --- */

static bool is_matmul(const plan *p) {
    const mpc_conv *c = &p->conv;
    return has_products(p) && c->kh == 1 && c->kw == 1 && c->stride[0] == 1 && c->stride[1] == 1 && c->pad[0] == 0 &&
           c->pad[1] == 0 && c->groups == 1;
}

static void fill_matmul(const plan *p, mpc_matmul *m) {
    const mpc_conv *c = &p->conv;
    int64_t pixels = c->n * c->h * c->wd;
    *m = (mpc_matmul){.a = p->a,
                      .b = p->b,
                      .c = p->result,
                      .bias = c->bias,
                      .has_bias = c->has_bias,
                      .relu = c->relu,
                      .fa = p->fa,
                      .fb = p->fb,
                      .fc = p->out,
                      .acc = c->acc,
                      .compute = c->compute,
                      .m = pixels,
                      .n = c->oc,
                      .k = c->c,
                      .a_row = c->c,
                      .a_col = 1,
                      .b_row = c->oc,
                      .b_col = 1,
                      .c_row = c->oc,
                      .c_col = 1,
                      .batch = {1, 1, 1}};
    if (c->kind == MPC_CONV_GRAD_INPUT) { /* dy times w transposed */
        m->n = c->c, m->k = c->oc;
        m->a_row = c->oc, m->b_row = 1, m->b_col = c->oc, m->c_row = c->c;
    } else if (c->kind == MPC_CONV_GRAD_WEIGHT) { /* x transposed times dy */
        m->m = c->c, m->k = pixels;
        m->a_row = 1, m->a_col = c->c;
    }
}

static void count_work(const plan *p, mpc_launch *launch) {
    const mpc_conv *c = &p->conv;
    launch->flops = 2.0 * (double)(c->n * c->oh * c->ow * c->oc) * (double)(c->kh * c->kw * p->c_group);
    launch->bytes = (double)(c->n * c->h * c->wd * c->c * mpc_format_get(c->fx)->bytes) +
                    (double)(c->kh * c->kw * p->c_group * c->oc * mpc_format_get(c->fw)->bytes) +
                    (double)(c->n * c->oh * c->ow * c->oc * mpc_format_get(c->fy)->bytes);
}

static void launch_matmul(mpc_cg *cg, const mpc_node *n, const plan *p) {
    mpc_launch *launch = mpc_cg_new_launch(cg, n, mpc_result(n, 0), MPC_LAUNCH_MATMUL);
    if (launch == NULL) return;
    fill_matmul(p, &launch->matmul);
    count_work(p, launch);
    if (launch->matmul.has_bias || launch->matmul.relu) mpc_cuda_matmul_epilogue(cg, n, launch);
}

/* --- how it is cut up --- */

static int64_t tiles_of(const plan *p, tile_shape t) {
    return divide_up(p->rows, t.rows) * divide_up(p->columns, t.columns) * p->outer;
}

static int64_t most_parts(const plan *p) {
    const mpc_conv *c = &p->conv;
    if (c->kind != MPC_CONV_GRAD_WEIGHT) return 1;
    int64_t by_pixels = c->n * c->oh * c->ow / LEAST_PART, by_bytes = MOST_PART_BYTES / (p->rows * c->oc * 4);
    int64_t most = by_pixels < by_bytes ? by_pixels : by_bytes;
    return most > 1 ? most : 1;
}

static double min_of(double a, double b) { return a < b ? a : b; }

/* The tile with the most useful products a second, as far as it fills the GPU. */
static void choose_tile(plan *p) {
    double best = 0, useful = (double)p->rows * (double)p->columns * (double)p->outer;
    for (int i = 0; i < TILE_COUNT; i++) {
        double blocks = (double)tiles_of(p, tiles[i]), done = blocks * tiles[i].rows * tiles[i].columns;
        double fill = min_of(1.0, blocks * (double)most_parts(p) / FULL_GPU);
        double score = tiles[i].speed * fill * useful / done;
        if (score > best) best = score, p->tile = tiles[i];
    }
}

/* Parts of a weight gradient: enough of them to fill the GPU, all of the same number of pixels but the last. */
static void choose_parts(plan *p, int64_t blocks) {
    const mpc_conv *c = &p->conv;
    int64_t pixels = c->n * c->oh * c->ow, want = divide_up(2 * FULL_GPU, blocks), most = most_parts(p);
    if (c->kind != MPC_CONV_GRAD_WEIGHT || most == 1) want = 1;
    else if (want > most) want = most;
    p->part_pixels = divide_up(divide_up(pixels, want), PART_MULTIPLE) * PART_MULTIPLE;
    p->parts = c->kind == MPC_CONV_GRAD_WEIGHT ? divide_up(pixels, p->part_pixels) : 1;
}

/* --- arguments and text --- */

/* x / d is (high half of x * mul + x) >> shift. */
static void add_divider(mpc_cg_args *args, int64_t d) {
    uint32_t shift = 0;
    while ((INT64_C(1) << shift) < d) shift++;
    uint64_t over = (UINT64_C(1) << shift) - (uint64_t)d;
    mpc_cg_add_int(args, (int64_t)((over << 32) / (uint64_t)d + 1));
    mpc_cg_add_int(args, shift);
}

static void add_arguments(const plan *p, mpc_cg_args *args) {
    const mpc_conv *c = &p->conv;
    const mpc_pointer pointers[] = {p->a, p->b, p->result, c->has_bias ? c->bias : p->result};
    const int64_t ints[] = {c->n,         c->h,        c->wd,     c->c,           c->oh,
                            c->ow,        c->oc,       c->kh,     c->kw,          c->stride[0],
                            c->stride[1], c->pad[0],   c->pad[1], c->dilation[0], c->dilation[1],
                            c->groups,    c->has_bias, c->relu,   p->part_pixels};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) mpc_cg_add_pointer(args, pointers[i]);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) mpc_cg_add_int(args, ints[i]);
    add_divider(args, c->oh * c->ow);
    add_divider(args, c->ow);
    add_divider(args, c->kind == MPC_CONV_GRAD_INPUT ? p->oc_group : p->c_group);
}

/* Bytes of one access to rows of `run` neighbouring elements: 16, else 4, else one element. */
static uint32_t access_width(mpc_format format, int64_t run, mpc_pointer at) {
    uint32_t size = mpc_format_get(format)->bytes;
    uint64_t both = (uint64_t)run * size | at.byte_offset;
    if (both % 16 == 0) return 16;
    return both % 4 == 0 ? 4 : size;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* mpc_conv_tile::Shared. */
static uint32_t shared_bytes(const plan *p) {
    uint32_t size = mpc_format_get(p->fa)->bytes, depth = STAGE_BYTES_OF_K / size, pad = size == 2 ? 16 : 32;
    uint32_t rows = (uint32_t)p->tile.rows, columns = (uint32_t)p->tile.columns, by_k = STAGE_BYTES_OF_K + 16;
    uint32_t a = p->conv.kind != MPC_CONV_GRAD_WEIGHT ? by_k * rows : (rows * size + pad) * depth;
    uint32_t b = p->conv.kind == MPC_CONV_GRAD_INPUT ? by_k * columns : (columns * size + pad) * depth;
    return larger(STAGES * (a + b), STRIP_ROWS * (columns + 4) * 4) + rows * 16;
}

static uint32_t print_tile(mpc_cg *cg, const plan *p, const mpc_cg_args *args) {
    bool tf32 = p->conv.compute == MPC_FMT_tf32, exact = p->fa == MPC_FMT_f32 && !tf32;
    bool input = p->conv.kind == MPC_CONV_GRAD_INPUT;
    uint32_t va = access_width(p->fa, input ? p->oc_group : p->c_group, p->a),
             vb = access_width(p->fb, p->oc_group, p->b);
    uint32_t vo = access_width(p->out, p->columns, p->result), size = mpc_format_get(p->out)->bytes;
    mpc_cg_cuda_shape shape = {.threads = p->tile.rows * p->tile.columns > 128 * 64 ? 256 : 128,
                               .shared_bytes = shared_bytes(p),
                               .tensor_cores = !exact};
    if (va < 16 || vb < 16)
        shape.note = "the channels of a group don't fill 16 bytes: elements are gathered one or two at a time";
    mpc_str body = {0};
    mpc_str_printf(&body, "    typedef mpc_conv_tile<%s, %s, %s, %d, %d, %u, %u, %u> tile;\n", directions[p->conv.kind],
                   type_name(p->fa, tf32), type_name(p->out, false), p->tile.rows, p->tile.columns, va, vb,
                   vo == 16 && size > 1 ? 16 : size);
    mpc_str_printf(&body, "    static_assert(tile::Shared == %u && tile::Threads == %u, \"as launched\");\n",
                   shape.shared_bytes, shape.threads);
    mpc_str_append(&body, "    mpc_conv<tile>(p, n, block);\n");
    if (body.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), args, &shape);
    mpc_str_free(&body);
    return kernel;
}

static uint32_t print_direct(mpc_cg *cg, const plan *p, const mpc_cg_args *args) {
    mpc_cg_cuda_shape shape = {.threads = DIRECT_THREADS,
                               .note = has_products(p)
                                           ? "groups of few channels: no matrix to multiply, no 16 bytes in a row"
                                           : "operands of two formats or of 8 bits: products in f32"};
    const char *a = type_name(p->fa, false), *b = type_name(p->fb, false), *out = type_name(p->out, false);
    mpc_str body = {0};
    if (p->conv.kind == MPC_CONV_GRAD_WEIGHT) {
        shape.shared_bytes = DIRECT_THREADS * 4;
        mpc_str_printf(&body, "    mpc_conv_direct_weight<%s, %s, %s>(p, n, block);\n", a, b, out);
    } else {
        mpc_str_printf(&body, "    mpc_conv_direct<%s, %s, %s, %s>(p, n, block);\n", directions[p->conv.kind], a, b,
                       out);
    }
    if (body.failed) mpc_cg_no_memory(cg);
    uint32_t kernel = mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), args, &shape);
    mpc_str_free(&body);
    return kernel;
}

/* --- launches --- */

static int64_t direct_blocks(const plan *p) {
    const mpc_conv *c = &p->conv;
    if (c->kind == MPC_CONV_GRAD_WEIGHT) return divide_up(p->rows * c->oc, 32);
    return divide_up(c->kind == MPC_CONV_FORWARD ? c->n * c->oh * c->ow * c->oc : c->n * c->h * c->wd * c->c,
                     DIRECT_THREADS);
}

static void add_fold(mpc_cg *cg, const mpc_node *n, const plan *p, mpc_pointer parts) {
    mpc_cg_fold fold = {.op = "sum",
                        .lanes = 'f',
                        .partial = parts,
                        .units = p->parts,
                        .cols = p->rows * p->conv.oc,
                        .result = mpc_result(n, 0)};
    mpc_cg_fold_partials(cg, n, &fold, 1);
}

static void launch_kernel(mpc_cg *cg, const mpc_node *n, plan *p) {
    bool narrow = p->conv.groups > 1 && (p->c_group < NARROW_GROUP || p->oc_group < NARROW_GROUP);
    p->direct = narrow || !has_products(p);
    if (!p->direct) choose_tile(p);
    int64_t blocks = p->direct ? direct_blocks(p) : tiles_of(p, p->tile);
    choose_parts(p, blocks);
    if (blocks * p->parts > INT32_MAX)
        mpc_cg_fail(cg, "%s is too large for one launch", mpc_value_name(cg->g, mpc_result(n, 0)));
    cg->workspace_used = 0;
    if (p->parts > 1) {
        p->result = mpc_cg_workspace(cg, (uint64_t)(p->parts * p->rows * p->conv.oc) * 4);
        p->out = MPC_FMT_f32;
    }
    mpc_cg_args args = {.units = blocks * p->parts, .blocks = (uint32_t)(blocks * p->parts)};
    add_arguments(p, &args);
    cg->parts |= MPC_CG_PART_CONV;
    uint32_t kernel = p->direct ? print_direct(cg, p, &args) : print_tile(cg, p, &args);
    mpc_launch *launch = mpc_cg_add_launch(cg, n, mpc_result(n, 0), kernel, &args);
    if (launch == NULL) return;
    count_work(p, launch);
    if (p->parts == 1) return;
    launch->result_count = 0; /* parts only: the fold writes the result */
    add_fold(cg, n, p, p->result);
}

void mpc_cuda_conv(mpc_cg *cg, const mpc_node *n) {
    plan p = {.conv = mpc_cg_describe_conv(cg, n)};
    if (!mpc_cg_ok(cg)) return;
    find_operands(&p);
    find_extents(&p);
    if (!can_do(cg, &p, mpc_value_name(cg->g, mpc_result(n, 0)))) return;
    if (is_matmul(&p)) launch_matmul(cg, n, &p);
    else launch_kernel(cg, n, &p);
}
