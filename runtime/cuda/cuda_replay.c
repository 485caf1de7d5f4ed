/* One step launch by launch: to find the first value that isn't finite, for somebody who watches, or to time each
 * launch. The replay takes the inputs and the control states from the current record's slot, where they stayed;
 * afterwards the control states are what they were. A stopped step moves no other state, so it leaves no trace. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/cuda/cuda_exec.h"
#include "runtime/store_layout.h"
#include "runtime/watch.h"

/* ---- replay ---- */

typedef struct replay_state {
    mpc_cuda_exec *x;
    void *content; /* of the buffer that was read last */
    mpc_status status;
} replay_state;

static mpc_status fetch(const mpc_cuda_exec *x, void *to, mpc_device_ptr from, uint64_t bytes) {
    int result = x->cuda->driver.cuMemcpyDtoHAsync_v2(to, from, (size_t)bytes, x->cuda->stream);
    if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuMemcpyDtoHAsync", result);
    return mpc_cuda_exec_synchronize(x);
}

static const void *read_buffer(void *user, uint32_t buffer) {
    replay_state *r = user;
    if (r->status != MPC_OK) return NULL;
    r->status = fetch(r->x, r->content, r->x->buffers[buffer], r->x->program->buffers[buffer].bytes);
    return r->status == MPC_OK ? r->content : NULL;
}

/* Control states: from the device into `to`, or from `from` to the device. */
static mpc_status move_control(const mpc_cuda_exec *x, uint8_t *to, const uint8_t *from) {
    uint64_t bytes = 0;
    uint8_t *begin = mpc_store_control(x->store, &bytes);
    for (uint32_t i = 0; i < x->shared->piece_count; i++) {
        const mpc_cuda_piece *p = &x->shared->pieces[i];
        uint8_t *first = p->host > begin ? p->host : begin, *end = p->host + p->bytes;
        if (end > begin + bytes) end = begin + bytes;
        if (first >= end) continue;
        mpc_device_ptr device = p->device + (mpc_device_ptr)(first - p->host);
        size_t at = (size_t)(first - begin), size = (size_t)(end - first);
        int result = to ? x->cuda->driver.cuMemcpyDtoHAsync_v2(to + at, device, size, x->cuda->stream)
                        : x->cuda->driver.cuMemcpyHtoDAsync_v2(device, from + at, size, x->cuda->stream);
        if (result != 0)
            return mpc_cuda_error(x->cuda, x->sink, to ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync", result);
    }
    return mpc_cuda_exec_synchronize(x);
}

static mpc_status is_skipped(const mpc_cuda_exec *x, uint32_t launch, bool *skipped) {
    uint8_t when = 1;
    mpc_device_ptr address = x->launches[launch].kernel.when;
    mpc_status status = address ? fetch(x, &when, address, sizeof when) : MPC_OK;
    *skipped = when == 0;
    return status;
}

static mpc_status walk(replay_state *r, const mpc_nonfinite_reader *reader, mpc_str *what, mpc_loc *loc) {
    mpc_cuda_exec *x = r->x;
    if (mpc_nonfinite_in_inputs(reader, what) || r->status != MPC_OK) return r->status;
    for (uint32_t i = 0; i < x->program->launch_count && r->status == MPC_OK; i++) {
        bool skipped = false;
        r->status = is_skipped(x, i, &skipped);
        if (skipped || r->status != MPC_OK) continue;
        r->status = mpc_cuda_exec_launch(x, i);
        if (r->status != MPC_OK || !mpc_nonfinite_in_results(reader, &x->program->launches[i], what)) continue;
        *loc = x->program->launches[i].loc;
        break;
    }
    return r->status;
}

static uint64_t largest_buffer(const mpc_program *p) {
    uint64_t largest = 0;
    for (uint32_t i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].bytes > largest) largest = p->buffers[i].bytes;
    return largest;
}

static mpc_status replay(replay_state *r, uint8_t *now, mpc_str *what, mpc_loc *loc) {
    mpc_cuda_exec *x = r->x;
    uint64_t step = x->fetched > 0 ? x->fetched - 1 : 0;
    const mpc_nonfinite_reader reader = {x->program, read_buffer, r};
    mpc_status status = move_control(x, now, NULL);
    if (status != MPC_OK) return status;
    status = move_control(x, NULL, mpc_cuda_exec_slot(x, step) + x->control_offset);
    if (status == MPC_OK) status = mpc_cuda_exec_upload(x, step);
    if (status == MPC_OK) status = walk(r, &reader, what, loc);
    mpc_status restored = move_control(x, NULL, now);
    return status == MPC_OK ? restored : status;
}

mpc_status mpc_cuda_exec_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    uint64_t control_bytes = 0;
    (void)mpc_store_control(x->store, &control_bytes);
    replay_state r = {.x = x, .content = mpc_alloc((size_t)largest_buffer(x->program) + 1)};
    uint8_t *now = mpc_alloc((size_t)control_bytes + 1);
    mpc_status status = r.content && now ? replay(&r, now, what, loc) : MPC_NO_MEMORY;
    mpc_free(r.content);
    mpc_free(now);
    return status;
}

