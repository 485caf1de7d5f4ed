/* The `cuda` device: a step is a copy of the inputs, one graph launch, a copy of the record and an event; the host
 * reads nothing but records, when their events have passed. Steps run ahead of the host through a ring of slots in
 * pinned memory: a slot's inputs stay as they were until its record is given up, so that the step can be run again.
 * There are two slots more than `ahead`: the current record's, and the one whose inputs are being written. */
#include "runtime/cuda/cuda_exec.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "runtime/store_layout.h"

enum { RESULT_NOT_READY = 600, CAPTURE_THREAD_LOCAL = 1, SHORT_SLEEPS = 40, SLEEP_NANOSECONDS = 20000 };

/* ---- pieces of a step ---- */

uint8_t *mpc_cuda_exec_slot(const mpc_cuda_exec *x, uint64_t step) {
    return x->pinned + step % x->slots * x->slot_bytes;
}

mpc_status mpc_cuda_exec_call(const mpc_cuda_exec *x, const mpc_cuda_kernel_call *call) {
    if (!call->function || call->grid == 0) return MPC_OK;
    mpc_device_ptr table = call->table, when = call->when;
    int32_t count = call->count;
    void *by_value[] = {call->block, &when}, *segmented[] = {&table, &count, &when};
    int result =
        x->cuda->driver.cuLaunchKernel(call->function, call->grid, 1, 1, call->threads, 1, 1, call->shared_bytes,
                                       x->cuda->stream, call->block ? by_value : segmented, NULL);
    return result == 0 ? MPC_OK : mpc_cuda_error(x->cuda, x->sink, "cuLaunchKernel", result);
}

mpc_status mpc_cuda_exec_launch(const mpc_cuda_exec *x, uint32_t index) {
    const mpc_cuda_launch *l = &x->launches[index];
    if (l->copy_bytes > 0) {
        int result =
            x->cuda->driver.cuMemcpyDtoDAsync_v2(l->copy_to, l->copy_from, (size_t)l->copy_bytes, x->cuda->stream);
        return result == 0 ? MPC_OK : mpc_cuda_error(x->cuda, x->sink, "cuMemcpyDtoDAsync", result);
    }
    if (!l->matmul) return mpc_cuda_exec_call(x, &l->kernel);
    mpc_status status = mpc_cuda_matmul_run(l->matmul, &l->matmul_buffers);
    if (status != MPC_OK || !mpc_cuda_matmul_needs_epilogue(l->matmul)) return status;
    return mpc_cuda_exec_call(x, &l->kernel);
}

mpc_status mpc_cuda_exec_upload(const mpc_cuda_exec *x, uint64_t step) {
    const uint8_t *slot = mpc_cuda_exec_slot(x, step);
    for (uint32_t i = 0; i < x->transfer_in_count; i++) {
        const mpc_cuda_transfer *t = &x->transfers_in[i];
        int result =
            x->cuda->driver.cuMemcpyHtoDAsync_v2(t->device, slot + t->offset, (size_t)t->bytes, x->cuda->stream);
        if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuMemcpyHtoDAsync", result);
    }
    return MPC_OK;
}

mpc_status mpc_cuda_exec_download(const mpc_cuda_exec *x, uint64_t step) {
    uint8_t *slot = mpc_cuda_exec_slot(x, step);
    int result = 0;
    for (uint32_t i = 0; i < x->transfer_out_count; i++) {
        const mpc_cuda_transfer *t = &x->transfers_out[i];
        result = x->cuda->driver.cuMemcpyDtoHAsync_v2(slot + t->offset, t->device, (size_t)t->bytes, x->cuda->stream);
        if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuMemcpyDtoHAsync", result);
    }
    result = x->cuda->driver.cuEventRecord(x->events[step % x->slots], x->cuda->stream);
    return result == 0 ? MPC_OK : mpc_cuda_error(x->cuda, x->sink, "cuEventRecord", result);
}

mpc_status mpc_cuda_exec_synchronize(const mpc_cuda_exec *x) {
    int result = x->cuda->driver.cuStreamSynchronize(x->cuda->stream);
    return result == 0 ? MPC_OK : mpc_cuda_error(x->cuda, x->sink, "cuStreamSynchronize", result);
}

/* ---- the table of functions ---- */

static void *cuda_input(mpc_exec *e, uint32_t index) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    return mpc_cuda_exec_slot(x, x->begun) + x->input_offset[index];
}

static const void *cuda_output(mpc_exec *e, uint32_t index) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    return mpc_cuda_exec_slot(x, x->fetched > 0 ? x->fetched - 1 : 0) + x->output_offset[index];
}

static mpc_status cuda_step(mpc_exec *e) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    if (x->begun - x->fetched >= e->ahead)
        return mpc_error(x->sink, "E626",
                         "%u steps are begun and none of their records fetched: the next one has no place", e->ahead);
    mpc_status status = mpc_cuda_exec_upload(x, x->begun);
    if (status != MPC_OK) return status;
    int result = x->cuda->driver.cuGraphLaunch(x->graph, x->cuda->stream);
    if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuGraphLaunch", result);
    status = mpc_cuda_exec_download(x, x->begun);
    if (status == MPC_OK) x->begun++;
    return status;
}

/* Short steps end within the sleeps; a long one is left to the driver, which blocks. */
static int wait_for(const mpc_cuda_exec *x, void *event) {
    const struct timespec pause = {.tv_nsec = SLEEP_NANOSECONDS};
    int result = x->cuda->driver.cuEventQuery(event);
    for (int i = 0; result == RESULT_NOT_READY && i < SHORT_SLEEPS; i++) {
        nanosleep(&pause, NULL);
        result = x->cuda->driver.cuEventQuery(event);
    }
    return result == RESULT_NOT_READY ? x->cuda->driver.cuEventSynchronize(event) : result;
}

