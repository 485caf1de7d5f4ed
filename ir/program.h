/* What codegen hands to a runtime device: data, not code that runs. Kernels as C (or CUDA C) text, buffers with their places in
 * one arena, and a flat list of launches. Executing a step is walking the list: no look-up, no allocation. */
#ifndef MPC_IR_PROGRAM_H
#define MPC_IR_PROGRAM_H

#include "ir/graph.h"

/* For --memory and for laying states out in flat regions. */
typedef enum mpc_buffer_class {
    MPC_BUF_MASTER, /* parameters */
    MPC_BUF_MOMENT,
    MPC_BUF_COPY, /* derived low copies */
    MPC_BUF_STAT, /* running statistics */
    MPC_BUF_ACCUM, /* gradient accumulators */
    MPC_BUF_CONTROL, /* counters, scale, rng */
    MPC_BUF_INPUT,
    MPC_BUF_GRADIENT,
    MPC_BUF_ACTIVATION, /* everything else that crosses a kernel's border */
    MPC_BUF_CLASS_COUNT
} mpc_buffer_class;

typedef struct mpc_buffer {
    const char *name; /* value's name */
    const char *state; /* of a state: its name (unique with `derived`); else NULL */
    mpc_format derived; /* of a derived state: its format; else none */
    mpc_type type;
    mpc_buffer_class cls;
    uint64_t bytes;
    uint64_t offset; /* in the arena; of states: in the state region */
    bool is_state, is_input;
} mpc_buffer;

typedef struct mpc_pointer {
    uint32_t buffer;
    uint64_t byte_offset;
} mpc_pointer;

/* A generated kernel. In C, `void NAME(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch)`
 * runs units [begin, end) of one instance. Units are independent of each other; their number depends on shapes only.
 *
 * In CUDA C an instance is an argument block, laid out as
 *     int64_t units; uint32_t first_block, blocks; void *p[P]; int64_t n[N]; float f[F];    (P, N, F at least 1; size a multiple of 8)
 * A kernel that every launch runs on one instance is NAME(block by value, const uint8_t *when); a *segmented* one is
 * NAME(const block *table, int32_t count, const uint8_t *when), its grid the sum of the instances' blocks, `first_block` their
 * running sum. `when` is NULL or tells whether to run at all. Blocks of `threads` threads, `shared_bytes` of dynamic shared memory. */
typedef struct mpc_kernel {
    const char *name; /* "k_" and 16 hex digits of the hash of the text: equal kernels are one kernel; "s" behind: segmented */
    const char *text; /* the function, without the prelude */
    uint32_t pointer_count, int_count, float_count;
    uint64_t scratch_bytes; /* C: per thread */
    uint32_t threads, shared_bytes; /* CUDA */
    bool segmented; /* CUDA */
    bool tensor_cores; /* CUDA: its text calls mma primitives */
    const char *note; /* CUDA: why there is no mma, or no 16-byte access, where one would expect it; NULL */
} mpc_kernel;

typedef struct mpc_kernel_instance { /* one segment: the same kernel on other buffers */
    mpc_pointer *pointers;
    int64_t *ints;
    float *floats;
    int64_t units;
    uint32_t blocks; /* CUDA: thread blocks that share its work; depends on shapes only */
} mpc_kernel_instance;

enum { MPC_MATMUL_BATCH_DIMS = 3 };
/* c[m,n] = act(sum_k a[m,k] b[k,n] + bias[n]), f32 accumulation, one rounding. Strides in elements. */
typedef struct mpc_matmul {
    mpc_pointer a, b, c, bias;
    bool has_bias, relu;
    mpc_format fa, fb, fc, acc;
    mpc_format compute; /* tf32: f32 operands may be rounded to it (N03); else none */
    int64_t m, n, k;
    int64_t a_row, a_col, b_row, b_col, c_row, c_col; /* one of each pair is 1 */
    int64_t batch[MPC_MATMUL_BATCH_DIMS]; /* extents, 1 where unused */
    int64_t a_batch[MPC_MATMUL_BATCH_DIMS], b_batch[MPC_MATMUL_BATCH_DIMS], c_batch[MPC_MATMUL_BATCH_DIMS];
} mpc_matmul;
static inline int64_t mpc_matmul_batches(const mpc_matmul *mm) { return mm->batch[0] * mm->batch[1] * mm->batch[2]; }

typedef enum mpc_conv_kind { MPC_CONV_FORWARD, MPC_CONV_GRAD_INPUT, MPC_CONV_GRAD_WEIGHT } mpc_conv_kind;
typedef struct mpc_conv {
    mpc_conv_kind kind;
    mpc_pointer x, w, y, bias; /* y: result of FORWARD, dy of the others; the result of GRAD_INPUT is x, of GRAD_WEIGHT w */
    bool has_bias, relu;
    mpc_format fx, fw, fy, acc, compute; /* compute: as in mpc_matmul */
    int64_t n, h, wd, c, oh, ow, oc, kh, kw; /* x [n,h,wd,c], y [n,oh,ow,oc], w [kh,kw,c/groups,oc], all dense */
    int64_t stride[2], pad[2], dilation[2], groups;
} mpc_conv;

typedef enum mpc_launch_kind { MPC_LAUNCH_KERNEL, MPC_LAUNCH_MATMUL, MPC_LAUNCH_CONV, MPC_LAUNCH_COPY } mpc_launch_kind;

typedef struct mpc_launch {
    mpc_launch_kind kind;
    const char *name; /* of the value it makes, for profiles and messages */
    const char *op; /* "matmul", "layer_norm+gelu" */
    mpc_loc loc;
    bool has_when; /* run only if the bool buffer `when` holds true: its results are states' next values in place */
    mpc_pointer when;
    uint32_t kernel; /* KERNEL */
    mpc_kernel_instance *instances;
    uint32_t instance_count;
    mpc_matmul matmul;
    /* CUDA, MATMUL with bias, relu or a result in a format of its own: where the library can't do it, it writes f32 to `accumulator`
     * and then `kernel` on instances[0] adds, activates and rounds. instance_count 0: there is nothing to add. */
    mpc_pointer accumulator;
    mpc_conv conv;
    mpc_pointer copy_to, copy_from; /* COPY: bytes */
    uint64_t copy_bytes;
    uint32_t *results; /* buffers written (for replay and --check-nonfinite) */
    uint32_t result_count;
    double flops, bytes;
} mpc_launch;

typedef struct mpc_program_output {
    const char *name;
    uint32_t buffer;
} mpc_program_output;

typedef struct mpc_program_input {
    const char *name; /* of the graph input */
    const char *source; /* its data field */
    uint32_t buffer;
} mpc_program_input;

typedef struct mpc_program {
    mpc_arena *arena; /* owns everything below */
    mpc_context *ctx;
    const char *name;
    const char *prelude; /* text that precedes the kernels */
    const char *device_header; /* CUDA: what the prelude includes as "mpc_device.h"; NULL in C */
    mpc_buffer *buffers;
    mpc_kernel *kernels;
    mpc_launch *launches;
    mpc_program_input *inputs;
    mpc_program_output *outputs;
    uint32_t buffer_count, kernel_count, launch_count, input_count, output_count;
    uint64_t arena_bytes; /* inputs, activations, gradients; without states and library workspace */
    uint64_t state_bytes;
    uint64_t arena_lower_bound; /* largest sum of live bytes at any launch */
} mpc_program;

void mpc_program_destroy(mpc_program *program);
/* Text for people and tests: one line per launch, then buffers. */
void mpc_program_print(const mpc_program *program, mpc_str *out);

#endif
