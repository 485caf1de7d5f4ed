/* oneDNN behind one small interface: opened at run time, version 2 or 3. Primitives are for one thread each; whoever
 * runs them gives the number of its thread. Tensors are described by dims and strides, or `any`: the library chooses.
 * All objects live until close. */
#ifndef MPC_RUNTIME_CPU_ONEDNN_H
#define MPC_RUNTIME_CPU_ONEDNN_H

#include "ir/context.h"

typedef struct mpc_dnn mpc_dnn;
typedef struct mpc_dnn_op mpc_dnn_op;     /* a primitive */
typedef struct mpc_dnn_call mpc_dnn_call; /* a primitive on concrete memory */

/* NULL: not here; `reason` (may be NULL) says why. */
mpc_dnn *mpc_dnn_open(char *reason, size_t reason_size);
void mpc_dnn_close(mpc_dnn *dnn); /* NULL is fine */
/* "2.6.3 (libdnnl.so.2)" */
void mpc_dnn_version(const mpc_dnn *dnn, mpc_str *out);
/* One stream per thread; needed before mpc_dnn_run. true for NULL. */
bool mpc_dnn_make_streams(mpc_dnn *dnn, unsigned threads);
/* Makes the library work in the calling thread alone; returns what to give to mpc_dnn_leave. Cheap. NULL is fine. */
int mpc_dnn_enter(mpc_dnn *dnn);
void mpc_dnn_leave(mpc_dnn *dnn, int before);

enum { MPC_DNN_MAX_RANK = 5 };
typedef struct mpc_dnn_tensor {
    int rank;                                                  /* 0: absent */
    mpc_format format;                                         /* f32 or bf16 */
    bool any;                                                  /* strides are the library's choice */
    int64_t dims[MPC_DNN_MAX_RANK], strides[MPC_DNN_MAX_RANK]; /* in the library's order: n c h w, g o i h w */
} mpc_dnn_tensor;

typedef enum mpc_dnn_kind {
    MPC_DNN_MATMUL,
    MPC_DNN_CONV,
    MPC_DNN_CONV_GRAD_INPUT,
    MPC_DNN_CONV_GRAD_WEIGHT
} mpc_dnn_kind;
enum { MPC_DNN_SRC, MPC_DNN_WEIGHTS, MPC_DNN_BIAS, MPC_DNN_DST, MPC_DNN_TENSORS };

/* No activations: the library's relu turns NaN into 0, so plans apply their own. */
typedef struct mpc_dnn_desc {
    mpc_dnn_kind kind;
    mpc_dnn_tensor tensors[MPC_DNN_TENSORS];
    int64_t stride[2], dilation[2], pad_before[2], pad_after[2]; /* dilation 1: dense */
} mpc_dnn_desc;

/* NULL when the library has no such primitive. */
mpc_dnn_op *mpc_dnn_create(mpc_dnn *dnn, const mpc_dnn_desc *desc);
/* Moves a tensor between a plain layout and the one that `op` chose for tensor `which`. */
mpc_dnn_op *mpc_dnn_create_reorder_to(mpc_dnn *dnn, const mpc_dnn_tensor *plain, const mpc_dnn_op *op, int which);
mpc_dnn_op *mpc_dnn_create_reorder_from(mpc_dnn *dnn, const mpc_dnn_op *op, int which, const mpc_dnn_tensor *plain);
const char *mpc_dnn_implementation(const mpc_dnn_op *op); /* the library's name, "brg:avx512_core_bf16" */
uint64_t mpc_dnn_scratch(const mpc_dnn_op *op);           /* bytes per running thread */
uint64_t mpc_dnn_bytes(const mpc_dnn_op *op, int which);  /* of a tensor in its layout */

/* Where the scratch memory of each thread is. */
bool mpc_dnn_place_scratch(mpc_dnn_op *op, uint8_t *scratch, uint64_t stride, unsigned threads);
/* From now on each thread writes the result to memory of its own, not to what is bound. */
bool mpc_dnn_place_result(mpc_dnn_op *op, uint8_t *memory, uint64_t stride, unsigned threads);
/* data: by MPC_DNN_xxx (reorder: SRC, DST); NULL for absent ones. NULL when out of memory. */
mpc_dnn_call *mpc_dnn_bind(mpc_dnn_op *op, void *const data[MPC_DNN_TENSORS]);
void mpc_dnn_run(const mpc_dnn_call *call, unsigned thread);

#endif
