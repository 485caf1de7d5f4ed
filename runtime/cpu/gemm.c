/* Blocking around the register tiles: k in blocks that keep a panel of b in the second-level cache, panels packed (and
 * widened to f32) unless they already lie well. More than one block of k accumulates in an f32 tile in scratch memory,
 * so a low result is still rounded once. */
#include "runtime/cpu/gemm.h"

#include <string.h>

#include "base/numfmt.h"

enum { K_BLOCK = 512, MAX_COLUMNS = 64, MAX_TILE = MPC_MOST_TILE_ROWS * MAX_COLUMNS, DIRECT_BYTES = 40 << 10 };

typedef struct tile_range { /* a block of k */
    int64_t k0, k;
    bool first, last;
} tile_range;

typedef struct run_state {
    const mpc_gemm *g;
    const mpc_gemm_isa *isa;
    float *packed_a, *packed_b; /* all panels of this block of k */
    float *sums;                /* NULL: k is one block */
    int64_t sums_row;
    bool direct_a, direct_b;
    bool rows_a; /* packed_a holds rows, k contiguous, instead of panels: low formats that need no transposing */
} run_state;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

bool mpc_gemm_supports(mpc_format format) {
    return format == MPC_FMT_f32 || format == MPC_FMT_bf16 || format == MPC_FMT_f16 || format == MPC_FMT_f8e4m3 ||
           format == MPC_FMT_f8e5m2 || mpc_format_is_user(format);
}

uint64_t mpc_gemm_scratch(const mpc_gemm_isa *isa, int64_t m, int64_t n, int64_t k) {
    int64_t kb = k < K_BLOCK ? k : K_BLOCK;
    int64_t mp = round_up(m, isa->rows), np = round_up(n, isa->columns);
    int64_t floats = (mp + np) * (kb + 1) + (k > K_BLOCK ? mp * np : 0);
    return (uint64_t)floats * sizeof(float) + 256;
}

static void pack_panels(const mpc_gemm_isa *isa, mpc_pack whole, int64_t lanes, int64_t width, float *to) {
    for (int64_t lane = 0; lane < lanes; lane += width) {
        mpc_pack panel = whole;
        panel.from = mpc_at(whole.from, whole.format, lane * whole.lane_stride);
        panel.lanes = lanes - lane < width ? lanes - lane : width;
        panel.width = width;
        isa->pack(&panel, to + lane * whole.k);
    }
}

static void widen_rows(run_state *s, const tile_range *r) {
    const mpc_gemm *g = s->g;
    for (int64_t i = 0; i < g->m; i++)
        s->isa->to_f32(g->fa, mpc_at(g->a, g->fa, r->k0 + i * g->a_row), s->packed_a + i * r->k, r->k);
}

static void pack_block(run_state *s, const tile_range *r) {
    const mpc_gemm *g = s->g;
    if (s->rows_a) {
        widen_rows(s, r);
    } else if (!s->direct_a) {
        mpc_pack a = {.from = mpc_at(g->a, g->fa, r->k0 * g->a_col),
                      .format = g->fa,
                      .lane_stride = g->a_row,
                      .k_stride = g->a_col,
                      .k = r->k};
        pack_panels(s->isa, a, g->m, s->isa->rows, s->packed_a);
    }
    if (!s->direct_b || g->n % s->isa->columns != 0) {
        int64_t begin = s->direct_b ? g->n / s->isa->columns * s->isa->columns : 0;
        mpc_pack b = {.from = mpc_at(g->b, g->fb, r->k0 * g->b_row + begin * g->b_col),
                      .format = g->fb,
                      .lane_stride = g->b_col,
                      .k_stride = g->b_row,
                      .k = r->k};
        pack_panels(s->isa, b, g->n - begin, s->isa->columns, s->packed_b + begin * r->k);
    }
}

static mpc_micro make_tile(const run_state *s, const tile_range *r, int64_t i, int64_t j) {
    const mpc_gemm *g = s->g;
    mpc_micro tile = {.k = r->k};
    if (s->direct_a) {
        tile.a = (const float *)g->a + i * g->a_row + r->k0 * g->a_col;
        tile.a_row = g->a_row;
        tile.a_col = g->a_col;
    } else if (s->rows_a) {
        tile.a = s->packed_a + i * r->k;
        tile.a_row = r->k;
        tile.a_col = 1;
    } else {
        tile.a = s->packed_a + i * r->k;
        tile.a_row = 1;
        tile.a_col = s->isa->rows;
    }
    if (s->direct_b && j + s->isa->columns <= g->n) {
        tile.b = (const float *)g->b + r->k0 * g->b_row + j;
        tile.b_row = g->b_row;
    } else {
        tile.b = s->packed_b + j * r->k;
        tile.b_row = s->isa->columns;
    }
    return tile;
}

static void finish_row(const mpc_gemm *g, float *row, int64_t j, int64_t n) {
    if (g->bias)
        for (int64_t x = 0; x < n; x++) row[x] += g->bias[j + x];
    if (g->relu)
        for (int64_t x = 0; x < n; x++) row[x] = row[x] < 0 ? 0 : row[x]; /* NaN stays */
}

