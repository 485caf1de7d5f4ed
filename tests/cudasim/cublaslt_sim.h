/* The look-alike of cuBLASLt: its objects as the two files of it see them. Constants are the library's own numbers, written down here again
 * so that a mistake in the product's is seen. */
#ifndef MPC_TESTS_CUDASIM_CUBLASLT_SIM_H
#define MPC_TESTS_CUDASIM_CUBLASLT_SIM_H

#include "tests/cudasim/sim.h"

enum { LT_SUCCESS = 0, LT_NOT_INITIALIZED = 1, LT_ALLOC_FAILED = 3, LT_INVALID_VALUE = 7, LT_EXECUTION_FAILED = 13, LT_NOT_SUPPORTED = 15 };
enum { LT_32F = 0, LT_16F = 2, LT_16BF = 14 };
enum { LT_COMPUTE_32F = 68, LT_COMPUTE_32F_PEDANTIC = 69, LT_FAST_16F = 74, LT_FAST_16BF = 75, LT_FAST_TF32 = 77 };
enum { LT_ORDER_COL = 0, LT_ORDER_ROW = 1 };
enum { LT_EPILOGUE_DEFAULT = 1, LT_EPILOGUE_RELU = 2, LT_EPILOGUE_BIAS = 4, LT_EPILOGUE_GELU = 32 };
enum { LT_POINTER_HOST = 0, LT_POINTER_DEVICE = 1 };

typedef struct lt_layout {
    uint32_t magic;
    int32_t type, order, batch_count, batch_mode;
    uint64_t rows, columns;
    int64_t ld, batch_stride, plane_offset;
} lt_layout;

typedef struct lt_desc {
    uint32_t magic;
    int32_t compute, scale_type, pointer_mode, transpose_a, transpose_b, transpose_c, fill_mode, sm_count, aux_type, bias_type;
    uint32_t epilogue;
    uint64_t bias, aux, scales[4], amax;
    int64_t bias_stride, aux_ld, aux_stride, alpha_stride;
    int8_t fast_accumulation;
} lt_desc;

typedef struct lt_call { /* one matmul in stream order */
    lt_desc desc;
    lt_layout a, b, c, d;
    uint64_t pa, pb, pc, pd;
    uint64_t alpha_at, beta_at; /* pointer mode device */
    float alpha, beta;
    int reads_c; /* beta isn't a host zero */
} lt_call;

static inline size_t lt_bytes(int type) { return type == LT_32F ? 4 : 2; }
int lt_run(void *call); /* of cudasim_enqueue */

#endif
