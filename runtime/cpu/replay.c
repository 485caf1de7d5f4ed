/* Runs a stopped step once more, launch by launch, and names the first that gives a value that isn't finite. The step
 * moved no state but the control states, which are put back for the replay and restored after it: the run leaves no
 * trace in the store. */
#include <string.h>

#include "base/alloc.h"
#include "runtime/cpu/cpu_exec.h"
#include "runtime/cpu/onednn.h"
#include "runtime/exec.h"
#include "runtime/store_layout.h"

static bool is_result(const mpc_launch *launch, uint32_t buffer) {
    for (uint32_t i = 0; i < launch->result_count; i++)
        if (launch->results[i] == buffer) return true;
    return false;
}

static double reach_of(const mpc_cpu_exec *x, mpc_pointer p, double so_far) {
    double largest = mpc_largest_magnitude(&x->program->buffers[p.buffer].type, x->buffers[p.buffer]);
    return largest > so_far ? largest : so_far;
}

/* The largest finite magnitude among what the launch reads. */
static double reach_of_inputs(const mpc_cpu_exec *x, const mpc_launch *launch) {
    double reach = 0;
    if (launch->kind == MPC_LAUNCH_MATMUL) return reach_of(x, launch->matmul.b, reach_of(x, launch->matmul.a, 0));
    if (launch->kind == MPC_LAUNCH_COPY) return reach_of(x, launch->copy_from, 0);
    if (launch->kind == MPC_LAUNCH_CONV) {
        const mpc_pointer all[] = {launch->conv.x, launch->conv.w, launch->conv.y};
        for (int i = 0; i < 3; i++)
            if (!is_result(launch, all[i].buffer)) reach = reach_of(x, all[i], reach);
        return reach;
    }
    const mpc_kernel *kernel = &x->program->kernels[launch->kernel];
    for (uint32_t i = 0; i < launch->instance_count; i++)
        for (uint32_t p = 0; p < kernel->pointer_count; p++)
            if (!is_result(launch, launch->instances[i].pointers[p].buffer))
                reach = reach_of(x, launch->instances[i].pointers[p], reach);
    return reach;
}

static bool look_at_results(const mpc_cpu_exec *x, const mpc_launch *launch, mpc_str *what) {
    for (uint32_t i = 0; i < launch->result_count; i++) {
        const mpc_buffer *b = &x->program->buffers[launch->results[i]];
        const void *data = x->buffers[launch->results[i]];
        int64_t at = 0;
        if (!mpc_find_nonfinite(&b->type, data, &at)) continue;
        mpc_str_printf(what, "%s: %s gives %s at element %lld; its inputs reach %.3g", b->name ? b->name : launch->name,
                       launch->op ? launch->op : "launch",
                       mpc_nonfinite_word(mpc_element_get(b->type.format, data, at)), (long long)at,
                       reach_of_inputs(x, launch));
        return true;
    }
    return false;
}

static bool look_at_inputs(const mpc_cpu_exec *x, mpc_str *what) {
    for (uint32_t i = 0; i < x->program->input_count; i++) {
        uint32_t id = x->program->inputs[i].buffer;
        const mpc_buffer *b = &x->program->buffers[id];
        int64_t at = 0;
        if (!mpc_find_nonfinite(&b->type, x->buffers[id], &at)) continue;
        mpc_str_printf(what, "input %s holds %s at element %lld", x->program->inputs[i].name,
                       mpc_nonfinite_word(mpc_element_get(b->type.format, x->buffers[id], at)), (long long)at);
        return true;
    }
    return false;
}

static void replay(mpc_cpu_exec *x, mpc_str *what, mpc_loc *loc) {
    int threads_before = mpc_dnn_enter(x->dnn);
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        const mpc_launch *launch = &x->program->launches[i];
        if (x->launches[i].when && !*x->launches[i].when) continue;
        mpc_plan_run(x->launches[i].plan, x->pool);
        if (!look_at_results(x, launch, what)) continue;
        *loc = launch->loc;
        break;
    }
    mpc_dnn_leave(x->dnn, threads_before);
}

/* Inputs first: a batch that holds the value itself explains everything after it. */
mpc_status mpc_cpu_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    if (look_at_inputs(x, what)) return MPC_OK;
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