/* Bias, activation and the one rounding, for a tile of sums in memory. */
static void store_tile(const run_state *s, float *sums, int64_t row_stride, int64_t i, int64_t j, bool finished) {
    const mpc_gemm *g = s->g;
    int64_t m = least(g->m - i, s->isa->rows), n = least(g->n - j, s->isa->columns);
    for (int64_t y = 0; y < m; y++) {
        float *row = sums + y * row_stride;
        int64_t at = (i + y) * g->c_row + j * g->c_col;
        if (g->add)
            for (int64_t x = 0; x < n; x++) row[x] += ((const float *)g->c)[at + x * g->c_col];
        if (!finished) finish_row(g, row, j, n);
        if (g->c_col == 1) {
            s->isa->from_f32(g->fc, row, mpc_at_mutable(g->c, g->fc, at), n);
            continue;
        }
        for (int64_t x = 0; x < n; x++)
            s->isa->from_f32(g->fc, row + x, mpc_at_mutable(g->c, g->fc, at + x * g->c_col), 1);
    }
}

/* Tiles read whole vectors. */
static const float *pad_bias(const float *bias, int64_t columns, float padded[MAX_COLUMNS]) {
    memset(padded, 0, MAX_COLUMNS * sizeof *padded);
    return memcpy(padded, bias, (size_t)columns * sizeof *bias);
}

static void run_tile(const run_state *s, const tile_range *r, int64_t i, int64_t j) {
    const mpc_gemm *g = s->g;
    int64_t rows = least(g->m - i, s->isa->rows), columns = least(g->n - j, s->isa->columns);
    mpc_micro tile = make_tile(s, r, i, j);
    bool narrow = columns <= s->isa->columns / 2, whole = columns == s->isa->columns || columns == s->isa->columns / 2;
    float local[MAX_TILE], padded[MAX_COLUMNS];
    bool direct = !s->sums && whole && g->fc == MPC_FMT_f32 && g->c_col == 1, finished = false;
    if (direct) {
        tile.c = (float *)g->c + i * g->c_row + j;
        tile.c_row = g->c_row;
        tile.add = g->add;
    } else if (s->sums) {
        tile.c = s->sums + i * s->sums_row + j;
        tile.c_row = s->sums_row;
        tile.add = !r->first;
    } else {
        tile.c = local;
        tile.c_row = s->isa->columns;
        finished = !g->add;
    }
    if (direct || finished) {
        if (g->bias) tile.bias = whole ? g->bias + j : pad_bias(g->bias + j, columns, padded);
        tile.relu = g->relu;
    }
    (narrow ? s->isa->narrow : s->isa->wide)[rows - 1](&tile);
    if (!direct && r->last) store_tile(s, tile.c, tile.c_row, i, j, finished);
}

static bool lies_well(mpc_format format, int64_t contiguous, int64_t stride, int64_t rows) {
    return format == MPC_FMT_f32 && contiguous == 1 && rows * stride * (int64_t)sizeof(float) <= DIRECT_BYTES;
}

static void store_without_sum(const mpc_gemm *g, const mpc_gemm_isa *isa) {
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            float value = g->bias ? g->bias[j] : 0;
            if (g->relu && value < 0) value = 0;
            isa->from_f32(g->fc, &value, mpc_at_mutable(g->c, g->fc, i * g->c_row + j * g->c_col), 1);
        }
}

void mpc_gemm_run(const mpc_gemm *g, const mpc_gemm_isa *isa, void *scratch) {
    if (g->k == 0 && g->add && !g->bias && !g->relu) return;
    if (g->k == 0) {
        store_without_sum(g, isa);
        return;
    }
    int64_t kb = g->k < K_BLOCK ? g->k : K_BLOCK;
    int64_t mp = round_up(g->m, isa->rows), np = round_up(g->n, isa->columns);
    float *memory = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    run_state s = {.g = g, .isa = isa, .packed_a = memory, .packed_b = memory + round_up(mp * kb, 16), .sums_row = np};
    if (g->k > K_BLOCK) s.sums = s.packed_b + np * kb;
    s.direct_a = g->fa == MPC_FMT_f32 && (g->a_col == 1 || lies_well(g->fa, g->a_row, g->a_col, kb));
    s.rows_a = g->fa != MPC_FMT_f32 && g->a_col == 1;
    s.direct_b = lies_well(g->fb, g->b_col, g->b_row, kb);
    for (int64_t k0 = 0; k0 < g->k; k0 += K_BLOCK) {
        int64_t k = g->k - k0 < K_BLOCK ? g->k - k0 : K_BLOCK;
        tile_range r = {.k0 = k0, .k = k, .first = k0 == 0, .last = k0 + k == g->k};
        pack_block(&s, &r);
        for (int64_t j = 0; j < g->n; j += isa->columns)
            for (int64_t i = 0; i < g->m; i += isa->rows) run_tile(&s, &r, i, j);
    }
}

const mpc_gemm_isa *mpc_gemm_isa_best(void) {
    const mpc_gemm_isa *isa = mpc_gemm_isa_avx512();
    if (!isa) isa = mpc_gemm_isa_avx2();
    return isa ? isa : mpc_gemm_isa_base();
}
