/* Strided copies and fills in CUDA. A move in which other axes are innermost on the two sides goes through a tile of
 * shared memory, so that warps read and write neighbours; every other move is one item per 1 to 16 bytes. Steps are in
 * bytes in the arguments; kernels know the number of axes, the bytes of an item and nothing else about shapes. */
#include <stdio.h>

#include "codegen/copy.h"
#include "codegen/cuda/grid.h"

enum { PACK_BYTES = 16, TILE = 32, TILE_LEAST = 8, TILE_BATCHES = 3, MOST_AXES = 5 };

typedef struct move {
    const mpc_format_info *from, *to;
    mpc_format from_format, to_format;
    mpc_copy_axes axes; /* by falling step of the result */
    int64_t width;      /* elements of an item */
    int64_t items;
    bool narrow;
    uint32_t across, along; /* tiles: innermost axis of the source, of the result */
    int64_t pair;           /* tiles: elements of an access */
} move;

static void sort_axes(mpc_copy_axes *a) {
    for (uint32_t i = 1; i < a->count; i++)
        for (uint32_t k = i; k > 0 && a->to[k] > a->to[k - 1]; k--) {
            int64_t swap[] = {a->dims[k], a->from[k], a->to[k]};
            a->dims[k] = a->dims[k - 1], a->from[k] = a->from[k - 1], a->to[k] = a->to[k - 1];
            a->dims[k - 1] = swap[0], a->from[k - 1] = swap[1], a->to[k - 1] = swap[2];
        }
}

/* Can `width` elements of axis `inner` be one access, `step` being the axis steps of that side? Buffers start at
 * multiples of 64. */
static bool is_aligned(const mpc_copy_axes *a, const int64_t *step, uint64_t offset, int64_t width, uint32_t bytes,
                       uint32_t inner) {
    if (step[inner] != 1 || a->dims[inner] % width != 0 || offset % ((uint64_t)width * bytes) != 0) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (i != inner && step[i] % width != 0) return false;
    return true;
}

static int64_t item_width(const move *m, const mpc_copy_side *from, const mpc_copy_side *to) {
    const mpc_copy_axes *a = &m->axes;
    int64_t bytes = m->from->bytes > m->to->bytes ? m->from->bytes : m->to->bytes;
    for (int64_t w = PACK_BYTES / bytes; w > 1; w /= 2)
        if (is_aligned(a, a->from, from->at.byte_offset, w, m->from->bytes, a->count - 1) &&
            is_aligned(a, a->to, to->at.byte_offset, w, m->to->bytes, a->count - 1))
            return w;
    return 1;
}

static bool is_transpose(move *m, const mpc_copy_side *from, const mpc_copy_side *to) {
    const mpc_copy_axes *a = &m->axes;
    m->along = a->count - 1, m->across = 0;
    while (m->across < a->count && a->from[m->across] != 1) m->across++;
    if (m->across >= m->along || a->to[m->along] != 1 || m->from_format != m->to_format) return false;
    if (a->dims[m->across] < TILE_LEAST || a->dims[m->along] < TILE_LEAST || a->count > TILE_BATCHES + 2) return false;
    bool pairs = m->to->bytes == 2 && is_aligned(a, a->from, from->at.byte_offset, 2, 2, m->across) &&
                 is_aligned(a, a->to, to->at.byte_offset, 2, 2, m->along);
    m->pair = pairs ? 2 : 1;
    return true;
}

/* --- items --- */

/* n: by axis the extent as a divisor (3), step from, step to, in bytes. */
static void add_axes(const move *m, mpc_cg_args *args) {
    for (uint32_t i = 0; i < m->axes.count; i++) {
        int64_t width = i + 1 == m->axes.count ? m->width : 1;
        mpc_grid_add_divisor(args, m->axes.dims[i] / width);
        mpc_cg_add_int(args, m->axes.from[i] * width * m->from->bytes);
        mpc_cg_add_int(args, m->axes.to[i] * width * m->to->bytes);
    }
}

