/* mpc train --profile: where the time of one step goes, as a trace that Perfetto and chrome://tracing open. The step is
 * one of the training, run launch by launch with a clock between them, so the training's bits are the same; the sum of
 * the launches is more than the time of a step that runs at one go. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/peaks.h"
#include "driver/trainer.h"
#include "runtime/file_sync.h"

enum { WARM_WINDOWS = 10 }; /* the profiled window of a training that has as many */

bool mpc_profile_check(const mpc_trainer *t) {
    if (!t->session->cli->options->profile || t->runners.data[0]->step->program) return true;
    mpc_error(t->session->sink, "E365",
              "--profile times the launches of a program; `ref` has none: --device cpu or cuda");
    return false;
}

bool mpc_profile_is_due(const mpc_trainer *t) {
    if (!t->session->cli->options->profile || t->profiled) return false;
    uint64_t begun = t->begun.step + 1; /* the window that begins now */
    return begun - t->first_step >= WARM_WINDOWS ||
           (t->session->total_updates > 0 && (double)begun >= t->session->total_updates);
}

static const char *kind_name(const mpc_launch *l) {
    static const char *const names[] = {"kernel", "matmul", "conv", "copy"};
    return names[l->kind];
}

static const char *kernel_name(const mpc_step *step, uint32_t i) {
    const mpc_launch *l = &step->program->launches[i];
    if (l->kind == MPC_LAUNCH_KERNEL) return step->program->kernels[l->kernel].name;
    return step->session->device == MPC_DEVICE_CPU ? mpc_cpu_implementation(step->exec, i) : kind_name(l);
}

static json_t *event(const mpc_step *step, const mpc_peaks *peaks, uint32_t i, double seconds) {
    const mpc_launch *l = &step->program->launches[i];
    bool by_memory = false;
    double limit = mpc_peaks_limit(peaks, step->program, l, &by_memory);
    json_t *args =
        json_pack("{s:s, s:s, s:s, s:f, s:f, s:f}", "op", l->op ? l->op : kind_name(l), "value", l->name ? l->name : "",
                  "kernel", kernel_name(step, i), "bytes", l->bytes, "flops", l->flops, "us", seconds * 1e6);
    if (limit > 0 && seconds > 0) {
        json_object_set_new(args, "share_of_limit", json_real(limit / seconds));
        json_object_set_new(args, "limit", json_string(by_memory ? "memory" : "arithmetic"));
    }
    return json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:o}", "name", l->op ? l->op : kind_name(l), "cat", kind_name(l),
                     "ph", "X", "pid", 1, "tid", 1, "dur", seconds * 1e6, "args", args);
}

static json_t *label(const char *what, const char *name) {
    return json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid", 1, "tid", 1, "args", "name",
                     name);
}

typedef struct profile_sum {
    double seconds, limit;
} profile_sum;

static json_t *trace_json(const mpc_trainer *t, const mpc_step *step, const mpc_peaks *peaks,
                          const mpc_launch_time *times, profile_sum *sum) {
    json_t *events = json_array();
    json_array_append_new(events, label("process_name", peaks->device));
    json_array_append_new(events, label("thread_name", mpc_device_name(t->session->device)));
    for (uint32_t i = 0; i < step->program->launch_count; i++) {
        bool by_memory;
        json_t *e = event(step, peaks, i, times[i].seconds);
        json_object_set_new(e, "ts", json_real(sum->seconds * 1e6));
        json_array_append_new(events, e);
        sum->seconds += times[i].seconds;
        if (times[i].seconds > 0)
            sum->limit += mpc_peaks_limit(peaks, step->program, &step->program->launches[i], &by_memory);
    }
    json_t *about =
        json_pack("{s:s, s:s, s:s, s:I, s:s, s:f, s:f, s:f, s:f}", "model", mpc_model_name(t->session->model), "device",
                  mpc_device_name(t->session->device), "precision", t->train->precision, "step",
                  (json_int_t)(t->begun.step), "limits", peaks->source, "peak_bytes_per_s", peaks->bytes,
                  "peak_flops_16", peaks->flops16, "peak_flops_tf32", peaks->tf32, "peak_flops_f32", peaks->f32);
    return json_pack("{s:s, s:o, s:o}", "displayTimeUnit", "ns", "otherData", about, "traceEvents", events);
}

static bool write_trace(mpc_trainer *t, const mpc_step *step, const mpc_launch_time *times) {
    const char *path = t->session->cli->options->profile;
    mpc_peaks peaks;
    profile_sum sum = {0};
    if (!mpc_peaks_find(t->session, &peaks)) return false;
    json_t *trace = trace_json(t, step, &peaks, times, &sum);
    char *text = trace ? json_dumps(trace, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(trace);
    bool ok = text && mpc_file_replace(path, text, strlen(text), t->session->sink) == MPC_OK;
    if (!text) mpc_error(t->session->sink, "E901", "out of memory");
    mpc_free(text);
    if (!ok) return false;
    char share[64] = "";
    if (sum.limit > 0 && sum.seconds > 0)
        snprintf(share, sizeof share, ", %.0f %% of the limit", 100 * sum.limit / sum.seconds);
    mpc_progress_line(&t->progress, "profile of step %" PRIu64 ": %u launches, %.3f ms%s; %s", t->begun.step,
                      step->program->launch_count, sum.seconds * 1e3, share, path);
    return true;
}

bool mpc_profile_begin(mpc_trainer *t, const mpc_batch *batch) {
    const mpc_step *step = batch->runner->step;
    mpc_launch_time *times = mpc_alloc((step->program->launch_count + 1) * sizeof *times);
    t->profiled = true;
    bool ok = times != NULL;
    if (!ok) mpc_error(t->session->sink, "E901", "out of memory");
    ok = ok && mpc_flight_begin(&t->flight, batch, times) && write_trace(t, step, times);
    mpc_free(times);
    return ok;
}
