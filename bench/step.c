/* Times training steps of one model in several precisions, interleaved, on random inputs: median of the rounds, ratios
 * against the first precision, and the share of the floor. The floor of a step is the sum over its launches of
 * max(flops / peak, bytes / bandwidth); peak and bandwidth are measured in the same run, by the same device
 * (bench/measure.c). An efficiency
 * is a share of what this machine was seen to do, not of its data sheet. Naming a precision twice shows the A/A spread.
 *
 *   step [--cpu] [--profile] [--limits] [--short] [--count] FILE.mpg PRECISION[:SOLVER]... [-- options of `mpc train`]
 *   e.g. step bench/mlp1024.mpg f32 bf16 bf16:list-pytorch -- --threads 1 --batch 512
 *
 * --short: 25 rounds of 0.06 seconds instead of 9 of 0.25, and all their times: what two precisions took in the same
 * round can be compared, whatever the machine did in others. --limits: no steps, only what the device reaches in
 * matmul, copy and elementwise kernels.
 * --count: no times but the instructions of a step (bench/count.c); exit status 77 where that isn't possible.
 * --cpu: processor time of all threads over their number, instead of the wall's; what a machine shared with others can
 * still measure. --profile: the launches of each precision, by time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "bench/bench.h"

enum { MAX_PRECISIONS = 8, MOST_ROUNDS = 25, MAX_STEPS = 200 };

typedef struct bench_rounds {
    int count;
    double seconds; /* of one precision in one round, about */
} bench_rounds;
static const bench_rounds LONG_ROUNDS = {9, 0.25}, SHORT_ROUNDS = {MOST_ROUNDS, 0.06};

static double now(const bench_clock *clock) {
    struct timespec t;
    clock_gettime(clock->processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    return clock->processor ? seconds / clock->threads : seconds;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, ascending);
    return values[n / 2];
}

typedef struct bench_case { /* one precision */
    const char *name; /* "bf16:list" */
    char precision[8];
    mpc_options options;
    mpc_cli cli;
    mpc_session session;
    mpc_step *step;
    bench_clock clock;
    double peak; /* flop/s of matmul in this precision */
    double seconds[MOST_ROUNDS];
} bench_case;

static void begin_step(mpc_exec *e) {
    if (mpc_exec_step(e) != MPC_OK) bench_die("a step");
}

static void take_record(mpc_exec *e) {
    if (mpc_exec_record(e, true) != MPC_RECORD_READY) bench_die("a record");
}

/* Where steps run ahead of the host, as many as may are under way; the last record closes the time. */
static double time_run(mpc_exec *e, const bench_clock *clock, int steps) {
    int under_way = 0;
    double start = now(clock);
    for (int i = 0; i < steps; i++) {
        if (under_way == (int)e->ahead) take_record(e), under_way--;
        begin_step(e);
        under_way++;
    }
    while (under_way-- > 0) take_record(e);
    return (now(clock) - start) / steps;
}

static void fill_inputs(mpc_step *step) {
    mpc_exec *e = step->exec;
    for (uint32_t i = 0; i < e->input_count; i++) {
        const mpc_type *type = &e->input_types[i];
        void *data = e->vtable->input(e, i);
        if (step->field_of[i] == MPC_NONE) continue;
        const mpc_data_field *f = &step->fields[step->field_of[i]];
        for (int64_t k = 0; k < mpc_type_elements(type); k++) {
            float u = mpc_random_uniform(1, i, 0, (uint64_t)k);
            if (type->format == MPC_FMT_f32) ((float *)data)[k] = u;
            if (type->format == MPC_FMT_i32) ((int32_t *)data)[k] = (int32_t)((float)(f->hi > f->lo ? f->hi : 2) * u);
        }
    }
}

static void open_case(bench_case *c, char *file, int extra_count, char **extra) {
    char *argv[32] = {"mpc", "train", file, "--precision", c->precision};
    int argc = 5;
    const char *solver = strchr(c->name, ':');
    snprintf(c->precision, sizeof c->precision, "%.*s", (int)strcspn(c->name, ":"), c->name);
    if (solver) argv[argc++] = "--solver", argv[argc++] = (char *)(uintptr_t)(solver + 1);
    for (int i = 0; i < extra_count && argc < 31; i++) argv[argc++] = extra[i];
    if (!mpc_options_parse(&c->options, mpc_command_find("train"), argc - 2, argv + 2)) exit(2);
    static mpc_diag_printer printer;
    printer = (mpc_diag_printer){.sources = mpc_sources_create(), .to = stderr};
    c->cli = (mpc_cli){.options = &c->options, .sources = printer.sources, .sink = mpc_diag_printer_sink(&printer)};
    if (!mpc_session_open(&c->session, &c->cli)) bench_die("opening the model");
    c->session.facts.vocabulary = c->session.facts.known ? c->session.facts.vocabulary : 75;
    c->session.total_updates = 1000;
    unsigned cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    c->clock.threads = c->session.exec_options.threads ? c->session.exec_options.threads : cores;
    c->step = mpc_step_create(&c->session, MPC_PHASE_TRAIN, c->session.train->batch);
    if (!c->step || mpc_store_init(c->session.store, 0) != MPC_OK) bench_die("preparing the step");
    for (uint32_t i = 0; i < c->step->exec->ahead; i++) { /* every slot of inputs, once: they keep what they hold */
        fill_inputs(c->step);
        begin_step(c->step->exec);
    }
    for (uint32_t i = 0; i < c->step->exec->ahead; i++) take_record(c->step->exec);
}

static double floor_of(const mpc_program *p, double peak, double bandwidth, double *flops) {
    double seconds = 0;
    *flops = 0;
    for (uint32_t i = 0; i < p->launch_count; i++) {
        const mpc_launch *l = &p->launches[i];
        seconds += fmax(l->flops / peak, l->bytes / bandwidth);
        *flops += l->flops;
    }
    return seconds;
}