static void print_addresses(const move *m, mpc_str *o) {
    mpc_str_append(o, m->narrow ? "        uint32_t q = i;\n" : "        int64_t q = i;\n");
    mpc_str_append(o, "        const char *x = (const char *)p[0];\n        char *y = (char *)p[1];\n");
    for (uint32_t k = m->axes.count; k-- > 0;) {
        char digit[16] = "q";
        if (k > 0) {
            snprintf(digit, sizeof digit, "d%u", k);
            mpc_grid_print_digit(o, "        ", digit, "q", 5 * k, m->narrow);
        }
        mpc_str_printf(o, "        x += (int64_t)%s * n[%u], y += (int64_t)%s * n[%u];\n", digit, 5 * k + 3, digit,
                       5 * k + 4);
    }
}

static void print_item(const move *m, mpc_str *o) {
    if (m->from_format == m->to_format) {
        unsigned bytes = m->to->bytes * (unsigned)m->width;
        mpc_str_printf(o, "        mpc_store%u(y, mpc_load%u(x));\n    }\n", bytes, bytes);
        return;
    }
    char lanes = mpc_cg_lanes(m->to_format), have = mpc_cg_lanes(m->from_format);
    mpc_str_printf(o, "        const auto v = mpc_load_%s<%d>(x, %d);\n", m->from->name, (int)m->width, (int)m->width);
    mpc_str_printf(o, "        mpc_store_%s(y, ", m->to->name);
    if (mpc_cg_rounds(m->to_format)) mpc_str_printf(o, "mpc_round_%s(", m->to->name);
    if (lanes != have) mpc_str_printf(o, "mpc_%c_from_%c(v)", lanes, have);
    else mpc_str_append(o, "v");
    mpc_str_printf(o, "%s, %d);\n    }\n", mpc_cg_rounds(m->to_format) ? ")" : "", (int)m->width);
}

static void make_items(const move *m, mpc_cg_args *args, mpc_str *o) {
    add_axes(m, args);
    args->units = m->items;
    args->blocks = mpc_grid_blocks(m->items, MPC_GRID_THREADS);
    mpc_grid_print_items(o, m->narrow);
    print_addresses(m, o);
    print_item(m, o);
}

/* --- tiles --- */

/* n: 0 extent across, 1 extent along, 2 step of the source along, 3 step of the result across, 4 tiles across, 5 tiles
 * along, then extents, steps from and steps to of three outer axes. Steps in bytes. */
static void add_tiles(const move *m, mpc_cg_args *args) {
    const mpc_copy_axes *a = &m->axes;
    int64_t size = TILE * m->pair, batch[TILE_BATCHES][3] = {{1, 0, 0}, {1, 0, 0}, {1, 0, 0}};
    int64_t across = (a->dims[m->across] + size - 1) / size, along = (a->dims[m->along] + size - 1) / size;
    uint32_t at = 0;
    args->units = across * along;
    for (uint32_t i = 0; i < a->count; i++) {
        if (i == m->across || i == m->along) continue;
        batch[at][0] = a->dims[i], batch[at][1] = a->from[i] * m->from->bytes, batch[at][2] = a->to[i] * m->to->bytes;
        args->units *= a->dims[i];
        at++;
    }
    int64_t ints[] = {a->dims[m->across],
                      a->dims[m->along],
                      a->from[m->along] * m->from->bytes,
                      a->to[m->across] * m->to->bytes,
                      across,
                      along};
    for (int i = 0; i < 6; i++) mpc_cg_add_int(args, ints[i]);
    for (int part = 0; part < 3; part++)
        for (int i = 0; i < TILE_BATCHES; i++) mpc_cg_add_int(args, batch[i][part]);
    args->blocks = mpc_grid_blocks(args->units, 1);
}

