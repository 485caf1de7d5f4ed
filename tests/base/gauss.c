/* The normal draw of random ops: how far it is from the exact formula on the same uniform numbers, and whether many of
 * them are distributed as they should. Bounds of the statistics are four standard deviations of each. */
#include <math.h>

#include "base/rng.h"
#include "tests/check.h"

enum { COUNT = 400000 };

static double exact(uint64_t stream, uint64_t i) {
    double u = (double)mpc_random_uniform(3, stream, 5, i);
    double w = (double)mpc_random_uniform(3, stream ^ MPC_RANDOM_SISTER, 5, i);
    return -sqrt(-2 * log1p(-u)) * cos(6.283185307179586476925 * w);
}

static void a_draw_is_near_the_formula(void) {
    double worst = 0;
    for (uint64_t i = 0; i < COUNT; i++) worst = fmax(worst, fabs((double)mpc_random_gauss(3, 7, 5, i) - exact(7, i)));
    CHECK_MSG(worst < 1e-6, "off by %g", worst);
}

static void no_draw_is_infinite(void) {
    for (uint64_t i = 0; i < COUNT; i++) CHECK(fabs((double)mpc_random_gauss(11, 8, 1, i)) < 5.78);
}

typedef struct sums {
    double power[5]; /* of z, by exponent */
    double lag;
    int beyond[5]; /* |z| > k */
} sums;

static sums add_up(void) {
    sums s = {{0}, 0, {0}};
    double before = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double z = (double)mpc_random_gauss(1, 9, 2, i), power = 1;
        for (int k = 0; k < 5; k++, power *= z) s.power[k] += power / COUNT;
        for (int k = 0; k < 5; k++) s.beyond[k] += fabs(z) > k;
        s.lag += z * before / COUNT;
        before = z;
    }
    return s;
}

static void draws_have_the_moments_of_a_normal(void) {
    sums s = add_up();
    CHECK(fabs(s.power[1]) < 4 / sqrt(COUNT));
    CHECK(fabs(s.power[2] - 1) < 4 * sqrt(2.0 / COUNT));
    CHECK(fabs(s.power[3]) < 4 * sqrt(15.0 / COUNT));
    CHECK(fabs(s.power[4] - 3) < 4 * sqrt(96.0 / COUNT));
    CHECK(fabs(s.lag) < 4 / sqrt(COUNT));
}

static void draws_have_the_tails_of_a_normal(void) {
    static const double beyond[5] = {1, 0.31731051, 0.04550026, 0.0026997961, 6.3342484e-05};
    sums s = add_up();
    for (int k = 1; k < 5; k++)
        CHECK_MSG(fabs(s.beyond[k] - COUNT * beyond[k]) < 4 * sqrt(COUNT * beyond[k]), "%d beyond %d, expected %.0f",
                  s.beyond[k], k, COUNT * beyond[k]);
}

int main(void) {
    a_draw_is_near_the_formula();
    no_draw_is_infinite();
    draws_have_the_moments_of_a_normal();
    draws_have_the_tails_of_a_normal();
    return check_result();
}
