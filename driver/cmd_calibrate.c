/* mpc calibrate: a device profile of this machine's cpu device, measured with the kernels that steps run. Each figure is the difference of two graphs of the
 * same kind, one with more or larger ops than the other, so that what a step costs by itself drops out. Starts from the built-in profile of the processor:
 * what can't be measured (tiles of small shapes) stays as it is there. */
#include <math.h>
#include <string.h>

#include "driver/cost_target.h"
#include "driver/peaks.h"
#include "runtime/file_sync.h"

/* `count` independent products; seconds. */
static double time_products(mpc_session *s, const char *f, int count, const int extent[3]) {
    mpc_str t = {0}, ends = {0};
    mpc_str_printf(&t, "mpir 1\ngraph @calibrate(");
    for (int i = 0; i < count; i++)
        mpc_str_printf(&t, "%s%%a%d: %s[%d,%d], %%b%d: %s[%d,%d]", i > 0 ? ", " : "", i, f, extent[0], extent[2], i, f, extent[2], extent[1]);
    mpc_str_append(&t, ") {\n");
    for (int i = 0; i < count; i++) {
        mpc_str_printf(&t, "  %%c%d = matmul(%%a%d, %%b%d) : %s[%d,%d]\n", i, i, i, f, extent[0], extent[1]);
        mpc_str_printf(&ends, "%s\"c%d\": %%c%d", i > 0 ? ", " : "", i, i);
    }
    mpc_str_printf(&t, "  return(%s)\n}\n", mpc_str_cstr(&ends));
    double seconds = t.failed || ends.failed ? 0 : mpc_time_graph(s, mpc_str_cstr(&t));
    mpc_str_free(&t);
    mpc_str_free(&ends);
    return seconds;
}

/* Seconds of one product more. */
static double time_one(mpc_session *s, const char *f, int count, int m, int n, int k) {
    const int extent[3] = {m, n, k};
    double few = time_products(s, f, 1, extent), many = time_products(s, f, 1 + count, extent);
    return few > 0 && many > few ? (many - few) / count : 0;
}

/* A large product gives the rate, a small one the setup, an odd one what misalignment costs. */
static bool measure_rate(mpc_session *s, mpc_device_profile *p, mpc_format f) {
    const char *name = mpc_format_get(f)->name;
    double large = time_one(s, name, 2, 512, 512, 512), small = time_one(s, name, 16, 64, 64, 64), odd = time_one(s, name, 8, 61, 67, 129);
    mpc_rate r = p->rate[MPC_COST_MATMUL][f];
    if (!(large > 0)) return false;
    r.flops = 2.0 * 512 * 512 * 512 / large;
    r.setup = fmax(0, small - p->gap - 2.0 * 64 * 64 * 64 / r.flops);
    double even = 2.0 * 64 * 80 * 160 / r.flops;
    if (r.align > 1) r.misaligned = fmin(fmax((odd - p->gap - r.setup) / even, 1), 20);
    double ratio = r.flops / p->rate[MPC_COST_MATMUL][f].flops;
    for (int k = 0; k < MPC_COST_KINDS; k++) p->rate[k][f].flops *= ratio; /* the other kinds, in proportion */
    p->rate[MPC_COST_MATMUL][f] = r;
    return true;
}

/* Seconds of c = a + b on so many elements. */
static double time_add(mpc_session *s, int64_t elements) {
    char text[240];
    snprintf(text, sizeof text,
             "mpir 1\ngraph @add(%%a: f32[%lld], %%b: f32[%lld]) {\n  %%c = add(%%a, %%b) : f32[%lld]\n  return(\"c\": %%c)\n}\n",
             (long long)elements, (long long)elements, (long long)elements);
    return mpc_time_graph(s, text);
}

static bool measure_memory(mpc_session *s, mpc_device_profile *p) {
    double large = time_add(s, 16777216), medium = time_add(s, 65536), small = time_add(s, 16);
    if (!(large > small) || !(medium > small) || !(small > 0)) return false;
    p->bandwidth = 12.0 * (16777216 - 16) / (large - small);
    p->cache_bandwidth = fmax(p->bandwidth, 12.0 * (65536 - 16) / (medium - small));
    return true;
}

/* A product of next to nothing. */
static bool measure_gap(mpc_session *s, mpc_device_profile *p) {
    double one = time_one(s, "f32", 32, 4, 4, 4);
    if (one > 0) p->gap = one;
    return one > 0;
}

static bool calibrate(mpc_session *s, mpc_device_profile *p) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    *p = *mpc_device_profile_find(mpc_cost_target_of_cpu());
    snprintf(p->name, sizeof p->name, "measured");
    bool ok = measure_gap(s, p) && measure_memory(s, p);
    for (int i = 0; ok && i < 3; i++) ok = measure_rate(s, p, formats[i]);
    if (!ok) mpc_error(s->sink, "E356", "this machine's cpu device could not be measured: it needs a C compiler");
    return ok;
}

static int write_profile(const mpc_cli *cli, const mpc_device_profile *p) {
    mpc_str text = {0};
    bool ok = true;
    mpc_device_profile_print(p, &text);
    if (text.failed) ok = mpc_error(&cli->sink, "E901", "out of memory") == MPC_OK;
    else if (cli->options->out && strcmp(cli->options->out, "-") != 0)
        ok = mpc_file_replace(cli->options->out, text.data, text.length, &cli->sink) == MPC_OK;
    else fputs(text.data, stdout);
    mpc_str_free(&text);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}

int mpc_cmd_calibrate(mpc_cli *cli) {
    mpc_session s = {.cli = cli, .sink = &cli->sink, .sources = cli->sources};
    mpc_device_profile profile;
    s.ctx = mpc_context_create(s.sink, s.sources);
    if (!s.ctx || mpc_passes_register(s.ctx) != MPC_OK) {
        mpc_error(s.sink, "E901", "out of memory");
        mpc_context_destroy(s.ctx);
        return MPC_EXIT_FAILED;
    }
    int status = calibrate(&s, &profile) ? write_profile(cli, &profile) : MPC_EXIT_FAILED;
    mpc_context_destroy(s.ctx);
    return status;
}
