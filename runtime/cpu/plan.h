/* How a launch runs on the CPU: a plan is a short list of phases, each a number of independent units for the pool.
 * Plans are made in two steps, since the memory they share is sized by all of them: `make` says what is needed, `bind`
 * gives addresses. A run only walks phases. */
#ifndef MPC_RUNTIME_CPU_PLAN_H
#define MPC_RUNTIME_CPU_PLAN_H

#include "ir/program.h"
#include "runtime/cpu/gemm.h"
#include "runtime/cpu/jit.h"
#include "runtime/cpu/pool.h"

struct mpc_dnn;

enum { MPC_MAX_PHASES = 4 };

typedef struct mpc_phase {
    mpc_pool_work work;
    void *user;
    int64_t units;
    double seconds; /* about how long one thread takes */
    bool serial;    /* too little work to wake other threads for */
} mpc_phase;

typedef struct mpc_binding { /* addresses */
    uint8_t *const *buffers; /* by buffer id */
    uint8_t *shared;         /* workspace of the launch that runs, 64-byte aligned */
    uint8_t *scratch;        /* of thread 0; the others follow, scratch_stride apart */
    uint64_t scratch_stride;
    unsigned threads;
} mpc_binding;

typedef struct mpc_plan {
    uint64_t shared_bytes, scratch_bytes; /* needed: workspace of the whole launch, and of each thread */
    const char *implementation;           /* for profiles and tests: "own avx512", "onednn brg:avx512_core_bf16" */
    mpc_phase phases[MPC_MAX_PHASES];
    uint32_t phase_count;
    bool (*bind)(struct mpc_plan *plan, const mpc_binding *binding); /* false: out of memory or the library refused */
    void *state;                                                     /* the plan's own */
} mpc_plan;

typedef struct mpc_plan_env { /* what plans are made with */
    mpc_arena *arena;         /* owns them */
    const mpc_gemm_isa *isa;
    struct mpc_dnn *dnn;       /* NULL: none */
    const mpc_buffer *buffers; /* of the program */
    unsigned threads;
    const mpc_sink *sink;
} mpc_plan_env;

/* NULL: out of memory, or a diagnostic was sent (an accumulator or a format that the device doesn't have). */
mpc_plan *mpc_kernel_plan(const mpc_plan_env *env, const mpc_launch *launch, const mpc_kernel *kernel,
                          mpc_kernel_fn function);
mpc_plan *mpc_copy_plan(const mpc_plan_env *env, const mpc_launch *launch);
mpc_plan *mpc_matmul_plan(const mpc_plan_env *env, const mpc_launch *launch);
mpc_plan *mpc_conv_plan(const mpc_plan_env *env, const mpc_launch *launch);

/* The library's variants; NULL when it doesn't have one that is worth it (nothing is sent). */
mpc_plan *mpc_matmul_plan_onednn(const mpc_plan_env *env, const mpc_matmul *mm);
/* Operands and result by way of f32 copies; `make_inner` plans the f32 product in one phase. NULL: it doesn't, or out of
 * memory. */
typedef mpc_plan *(*mpc_inner_plan)(const mpc_plan_env *env, const mpc_matmul *mm);
mpc_plan *mpc_matmul_plan_widened(const mpc_plan_env *env, const mpc_matmul *mm, mpc_inner_plan make_inner);
/* Row by row, for results whose writing is what takes the time. NULL: this one isn't such, or out of memory. */
mpc_plan *mpc_matmul_plan_thin(const mpc_plan_env *env, const mpc_matmul *mm);
mpc_plan *mpc_conv_plan_onednn(const mpc_plan_env *env, const mpc_conv *conv);

static inline int64_t mpc_divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
static inline void *mpc_resolve(const mpc_binding *b, mpc_pointer p) { return b->buffers[p.buffer] + p.byte_offset; }

/* A plan with `state_size` bytes of state, zeroed. */
mpc_plan *mpc_plan_new(const mpc_plan_env *env, size_t state_size);
/* `seconds`: about how long the phase takes one thread; 0: unknown. */
void mpc_plan_add_phase(mpc_plan *plan, mpc_pool_work work, void *user, int64_t units, double seconds);
/* About how long one thread takes. */
double mpc_plan_seconds(const mpc_plan *plan);
/* A step as short as that is faster on one thread: the plans of such a step are all made serial. */
bool mpc_step_is_short(double seconds);
void mpc_plan_make_serial(mpc_plan *plan);
void mpc_plan_run(const mpc_plan *plan, mpc_pool *pool);

/* true when `acc` is what the device accumulates in; otherwise tells (N04). */
bool mpc_accumulator_is_f32(const mpc_plan_env *env, const mpc_launch *launch, mpc_format acc);

/* Elements from the start of an operand to its matrix number `entry`, counted over the batch axes in row-major order. */
int64_t mpc_matmul_batch_offset(const mpc_matmul *mm, const int64_t *strides, int64_t entry);

#endif
