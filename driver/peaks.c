/* Figures to hold a launch's time against. GPUs have them by name, from their data sheets (dense, without sparsity, f32
 * accumulation; f32 outside of tensor cores), since no two of a kind differ; CPUs differ by memory and cooling, so
 * theirs are measured. A share above 1 is possible where data stays in a cache: bytes are those a launch names, not
 * those that memory saw. */
#include "driver/peaks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "driver/measured_graph.h"
#include "driver/progress.h"
#include "runtime/cpu/cpu_model.h"
#include "runtime/cuda/cuda.h"

/* The first row whose words are all in the device's name. Tera-operations and giga-bytes per second. */
static const struct gpu_row {
    const char *words[2];
    double flops16, tf32, f32, bytes;
} GPUS[] = {
    {{"A100", "80GB"}, 312, 156, 19.5, 2039}, {{"A100", ""}, 312, 156, 19.5, 1555},
    {{"A10", ""}, 125, 62.5, 31.2, 600},      {{"A6000", ""}, 154.8, 77.4, 38.7, 768},
    {{"3090", ""}, 71, 35.6, 35.6, 936},      {{"4090", ""}, 165.2, 82.6, 82.6, 1008},
    {{"L40S", ""}, 362, 183, 91.6, 864},      {{"L4", ""}, 121, 60, 30.3, 300},
    {{"H100", "PCIe"}, 756, 378, 51, 2000},   {{"H100", ""}, 989, 494, 67, 3350},
    {{"GH200", ""}, 989, 494, 67, 4000},      {{"H200", ""}, 989, 494, 67, 4800},
    {{"B200", ""}, 2250, 1125, 75, 8000},     {{"5090", ""}, 209.5, 104.8, 104.8, 1792},
};

static void look_up(const char *name, mpc_peaks *out) {
    for (size_t i = 0; i < sizeof GPUS / sizeof *GPUS; i++) {
        const struct gpu_row *r = &GPUS[i];
        if (!strstr(name, r->words[0]) || !strstr(name, r->words[1])) continue;
        out->source = "data sheet";
        out->flops16 = r->flops16 * 1e12;
        out->tf32 = r->tf32 * 1e12;
        out->f32 = r->f32 * 1e12;
        out->bytes = r->bytes * 1e9;
        return;
    }
}

enum { TRIES = 6 };

static double best_time(mpc_exec *e) {
    double best = INFINITY;
    for (int i = 0; i < TRIES; i++) {
        double begin = mpc_now();
        if (mpc_exec_step(e) != MPC_OK || mpc_exec_record(e, true) != MPC_RECORD_READY) return 0;
        best = fmin(best, mpc_now() - begin);
    }
    return best;
}

double mpc_time_graph(mpc_session *s, const char *text) {
    mpc_measured_graph m;
    double best = mpc_measured_graph_open(s, text, &m) ? best_time(m.exec) : 0;
    mpc_measured_graph_close(&m);
    return best;
}

static double time_product(mpc_session *s, const char *f) {
    char text[300];
    snprintf(text, sizeof text,
             "mpir 1\ngraph @peak(%%a: %s[1024,1024], %%b: %s[1024,1024]) {\n  %%c = matmul(%%a, %%b) : %s[1024,1024]\n"
             "  return(\"c\": %%c)\n}\n",
             f, f, f);
    return mpc_time_graph(s, text);
}

static bool measure(mpc_session *s, mpc_peaks *out) {
    const double flops = 2.0 * 1024 * 1024 * 1024, bytes = 3.0 * 4 * 16777216;
    const char *precision = s->train->precision;
    double f32 = time_product(s, "f32"), low = 0;
    if (strcmp(precision, "bf16") == 0 || strcmp(precision, "f16") == 0) low = time_product(s, precision);
    double copy = mpc_time_graph(s, "mpir 1\ngraph @copy(%a: f32[16777216], %b: f32[16777216]) {\n"
                                "  %c = add(%a, %b) : f32[16777216]\n  return(\"c\": %c)\n}\n");
    if (!(f32 > 0) || !(copy > 0)) return false;
    out->source = "measured";
    out->f32 = out->tf32 = flops / f32;
    out->flops16 = low > 0 ? flops / low : out->f32;
    out->bytes = bytes / copy;
    return true;
}

bool mpc_peaks_find(mpc_session *s, mpc_peaks *out) {
    *out = (mpc_peaks){.source = "unknown"};
    if (s->device == MPC_DEVICE_CUDA) {
        mpc_cuda *cuda = mpc_cuda_open_compiler(s->sink);
        if (!cuda) return false;
        snprintf(out->device, sizeof out->device, "%s", cuda->name);
        mpc_cuda_close(cuda);
        look_up(out->device, out);
        return true;
    }
    mpc_str name = {0};
    mpc_cpu_name(&name);
    snprintf(out->device, sizeof out->device, "%s", mpc_str_cstr(&name));
    mpc_str_free(&name);
    return measure(s, out);
}

static double peak_of(const mpc_peaks *peaks, mpc_format operand, mpc_format compute) {
    if (operand != MPC_FMT_f32) return peaks->flops16;
    return compute == MPC_FMT_tf32 ? peaks->tf32 : peaks->f32;
}

double mpc_peaks_limit(const mpc_peaks *peaks, const mpc_program *program, const mpc_launch *launch, bool *by_memory) {
    double peak = peaks->f32;
    if (launch->kind == MPC_LAUNCH_MATMUL) peak = peak_of(peaks, launch->matmul.fa, launch->matmul.compute);
    else if (launch->kind == MPC_LAUNCH_CONV) peak = peak_of(peaks, launch->conv.fx, launch->conv.compute);
    else if (launch->kind == MPC_LAUNCH_KERNEL && program->kernels[launch->kernel].tensor_cores) peak = peaks->flops16;
    if (!(peak > 0) || !(peaks->bytes > 0)) return 0;
    double by_flops = launch->flops / peak, by_bytes = launch->bytes / peaks->bytes;
    *by_memory = by_bytes >= by_flops;
    return fmax(by_flops, by_bytes);
}
