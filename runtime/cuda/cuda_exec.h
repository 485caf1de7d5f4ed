/* The `cuda` executor's inside, shared by loading, stepping, replay and profiles. */
#ifndef MPC_RUNTIME_CUDA_EXEC_H
#define MPC_RUNTIME_CUDA_EXEC_H

#include "base/array.h"
#include "runtime/cuda/cubin_cache.h"
#include "runtime/cuda/cuda_store.h"

/* A launch with everything resolved: running it is one or two calls. */
typedef struct mpc_cuda_kernel_call {
    void *function; /* NULL: nothing to run */
    unsigned grid, threads, shared_bytes;
    void *block;          /* its instance by value, in host memory; NULL: segmented */
    mpc_device_ptr table; /* instances of a segmented one */
    int32_t count;
    mpc_device_ptr when; /* 0: always */
} mpc_cuda_kernel_call;

typedef struct mpc_cuda_launch {
    mpc_cuda_kernel_call kernel; /* of a matmul: what it may end in */
    mpc_cuda_matmul *matmul;
    mpc_cuda_matmul_buffers matmul_buffers;
    mpc_device_ptr copy_to, copy_from;
    uint64_t copy_bytes;
} mpc_cuda_launch;

/* Bytes that move between the device and a slot. */
typedef struct mpc_cuda_transfer {
    mpc_device_ptr device;
    uint64_t offset, bytes; /* in the slot */
} mpc_cuda_transfer;

typedef struct mpc_cuda_gather_piece { /* small pieces of device memory into the staging area, by one kernel */
    mpc_device_ptr from, to;
    uint64_t bytes;
} mpc_cuda_gather_piece;

typedef struct mpc_cuda_exec {
    mpc_exec base; /* first */
    const mpc_program *program;
    mpc_store *store;
    const mpc_sink *sink;
    mpc_arena *arena; /* tables, argument blocks */
    mpc_cuda_store *shared;
    mpc_cuda *cuda;                /* shared->cuda */
    mpc_cuda_arena *values;        /* NULL: separate buffers */
    mpc_device_ptr *buffers;       /* address by buffer id */
    MPC_ARRAY(mpc_device_ptr) own; /* allocations of this executor */
    MPC_ARRAY(void *) modules;
    void **functions; /* by kernel; the last is the gather kernel's */
    mpc_cuda_launch *launches;
    mpc_cuda_kernel_call gather_before, gather_after; /* control states before the step; outputs after it */
    void *graph;                                      /* CUgraphExec of one step */
    uint32_t compiled;                                /* kernels that weren't in the cache */
    /* A slot holds, in pinned memory, the inputs of a step and its record: control states before it, outputs. */
    uint8_t *pinned;
    void **events; /* by slot: its record is complete */
    uint32_t slots;
    uint64_t slot_bytes;
    uint64_t *input_offset, *output_offset; /* in the slot */
    uint64_t control_offset;
    mpc_cuda_transfer *transfers_in, *transfers_out;
    uint32_t transfer_in_count, transfer_out_count;
    uint64_t staging_bytes;
    uint64_t begun, fetched; /* steps; the record of step fetched - 1 is current */
    uint64_t own_bytes;      /* device memory apart from states, arena and workspace */
} mpc_cuda_exec;

/* cuda_load.c: everything but the graph. */
mpc_status mpc_cuda_exec_prepare(mpc_cuda_exec *x, const mpc_exec_options *options);
/* cuda_exec.c */
uint8_t *mpc_cuda_exec_slot(const mpc_cuda_exec *x, uint64_t step);
mpc_status mpc_cuda_exec_call(const mpc_cuda_exec *x, const mpc_cuda_kernel_call *call);
mpc_status mpc_cuda_exec_launch(const mpc_cuda_exec *x, uint32_t index);
mpc_status mpc_cuda_exec_upload(const mpc_cuda_exec *x, uint64_t step);   /* the slot's inputs */
mpc_status mpc_cuda_exec_download(const mpc_cuda_exec *x, uint64_t step); /* the slot's record, then its event */
mpc_status mpc_cuda_exec_synchronize(const mpc_cuda_exec *x);
/* cuda_replay.c */
mpc_status mpc_cuda_exec_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc);
/* Kernels compiled by the load, not found in the cache. */
uint32_t mpc_cuda_compiled(const mpc_exec *e);

#endif
