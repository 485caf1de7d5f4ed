/* What the lanes of a warp do together: shuffles, ldmatrix and mma, with the fragments of the PTX manual. Products of
 * mma are exact and each element of d takes them in ascending k, one fused multiply-add each: the order a GPU uses is
 * not documented, so results agree within rounding, not to the bit. NaN results are the GPU's 7fffffff. */
#include "internal.h"

#include <math.h>
#include <string.h>

const char *const sim_collective_names[] = {"a warp barrier", "a shuffle",  "a xor shuffle", "ldmatrix",
                                            "ldmatrix.trans", "an f16 mma", "a bf16 mma",    "a tf32 mma"};
enum { LANES = 32, ROWS = 16, COLS = 8, MAX_K = 16 };

static const char *shuffle(cudasim_exchange *const e[LANES], bool by_xor) {
    for (unsigned i = 0; i < LANES; i++) {
        if (!e[i]) continue;
        const unsigned from = by_xor ? i ^ e[i]->in[1] : e[i]->in[1];
        if (from >= LANES || !e[from]) return "a shuffle asks a lane that takes no part";
        e[i]->out[0] = e[from]->in[0];
    }
    return NULL;
}

/* Matrix j is rows of eight 16-bit elements; lanes 8 j to 8 j + 7 gave their addresses. */
static const char *ldmatrix(cudasim_exchange *const e[LANES], bool transposed) {
    const cudasim_machine *m = sim_machine();
    uint16_t rows[LANES][8];
    for (int i = 0; i < LANES; i++) {
        const char *at = e[i]->address;
        if ((uintptr_t)at % 16) return "misaligned address of ldmatrix";
        if (at < m->shared || at + 16 > m->shared + m->shared_bytes) return "ldmatrix from outside of shared memory";
        memcpy(rows[i], at, sizeof rows[i]);
    }
    for (unsigned i = 0; i < LANES; i++) {
        for (unsigned j = 0; j < 4; j++) {
            const unsigned q = i / 4, p = i % 4 * 2;
            const unsigned lo = transposed ? rows[8 * j + p][q] : rows[8 * j + q][p];
            const unsigned hi = transposed ? rows[8 * j + p + 1][q] : rows[8 * j + q][p + 1];
            e[i]->out[j] = lo | hi << 16;
        }
    }
    return NULL;
}

/* ---- mma ---- */
typedef struct tiles {
    float a[ROWS][MAX_K], b[MAX_K][COLS], d[ROWS][COLS];
} tiles;

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t to_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return isnan(x) ? 0x7fffffffu : bits;
}
static float f16_value(uint32_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, a = (h & 0x7fffu) << 13;
    if (a >= 0x0f800000u) return from_bits(sign | 0x7f800000u | a);
    const float x = from_bits(a) * 0x1p112f; /* subnormals too */
    return sign ? -x : x;
}
static float bf16_value(uint32_t h) { return from_bits(h << 16); }

/* A register holds elements k and k + 1 of a row of a, or of a column of b. */
static void unpack_16(tiles *t, cudasim_exchange *const e[LANES], float (*value)(uint32_t)) {
    for (int lane = 0; lane < LANES; lane++) {
        const unsigned *in = e[lane]->in;
        const int g = lane / 4, k = lane % 4 * 2;
        for (int i = 0; i < 4; i++) {
            float *at = &t->a[g + i % 2 * 8][k + i / 2 * 8];
            at[0] = value(in[4 + i] & 0xffffu), at[1] = value(in[4 + i] >> 16);
        }
        for (int i = 0; i < 2; i++) {
            t->b[k + i * 8][g] = value(in[8 + i] & 0xffffu);
            t->b[k + i * 8 + 1][g] = value(in[8 + i] >> 16);
        }
    }
}

static void unpack_tf32(tiles *t, cudasim_exchange *const e[LANES]) {
    for (int lane = 0; lane < LANES; lane++) {
        const unsigned *in = e[lane]->in;
        const int g = lane / 4, k = lane % 4;
        for (int i = 0; i < 4; i++) t->a[g + i % 2 * 8][k + i / 2 * 4] = from_bits(in[4 + i] & ~0x1fffu);
        for (int i = 0; i < 2; i++) t->b[k + i * 4][g] = from_bits(in[8 + i] & ~0x1fffu);
    }
}

static const char *mma(cudasim_exchange *const e[LANES], cudasim_collective what) {
    tiles t;
    const int depth = what == CUDASIM_MMA_TF32 ? 8 : 16;
    if (what == CUDASIM_MMA_TF32) unpack_tf32(&t, e);
    else unpack_16(&t, e, what == CUDASIM_MMA_F16 ? f16_value : bf16_value);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) t.d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = from_bits(e[lane]->in[i]);
    for (int k = 0; k < depth; k++)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLS; c++) t.d[r][c] = fmaf(t.a[r][k], t.b[k][c], t.d[r][c]);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < 4; i++) e[lane]->out[i] = to_bits(t.d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2]);
    return NULL;
}

const char *sim_exchange(cudasim_collective what, cudasim_exchange *const e[LANES]) {
    if (what == CUDASIM_SYNC_WARP) return NULL;
    if (what == CUDASIM_SHUFFLE || what == CUDASIM_SHUFFLE_XOR) return shuffle(e, what == CUDASIM_SHUFFLE_XOR);
    for (int i = 0; i < LANES; i++)
        if (!e[i]) return "only a part of the warp is named in a call that all 32 lanes make";
    if (what == CUDASIM_LDMATRIX || what == CUDASIM_LDMATRIX_TRANSPOSED)
        return ldmatrix(e, what == CUDASIM_LDMATRIX_TRANSPOSED);
    return mma(e, what);
}
