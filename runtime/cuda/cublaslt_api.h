/* Inside of the matmul: what the library's interface is made of (values of its enums, the two structs that cross it), and one product as
 * the library sees it: column-major matrices, d = op(a) op(b), with a's and b's roles swapped against the row-major launch. */
#ifndef MPC_RUNTIME_CUDA_CUBLASLT_API_H
#define MPC_RUNTIME_CUDA_CUBLASLT_API_H

#include "runtime/cuda/cuda.h"

typedef struct mpc_lt_algo { /* opaque, plain data: may be stored and used by another process with the same library */
    uint64_t data[8];
} mpc_lt_algo;
typedef struct mpc_lt_heuristic {
    mpc_lt_algo algo;
    size_t workspace_bytes;
    int state; /* 0: the others are valid */
    float waves;
    int reserved[4];
} mpc_lt_heuristic;

/* Names follow the library's: CUBLASLT_MATMUL_DESC_TRANSA is MPC_LT_MATMUL_DESC_TRANSA (tests/cuda/vendor_constants.c compares). */
enum { MPC_LT_STATUS_SUCCESS = 0, MPC_LT_STATUS_INVALID_VALUE = 7, MPC_LT_STATUS_NOT_SUPPORTED = 15 };
enum { MPC_LT_R_32F = 0, MPC_LT_R_16F = 2, MPC_LT_R_16BF = 14 };
enum { MPC_LT_COMPUTE_32F = 68, MPC_LT_COMPUTE_32F_PEDANTIC = 69, MPC_LT_COMPUTE_32F_FAST_TF32 = 77 };
enum { MPC_LT_OP_N = 0, MPC_LT_OP_T = 1 };
enum { MPC_LT_MATRIX_LAYOUT_BATCH_COUNT = 5, MPC_LT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum {
    MPC_LT_MATMUL_DESC_TRANSA = 3,
    MPC_LT_MATMUL_DESC_TRANSB = 4,
    MPC_LT_MATMUL_DESC_EPILOGUE = 7,
    MPC_LT_MATMUL_DESC_BIAS_POINTER = 8,
    MPC_LT_MATMUL_DESC_BIAS_DATA_TYPE = 26
};
enum { MPC_LT_EPILOGUE_DEFAULT = 1, MPC_LT_EPILOGUE_RELU = 2, MPC_LT_EPILOGUE_BIAS = 4, MPC_LT_EPILOGUE_RELU_BIAS = 6 };
enum {
    MPC_LT_REDUCTION_SCHEME_NONE = 0,
    MPC_LT_REDUCTION_SCHEME_INPLACE = 1,
    MPC_LT_REDUCTION_SCHEME_COMPUTE_TYPE = 2
};
enum {
    MPC_LT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
    MPC_LT_MATMUL_PREF_REDUCTION_SCHEME_MASK = 3,
    MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5,
    MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES = 6,
    MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES = 7,
    MPC_LT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES = 8
};

/* ---- one product (cublaslt_product.c) ---- */
typedef struct mpc_lt_matrix { /* column-major: element (i, j) at i + j * ld */
    mpc_format format;
    bool transposed;
    int64_t rows, columns, ld; /* as stored */
    int64_t batch_stride;      /* of the library's batch axis, elements */
    int64_t steps[2];          /* of the axes that are walked by calls, elements */
} mpc_lt_matrix;

typedef struct mpc_lt_product {
    mpc_lt_matrix a, b, d; /* a holds the launch's b unless `swapped` is false */
    bool swapped;          /* rows of d are the launch's columns, so a bias runs along them */
    int64_t batch, outer[2];
    bool tf32;
    /* made by mpc_lt_open */
    void *desc, *layout_a, *layout_b, *layout_d;
} mpc_lt_product;

/* Formats, strides and batches, without the library. NULL, or why the library can't do it. */
const char *mpc_lt_describe(const mpc_matmul *mm, mpc_lt_product *p);
/* The compute type that never rounds operands unless the launch says tf32, and never sums in less than f32: pedantic for f32 operands,
 * which also rules out emulation by narrower formats. */
int mpc_lt_compute_of(const mpc_lt_product *p);
/* Makes the descriptors; a status of the library. `epilogue`: MPC_LT_EPILOGUE_xxx with an f32 bias. */
int mpc_lt_open(const mpc_cuda *cuda, mpc_lt_product *p, int compute, int epilogue);
void mpc_lt_close(const mpc_cuda *cuda, mpc_lt_product *p); /* half-made ones too */
int mpc_lt_set_bias(const mpc_cuda *cuda, const mpc_lt_product *p, mpc_device_ptr bias);

typedef struct mpc_lt_operands { /* in the library's roles */
    mpc_device_ptr a, b, d, workspace;
    uint64_t workspace_bytes;
} mpc_lt_operands;
typedef struct mpc_lt_alignment { /* bytes, at most 256: what all calls of a product may rely on */
    uint32_t a, b, d;
} mpc_lt_alignment;
mpc_lt_alignment mpc_lt_alignment_of(const mpc_lt_product *p, const mpc_lt_operands *o);
/* Up to `wanted` algorithms that are good for operands of these alignments; returns how many (0: the library has none). */
int mpc_lt_find(const mpc_cuda *cuda, const mpc_lt_product *p, const mpc_lt_operands *o, int wanted, mpc_lt_heuristic *found);
/* Can this algorithm, found earlier, do this product in this workspace? */
bool mpc_lt_check(const mpc_cuda *cuda, const mpc_lt_product *p, uint64_t workspace_bytes, const mpc_lt_algo *algo);
/* Enqueues all calls on the device's stream; a status of the library. */
int mpc_lt_multiply(const mpc_cuda *cuda, const mpc_lt_product *p, const mpc_lt_operands *o, const mpc_lt_algo *algo);
const char *mpc_lt_status_text(const mpc_cuda *cuda, int status);

/* ---- what the library does to special values (cublaslt_probe.c) ---- */
/* Does this epilogue, for operands and results of these formats, keep NaN, and add an f32 bias to the f32 sum before the only rounding?
 * Tried once per device on a 16x16 product. */
bool mpc_lt_epilogue_is_good(mpc_cuda *cuda, mpc_format operands, mpc_format result, int epilogue);

#endif
