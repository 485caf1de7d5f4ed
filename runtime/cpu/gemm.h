/* Own matrix product for one thread: any of the storage formats, any strides, f32 accumulation. It serves small
 * matmuls, f16, machines without oneDNN and the plain convolution; large bf16 and f32 products go to oneDNN
 * (runtime/cpu/matmul_plan.h). */
#ifndef MPC_RUNTIME_CPU_GEMM_H
#define MPC_RUNTIME_CPU_GEMM_H

#include "ir/context.h"

/* c[m,n] = act(sum_k a[m,k] b[k,n] + bias[n]); strides in elements. The sum of one element goes through k in order, in
 * blocks of 512, whatever part of c a call covers: cutting m and n changes no bit. */
typedef struct mpc_gemm {
    mpc_format fa, fb, fc; /* f32, bf16, f16, f8 */
    const void *a, *b;
    void *c;
    const float *bias; /* NULL: none */
    bool relu;
    bool add; /* to what is in c (f32 only), before bias and relu */
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
} mpc_gemm;

typedef struct mpc_micro { /* one register tile: rows and columns are the instruction set's */
    const float *a, *b;
    int64_t a_row, a_col; /* strides of a; b is contiguous along n */
    int64_t b_row;
    int64_t k;
    float *c;
    int64_t c_row;
    const float *bias;
    bool relu, add; /* add: to what is in c */
} mpc_micro;

typedef struct mpc_pack { /* a panel of `width` lanes (the last ones 0 when fewer are valid) by k, lane-contiguous, as
                             f32 */
    const void *from;
    mpc_format format;
    int64_t lane_stride, k_stride;
    int64_t lanes, width, k;
} mpc_pack;

typedef struct mpc_row_sum { /* c[n] = sum_k a[k * a_step] b[k * b_row + n], k in order */
    const float *a, *b;
    int64_t a_step, b_row, k, n;
    float *c;
} mpc_row_sum;

enum { MPC_MOST_TILE_ROWS = 8 };

typedef struct mpc_gemm_isa {
    const char *name;
    int rows, columns; /* of the wide register tile; the narrow one has half the columns */
    void (*wide[MPC_MOST_TILE_ROWS])(const mpc_micro *tile); /* of 1, 2, ... `rows` rows */
    void (*narrow[MPC_MOST_TILE_ROWS])(const mpc_micro *tile);
    void (*row)(const mpc_row_sum *row);
    void (*pack)(const mpc_pack *panel, float *to);
    void (*to_f32)(mpc_format format, const void *from, float *to, int64_t n); /* contiguous, exact */
    void (*relu)(mpc_format format, void *data, int64_t n); /* f32, bf16, f16, contiguous, in place; NaN stays */
    void (*from_f32)(mpc_format format, const float *from, void *to, int64_t n); /* contiguous, one rounding */
} mpc_gemm_isa;

const mpc_gemm_isa *mpc_gemm_isa_best(void); /* for this processor */
const mpc_gemm_isa *mpc_gemm_isa_base(void); /* runs everywhere */
const mpc_gemm_isa *mpc_gemm_isa_avx2(void); /* NULL: not here */
const mpc_gemm_isa *mpc_gemm_isa_avx512(void);

/* Formats that the product reads and writes. */
bool mpc_gemm_supports(mpc_format format);
/* Scratch bytes of a call. */
uint64_t mpc_gemm_scratch(const mpc_gemm_isa *isa, int64_t m, int64_t n, int64_t k);
void mpc_gemm_run(const mpc_gemm *g, const mpc_gemm_isa *isa, void *scratch);

static inline const void *mpc_at(const void *base, mpc_format format, int64_t element) {
    return (const uint8_t *)base + element * (int64_t)mpc_format_get(format)->bytes;
}
static inline void *mpc_at_mutable(void *base, mpc_format format, int64_t element) {
    return (uint8_t *)base + element * (int64_t)mpc_format_get(format)->bytes;
}

#endif
