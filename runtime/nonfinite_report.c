/* The words in which a launch, or an input, is named that gives a value that isn't finite; the executor only says how a
 * buffer is read. A buffer's content may be gone with the next one that is read, so nothing is kept over two reads. */
#include "runtime/nonfinite_report.h"

#include "runtime/exec.h"
#include "runtime/store_layout.h"

static bool is_result(const mpc_launch *launch, uint32_t buffer) {
    for (uint32_t i = 0; i < launch->result_count; i++)
        if (launch->results[i] == buffer) return true;
    return false;
}

static double reach_of(const mpc_nonfinite_reader *r, mpc_pointer p, double so_far) {
    const void *data = r->data(r->user, p.buffer);
    double largest = data ? mpc_largest_magnitude(&r->program->buffers[p.buffer].type, data) : 0;
    return largest > so_far ? largest : so_far;
}

/* The largest finite magnitude among what the launch reads. */
static double reach_of_inputs(const mpc_nonfinite_reader *r, const mpc_launch *launch) {
    double reach = 0;
    if (launch->kind == MPC_LAUNCH_MATMUL) return reach_of(r, launch->matmul.b, reach_of(r, launch->matmul.a, 0));
    if (launch->kind == MPC_LAUNCH_COPY) return reach_of(r, launch->copy_from, 0);
    if (launch->kind == MPC_LAUNCH_CONV) {
        const mpc_pointer all[] = {launch->conv.x, launch->conv.w, launch->conv.y};
        for (int i = 0; i < 3; i++)
            if (!is_result(launch, all[i].buffer)) reach = reach_of(r, all[i], reach);
        return reach;
    }
    const mpc_kernel *kernel = &r->program->kernels[launch->kernel];
    for (uint32_t i = 0; i < launch->instance_count; i++)
        for (uint32_t p = 0; p < kernel->pointer_count; p++)
            if (!is_result(launch, launch->instances[i].pointers[p].buffer))
                reach = reach_of(r, launch->instances[i].pointers[p], reach);
    return reach;
}

bool mpc_nonfinite_in_results(const mpc_nonfinite_reader *r, const mpc_launch *launch, mpc_str *what) {
    for (uint32_t i = 0; i < launch->result_count; i++) {
        const mpc_buffer *b = &r->program->buffers[launch->results[i]];
        const void *data = r->data(r->user, launch->results[i]);
        int64_t at = 0;
        if (!data || !mpc_find_nonfinite(&b->type, data, &at)) continue;
        double value = mpc_element_get(b->type.format, data, at);
        mpc_str_printf(what, "%s: %s gives %s at element %lld; its inputs reach %.3g", b->name ? b->name : launch->name,
                       launch->op ? launch->op : "launch", mpc_nonfinite_word(value), (long long)at,
                       reach_of_inputs(r, launch));
        return true;
    }
    return false;
}

bool mpc_nonfinite_in_inputs(const mpc_nonfinite_reader *r, mpc_str *what) {
    for (uint32_t i = 0; i < r->program->input_count; i++) {
        uint32_t id = r->program->inputs[i].buffer;
        const mpc_buffer *b = &r->program->buffers[id];
        const void *data = r->data(r->user, id);
        int64_t at = 0;
        if (!data || !mpc_find_nonfinite(&b->type, data, &at)) continue;
        mpc_str_printf(what, "input %s holds %s at element %lld", r->program->inputs[i].name,
                       mpc_nonfinite_word(mpc_element_get(b->type.format, data, at)), (long long)at);
        return true;
    }
    return false;
}
