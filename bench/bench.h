/* What the files of the step benchmark share. */
#ifndef MPC_BENCH_H
#define MPC_BENCH_H

#include <stdbool.h>

#include "driver/session.h"

/* What times are measured with: the wall's clock, or the processor time of all threads divided by their number, which
 * a loaded machine disturbs less. */
typedef struct bench_clock {
    bool processor;
    unsigned threads;
} bench_clock;
_Noreturn void bench_die(const char *what);

/* measure.c: flop/s of matmul, bytes/s of elementwise work and of a plain copy, on the session's device. */
double bench_peak(mpc_session *s, const char *precision);
double bench_bandwidth(mpc_session *s);
void bench_print_limits(mpc_session *s);
/* One step, launch by launch; its record is fetched. */
mpc_status bench_profile_step(const mpc_session *s, mpc_exec *e, mpc_launch_time *times, uint32_t count);

/* Instructions of the next step, taken by a child; -1: the system lets no process count another one's. The session's
 * own states don't move. */
long long bench_count_step(mpc_exec *e);
enum { MPC_BENCH_SKIPPED = 77 };

/* Prints each launch of a step with its best time in many steps, the costliest first, and the sums by op. */
void bench_profile(const mpc_step *step, double peak, double bandwidth);

#endif
