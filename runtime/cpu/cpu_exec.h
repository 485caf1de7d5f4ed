/* The `cpu` executor's inside, shared by loading, stepping and replay. */
#ifndef MPC_RUNTIME_CPU_EXEC_H
#define MPC_RUNTIME_CPU_EXEC_H

#include "runtime/block.h"
#include "runtime/cpu/plan.h"
#include "runtime/device.h"

typedef struct mpc_cpu_launch {
    mpc_plan *plan;
    const uint8_t *when; /* bool; NULL: always */
} mpc_cpu_launch;

typedef struct mpc_cpu_exec {
    mpc_exec base; /* first */
    const mpc_program *program;
    mpc_store *store;
    const mpc_sink *sink;
    mpc_arena *arena; /* plans, tables */
    mpc_pool *pool;
    struct mpc_dnn *dnn;
    mpc_jit *jit;
    mpc_kernel_fn *functions;
    mpc_cpu_launch *launches;
    uint8_t **buffers; /* address by buffer id */
    uint8_t *memory;   /* the store's workspace: the program's arena, workspace of one launch, scratch of each thread */
    mpc_block own;     /* instead of it, when the store's can't grow */
    mpc_block inputs;  /* each executor has its own: a batch may be written once and used in many steps */
    void *control;     /* the control states before the last step */
    uint64_t memory_bytes, shared_offset, scratch_offset, shared_bytes, scratch_stride;
} mpc_cpu_exec;

mpc_status mpc_cpu_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc);
/* Translation units compiled by the load, not found in the cache. */
uint32_t mpc_cpu_compiled(const mpc_exec *e);

#endif
