/* mpc calibrate: a device profile of this machine's cpu device, measured with the kernels that steps run. Rates of products and convolutions are fitted to
 * the times of many shapes (measure_ops.c); what memory and launches cost is the difference of two graphs of the same kind, one with more or larger ops than
 * the other, so that what a step costs by itself drops out. Tiles are those of the built-in profile of the processor. All of one thread. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/cost_target.h"
#include "driver/measure_ops.h"
#include "driver/peaks.h"
#include "runtime/file_sync.h"

enum { FIGURES = 4 }; /* of a rate: setup, seconds of a multiplication, of an operand's element, of a result's element */

static const double MOST_FLOPS = 1e15; /* where the multiplications themselves take no time that could be seen */

typedef struct fit {
    double normal[FIGURES][FIGURES], right[FIGURES];
} fit;

/* One shape: time is the sum of figures times these. Weighted so that errors count by their share of the time. */
static void add_shape(fit *f, const double terms[FIGURES], double seconds) {
    for (int i = 0; i < FIGURES; i++) {
        f->right[i] += terms[i] / seconds;
        for (int j = 0; j < FIGURES; j++) f->normal[i][j] += terms[i] * terms[j] / (seconds * seconds);
    }
}

/* Least squares without negative figures, one figure after the other until nothing moves. */
static void solve(const fit *f, double x[FIGURES]) {
    enum { ROUNDS = 5000 };
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < FIGURES; i++) {
            double rest = f->right[i];
            for (int j = 0; j < FIGURES; j++) rest -= j == i ? 0 : f->normal[i][j] * x[j];
            x[i] = f->normal[i][i] > 0 ? fmax(0, rest / f->normal[i][i]) : 0;
        }
}

/* What a shape is in each figure: its time by a rate that has 1 there and 0 elsewhere. */
static void terms_of(const mpc_rate *tiles, const mpc_op_size *size, double terms[FIGURES]) {
    mpc_rate one = *tiles;
    terms[0] = 1;
    for (int i = 1; i < FIGURES; i++) {
        one.setup = 0;
        one.flops = i == 1 ? 1 : INFINITY;
        one.pack = i == 2;
        one.store = i == 3;
        terms[i] = mpc_rate_seconds(&one, size);
    }
}

/* Of all shapes of a kind, with the tiles and the misalignment of `r`; the sum of squares of relative errors, infinite when nothing fits. */
static double fit_figures(mpc_rate *r, mpc_cost_kind kind, const mpc_measured_op *ops) {
    fit f = {0};
    double x[FIGURES] = {0}, error = 0;
    int count = 0;
    for (uint32_t i = 0; i < mpc_measured_ops_count(); i++) {
        double terms[FIGURES];
        if (ops[i].size.kind != kind || !(ops[i].seconds > 0)) continue;
        terms_of(r, &ops[i].size, terms);
        add_shape(&f, terms, ops[i].seconds);
        count++;
    }
    solve(&f, x);
    if (count <= FIGURES) return INFINITY;
    r->setup = x[0];
    r->flops = fmin(1 / x[1], MOST_FLOPS);
    r->pack = x[2];
    r->store = x[3];
    for (uint32_t i = 0; i < mpc_measured_ops_count(); i++)
        if (ops[i].size.kind == kind && ops[i].seconds > 0) error += pow(mpc_rate_seconds(r, &ops[i].size) / ops[i].seconds - 1, 2);
    return error;
}

static bool fit_rate(mpc_rate *r, mpc_cost_kind kind, const mpc_measured_op *ops) {
    static const double factors[] = {1, 1.25, 1.5, 2, 3, 5};
    mpc_rate best = *r;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof factors / sizeof *factors && (i == 0 || r->align > 1); i++) {
        mpc_rate tried = *r;
        tried.misaligned = factors[i];
        double error = fit_figures(&tried, kind, ops);
        if (error < least) least = error, best = tried;
    }
    *r = best;
    return least < INFINITY;
}

/* Comments of the profile: each shape as it was and as the fitted rate has it. */
static void print_shapes(const mpc_device_profile *p, mpc_format f, const mpc_measured_op *ops, mpc_str *notes) {
    for (uint32_t i = 0; i < mpc_measured_ops_count(); i++)
        if (ops[i].seconds > 0)
            mpc_str_printf(notes, "# %s %s %s: %.1f us, by the rate %.1f\n", mpc_cost_kind_name(ops[i].size.kind), mpc_format_get(f)->name,
                           ops[i].shape, ops[i].seconds * 1e6, mpc_rate_seconds(&p->rate[ops[i].size.kind][f], &ops[i].size) * 1e6);
}

static bool measure_rates(mpc_session *s, mpc_device_profile *p, mpc_str *notes) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    enum { COUNT = sizeof formats / sizeof *formats };
    mpc_measured_op *ops = mpc_alloc(COUNT * mpc_measured_ops_count() * sizeof *ops);
    bool ok = ops != NULL && mpc_measure_ops(s, formats, COUNT, ops);
    for (int i = 0; ok && i < COUNT; i++) {
        const mpc_measured_op *of = ops + (uint32_t)i * mpc_measured_ops_count();
        for (int k = 0; ok && k < MPC_COST_KINDS; k++)
            if (k != MPC_COST_ATTENTION) ok = fit_rate(&p->rate[k][formats[i]], (mpc_cost_kind)k, of);
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
static bool measure_memory(mpc_session *s, mpc_device_profile *p) {
    enum { LARGE = 2097152, MEDIUM = 65536 }; /* 8 MB, as much as large values of a step have */
    double large = time_add(s, "f32", LARGE), medium = time_add(s, "f32", MEDIUM), small = time_add(s, "f32", 16), low = time_add(s, "bf16", MEDIUM);
    if (!(large > small) || !(medium > small) || !(small > 0) || !(low > small)) return false;
    p->bandwidth = 12.0 * (LARGE - 16) / (large - small);
    p->cache_bandwidth = fmax(p->bandwidth, 12.0 * (MEDIUM - 16) / (medium - small));
    double converting = low - small - 6.0 * MEDIUM / p->cache_bandwidth;
    p->convert = fmin(3.0 * MEDIUM / fmax(converting, 1e-9), 1e11);
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
    bool ok = measure_gap(s, p) && measure_memory(s, p) && measure_rates(s, p, notes);
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
