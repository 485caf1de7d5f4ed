/* mpc calibrate: a device profile of this machine's cpu device, measured with the kernels that steps run. Rates of products and convolutions are fitted to
 * the times of many shapes (measure_ops.c, fit_rate.c); what memory and launches cost is the difference of two graphs of the same kind, one with more or larger ops than
 * the other, so that what a step costs by itself drops out. Tiles are those of the built-in profile of the processor. All of one thread. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/cost_target.h"
#include "driver/fit_rate.h"
#include "driver/peaks.h"
#include "runtime/file_sync.h"

static const char *const OUTCOMES[] = {
    [MPC_FIT_MEASURED] = NULL,
    [MPC_FIT_BEST_SHAPE] = "multiplying can't be told from moving data, so flops/s are those of the best shape measured",
    [MPC_FIT_BUILT_IN] = "too few shapes could be measured: as the built-in profile has it"};

/* Comments of the profile: each shape as it was and as the fitted rate has it. */
static void print_shapes(const mpc_device_profile *p, mpc_format f, const mpc_measured_op *ops, mpc_str *notes) {
    for (uint32_t i = 0; i < mpc_measured_ops_count(); i++)
        if (ops[i].seconds > 0)
            mpc_str_printf(notes, "# %s %s %s: %.1f us, by the rate %.1f\n", mpc_cost_kind_name(ops[i].size.kind), mpc_format_get(f)->name,
                           ops[i].shape, ops[i].seconds * 1e6, mpc_rate_seconds(&p->rate[ops[i].size.kind][f], &ops[i].size) * 1e6);
}

static void fit_line(mpc_device_profile *p, mpc_cost_kind kind, mpc_format f, const mpc_measured_op *ops, mpc_str *notes) {
    const char *said = OUTCOMES[mpc_fit_rate(&p->rate[kind][f], kind, ops, mpc_measured_ops_count())];
    if (said) mpc_str_printf(notes, "# %s %s: %s\n", mpc_cost_kind_name(kind), mpc_format_get(f)->name, said);
}

static bool measure_rates(mpc_session *s, mpc_device_profile *p, mpc_str *notes) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    enum { COUNT = sizeof formats / sizeof *formats };
    mpc_measured_op *ops = mpc_alloc(COUNT * mpc_measured_ops_count() * sizeof *ops);
    bool ok = ops != NULL && mpc_measure_ops(s, formats, COUNT, ops);
    for (int i = 0; ok && i < COUNT; i++) {
        const mpc_measured_op *of = ops + (uint32_t)i * mpc_measured_ops_count();
        for (int k = 0; ok && k < MPC_COST_KINDS; k++)
            if (k != MPC_COST_ATTENTION) fit_line(p, (mpc_cost_kind)k, formats[i], of, notes);
        p->rate[MPC_COST_ATTENTION][formats[i]] = p->rate[MPC_COST_MATMUL][formats[i]]; /* only devices that keep it as one op ask */
        if (ok) print_shapes(p, formats[i], of, notes);
    }
    mpc_free(ops);
    return ok;
}

/* Seconds of c = a + b on so many elements. */
static double time_add(mpc_session *s, const char *f, int64_t elements) {
    char text[240];
    snprintf(text, sizeof text,
             "mpir 1\ngraph @add(%%a: %s[%lld], %%b: %s[%lld]) {\n  %%c = add(%%a, %%b) : %s[%lld]\n  return(\"c\": %%c)\n}\n",
             f, (long long)elements, f, (long long)elements, f, (long long)elements);
    return mpc_time_graph(s, text);
}

/* Conversions are what a loop takes longer on 16-bit numbers than their bytes would. */
static bool measure_memory(mpc_session *s, mpc_device_profile *p, mpc_str *notes) {
    enum { LARGE = 2097152, MEDIUM = 65536 }; /* 8 MB, as much as large values of a step have */
    double large = time_add(s, "f32", LARGE), medium = time_add(s, "f32", MEDIUM), small = time_add(s, "f32", 16), low = time_add(s, "bf16", MEDIUM);
    if (!(large > small) || !(medium > small) || !(small > 0) || !(low > small)) return false;
    p->bandwidth = 12.0 * (LARGE - 16) / (large - small);
    p->cache_bandwidth = fmax(p->bandwidth, 12.0 * (MEDIUM - 16) / (medium - small));
    double converting = low - small - 6.0 * MEDIUM / p->cache_bandwidth;
    bool seen = converting > 0.05 * (low - small); /* else the built-in figure stays */
    if (seen) p->convert = 3.0 * MEDIUM / converting;
    else mpc_str_append(notes, "# convert: can't be told from moving data, as the built-in profile has it\n");
    return true;
}

/* Seconds of `count` additions of four numbers that can't be one kernel: each needs the sum of the one before. */
static double time_chain(mpc_session *s, int count) {
    mpc_str t = {0};
    mpc_str_append(&t, "mpir 1\ngraph @chain(%a0: f32[4,4]) {\n");
    for (int i = 0; i < count; i++) mpc_str_printf(&t, "  %%a%d = matmul(%%a%d, %%a%d) : f32[4,4]\n", i + 1, i, i);
    mpc_str_printf(&t, "  return(\"c\": %%a%d)\n}\n", count);
    double seconds = t.failed ? 0 : mpc_time_graph(s, mpc_str_cstr(&t));
    mpc_str_free(&t);
    return seconds;
}

/* A product of next to nothing. */
static bool measure_gap(mpc_session *s, mpc_device_profile *p) {
    double few = time_chain(s, 1), many = time_chain(s, 65);
    if (!(few > 0) || !(many > few)) return false;
    p->gap = (many - few) / 64;
    return true;
}

static bool calibrate(mpc_session *s, mpc_device_profile *p, mpc_str *notes) {
    *p = *mpc_device_profile_find(mpc_cost_target_of_cpu());
    snprintf(p->name, sizeof p->name, "measured");
    s->exec_options.threads = 1;
    bool ok = measure_gap(s, p) && measure_memory(s, p, notes) && measure_rates(s, p, notes);
    if (!ok) mpc_error(s->sink, "E356", "this machine's cpu device could not be measured: it needs a C compiler");
    return ok;
}

static int write_profile(const mpc_cli *cli, const mpc_device_profile *p, const mpc_str *notes) {
    mpc_str text = {0};
    bool ok = true;
    mpc_device_profile_print(p, &text);
    mpc_str_append(&text, mpc_str_cstr(notes));
    if (text.failed || notes->failed) ok = mpc_error(&cli->sink, "E901", "out of memory") == MPC_OK;
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
    mpc_str notes = {0};
    int status = calibrate(&s, &profile, &notes) ? write_profile(cli, &profile, &notes) : MPC_EXIT_FAILED;
    mpc_str_free(&notes);
    mpc_context_destroy(s.ctx);
    return status;
}
