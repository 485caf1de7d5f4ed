/* Own matrix product: every instruction set of this machine, every format, strides and tails, against a sum in double.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/numfmt.h"
#include "runtime/cpu/gemm.h"
#include "runtime/store_layout.h"
#include "tests/check.h"

typedef struct shape {
    int64_t m, n, k;
    bool ta, tb, tc;
} shape;

static void *random_tensor(mpc_format format, int64_t n, uint64_t stream) {
    void *data = mpc_alloc((size_t)n * 8);
    for (int64_t i = 0; i < n; i++)
        mpc_element_set(format, data, i, (double)((i * 7919 + (int64_t)stream * 13) % 4001 - 2000) / 1000);
    return data;
}

static double *widen(mpc_format format, const void *data, int64_t n) {
    double *out = mpc_alloc((size_t)n * sizeof *out);
    for (int64_t i = 0; i < n; i++) out[i] = mpc_element_get(format, data, i);
    return out;
}

static double reference(const mpc_gemm *g, const double *a, const double *b, int64_t i, int64_t j, double *size) {
    double sum = 0;
    *size = 0;
    for (int64_t k = 0; k < g->k; k++) {
        double term = a[i * g->a_row + k * g->a_col] * b[k * g->b_row + j * g->b_col];
        sum += term;
        *size += fabs(term);
    }
    if (g->bias) sum += (double)g->bias[j];
    return g->relu && sum < 0 ? 0 : sum;
}

/* Half a unit in the last place of the format, plus the f32 sum's error. */
static double bound(mpc_format format, double value, double size, int64_t k) {
    const mpc_numfmt *fmt = &mpc_format_get(format)->fmt;
    double rounding = fabs(value) * ldexp(1, -fmt->fraction_bits - 1) + mpc_numfmt_min_subnormal(fmt) / 2;
    return rounding * 1.01 + size * ldexp(1, -24) * (double)(k + 2);
}

static void check_shape(const mpc_gemm_isa *isa, mpc_format in, mpc_format out, const shape *s, bool extras) {
    mpc_gemm g = {.fa = in, .fb = in, .fc = out, .m = s->m, .n = s->n, .k = s->k};
    g.a_row = s->ta ? 1 : s->k + 3;
    g.a_col = s->ta ? s->m + 1 : 1;
    g.b_row = s->tb ? 1 : s->n + 5;
    g.b_col = s->tb ? s->k : 1;
    g.c_row = s->tc ? 1 : s->n + 2;
    g.c_col = s->tc ? s->m : 1;
    void *a = random_tensor(in, (s->m + 1) * (s->k + 3), 1), *b = random_tensor(in, (s->k + 1) * (s->n + 5), 2);
    void *c = random_tensor(out, (s->m + 1) * (s->n + 2), 3);
    float *bias = random_tensor(MPC_FMT_f32, s->n, 4);
    g.a = a;
    g.b = b;
    g.c = c;
    g.bias = extras ? bias : NULL;
    g.relu = extras;
    void *scratch = mpc_alloc((size_t)mpc_gemm_scratch(isa, s->m, s->n, s->k));
    double before = s->n + 1 < g.c_row ? mpc_element_get(out, c, s->n) : 0; /* between two rows */
    mpc_gemm_run(&g, isa, scratch);
    double *wide_a = widen(in, a, (s->m + 1) * (s->k + 3)), *wide_b = widen(in, b, (s->k + 1) * (s->n + 5));
    int wrong = 0;
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            double size = 0, want = reference(&g, wide_a, wide_b, i, j, &size),
                   got = mpc_element_get(out, c, i * g.c_row + j * g.c_col);
            wrong += !(fabs(want - got) <= bound(out, want, size, s->k));
        }
    CHECK_MSG(wrong == 0, "%s %s->%s %ldx%ldx%ld t%d%d%d: %d wrong", isa->name, mpc_format_get(in)->name,
              mpc_format_get(out)->name, (long)s->m, (long)s->n, (long)s->k, s->ta, s->tb, s->tc, wrong);
    if (s->n + 1 < g.c_row) CHECK(mpc_element_get(out, c, s->n) == before);
    mpc_free(wide_a);
    mpc_free(wide_b);
    mpc_free(a);
    mpc_free(b);
    mpc_free(c);
    mpc_free(bias);
    mpc_free(scratch);
}

static const shape shapes[] = {
    {1, 1, 1, false, false, false},    {8, 32, 64, false, false, false}, {32, 64, 64, false, false, false},
    {33, 10, 65, false, false, false}, {7, 17, 5, true, false, false},   {20, 40, 30, false, true, false},
    {13, 47, 100, true, true, false},  {9, 33, 21, false, false, true},  {16, 48, 1200, false, false, false},
    {19, 70, 1031, true, true, false}, {6, 16, 0, false, false, false},  {40, 96, 513, false, true, true},
};