static void print_tile_start(const move *m, mpc_str *o) {
    int size = TILE * (int)m->pair;
    mpc_str_append(
        o, "    const int lane = mpc_thread() % 32, warp = mpc_thread() / 32;\n    char *const tile = mpc_shared();\n");
    mpc_str_append(o, "    for (int64_t t = block; t < units; t += blocks) {\n        int64_t q = t;\n");
    mpc_str_printf(o, "        const int64_t v0 = q %% n[4] * %d;\n        q /= n[4];\n", size);
    mpc_str_printf(o, "        const int64_t u0 = q %% n[5] * %d;\n        q /= n[5];\n", size);
    mpc_str_append(o, "        const char *x = (const char *)p[0];\n        char *y = (char *)p[1];\n");
    mpc_str_append(o, "        for (int i = 2; i >= 0; i--) {\n            x += q % n[6 + i] * n[9 + i];\n");
    mpc_str_append(o, "            y += q % n[6 + i] * n[12 + i];\n            q /= n[6 + i];\n        }\n");
}

/* Reads along v (across), writes along u: with pairs, two 16-bit elements of neighbouring tile rows make one word. */
static void print_tile_moves(const move *m, mpc_str *o) {
    unsigned bytes = m->to->bytes, pair = (unsigned)m->pair, access = bytes * pair, rows = TILE * pair;
    unsigned pitch = (rows + pair) * bytes;
    mpc_str_printf(o, "        MPC_UNROLL for (int k = 0; k < %u; k++) {\n", rows / 8);
    mpc_str_printf(o, "            const int64_t u = u0 + k * 8 + warp, v = v0 + lane * %u;\n", pair);
    mpc_str_printf(
        o,
        "            if (u < n[1] && v < n[0]) mpc_store%u(tile + (k * 8 + warp) * %u + lane * %u, mpc_load%u(x + u * "
        "n[2] + v * %u));\n        }\n        mpc_barrier();\n",
        access, pitch, access, access, bytes);
    mpc_str_printf(o, "        MPC_UNROLL for (int k = 0; k < %u; k++) {\n", rows / 8);
    mpc_str_printf(o, "            const int64_t v = v0 + k * 8 + warp, u = u0 + lane * %u;\n", pair);
    mpc_str_printf(o, "            const char *const from = tile + lane * %u + (k * 8 + warp) * %u;\n", pitch * pair,
                   bytes);
    if (pair == 1)
        mpc_str_printf(o,
                       "            if (u < n[1] && v < n[0]) mpc_store%u(y + v * n[3] + u * %u, mpc_load%u(from));\n",
                       access, bytes, access);
    else
        mpc_str_printf(
            o,
            "            if (u < n[1] && v < n[0]) mpc_store4(y + v * n[3] + u * 2, (uint32_t)mpc_load2(from) | "
            "(uint32_t)mpc_load2(from + %u) << 16);\n",
            pitch);
    mpc_str_append(o, "        }\n        mpc_barrier();\n    }\n");
}

static uint32_t tile_bytes(const move *m) {
    return (uint32_t)(TILE * m->pair * (TILE * m->pair + m->pair) * m->to->bytes);
}

/* --- the move --- */

static bool describe(mpc_cg *cg, const mpc_node *n, const mpc_copy_side *from, const mpc_copy_side *to, move *m) {
    *m = (move){.from = mpc_format_get(from->format),
                .to = mpc_format_get(to->format),
                .from_format = from->format,
                .to_format = to->format,
                .axes = mpc_copy_merge_axes(&from->layout, &to->layout),
                .width = 1,
                .items = 1};
    if (m->axes.count > MOST_AXES) {
        mpc_cg_fail(cg, "%s moves %u axes at once, more than %d", mpc_value_name(cg->g, mpc_result(n, 0)),
                    m->axes.count, MOST_AXES);
        return false;
    }
    sort_axes(&m->axes);
    if (m->axes.count > 0) m->width = item_width(m, from, to);
    for (uint32_t i = 0; i < m->axes.count; i++) m->items *= m->axes.dims[i];
    m->items /= m->width;
    m->narrow = mpc_grid_is_narrow(m->items);
    return true;
}