/* ---- what stands around the launches of a step ---- */

static mpc_status begin_step(mpc_cuda_exec *x) {
    mpc_status status = mpc_cuda_exec_upload(x, x->begun);
    return status == MPC_OK ? mpc_cuda_exec_call(x, &x->gather_before) : status;
}

static mpc_status end_step(mpc_cuda_exec *x) {
    mpc_status status = mpc_cuda_exec_call(x, &x->gather_after);
    if (status == MPC_OK) status = mpc_cuda_exec_download(x, x->begun);
    if (status == MPC_OK) x->begun++;
    return status;
}

/* ---- watched ---- */

/* false: the watch ended it, or `r->status` says what failed. */
static bool run_watched(replay_state *r, const mpc_watch *watch, uint32_t i) {
    const mpc_nonfinite_reader reader = {r->x->program, read_buffer, r};
    bool skipped = false;
    r->status = is_skipped(r->x, i, &skipped);
    if (skipped || r->status != MPC_OK) return r->status == MPC_OK;
    if (!watch->before(watch->user, &reader, i) || r->status != MPC_OK) return false;
    r->status = mpc_cuda_exec_launch(r->x, i);
    return r->status == MPC_OK && watch->after(watch->user, &reader, i) && r->status == MPC_OK;
}

static mpc_status step_watched(replay_state *r, const mpc_watch *watch) {
    mpc_cuda_exec *x = r->x;
    r->status = begin_step(x);
    for (uint32_t i = 0; i < x->program->launch_count && r->status == MPC_OK; i++)
        if (!run_watched(r, watch, i)) return r->status;
    return r->status == MPC_OK ? end_step(x) : r->status;
}

mpc_status mpc_cuda_step_watched(mpc_exec *e, const mpc_watch *watch) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    replay_state r = {.x = x, .content = mpc_alloc((size_t)largest_buffer(x->program) + 1)};
    mpc_status status = r.content ? step_watched(&r, watch)
                                  : mpc_error(x->sink, "E901", "there isn't enough memory to look at the step");
    mpc_free(r.content);
    return status;
}

/* ---- profile ---- */

static mpc_status record_event(const mpc_cuda_exec *x, void *event) {
    int result = x->cuda->driver.cuEventRecord(event, x->cuda->stream);
    return result == 0 ? MPC_OK : mpc_cuda_error(x->cuda, x->sink, "cuEventRecord", result);
}

static mpc_status run_timed(mpc_cuda_exec *x, void **events) {
    mpc_status status = begin_step(x);
    if (status == MPC_OK) status = record_event(x, events[0]);
    for (uint32_t i = 0; i < x->program->launch_count && status == MPC_OK; i++) {
        status = mpc_cuda_exec_launch(x, i);
        if (status == MPC_OK) status = record_event(x, events[i + 1]);
    }
    if (status == MPC_OK) status = end_step(x);
    return status == MPC_OK ? mpc_cuda_exec_synchronize(x) : status;
}

static mpc_status read_times(const mpc_cuda_exec *x, void **events, mpc_launch_time *times) {
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        float milliseconds = 0;
        int result = x->cuda->driver.cuEventElapsedTime(&milliseconds, events[i], events[i + 1]);
        if (result != 0) return mpc_cuda_error(x->cuda, x->sink, "cuEventElapsedTime", result);
        times[i] = (mpc_launch_time){.seconds = (double)milliseconds * 1e-3};
    }
    return MPC_OK;
}

mpc_status mpc_cuda_profile(mpc_exec *e, mpc_launch_time *times, uint32_t count) {
    mpc_cuda_exec *x = (mpc_cuda_exec *)e;
    const mpc_cuda_driver *d = &x->cuda->driver;
    uint32_t launches = x->program->launch_count;
    if (count != launches)
        return mpc_error(x->sink, "E626", "a profile of %u launches was asked for, the step has %u", count, launches);
    if (x->begun - x->fetched >= e->ahead)
        return mpc_error(x->sink, "E626", "fetch the records of the steps that are begun before a profile");
    void **events = mpc_alloc((launches + 1) * sizeof *events);
    mpc_status status = events ? MPC_OK : mpc_error(x->sink, "E901", "there isn't enough memory for a profile");
    uint32_t made = 0;
    for (int result = 0; status == MPC_OK && made <= launches; made++) {
        result = d->cuEventCreate(&events[made], 0);
        if (result == 0) continue;
        status = mpc_cuda_error(x->cuda, x->sink, "cuEventCreate", result);
        break;
    }
    if (status == MPC_OK) status = run_timed(x, events);
    if (status == MPC_OK) status = read_times(x, events, times);
    for (uint32_t i = 0; i < made; i++) (void)d->cuEventDestroy_v2(events[i]);
    mpc_free(events);
    return status;
}
