/* Least squares over shapes: a time is a setup, so many seconds of a multiplication, of an operand's element and of a
 * result's, each 0 at least. In kinds whose shapes all move about as much as they multiply the time of multiplications
 * may come out as 0, hence an infinite rate, which any large product would then be priced by; so it counts only where
 * it is a visible part of some shape's time. */
#include "driver/fit_rate.h"

#include <math.h>

enum {
    FIGURES = 4,
    FLOPS = 1
}; /* of a rate: setup, seconds of a multiplication, of an operand's element, of a result's element */

static const double LEAST_SHARE = 1.0 / 3; /* of some shape's time; with less, an error of a few per cent in the times
                                              is one of the rate several times over */

typedef struct fit {
    double normal[FIGURES][FIGURES], right[FIGURES];
    double most; /* flops per second of the best shape */
    int count;
} fit;

/* One shape: time is the sum of figures times these. Weighted so that errors count by their share of the time. */
static void add_shape(fit *f, const double terms[FIGURES], double seconds) {
    for (int i = 0; i < FIGURES; i++) {
        f->right[i] += terms[i] / seconds;
        for (int j = 0; j < FIGURES; j++) f->normal[i][j] += terms[i] * terms[j] / (seconds * seconds);
    }
    f->most = fmax(f->most, terms[FLOPS] / seconds);
    f->count++;
}

/* Without negative figures, one figure after the other until nothing moves. `fixed`: one that stays as it is; FIGURES:
 * none. */
static void solve(const fit *f, int fixed, double x[FIGURES]) {
    enum { ROUNDS = 5000 };
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < FIGURES; i++) {
            double rest = f->right[i];
            if (i == fixed) continue;
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
        one.flops = i == FLOPS ? 1 : INFINITY;
        one.pack = i == 2;
        one.store = i == 3;
        terms[i] = mpc_rate_seconds(&one, size);
    }
}

static bool counts(const mpc_measured_op *op, mpc_cost_kind kind) { return op->size.kind == kind && op->seconds > 0; }

/* The largest part that multiplications have of a shape's time. */
static double share_of_flops(const mpc_rate *tiles, mpc_cost_kind kind, const mpc_measured_op *ops, uint32_t count,
                             double x) {
    double share = 0;
    for (uint32_t i = 0; i < count; i++) {
        double terms[FIGURES];
        if (!counts(&ops[i], kind)) continue;
        terms_of(tiles, &ops[i].size, terms);
        share = fmax(share, x * terms[FLOPS] / ops[i].seconds);
    }
    return share;
}

/* With the tiles and the misalignment of `r`; the sum of squares of relative errors, infinite when nothing fits. */
static double fit_figures(mpc_rate *r, mpc_cost_kind kind, const mpc_measured_op *ops, uint32_t count,
                          mpc_fit_outcome *outcome) {
    fit f = {0};
    double x[FIGURES] = {0}, error = 0;
    for (uint32_t i = 0; i < count; i++) {
        double terms[FIGURES];
        if (!counts(&ops[i], kind)) continue;
        terms_of(r, &ops[i].size, terms);
        add_shape(&f, terms, ops[i].seconds);
    }
    if (f.count <= FIGURES) return INFINITY;
    solve(&f, FIGURES, x);
    *outcome = share_of_flops(r, kind, ops, count, x[FLOPS]) < LEAST_SHARE ? MPC_FIT_BEST_SHAPE : MPC_FIT_MEASURED;
    if (*outcome == MPC_FIT_BEST_SHAPE) {
        x[FLOPS] = 1 / f.most;
        solve(&f, FLOPS, x);
    }
    r->setup = x[0];
    r->flops = 1 / x[FLOPS];
    r->pack = x[2];
    r->store = x[3];
    for (uint32_t i = 0; i < count; i++)
        if (counts(&ops[i], kind)) error += pow(mpc_rate_seconds(r, &ops[i].size) / ops[i].seconds - 1, 2);
    return error;
}

mpc_fit_outcome mpc_fit_rate(mpc_rate *rate, mpc_cost_kind kind, const mpc_measured_op *ops, uint32_t count) {
    static const double factors[] = {1, 1.25, 1.5, 2, 3, 5};
    mpc_fit_outcome best = MPC_FIT_BUILT_IN;
    const mpc_rate before = *rate;
    double least = INFINITY;
    for (size_t i = 0; i < sizeof factors / sizeof *factors && (i == 0 || before.align > 1); i++) {
        mpc_fit_outcome outcome = MPC_FIT_BUILT_IN;
        mpc_rate tried = before;
        tried.misaligned = factors[i];
        double error = fit_figures(&tried, kind, ops, count, &outcome);
        if (error < least) least = error, *rate = tried, best = outcome;
    }
    return best;
}