static void emit_move(mpc_cg *cg, const mpc_node *n, const mpc_copy_side *from, const mpc_copy_side *to,
                      mpc_launch **launch) {
    move m;
    if (!mpc_cg_ok(cg) || !describe(cg, n, from, to, &m)) return;
    mpc_cg_args args = {0};
    mpc_str body = {0};
    mpc_cg_cuda_shape shape = {.threads = MPC_GRID_THREADS};
    mpc_cg_add_pointer(&args, from->at);
    mpc_cg_add_pointer(&args, to->at);
    if (m.axes.count > 1 && is_transpose(&m, from, to)) {
        add_tiles(&m, &args);
        print_tile_start(&m, &body);
        print_tile_moves(&m, &body);
        shape.shared_bytes = tile_bytes(&m);
    } else {
        if (m.width == 1)
            shape.note = "single elements: rows aren't dense, or not multiples of 16 bytes, on both sides";
        make_items(&m, &args, &body);
    }
    if (body.failed) mpc_cg_no_memory(cg);
    mpc_grid_join(cg, n, launch, mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&body), &args, &shape), &args);
    mpc_str_free(&body);
    if (*launch != NULL) (*launch)->bytes += (double)(m.items * m.width) * (m.from->bytes + m.to->bytes);
}

/* --- fills --- */

/* n: 0 elements, 1 unused, 2 the value */
static void emit_fill(mpc_cg *cg, const mpc_node *n, double value, bool range) {
    mpc_value_id result = mpc_result(n, 0);
    mpc_format format = mpc_value_format(cg->g, result);
    const mpc_format_info *info = mpc_format_get(format);
    int64_t count = mpc_type_elements(mpc_value_type(cg->g, result)), width = PACK_BYTES / info->bytes;
    if (width > 8) width = 8;
    mpc_cg_args args = {.units = (count + width - 1) / width};
    mpc_str o = {0};
    mpc_cg_add_pointer(&args, mpc_cg_pointer(cg, result));
    mpc_cg_add_int(&args, count);
    mpc_cg_add_int(&args, 0);
    mpc_copy_add_value(&args, format, value);
    args.blocks = mpc_grid_blocks(args.units, MPC_GRID_THREADS);
    char lanes = mpc_cg_lanes(format);
    int w = (int)width;
    mpc_grid_print_items(&o, false);
    mpc_str_printf(&o, "        mpc_store_%s((char *)p[0] + i * %d, ", info->name, w * (int)info->bytes);
    if (range && lanes == 'l') mpc_cg_fail(cg, "range %s must give i32", mpc_value_name(cg->g, result));
    if (range) mpc_str_printf(&o, "mpc_splat_i<%d>((int32_t)i * %d) + mpc_lanes<%d>()", w, w, w);
    else if (lanes == 'f') mpc_str_printf(&o, "mpc_splat<%d>(f[0])", w);
    else mpc_str_printf(&o, lanes == 'l' ? "mpc_splat_l<%d>(n[2])" : "mpc_splat_i<%d>((int32_t)n[2])", w);
    mpc_str_printf(&o, ", n[0] - i * %d);\n    }\n", w);
    if (o.failed) mpc_cg_no_memory(cg);
    const mpc_cg_cuda_shape shape = {.threads = MPC_GRID_THREADS,
                                     .note = width * info->bytes < PACK_BYTES ? "8 elements of one byte" : NULL};
    mpc_launch *launch =
        mpc_cg_add_launch(cg, n, result, mpc_cg_add_cuda_kernel(cg, mpc_str_cstr(&o), &args, &shape), &args);
    mpc_str_free(&o);
    if (launch != NULL) launch->bytes += (double)(count * info->bytes);
}

static const mpc_copy_emitter emitter = {emit_move, emit_fill};

void mpc_cuda_fill(mpc_cg *cg, const mpc_node *n) { mpc_copy_emit_fill(cg, n, &emitter); }

void mpc_cuda_copy(mpc_cg *cg, const mpc_node *n) { mpc_copy_emit_view(cg, n, &emitter); }
