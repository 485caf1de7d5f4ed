/* Philox against the known answers of its authors' test suite, and the draws built on it. */
#include <math.h>

#include "base/rng.h"
#include "tests/check.h"

static void philox_gives_the_published_answers(void) {
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t out[4];
        mpc_philox4x32(rows[i].counter, rows[i].key, out);
        CHECK_MSG(memcmp(out, rows[i].out, sizeof out) == 0, "row %zu: %08x %08x %08x %08x", i, out[0], out[1], out[2],
                  out[3]);
    }
}

static void bits_follow_the_contract(void) {
    uint32_t counter[4] = {3, 0x11111111, 0x22222222, 9}, key[2] = {5, 7}, out[4];
    mpc_philox4x32(counter, key, out);
    for (uint32_t k = 0; k < 4; k++)
        CHECK(mpc_random_bits(0x0000000700000005u, 0x2222222211111111u, 9, 12 + k) == out[k]);
    CHECK(mpc_random_bits(0, 0, 0, 0) == 0x6627e8d5);
    CHECK(mpc_random_uniform(0, 0, 0, 0) == (float)(0x6627e8d5 >> 8) / 16777216.0f);
}

static void seed_stream_step_and_element_all_matter(void) {
    uint32_t base = mpc_random_bits(1, 2, 3, 4);
    CHECK(base != mpc_random_bits(2, 2, 3, 4) && base != mpc_random_bits(1, 3, 3, 4));
    CHECK(base != mpc_random_bits(1, 2, 4, 4) && base != mpc_random_bits(1, 2, 3, 5));
    CHECK(mpc_random_bits(1, 2, 3, 0) != mpc_random_bits(1, 2, 3, UINT64_C(1) << 34));
}

static void uniform_and_normal_have_their_moments(void) {
    enum { COUNT = 200000 };
    double sum = 0, sum2 = 0, normal = 0, normal2 = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double u = (double)mpc_random_uniform(3, 1, 0, i), z = (double)mpc_random_normal(3, 2, 0, i);
        CHECK(u >= 0 && u < 1 && isfinite(z));
        sum += u, sum2 += u * u, normal += z, normal2 += z * z;
    }
    CHECK(fabs(sum / COUNT - 0.5) < 0.003 && fabs(sum2 / COUNT - 1.0 / 3) < 0.003);
    CHECK(fabs(normal / COUNT) < 0.01 && fabs(normal2 / COUNT - 1) < 0.02);
}

/* Box-Muller on a pair: the radius from the even element's bits, in (0, 1], the angle from the odd one's. */
static void normals_come_in_pairs(void) {
    for (uint64_t i = 0; i < 20000; i += 2) {
        double u = ((double)mpc_random_bits(5, 6, 7, i) + 1) / 4294967296.0;
        double angle = 6.283185307179586476925 * (double)mpc_random_bits(5, 6, 7, i + 1) / 4294967296.0,
               radius = sqrt(-2 * log(u));
        CHECK(mpc_random_normal(5, 6, 7, i) == (float)(radius * cos(angle)));
        CHECK(mpc_random_normal(5, 6, 7, i + 1) == (float)(radius * sin(angle)));
    }
}

static void permutation_is_one_and_depends_on_the_step(void) {
    uint32_t a[1000], b[1000], seen[1000] = {0}, moved = 0, differ = 0;
    mpc_random_permutation(1, 2, 3, a, 1000);
    mpc_random_permutation(1, 2, 4, b, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        CHECK(a[i] < 1000 && !seen[a[i]]++);
        moved += a[i] != i;
        differ += a[i] != b[i];
    }
    CHECK(moved > 900 && differ > 900);
    uint32_t one = 7;
    mpc_random_permutation(1, 2, 3, &one, 1);
    CHECK(one == 0);
    mpc_random_permutation(1, 2, 3, NULL, 0);
}

int main(void) {
    philox_gives_the_published_answers();
    bits_follow_the_contract();
    seed_stream_step_and_element_all_matter();
    uniform_and_normal_have_their_moments();
    normals_come_in_pairs();
    permutation_is_one_and_depends_on_the_step();
    return check_result();
}
