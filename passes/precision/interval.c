/* Arithmetic on intervals. Bounds may be infinite, and an infinite bound means that the element may be infinite, so
 * every operation asks whether it can make a NaN. What one gets wrong: 0 * inf is NaN for an element, but 0 for a bound
 * (the other factor comes as near to infinity as it likes and the product stays 0). */
#include "passes/precision/interval.h"

#include <float.h>
#include <math.h>

mpc_interval mpc_interval_unknown(void) { return (mpc_interval){.lo = -INFINITY, .hi = INFINITY, .nan = true}; }

mpc_interval mpc_interval_of(double lo, double hi) { return (mpc_interval){.lo = lo, .hi = hi}; }

/* Of what is one or the other, or their sum. */
static double common_unit(mpc_interval a, mpc_interval b) { return fmin(mpc_interval_unit(a), mpc_interval_unit(b)); }

mpc_interval mpc_interval_union(mpc_interval a, mpc_interval b) {
    return (mpc_interval){.lo = fmin(a.lo, b.lo),
                          .hi = fmax(a.hi, b.hi),
                          .nan = a.nan || b.nan,
                          .counted = a.counted && b.counted,
                          .unit = common_unit(a, b)};
}

mpc_interval mpc_interval_with(mpc_interval a, double point) {
    a.lo = fmin(a.lo, point);
    a.hi = fmax(a.hi, point);
    if (point != 0) a.unit = 1;
    return a;
}

mpc_interval mpc_interval_neg(mpc_interval a) {
    return (mpc_interval){.lo = -a.hi, .hi = -a.lo, .nan = a.nan, .counted = a.counted, .unit = a.unit};
}

mpc_interval mpc_interval_add(mpc_interval a, mpc_interval b) {
    bool clash = (a.hi == INFINITY && b.lo == -INFINITY) || (a.lo == -INFINITY && b.hi == INFINITY);
    double lo = a.lo + b.lo, hi = a.hi + b.hi;
    return (mpc_interval){.lo = isnan(lo) ? -INFINITY : lo,
                          .hi = isnan(hi) ? INFINITY : hi,
                          .nan = a.nan || b.nan || clash,
                          .counted = a.counted && b.counted,
                          .unit = common_unit(a, b)};
}

mpc_interval mpc_interval_sub(mpc_interval a, mpc_interval b) { return mpc_interval_add(a, mpc_interval_neg(b)); }

static double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

static mpc_interval hull(double a, double b, double c, double d) {
    return mpc_interval_of(fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d)));
}

static bool zero_meets_infinity(mpc_interval a, mpc_interval b) {
    return (mpc_interval_has(a, 0) && mpc_interval_may_be_infinite(b)) ||
           (mpc_interval_has(b, 0) && mpc_interval_may_be_infinite(a));
}

mpc_interval mpc_interval_mul(mpc_interval a, mpc_interval b) {
    mpc_interval out = hull(product(a.lo, b.lo), product(a.lo, b.hi), product(a.hi, b.lo), product(a.hi, b.hi));
    out.nan = a.nan || b.nan || zero_meets_infinity(a, b);
    out.counted = a.counted && b.counted;
    out.unit = mpc_interval_unit(a) * mpc_interval_unit(b);
    return out;
}

mpc_interval mpc_interval_square(mpc_interval a) {
    mpc_interval size = mpc_interval_abs(a);
    return (mpc_interval){.lo = product(size.lo, size.lo),
                          .hi = product(size.hi, size.hi),
                          .nan = a.nan,
                          .counted = a.counted,
                          .unit = mpc_interval_unit(a) * mpc_interval_unit(a)};
}

static double quotient(double a, double b) { return isinf(b) ? 0 : a / b; }

mpc_interval mpc_interval_div(mpc_interval a, mpc_interval b) {
    if (mpc_interval_has(b, 0)) {
        bool both = mpc_interval_has(a, 0) || (mpc_interval_may_be_infinite(a) && mpc_interval_may_be_infinite(b));
        return (mpc_interval){.lo = -INFINITY, .hi = INFINITY, .nan = a.nan || b.nan || both};
    }
    mpc_interval out = hull(quotient(a.lo, b.lo), quotient(a.lo, b.hi), quotient(a.hi, b.lo), quotient(a.hi, b.hi));
    out.nan = a.nan || b.nan || (mpc_interval_may_be_infinite(a) && mpc_interval_may_be_infinite(b));
    return out;
}

mpc_interval mpc_interval_max(mpc_interval a, mpc_interval b) {
    return (mpc_interval){.lo = fmax(a.lo, b.lo),
                          .hi = fmax(a.hi, b.hi),
                          .nan = a.nan || b.nan,
                          .counted = a.counted && b.counted,
                          .unit = common_unit(a, b)};
}

mpc_interval mpc_interval_min(mpc_interval a, mpc_interval b) {
    return (mpc_interval){.lo = fmin(a.lo, b.lo),
                          .hi = fmin(a.hi, b.hi),
                          .nan = a.nan || b.nan,
                          .counted = a.counted && b.counted,
                          .unit = common_unit(a, b)};
}

mpc_interval mpc_interval_abs(mpc_interval a) {
    mpc_interval out = a;
    out.hi = fmax(fabs(a.lo), fabs(a.hi));
    out.lo = mpc_interval_has(a, 0) ? 0 : fmin(fabs(a.lo), fabs(a.hi));
    return out;
}

mpc_interval mpc_interval_map(mpc_interval a, double (*f)(double)) {
    return (mpc_interval){.lo = f(a.lo), .hi = f(a.hi), .nan = a.nan};
}

mpc_interval mpc_interval_sum(mpc_interval a, double n) {
    double size = fmax(fabs(a.lo), fabs(a.hi)) * n;
    if (n == 0) return mpc_interval_of(0, 0);
    if (!(size < FLT_MAX)) {
        mpc_interval wide = mpc_interval_unknown();
        wide.nan = a.nan || (a.lo < 0 && a.hi > 0);
        double kept = fmax(1 - n * 0x1p-23, 0); /* rounding of every partial sum */
        if (a.lo >= 0) wide.lo = n * fmin(a.lo, FLT_MAX / n) * kept;
        if (a.hi <= 0) wide.hi = n * fmax(a.hi, -FLT_MAX / n) * kept;
        return wide;
    }
    double error = a.counted && size < 0x1p24 ? 0 : size * n * 0x1p-23;
    mpc_interval out = {.lo = n * a.lo - error, .hi = n * a.hi + error, .nan = a.nan, .counted = a.counted, .unit = a.unit};
    if (a.lo >= 0) out.lo = fmax(out.lo, 0);
    if (a.hi <= 0) out.hi = fmin(out.hi, 0);
    return out;
}
