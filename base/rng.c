/* Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011) and the
 * draws built on it. Nothing here has state: a number depends on (seed, stream, step, element) only, so order and
 * thread count can't matter. Generated kernels repeat mpc_random_uniform, and the expansion of random_normal repeats
 * mpc_random_gauss; change one and both must change. */
#include "base/rng.h"

#include <math.h>

static void philox_round(uint32_t x[4], const uint32_t key[2]) {
    uint64_t a = (uint64_t)0xD2511F53u * x[0], b = (uint64_t)0xCD9E8D57u * x[2];
    uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ key[0], y2 = (uint32_t)(a >> 32) ^ x[3] ^ key[1];
    x[0] = y0;
    x[1] = (uint32_t)b;
    x[2] = y2;
    x[3] = (uint32_t)a;
}

void mpc_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t k[2] = {key[0], key[1]};
    for (int i = 0; i < 4; i++) out[i] = counter[i];
    for (int i = 0; i < 10; i++) {
        philox_round(out, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
}

uint32_t mpc_random_bits(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i) {
    uint64_t block = i / 4;
    uint32_t counter[4] = {(uint32_t)block, (uint32_t)stream, (uint32_t)(stream >> 32), step};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)(block >> 32)}, out[4];
    mpc_philox4x32(counter, key, out);
    return out[i % 4];
}

float mpc_random_uniform(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i) {
    return (float)(mpc_random_bits(seed, stream, step, i) >> 8) * 0x1p-24f;
}

/* The radius comes from (0, 1], so its logarithm is finite. */
float mpc_random_normal(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i) {
    uint64_t even = i & ~UINT64_C(1);
    double u = ((double)mpc_random_bits(seed, stream, step, even) + 1.0) * 0x1p-32;
    double angle = 6.283185307179586476925 * (double)mpc_random_bits(seed, stream, step, even + 1) * 0x1p-32;
    double radius = sqrt(-2.0 * log(u));
    return (float)(radius * (i & 1 ? sin(angle) : cos(angle)));
}

const mpc_gauss_shift mpc_gauss_shifts[MPC_GAUSS_SHIFTS] = {{0x1p-16, 0x1p16, 16}, {0x1p-8, 0x1p8, 8},
                                                            {0x1p-4, 0x1p4, 4},    {0x1p-2, 0x1p2, 2},
                                                            {0x1p-1, 0x1p1, 1},    {0.70710678118654752440, 2, 1}};
const double mpc_gauss_log[MPC_GAUSS_TERMS] = {2 / 11.0, 2 / 9.0, 2 / 7.0, 2 / 5.0, 2 / 3.0, 2};
const double mpc_gauss_sine[MPC_GAUSS_TERMS] = {-1 / 39916800.0, 1 / 362880.0, -1 / 5040.0, 1 / 120.0, -1 / 6.0, 1};

static float polynomial(const double *coefficients, float z) {
    float p = z * (float)coefficients[0];
    for (int i = 1; i < MPC_GAUSS_TERMS - 1; i++) p = (p + (float)coefficients[i]) * z;
    return p + (float)coefficients[MPC_GAUSS_TERMS - 1];
}

/* sqrt(-2 log x) for x in (0, 1], by exponent and mantissa in [sqrt(1/2), sqrt 2). */
static float radius_of(float x) {
    float exponent = 0;
    for (int i = 0; i < MPC_GAUSS_SHIFTS; i++) {
        const mpc_gauss_shift *s = &mpc_gauss_shifts[i];
        if (!(x < (float)s->below)) continue;
        x *= (float)s->factor;
        exponent += (float)s->exponent;
    }
    float t = (x - 1) / (x + 1), scaled = exponent * (float)MPC_GAUSS_LN2, log = t * polynomial(mpc_gauss_log, t * t);
    return sqrtf((scaled - log) * 2);
}

float mpc_random_gauss(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i) {
    float u = mpc_random_uniform(seed, stream, step, i);
    float w = mpc_random_uniform(seed, stream ^ MPC_RANDOM_SISTER, step, i);
    float angle = (0.25f - fabsf(w - 0.5f)) * (float)MPC_GAUSS_TURN;
    float sine = angle * polynomial(mpc_gauss_sine, angle * angle);
    return radius_of(1 - u) * sine;
}

void mpc_random_permutation(uint64_t seed, uint64_t stream, uint32_t step, uint32_t *out, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)((uint64_t)mpc_random_bits(seed, stream, step, i) * i >> 32);
        uint32_t last = out[i - 1];
        out[i - 1] = out[j];
        out[j] = last;
    }
}