/* The last tile of a product has any number of rows and columns, however the operands lie. */
static void check_edges(const mpc_gemm_isa *isa) {
    for (int64_t m = 1; m <= 2 * isa->rows + 1; m++)
        for (int64_t n = 1; n <= 2 * isa->columns + 1; n += n < 10 || n % 16 >= 14 ? 1 : 5)
            for (int i = 0; i < 8; i++) {
                const shape s = {m, n, 4 + i % 4, i & 1, i & 2, false};
                check_shape(isa, i & 4 ? MPC_FMT_bf16 : MPC_FMT_f32, MPC_FMT_f32, &s, (m + n) % 2 == 0);
            }
}

static void check_isa(const mpc_gemm_isa *isa) {
    static const mpc_format formats[][2] = {{MPC_FMT_f32, MPC_FMT_f32},    {MPC_FMT_bf16, MPC_FMT_bf16},
                                            {MPC_FMT_bf16, MPC_FMT_f32},   {MPC_FMT_f16, MPC_FMT_f16},
                                            {MPC_FMT_f16, MPC_FMT_f32},    {MPC_FMT_f8e4m3, MPC_FMT_f32},
                                            {MPC_FMT_f8e5m2, MPC_FMT_bf16}};
    if (!isa) return;
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            check_shape(isa, formats[f][0], formats[f][1], &shapes[i], i % 2 == 0);
    check_edges(isa);
}

/* Rows and columns that are cut out must have the bits they have in the whole. */
static void check_cutting(const mpc_gemm_isa *isa) {
    enum { M = 45, N = 83, K = 700 };
    float *a = random_tensor(MPC_FMT_f32, M * K, 1), *b = random_tensor(MPC_FMT_f32, K * N, 2);
    float *whole = mpc_alloc(sizeof(float) * M * N), *part = mpc_alloc(sizeof(float) * M * N);
    void *scratch = mpc_alloc((size_t)mpc_gemm_scratch(isa, M, N, K));
    mpc_gemm g = {.fa = MPC_FMT_f32,
                  .fb = MPC_FMT_f32,
                  .fc = MPC_FMT_f32,
                  .a = a,
                  .b = b,
                  .c = whole,
                  .m = M,
                  .n = N,
                  .k = K,
                  .a_row = K,
                  .a_col = 1,
                  .b_row = N,
                  .b_col = 1,
                  .c_row = N,
                  .c_col = 1};
    mpc_gemm_run(&g, isa, scratch);
    for (int64_t j = 0; j < N; j += 20) {
        mpc_gemm cut = g;
        cut.b = b + j;
        cut.c = part + j;
        cut.n = N - j < 20 ? N - j : 20;
        mpc_gemm_run(&cut, isa, scratch);
    }
    CHECK(memcmp(whole, part, sizeof(float) * M * N) == 0);
    mpc_free(a);
    mpc_free(b);
    mpc_free(whole);
    mpc_free(part);
    mpc_free(scratch);
}

static void check_conversion(const mpc_gemm_isa *isa) {
    enum { COUNT = 65536 };
    float *wide = mpc_alloc(COUNT * sizeof *wide);
    uint16_t *low = mpc_alloc(COUNT * sizeof *low), *back = mpc_alloc(COUNT * sizeof *back);
    static const mpc_format formats[] = {MPC_FMT_bf16, MPC_FMT_f16};
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < COUNT; i++) low[i] = (uint16_t)i;
        isa->to_f32(formats[f], low, wide, COUNT);
        isa->from_f32(formats[f], wide, back, COUNT);
        int wrong = 0;
        for (int i = 0; i < COUNT; i++) wrong += isnan(wide[i]) ? 0 : low[i] != back[i];
        CHECK_MSG(wrong == 0, "%s %d", isa->name, wrong);
        for (int i = 0; i < COUNT; i++) { /* halfway cases, subnormals, overflow, NaN */
            uint32_t bits = (uint32_t)i << 16 | ((uint32_t)i * 2654435761u >> 18 & 0x8000u) | (uint32_t)(i % 3 == 0);
            memcpy(&wide[i], &bits, sizeof bits);
        }
        isa->from_f32(formats[f], wide, back, COUNT);
        wrong = 0;
        for (int i = 0; i < COUNT; i++) {
            uint16_t want = f ? mpc_f32_to_f16(wide[i]) : mpc_f32_to_bf16(wide[i]);
            float got = f ? mpc_f16_to_f32(back[i]) : mpc_bf16_to_f32(back[i]);
            wrong += isnan(wide[i]) ? !isnan(got) : want != back[i];
        }
        CHECK_MSG(wrong == 0, "%s %s: %d", isa->name, f ? "f16" : "bf16", wrong);
    }
    mpc_free(wide);
    mpc_free(low);
    mpc_free(back);
}

int main(void) {
    const mpc_gemm_isa *sets[] = {mpc_gemm_isa_base(), mpc_gemm_isa_avx2(), mpc_gemm_isa_avx512()};
    for (int i = 0; i < 3; i++) {
        if (!sets[i]) continue;
        check_isa(sets[i]);
        check_cutting(sets[i]);
        check_conversion(sets[i]);
    }
    return check_result();
}
