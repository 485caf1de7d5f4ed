/* Inside of the oneDNN layer: the function table and what differs between versions 2 and 3 of the library. */
#ifndef MPC_RUNTIME_CPU_ONEDNN_API_H
#define MPC_RUNTIME_CPU_ONEDNN_API_H

#include "base/arena.h"
#include "base/array.h"
#include "runtime/cpu/onednn.h"

typedef struct mpc_dnn_api {
#define SYMBOL(name, optional, result, arguments) result(*name) arguments;
#include "runtime/cpu/onednn_symbols.def"
#undef SYMBOL
} mpc_dnn_api;

/* Values that versions 2 and 3 agree on (oneapi/dnnl/dnnl_types.h). */
enum {
    MPC_DNNL_CPU = 1,
    MPC_DNNL_F16 = 1,
    MPC_DNNL_BF16 = 2,
    MPC_DNNL_F32 = 3,
    MPC_DNNL_TAG_ANY = 1,
    MPC_DNNL_FORWARD_TRAINING = 64,
    MPC_DNNL_CONVOLUTION_DIRECT = 1,
    MPC_DNNL_SCRATCHPAD_USER = 1,
    MPC_DNNL_STREAM_IN_ORDER = 1,
    MPC_DNNL_QUERY_IMPLEMENTATION = 8,
    MPC_DNNL_QUERY_SCRATCHPAD = 136,
    MPC_DNNL_QUERY_ARGUMENT = 255,
    MPC_DNNL_ARG_SRC = 1,
    MPC_DNNL_ARG_DST = 17,
    MPC_DNNL_ARG_WEIGHTS = 33,
    MPC_DNNL_ARG_BIAS = 41,
    MPC_DNNL_ARG_SCRATCHPAD = 80,
    MPC_DNNL_ARG_DIFF_SRC = 129,
    MPC_DNNL_ARG_DIFF_DST = 145,
    MPC_DNNL_ARG_DIFF_WEIGHTS = 161,
};

typedef enum mpc_dnn_object_kind {
    MPC_DNN_OBJECT_MD,
    MPC_DNN_OBJECT_PD,
    MPC_DNN_OBJECT_PRIMITIVE,
    MPC_DNN_OBJECT_MEMORY
} mpc_dnn_object_kind;

typedef struct mpc_dnn_object { /* destroyed at close, last first */
    mpc_dnn_object_kind kind;
    void *handle;
} mpc_dnn_object;

struct mpc_dnn_variant;

struct mpc_dnn {
    struct mpc_dl *dl;
    mpc_dnn_api api;
    const struct mpc_dnn_variant *variant;
    mpc_arena *arena;
    MPC_ARRAY(mpc_dnn_object) objects;
    void *engine;
    void **streams;
    unsigned stream_count;
    int version[3];
    void (*omp_set)(int); /* NULL: the library doesn't use OpenMP */
    int (*omp_get)(void);
};

typedef struct mpc_dnn_variant { /* one per major version; int results are the library's status, 0: good */
    void *(*make_md)(mpc_dnn *dnn, const mpc_dnn_tensor *tensor); /* NULL on failure */
    int (*make_pd)(mpc_dnn *dnn, const mpc_dnn_desc *desc, void *const mds[MPC_DNN_TENSORS], const void *attr,
                   void **pd);
} mpc_dnn_variant;

extern const mpc_dnn_variant mpc_dnn_v3;
const mpc_dnn_variant *mpc_dnn_v2(void); /* NULL: built without the headers of version 2 */

/* Keeps `handle` for close; NULL (and the handle destroyed) when out of memory. */
void *mpc_dnn_keep(mpc_dnn *dnn, mpc_dnn_object_kind kind, void *handle);
int mpc_dnn_type(mpc_format format);

#endif
