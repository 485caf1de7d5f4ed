/* Steps launch by launch: one that somebody watches, and a stopped one once more, to name the first launch that gives a
 * value that isn't finite. The stopped step moved no state but the control states, which are put back for the replay
 * and restored after it: the run leaves no trace in the store. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/cpu/cpu_exec.h"
#include "runtime/cpu/onednn.h"
#include "runtime/store_layout.h"
#include "runtime/watch.h"

static const void *read_buffer(void *user, uint32_t buffer) { return ((const mpc_cpu_exec *)user)->buffers[buffer]; }

static void replay(mpc_cpu_exec *x, mpc_str *what, mpc_loc *loc) {
    const mpc_nonfinite_reader reader = {x->program, read_buffer, x};
    int threads_before = mpc_dnn_enter(x->dnn);
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        const mpc_launch *launch = &x->program->launches[i];
        if (x->launches[i].when && !*x->launches[i].when) continue;
        mpc_plan_run(x->launches[i].plan, x->pool);
        if (!mpc_nonfinite_in_results(&reader, launch, what)) continue;
        *loc = launch->loc;
        break;
    }
    mpc_dnn_leave(x->dnn, threads_before);
}

/* Inputs first: a batch that holds the value itself explains everything after it. */
mpc_status mpc_cpu_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    const mpc_nonfinite_reader reader = {x->program, read_buffer, x};
    if (mpc_nonfinite_in_inputs(&reader, what)) return MPC_OK;
    uint64_t bytes = 0;
    void *control = mpc_store_control(x->store, &bytes);
    void *now = mpc_alloc((size_t)bytes);
    if (!now) return MPC_NO_MEMORY;
    memcpy(now, control, (size_t)bytes);
    memcpy(control, x->control, (size_t)bytes);
    replay(x, what, loc);
    memcpy(control, now, (size_t)bytes);
    mpc_free(now);
    return MPC_OK;
}

mpc_status mpc_cpu_step_watched(mpc_exec *e, const mpc_watch *watch) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    const mpc_nonfinite_reader reader = {x->program, read_buffer, x};
    uint64_t bytes = 0;
    const void *control = mpc_store_control(x->store, &bytes);
    memcpy(x->control, control, (size_t)bytes);
    int threads_before = mpc_dnn_enter(x->dnn);
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        if (x->launches[i].when && !*x->launches[i].when) continue;
        if (!watch->before(watch->user, &reader, i)) break;
        mpc_plan_run(x->launches[i].plan, x->pool);
        if (!watch->after(watch->user, &reader, i)) break;
    }
    mpc_dnn_leave(x->dnn, threads_before);
    e->fetched = false;
    return MPC_OK;
}