static void restart(bench_case *c) {
    if (mpc_store_init(c->session.store, 0) != MPC_OK) bench_die("starting again");
}

static double time_steps(bench_case *c, int steps) {
    return time_run(c->step->exec, &c->clock, steps);
}

static void print_times(const bench_case *cases, int count, int rounds) {
    for (int k = 0; k < count; k++) {
        printf("times %s", cases[k].name);
        for (int i = 0; i < rounds; i++) printf(" %.6g", cases[k].seconds[i] * 1e3);
        printf("\n");
    }
}

static void report(bench_case *cases, int count, int rounds, double bandwidth) {
    printf("%s time, memory %.1f GB/s\n", cases[0].clock.processor ? "processor" : "wall", bandwidth * 1e-9);
    printf("%-18s %7s %10s %10s %10s %10s %8s %8s\n", "precision", "threads", "ms/step", "best", "GFLOP/s", "peak",
           "eff", "ratio");
    double base = 0;
    for (int i = 0; i < count; i++) {
        const bench_case *c = &cases[i];
        double flops, lowest = floor_of(c->step->program, c->peak, bandwidth, &flops);
        double t = median(cases[i].seconds, (size_t)rounds), best = c->seconds[0];
        if (i == 0) base = t;
        printf("%-18s %7u %10.3f %10.3f %10.1f %10.1f %8.2f %8.2f\n", c->name, c->clock.threads, t * 1e3,
               best * 1e3, flops / t * 1e-9, c->peak * 1e-9, lowest / t, base / t);
        printf("%-18s spread %.0f %% (to %.3f ms), floor %.3f ms, %u launches, best over best %.2f\n", "",
               100 * (c->seconds[rounds - 1] / best - 1), c->seconds[rounds - 1] * 1e3, lowest * 1e3,
               c->step->program->launch_count, cases[0].seconds[0] / best);
    }
}

/* Each round begins with fresh states: on one batch for ever a model learns it by heart, and gradients that vanish make
 * subnormal moments, whose arithmetic is many times slower than that of any real training. */
static void measure(bench_case *cases, int count, const bench_rounds *rounds) {
    int steps[MAX_PRECISIONS];
    for (int k = 0; k < count; k++) {
        steps[k] = 1 + (int)(rounds->seconds / time_steps(&cases[k], 3));
        if (steps[k] > MAX_STEPS) steps[k] = MAX_STEPS;
    }
    for (int round = 0; round < rounds->count; round++)
        for (int k = 0; k < count; k++) {
            restart(&cases[k]);
            cases[k].seconds[round] = time_steps(&cases[k], steps[k]);
        }
}

static void close_cases(bench_case *cases, int count) {
    for (int k = 0; k < count; k++) {
        mpc_step_destroy(cases[k].step);
        mpc_session_close(&cases[k].session);
        mpc_options_free(&cases[k].options);
    }
}

/* Exit status. With more than one thread the fork would lack the others. */
static int print_counts(bench_case *cases, int count) {
    for (int i = -1; i < count; i++) { /* the first one twice: counts repeat */
        int k = i < 0 ? 0 : i;
        long long instructions = cases[k].clock.threads == 1 ? bench_count_step(cases[k].step->exec) : -1;
        if (instructions < 0) {
            fprintf(stderr,
                    "bench: instructions can't be counted: that takes --threads 1 and a system that allows ptrace\n");
            return MPC_BENCH_SKIPPED;
        }
        printf("instructions %s %lld\n", cases[k].name, instructions);
    }
    return 0;
}

int main(int argc, char **argv) {
    bool processor = false, profile = false, limits = false, is_short = false, counts = false;
    int first = 1, count = 0;
    for (; first < argc && argv[first][0] == '-'; first++) {
        processor = processor || strcmp(argv[first], "--cpu") == 0;
        profile = profile || strcmp(argv[first], "--profile") == 0;
        is_short = is_short || strcmp(argv[first], "--short") == 0;
        limits = limits || strcmp(argv[first], "--limits") == 0;
        counts = counts || strcmp(argv[first], "--count") == 0;
    }
    static bench_case cases[MAX_PRECISIONS];
    int i = first + 1;
    for (; i < argc && strcmp(argv[i], "--") != 0 && count < MAX_PRECISIONS; i++) cases[count++].name = argv[i];
    if (count == 0) {
        fprintf(stderr, "usage: step [--cpu] [--profile] [--limits] [--short] [--count] FILE.mpg PRECISION[:SOLVER]... "
                        "[-- options of mpc train]\n");
        return 2;
    }
    for (int k = 0; k < count; k++) {
        cases[k].clock.processor = processor;
        open_case(&cases[k], argv[first], argc > i + 1 ? argc - i - 1 : 0, argv + i + 1);
    }
    if (limits || counts) {
        int status = counts ? print_counts(cases, count) : 0;
        if (limits) bench_print_limits(&cases[0].session);
        close_cases(cases, count);
        return status;
    }
    double bandwidth = bench_bandwidth(&cases[0].session);
    for (int k = 0; k < count; k++) cases[k].peak = bench_peak(&cases[k].session, cases[k].precision);
    const bench_rounds *rounds = is_short ? &SHORT_ROUNDS : &LONG_ROUNDS;
    measure(cases, count, rounds);
    if (is_short) print_times(cases, count, rounds->count);
    report(cases, count, rounds->count, bandwidth);
    for (int k = 0; k < count && profile; k++) {
        printf("\n%s\n", cases[k].name);
        restart(&cases[k]);
        bench_profile(cases[k].step, cases[k].peak, bandwidth);
    }
    close_cases(cases, count);
    return 0;
}
