/* State of one code generation, shared by the files of this folder. The first error sticks in `status`; everything
 * after it does nothing, so callers check once at the end. */
#ifndef MPC_CODEGEN_CG_H
#define MPC_CODEGEN_CG_H

#include "base/array.h"
#include "base/map.h"
#include "codegen/codegen.h"
#include "ir/strided.h"

typedef struct mpc_cg {
    mpc_target target;
    const mpc_graph *g;
    mpc_program *p;
    mpc_arena *arena; /* the program's */
    mpc_arena *scratch;
    mpc_map *kernel_ids; /* by name */
    uint32_t *buffer_of; /* by value that owns storage; MPC_NONE */
    MPC_ARRAY(mpc_buffer) buffers;
    MPC_ARRAY(mpc_kernel) kernels;
    MPC_ARRAY(mpc_launch) launches;
    uint32_t *output_buffer;                  /* by output: a copy of a state's old value, MPC_NONE: the value's own */
    uint32_t workspace;                       /* buffer of partial results, which live from one launch to the next */
    uint64_t workspace_used, workspace_bytes; /* by the launches being made now; largest */
    uint32_t parts;                           /* CUDA: bits of mpc_cg_part: what follows the prelude */
    mpc_status status;
} mpc_cg;

bool mpc_cg_ok(const mpc_cg *cg);
void mpc_cg_no_memory(mpc_cg *cg);
void mpc_cg_fail(mpc_cg *cg, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- storage --- */
mpc_value_id mpc_cg_owner(const mpc_cg *cg, mpc_value_id v);
bool mpc_cg_is_state(const mpc_cg *cg, mpc_value_id v);
/* Constants and ranges, through reshapes: the node that makes them, or NULL. They need no storage inside loops. */
const mpc_node *mpc_cg_inlined(const mpc_cg *cg, mpc_value_id v);
/* Its operand's (or its reader's) storage under another shape: no launch. */
bool mpc_cg_is_free_view(const mpc_cg *cg, const mpc_node *n);
/* Start of the storage and how the value lies in it. */
mpc_pointer mpc_cg_layout(mpc_cg *cg, mpc_value_id v, mpc_strided *layout);
mpc_pointer mpc_cg_pointer(mpc_cg *cg, mpc_value_id v); /* dense */
mpc_pointer mpc_cg_workspace(mpc_cg *cg, uint64_t bytes);

/* --- kernels and launches --- */
typedef struct mpc_cg_args { /* arguments of one instance while they are collected */
    MPC_ARRAY(mpc_pointer) pointers;
    MPC_ARRAY(int64_t) ints;
    MPC_ARRAY(float) floats;
    int64_t units;
    uint32_t blocks; /* CUDA; 0 counts as 1 */
    bool failed;
} mpc_cg_args;
uint32_t mpc_cg_add_pointer(mpc_cg_args *a, mpc_pointer p); /* index in p[] */
uint32_t mpc_cg_add_int(mpc_cg_args *a, int64_t i);         /* index in n[] */
uint32_t mpc_cg_add_float(mpc_cg_args *a, float f);         /* index in f[] */
void mpc_cg_free_args(mpc_cg_args *a);

/* Body of a kernel: what stands between the braces; it sees p, n, f, begin, end, scratch. Equal bodies are one kernel.
 */
uint32_t mpc_cg_add_kernel(mpc_cg *cg, const char *body, const mpc_cg_args *args, uint64_t scratch_bytes);
/* Templates that only some kernels need: whoever adds such a kernel sets the bit in `parts`, and the program's prelude
 * has the text. */
typedef enum mpc_cg_part { MPC_CG_PART_CONV = 1, MPC_CG_PART_ATTENTION = 2 } mpc_cg_part;
/* The same for CUDA: the body sees p, n, f, units, block, blocks (prelude.h). `note` may be NULL. */
typedef struct mpc_cg_cuda_shape {
    uint32_t threads, shared_bytes;
    bool tensor_cores;
    const char *note; /* as in mpc_kernel; lives as long as the program */
} mpc_cg_cuda_shape;
uint32_t mpc_cg_add_cuda_kernel(mpc_cg *cg, const char *body, const mpc_cg_args *args, const mpc_cg_cuda_shape *shape);
/* Gives kernels their final text, once launches are merged. */
void mpc_cg_finish_kernels(mpc_cg *cg);
/* A launch of one instance on behalf of node `n`, writing `result`; frees `args`. NULL after an error. The pointer is
 * good until the next launch. */
mpc_launch *mpc_cg_add_launch(mpc_cg *cg, const mpc_node *n, mpc_value_id result, uint32_t kernel, mpc_cg_args *args);
mpc_launch *mpc_cg_new_launch(mpc_cg *cg, const mpc_node *n, mpc_value_id result, mpc_launch_kind kind);
void mpc_cg_add_instance(mpc_cg *cg, mpc_launch *launch, mpc_cg_args *args);
void mpc_cg_add_result(mpc_cg *cg, mpc_launch *launch, mpc_value_id result);

/* Equal neighbours that don't depend on each other become one launch with several instances. */
void mpc_cg_merge_launches(mpc_cg *cg);

/* --- what each kind of node becomes --- */
void mpc_cg_loop(mpc_cg *cg, const mpc_node_id *nodes, uint32_t count);
void mpc_cg_matmul(mpc_cg *cg, const mpc_node *n);
void mpc_cg_conv(mpc_cg *cg, const mpc_node *n);
mpc_conv mpc_cg_describe_conv(mpc_cg *cg, const mpc_node *n);
void mpc_cg_copy(mpc_cg *cg, const mpc_node *n);   /* transpose, slice, pad, concat, expand, reshape: strided copies */
void mpc_cg_fill(mpc_cg *cg, const mpc_node *n);   /* const and range that need storage */
void mpc_cg_gather(mpc_cg *cg, const mpc_node *n); /* embedding and its gradient */
void mpc_cg_pool(mpc_cg *cg, const mpc_node *n);
void mpc_cg_norm(mpc_cg *cg, const mpc_node *n);   /* global_norm */
void mpc_cg_reduce(mpc_cg *cg, const mpc_node *n); /* a reduction that has no iteration space */

/* CUDA: the same kinds (codegen/cuda/). Matmul is a library call there too; the others are kernels. */
void mpc_cuda_copy(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_fill(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_gather(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_pool(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_norm(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_reduce(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_conv(mpc_cg *cg, const mpc_node *n);
void mpc_cuda_attention(mpc_cg *cg, const mpc_node *n); /* attention and attention_grad, kept by expand{keep=attention} */
/* What a matmul launch needs to end in a kernel of its own (mpc_launch.accumulator). */
void mpc_cuda_matmul_epilogue(mpc_cg *cg, const mpc_node *n, mpc_launch *launch);

/* Sums (max, min) `units` partial rows of `cols` in order, rounded to `to`; `class`: f, i or l. One instance of a
 * launch. */
typedef struct mpc_cg_fold {
    const char *op;
    char lanes;
    mpc_pointer partial;
    int64_t units, cols;
    mpc_value_id result;
} mpc_cg_fold;
void mpc_cg_fold_partials(mpc_cg *cg, const mpc_node *n, const mpc_cg_fold *folds, uint32_t count);
/* The kernel of one fold for CUDA; fills `args`. */
uint32_t mpc_cuda_fold_kernel(mpc_cg *cg, const mpc_cg_fold *fold, mpc_cg_args *args);

/* Lane class of a format: f (floats), i (i32, u8), l (i64), b (bool). */
char mpc_cg_lanes(mpc_format format);
bool mpc_cg_rounds(mpc_format format); /* values in lanes must be rounded to it: f16, bf16, 8-bit, u8 */

/* user_formats.c: does a graph hold values in a format of a plugin? The prelude for C, with what these need; NULL after a failure. */
bool mpc_cg_has_user_formats(const mpc_graph *g);
const char *mpc_cg_user_prelude(mpc_cg *cg);

/* Preludes, embedded (CMakeLists.txt). */
extern const char *const mpc_text_prelude_c_h, *const mpc_text_cuda_prelude_h, *const mpc_text_cuda_device_h;
extern const char *const mpc_text_cuda_conv_h, *const mpc_text_cuda_attention_h;

#endif
