/* Time of each launch of a step. Launches run in the step's order, one after the other as in a real step, with the
 * clock read between them; the best of many steps is shown, so a loaded machine disturbs little. What a newcomer would
 * get wrong: the sum is more than a step's time, since reading the clock costs about as much as the smallest launches.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/bench.h"
#include "runtime/cpu/cpu_exec.h"
#include "runtime/cpu/onednn.h"

enum { STEPS = 40, SHOWN = 40, NAME_WIDTH = 44 };

typedef struct profile_row {
    const char *name, *op, *implementation;
    double seconds, floor, flops, bytes;
    int64_t units;
    uint32_t launches;
} profile_row;

static int64_t units_of(const mpc_cpu_exec *x, uint32_t i) {
    const mpc_launch *launch = &x->program->launches[i];
    if (launch->kind != MPC_LAUNCH_KERNEL) return x->launches[i].plan->phases[0].units;
    int64_t units = 0;
    for (uint32_t k = 0; k < launch->instance_count; k++) units += launch->instances[k].units;
    return units;
}

static double clock_cost(const bench_clock *clock) {
    double best = INFINITY;
    for (int i = 0; i < 200; i++) {
        double begin = bench_now(clock), t = bench_now(clock) - begin;
        if (t < best) best = t;
    }
    return best;
}

static void time_launches(mpc_cpu_exec *x, const bench_clock *clock, profile_row *rows) {
    double cost = clock_cost(clock);
    int before = mpc_dnn_enter(x->dnn);
    for (int step = 0; step < STEPS; step++)
        for (uint32_t i = 0; i < x->program->launch_count; i++) {
            const mpc_cpu_launch *launch = &x->launches[i];
            double begin = bench_now(clock);
            if (!launch->when || *launch->when) mpc_plan_run(launch->plan, x->pool);
            double t = fmax(bench_now(clock) - begin - cost, 0);
            if (t < rows[i].seconds) rows[i].seconds = t;
        }
    mpc_dnn_leave(x->dnn, before);
}

static int by_time(const void *a, const void *b) {
    double x = ((const profile_row *)a)->seconds, y = ((const profile_row *)b)->seconds;
    return (x < y) - (x > y);
}

static void print_row(const profile_row *r, double total) {
    printf("%9.1f us %5.1f %% %6.2f %8.1f %8.1f %6lld %4u  %-*.*s %.40s %s\n", r->seconds * 1e6,
           100 * r->seconds / total, r->seconds > 0 ? r->floor / r->seconds : 0, r->flops / r->seconds * 1e-9,
           r->bytes / r->seconds * 1e-9, (long long)r->units, r->launches, NAME_WIDTH, NAME_WIDTH, r->op, r->name,
           r->implementation);
}

/* Sums of rows with the same op and implementation; returns their number. */
static uint32_t sum_by_op(const profile_row *rows, uint32_t count, profile_row *sums) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        while (k < n &&
               (strcmp(sums[k].op, rows[i].op) != 0 || strcmp(sums[k].implementation, rows[i].implementation) != 0))
            k++;
        if (k == n) {
            sums[n++] = rows[i];
            continue;
        }
        sums[k].seconds += rows[i].seconds;
        sums[k].floor += rows[i].floor;
        sums[k].flops += rows[i].flops;
        sums[k].bytes += rows[i].bytes;
        sums[k].launches++;
    }
    return n;
}

static void print_table(const char *title, profile_row *rows, uint32_t count, double total) {
    qsort(rows, count, sizeof *rows, by_time);
    printf("%s\n%12s %7s %6s %8s %8s %6s %4s  op, value, how\n", title, "time", "share", "eff", "GFLOP/s", "GB/s",
           "units", "n");
    for (uint32_t i = 0; i < count && i < SHOWN; i++) print_row(&rows[i], total);
}

void bench_profile(mpc_exec *exec, const bench_clock *clock, double peak, double bandwidth) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)exec;
    uint32_t count = x->program->launch_count;
    profile_row *rows = mpc_alloc(2 * (count + 1) * sizeof *rows), *sums = rows + count;
    if (!rows) return;
    for (uint32_t i = 0; i < count; i++) {
        const mpc_launch *l = &x->program->launches[i];
        rows[i] = (profile_row){.name = l->name ? l->name : "",
                                .op = l->op ? l->op : "copy",
                                .implementation = x->launches[i].plan->implementation,
                                .seconds = INFINITY,
                                .floor = fmax(l->flops / peak, l->bytes / bandwidth),
                                .flops = l->flops,
                                .bytes = l->bytes,
                                .units = units_of(x, i),
                                .launches = 1};
    }
    time_launches(x, clock, rows);
    double total = 0;
    for (uint32_t i = 0; i < count; i++) total += rows[i].seconds;
    printf("sum of launches %.1f us\n", total * 1e6);
    uint32_t kinds = sum_by_op(rows, count, sums);
    print_table("by op", sums, kinds, total);
    print_table("by launch", rows, count, total);
    mpc_free(rows);
}