static mpc_record_state cuda_record(mpc_exec *e, bool wait) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    if (x->fetched == x->begun) return MPC_RECORD_NONE;
    void *event = x->events[x->fetched % x->slots];
    int result = wait ? wait_for(x, event) : x->cuda->driver.cuEventQuery(event);
    if (result == RESULT_NOT_READY) return MPC_RECORD_PENDING;
    if (result != 0) {
        mpc_cuda_error(x->cuda, x->sink, "a step on the GPU", result);
        return MPC_RECORD_FAILED;
    }
    x->fetched++;
    return MPC_RECORD_READY;
}

/* After a fault the driver refuses to release things; there is nothing else to do with them. */
static void release_device(mpc_cuda_exec *x) {
    const mpc_cuda_driver *d = &x->cuda->driver;
    (void)d->cuStreamSynchronize(x->cuda->stream);
    if (x->graph) (void)d->cuGraphExecDestroy(x->graph);
    for (uint32_t i = 0; x->launches && i < x->program->launch_count; i++)
        if (x->launches[i].matmul) mpc_cuda_matmul_destroy(x->launches[i].matmul);
    for (uint32_t i = 0; x->events && i < x->slots; i++)
        if (x->events[i]) (void)d->cuEventDestroy_v2(x->events[i]);
    if (x->pinned) (void)d->cuMemFreeHost(x->pinned);
    for (size_t i = 0; i < x->modules.count; i++) (void)d->cuModuleUnload(x->modules.data[i]);
    for (size_t i = 0; i < x->own.count; i++) (void)d->cuMemFree_v2(x->own.data[i]);
    mpc_cuda_store_give_arena(x->shared, x->values);
}

static void cuda_destroy(mpc_exec *e) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    if (x->cuda) release_device(x);
    mpc_cuda_store_release(x->shared);
    mpc_array_free(&x->modules);
    mpc_array_free(&x->own);
    mpc_arena_destroy(x->arena);
    mpc_free(x);
}

static void cuda_memory(const mpc_exec *e, mpc_memory_report *m) {
    const mpc_cuda_exec *x = (const mpc_cuda_exec *)e;
    for (uint32_t i = 0; i < x->program->buffer_count; i++) {
        const mpc_buffer *b = &x->program->buffers[i];
        m->by_class[b->cls][b->type.format] += b->bytes;
    }
    m->state_bytes = mpc_store_bytes(x->store);
    m->arena_bytes = x->program->arena_bytes;
    m->workspace_bytes = MPC_CUDA_WORKSPACE + x->own_bytes;
}

static const mpc_exec_vtable cuda_vtable = {
    .input = cuda_input,
    .output = cuda_output,
    .step = cuda_step,
    .record = cuda_record,
    .destroy = cuda_destroy,
    .find_nonfinite = mpc_cuda_exec_find_nonfinite,
    .memory = cuda_memory,
};

uint32_t mpc_cuda_compiled(const mpc_exec *e) { return ((const mpc_cuda_exec *)e)->compiled; }

/* ---- the graph ---- */

static mpc_status enqueue_step(const mpc_cuda_exec *x) {
    mpc_status status = mpc_cuda_exec_call(x, &x->gather_before);
    for (uint32_t i = 0; i < x->program->launch_count && status == MPC_OK; i++) status = mpc_cuda_exec_launch(x, i);
    return status == MPC_OK ? mpc_cuda_exec_call(x, &x->gather_after) : status;
}

/* A capture that failed is ended all the same, or the stream stays unusable. */
static mpc_status capture_step(mpc_cuda_exec *x) {
    const mpc_cuda_driver *d = &x->cuda->driver;
    void *graph = NULL;
    int result = d->cuStreamBeginCapture_v2(x->cuda->stream, CAPTURE_THREAD_LOCAL);
    if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuStreamBeginCapture", result);
    mpc_status status = enqueue_step(x);
    result = d->cuStreamEndCapture(x->cuda->stream, &graph);
    if (status == MPC_OK && result != 0) status = mpc_cuda_error(x->cuda, x->sink, "cuStreamEndCapture", result);
    if (status == MPC_OK && (result = d->cuGraphInstantiateWithFlags(&x->graph, graph, 0)) != 0) {
        x->graph = NULL;
        status = mpc_cuda_error(x->cuda, x->sink, "cuGraphInstantiate", result);
    }
    if (graph) (void)d->cuGraphDestroy(graph);
    return status;
}

mpc_exec *mpc_cuda_load(const mpc_program *program, mpc_store *store, const mpc_exec_options *options,
                        const mpc_sink *sink) {
    static const mpc_exec_options defaults = {0};
    mpc_status status = MPC_NO_MEMORY;
    mpc_cuda_exec *x = mpc_alloc(sizeof *x);
    if (x) {
        *x = (mpc_cuda_exec){
            .base.vtable = &cuda_vtable, .program = program, .store = store, .sink = sink, .arena = mpc_arena_create()};
        if (x->arena) status = mpc_cuda_exec_prepare(x, options ? options : &defaults);
        if (status == MPC_OK) status = capture_step(x);
        if (status == MPC_OK) status = mpc_cuda_exec_synchronize(x);
        if (status == MPC_OK) return &x->base;
        cuda_destroy(&x->base);
    }
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "there isn't enough memory to load the program");
    return NULL;
}
