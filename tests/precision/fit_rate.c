/* What `mpc calibrate` makes of times: known rates come back from times made of them; where no time tells how fast
 * multiplying is (a busy machine, shapes that only move data) the line has the best rate that was seen and says so,
 * never an end of a range; with too few shapes it stays as the built-in profile has it. */
#include <math.h>
#include <string.h>

#include "driver/fit_rate.h"
#include "tests/check.h"

enum { SHAPES = 9 };

static const double extents[SHAPES][4] = {{16, 64, 64, 16},   {16, 64, 16, 64},   {64, 16, 16, 16},
                                          {32, 128, 128, 8},  {32, 128, 8, 128},  {8, 128, 128, 8},
                                          {16, 128, 128, 32}, {16, 128, 32, 128}, {4, 256, 256, 64}};

static const mpc_rate built_in = {
    .flops = 5e11, .setup = 1e-6, .tile = {1, 1, 1}, .align = 1, .misaligned = 1, .pack = 1e-10};

/* The shapes with the times of a rate, each off by up to `noise`. */
static void make(mpc_measured_op ops[SHAPES], const mpc_rate *truth, double noise) {
    uint64_t state = 12345;
    for (int i = 0; i < SHAPES; i++) {
        const double *e = extents[i];
        ops[i] =
            (mpc_measured_op){.size = {.kind = MPC_COST_MATMUL_BATCH, .batch = e[0], .extent = {e[1], e[2], e[3]}}};
        ops[i].size.operands = e[0] * e[3] * (e[1] + e[2]);
        ops[i].size.result = e[0] * e[1] * e[2];
        state = state * 6364136223846793005u + 1442695040888963407u;
        double off = ((double)(state >> 33) / 1073741824.0 - 1) * noise;
        ops[i].seconds = mpc_rate_seconds(truth, &ops[i].size) * (1 + off);
    }
}

static double best_seen(const mpc_measured_op ops[SHAPES]) {
    double most = 0;
    for (int i = 0; i < SHAPES; i++) {
        const mpc_op_size *z = &ops[i].size;
        most = fmax(most, 2 * z->batch * z->extent[0] * z->extent[1] * z->extent[2] / ops[i].seconds);
    }
    return most;
}

static double worst_error(const mpc_rate *r, const mpc_measured_op ops[SHAPES]) {
    double worst = 0;
    for (int i = 0; i < SHAPES; i++) worst = fmax(worst, fabs(mpc_rate_seconds(r, &ops[i].size) / ops[i].seconds - 1));
    return worst;
}

static void a_rate_comes_back(void) {
    const mpc_rate truth = {
        .flops = 8e10, .setup = 2e-6, .tile = {1, 1, 1}, .align = 1, .misaligned = 1, .pack = 3e-10, .store = 1e-10};
    mpc_measured_op ops[SHAPES];
    mpc_rate r = built_in;
    make(ops, &truth, 0);
    CHECK(mpc_fit_rate(&r, MPC_COST_MATMUL_BATCH, ops, SHAPES) == MPC_FIT_MEASURED);
    CHECK_MSG(fabs(r.flops / truth.flops - 1) < 0.05 && worst_error(&r, ops) < 0.01, "%g flops/s", r.flops);
    make(ops, &truth, 0.05);
    r = built_in;
    CHECK(mpc_fit_rate(&r, MPC_COST_MATMUL_BATCH, ops, SHAPES) == MPC_FIT_MEASURED);
    CHECK_MSG(fabs(r.flops / truth.flops - 1) < 0.5 && worst_error(&r, ops) < 0.15, "%g flops/s", r.flops);
}

static void what_only_moves_has_the_best_rate_seen(void) {
    for (int noisy = 0; noisy < 2; noisy++) {
        const mpc_rate truth = {
            .flops = 1e18, .setup = 2e-6, .tile = {1, 1, 1}, .align = 1, .misaligned = 1, .pack = 2e-9, .store = 4e-10};
        mpc_measured_op ops[SHAPES];
        mpc_rate r = built_in;
        make(ops, &truth, noisy ? 0.02 : 0);
        mpc_fit_outcome outcome = mpc_fit_rate(&r, MPC_COST_MATMUL_BATCH, ops, SHAPES);
        CHECK_MSG(outcome == MPC_FIT_BEST_SHAPE, "%d", (int)outcome);
        CHECK_MSG(fabs(r.flops / best_seen(ops) - 1) < 1e-9, "%g flops/s, best seen %g", r.flops, best_seen(ops));
        CHECK_MSG(r.setup >= 0 && r.pack >= 0 && r.store >= 0 && worst_error(&r, ops) < 1, "%g", worst_error(&r, ops));
    }
}

static void too_few_shapes_change_nothing(void) {
    mpc_measured_op ops[SHAPES];
    mpc_rate r = built_in;
    make(ops, &built_in, 0);
    for (int i = 4; i < SHAPES; i++) ops[i].seconds = 0; /* could not be measured */
    CHECK(mpc_fit_rate(&r, MPC_COST_MATMUL_BATCH, ops, SHAPES) == MPC_FIT_BUILT_IN &&
          memcmp(&r, &built_in, sizeof r) == 0);
    CHECK(mpc_fit_rate(&r, MPC_COST_CONV, ops, SHAPES) == MPC_FIT_BUILT_IN && memcmp(&r, &built_in, sizeof r) == 0);
}

int main(void) {
    a_rate_comes_back();
    what_only_moves_has_the_best_rate_seen();
    too_few_shapes_change_nothing();
    return check_result();
}
