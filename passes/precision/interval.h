/* Arithmetic on intervals, on the extended reals: bounds as the operation gives them in doubles; range.c widens and rounds. Private to
 * the range analysis. An operation sets `nan` where it can make one (inf - inf, 0 * inf, 0 / 0), and keeps its operands'. */
#ifndef MPC_PASSES_INTERVAL_H
#define MPC_PASSES_INTERVAL_H

#include "passes/precision/range.h"

mpc_interval mpc_interval_unknown(void); /* any number, infinities and NaN */
mpc_interval mpc_interval_of(double lo, double hi);
mpc_interval mpc_interval_union(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_with(mpc_interval a, double point);
mpc_interval mpc_interval_neg(mpc_interval a);
mpc_interval mpc_interval_add(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_sub(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_mul(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_square(mpc_interval a);
/* By an interval that holds 0 everything is possible, also from positive numbers: 1 / -0. */
mpc_interval mpc_interval_div(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_max(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_min(mpc_interval a, mpc_interval b);
mpc_interval mpc_interval_abs(mpc_interval a);
/* Between f(lo) and f(hi), f growing. */
mpc_interval mpc_interval_map(mpc_interval a, double (*f)(double));
/* Sum of n terms of `a`, added in f32 in any order; unknown where a partial sum could overflow. */
mpc_interval mpc_interval_sum(mpc_interval a, double n);

static inline bool mpc_interval_has(mpc_interval a, double x) { return a.lo <= x && x <= a.hi; }
static inline bool mpc_interval_may_be_infinite(mpc_interval a) { return mpc_interval_has(a, 1.0 / 0.0) || mpc_interval_has(a, -1.0 / 0.0); }

#endif
