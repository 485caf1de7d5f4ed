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

enum { STEPS = 40, SHOWN = 40, NAME_WIDTH = 44 };

typedef struct profile_row {
    const char *name, *op;
    double seconds, floor, flops, bytes;
    uint32_t launches;
} profile_row;

static int by_time(const void *a, const void *b) {
    double x = ((const profile_row *)a)->seconds, y = ((const profile_row *)b)->seconds;
    return (x < y) - (x > y);
}

static void print_row(const profile_row *r, double total) {
    printf("%9.1f us %5.1f %% %6.2f %8.1f %8.1f %4u  %-*.*s %.40s\n", r->seconds * 1e6, 100 * r->seconds / total,
           r->seconds > 0 ? r->floor / r->seconds : 0, r->flops / r->seconds * 1e-9, r->bytes / r->seconds * 1e-9,
           r->launches, NAME_WIDTH, NAME_WIDTH, r->op, r->name);
}

/* Sums of rows with the same op; returns their number. */
static uint32_t sum_by_op(const profile_row *rows, uint32_t count, profile_row *sums) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = 0;
        while (k < n && strcmp(sums[k].op, rows[i].op) != 0) k++;
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
    printf("%s\n%12s %7s %6s %8s %8s %4s  op, value\n", title, "time", "share", "eff", "GFLOP/s", "GB/s", "n");
    for (uint32_t i = 0; i < count && i < SHOWN; i++) print_row(&rows[i], total);
}

static void time_launches(const mpc_step *step, profile_row *rows, uint32_t count) {
    mpc_launch_time *times = mpc_alloc((count + 1) * sizeof *times);
    for (int i = 0; i < STEPS; i++) {
        if (!times || bench_profile_step(step->session, step->exec, times, count) != MPC_OK) bench_die("profiling");
        for (uint32_t k = 0; k < count; k++) rows[k].seconds = fmin(rows[k].seconds, times[k].seconds);
    }
    mpc_free(times);
}

void bench_profile(const mpc_step *step, double peak, double bandwidth) {
    const mpc_program *program = step->program;
    uint32_t count = program->launch_count;
    profile_row *rows = mpc_alloc(2 * (count + 1) * sizeof *rows), *sums = rows + count;
    if (!rows) return;
    for (uint32_t i = 0; i < count; i++) {
        const mpc_launch *l = &program->launches[i];
        rows[i] = (profile_row){.name = l->name ? l->name : "",
                                .op = l->op ? l->op : "copy",
                                .seconds = INFINITY,
                                .floor = fmax(l->flops / peak, l->bytes / bandwidth),
                                .flops = l->flops,
                                .bytes = l->bytes,
                                .launches = 1};
    }
    time_launches(step, rows, count);
    double total = 0;
    for (uint32_t i = 0; i < count; i++) total += rows[i].seconds;
    printf("sum of launches %.1f us\n", total * 1e6);
    uint32_t kinds = sum_by_op(rows, count, sums);
    print_table("by op", sums, kinds, total);
    print_table("by launch", rows, count, total);
    mpc_free(rows);
}
