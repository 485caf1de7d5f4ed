/* What a device can do, measured by the product's own launches: the rate of matmul in a format, the speed of memory, and what share of a
 * copy's speed elementwise kernels reach. Operands are states, so that nothing but the launch itself is timed; times are the launch's own
 * (mpc_cpu_profile, mpc_cuda_profile), the best of many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/bench.h"
#include "codegen/codegen.h"

enum { TRIES = 12 };

void bench_die(const char *what) {
    fprintf(stderr, "bench: %s failed\n", what);
    exit(1);
}

mpc_status bench_profile_step(const mpc_session *s, mpc_exec *e, mpc_launch_time *times, uint32_t count) {
    mpc_status status =
        s->device == MPC_DEVICE_CUDA ? mpc_cuda_profile(e, times, count) : mpc_cpu_profile(e, times, count);
    return status == MPC_OK && mpc_exec_record(e, true) == MPC_RECORD_READY ? MPC_OK : MPC_FAILED;
}

static double longest(const mpc_launch_time *times, uint32_t count) {
    double seconds = 0;
    for (uint32_t i = 0; i < count; i++)
        if (times[i].seconds > seconds) seconds = times[i].seconds;
    return seconds;
}

/* Best time of the longest launch of a graph in text form, on the session's device. */
static double time_graph(mpc_session *s, const char *text) {
    uint32_t file = mpc_sources_add(s->sources, "<measure>", text, strlen(text));
    mpc_graph *g = mpc_graph_parse(s->ctx, file);
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_graph *low = g ? mpc_pipeline_run(g, "@lower", &env, NULL) : NULL;
    mpc_program *program = low ? mpc_device_program(s->device, low) : NULL;
    mpc_store *store = program ? mpc_store_create(low, s->sink) : NULL;
    mpc_exec *e = NULL;
    if (store) e = s->device == MPC_DEVICE_CUDA ? mpc_cuda_load(program, store, &s->exec_options, s->sink)
                                                : mpc_cpu_load(program, store, &s->exec_options, s->sink);
    mpc_launch_time *times = e ? mpc_alloc(program->launch_count * sizeof *times) : NULL;
    if (!times || mpc_store_init(store, 1) != MPC_OK) bench_die("preparing a measurement");
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        if (bench_profile_step(s, e, times, program->launch_count) != MPC_OK) bench_die("a measurement");
        best = fmin(best, longest(times, program->launch_count));
    }
    mpc_free(times);
    e->vtable->destroy(e);
    mpc_store_destroy(store);
    mpc_program_destroy(program);
    mpc_graph_destroy(low);
    mpc_graph_destroy(g);
    return best;
}

static double sum_loss(mpc_session *s, const char *states, const char *body, const char *next) {
    char text[1600];
    snprintf(text, sizeof text, "mpir 1\ngraph @measure() {\n%s%s%s  return()\n}\n", states, body, next);
    return time_graph(s, text);
}

double bench_peak(mpc_session *s, const char *precision) {
    long long n = s->device == MPC_DEVICE_CUDA ? 8192 : 2048, m = s->device == MPC_DEVICE_CUDA ? 8192 : 1024;
    bool tf32 = strcmp(precision, "tf32") == 0;
    const char *f = tf32 ? "f32" : precision;
    char states[600], body[200];
    snprintf(states, sizeof states,
             "  %%a = state() {name=\"a\" init=\"normal\" b=1.0} : %s[%lld,%lld]\n"
             "  %%b = state() {name=\"b\" init=\"normal\" b=1.0} : %s[%lld,%lld]\n"
             "  %%c = state() {name=\"c\"} : %s[%lld,%lld]\n",
             f, m, n, f, n, n, f, m, n);
    snprintf(body, sizeof body, "  %%d = matmul(%%a, %%b)%s : %s[%lld,%lld]\n", tf32 ? " {prec=tf32}" : "", f, m, n);
    return 2.0 * (double)m * (double)n * (double)n / sum_loss(s, states, body, "  next %c, %d\n");
}

static long long elements(const mpc_session *s) { return s->device == MPC_DEVICE_CUDA ? 1ll << 28 : 1ll << 25; }

/* Bytes a second of `body`, which makes %c in `format` from %a in `from`. */
static double pointwise(mpc_session *s, const char *from, const char *format, int bytes, const char *body) {
    long long n = elements(s);
    char states[400], text[600];
    snprintf(states, sizeof states,
             "  %%a = state() {name=\"a\" init=\"normal\" b=1.0} : %s[%lld]\n  %%old = state() {name=\"c\"} : %s[%lld]\n", from,
             n, format, n);
    snprintf(text, sizeof text, body, n, n, n, n);
    return (double)bytes * (double)n / sum_loss(s, states, text, "  next %old, %c\n");
}

double bench_bandwidth(mpc_session *s) {
    return pointwise(s, "f32", "f32", 8, "  %%c = mul(%%a, %%a) : f32[%lld]\n");
}

static double copy_bandwidth(mpc_session *s) {
    char states[400];
    long long n = elements(s);
    snprintf(states, sizeof states,
             "  %%a = state() {name=\"a\" init=\"ones\"} : f32[%lld]\n  %%b = state() {name=\"b\"} : f32[%lld]\n", n, n);
    return 8.0 * (double)n / sum_loss(s, states, "", "  next %b, %a\n");
}

void bench_print_limits(mpc_session *s) {
    static const char *const precisions[] = {"f32", "tf32", "bf16", "f16"};
    static const struct {
        const char *name, *from, *to, *body;
        int bytes;
    } rows[] = {
        {"square f32", "f32", "f32", "  %%c = mul(%%a, %%a) : f32[%lld]\n", 8},
        {"cast f32 to bf16", "f32", "bf16", "  %%c = cast(%%a) {to=bf16} : bf16[%lld]\n", 6},
        {"square bf16", "bf16", "bf16", "  %%c = mul(%%a, %%a) : bf16[%lld]\n", 4},
        {"sigmoid(x) x bf16", "bf16", "bf16", "  %%s = sigmoid(%%a) : bf16[%lld]\n  %%c = mul(%%s, %%a) : bf16[%lld]\n", 4},
    };
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (s->device == MPC_DEVICE_CUDA || i == 0 || i == 2)
            printf("peak %s %.1f GFLOP/s\n", precisions[i], bench_peak(s, precisions[i]) * 1e-9);
    double copy = copy_bandwidth(s);
    printf("copy %.1f GB/s\n", copy * 1e-9);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double rate = pointwise(s, rows[i].from, rows[i].to, rows[i].bytes, rows[i].body);
        printf("pointwise %.1f GB/s, %.2f of copy: %s\n", rate * 1e-9, rate / copy, rows[i].name);
    }
}
