/* What the files of the step benchmark share. */
#ifndef MPC_BENCH_H
#define MPC_BENCH_H

#include <stdbool.h>

#include "runtime/device.h"

/* What times are measured with: the wall's clock, or the processor time of all threads divided by their number, which
 * a loaded machine disturbs less. */
typedef struct bench_clock {
    bool processor;
    unsigned threads;
} bench_clock;
double bench_now(const bench_clock *clock);

/* Prints each launch of a step with its best time in many steps, the costliest first, and the sums by op. */
void bench_profile(mpc_exec *exec, const bench_clock *clock, double peak, double bandwidth);

#endif
