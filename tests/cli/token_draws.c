/* Drawing tokens: what the cut keeps, that equal seeds draw equal tokens, and that draws are as frequent as the softmax
 * of what was kept says. */
#include "driver/sampling.h"

#include <math.h>
#include <stdbool.h>

#include "tests/check.h"

enum { COUNT = 8, DRAWS = 20000 };
static const double scores[COUNT] = {0.5, 2, -1, 2, 1.25, -INFINITY, 0, 1.25};

static int64_t draw(double temperature, int64_t k, uint64_t seed, uint64_t index) {
    double scratch[COUNT];
    const mpc_sampling s = {.temperature = temperature, .top_k = k, .seed = seed};
    return mpc_sample(&s, scores, COUNT, scratch, index);
}

static void check_likeliest(void) {
    for (uint64_t i = 0; i < 100; i++) {
        CHECK(draw(0, 0, 1, i) == 1); /* of equal ones the first */
        CHECK(draw(0, 3, 1, i) == 1);
        CHECK(draw(5, 1, 1, i) == 1);
    }
}

static void check_seed(void) {
    int other = 0;
    for (uint64_t i = 0; i < 200; i++) {
        CHECK(draw(1, 4, 7, i) == draw(1, 4, 7, i));
        CHECK(draw(1, COUNT, 7, i) == draw(1, 0, 7, i)); /* no cut */
        CHECK(draw(1, 1000000, 7, i) == draw(1, 0, 7, i));
        other += draw(1, 4, 7, i) != draw(1, 4, 8, i);
    }
    CHECK(other > 20);
}

/* Share of each token over many draws against its weight, within four standard deviations. */
static void check_frequencies(double temperature, int64_t k, const bool *kept) {
    int64_t seen[COUNT] = {0};
    double sum = 0;
    for (int i = 0; i < COUNT; i++) sum += kept[i] ? exp(scores[i] / temperature) : 0;
    for (uint64_t i = 0; i < DRAWS; i++) seen[draw(temperature, k, 3, i)]++;
    for (int i = 0; i < COUNT; i++) {
        double p = kept[i] ? exp(scores[i] / temperature) / sum : 0;
        double deviation = sqrt(p * (1 - p) / DRAWS);
        CHECK(fabs((double)seen[i] / DRAWS - p) <= 4 * deviation);
    }
}

static void check_refusal(void) {
    double scratch[3];
    const mpc_sampling s = {.temperature = 1};
    CHECK(mpc_sample(&s, (const double[]){1, NAN, 2}, 3, scratch, 0) == -1);
    CHECK(mpc_sample(&s, (const double[]){-INFINITY, -INFINITY, -INFINITY}, 3, scratch, 0) == -1);
    CHECK(mpc_sample(&s, (const double[]){1, INFINITY, 2}, 3, scratch, 0) == -1);
}

int main(void) {
    check_likeliest();
    check_seed();
    check_frequencies(1, 0, (const bool[COUNT]){true, true, true, true, true, false, true, true});
    check_frequencies(0.4, 4, (const bool[COUNT]){false, true, false, true, true, false, false, true});
    /* of equal ones the lower number */
    check_frequencies(2, 3, (const bool[COUNT]){false, true, false, true, true, false, false, false});
    check_refusal();
    return check_result();
}
