/* Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011) and the
 * draws built on it. Nothing here has state: a number depends on (seed, stream, step, element) only, so order and
 * thread count can't matter. Generated kernels repeat mpc_random_uniform; change one and both must change. */
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

void mpc_random_permutation(uint64_t seed, uint64_t stream, uint32_t step, uint32_t *out, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) out[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)((uint64_t)mpc_random_bits(seed, stream, step, i) * i >> 32);
        uint32_t last = out[i - 1];
        out[i - 1] = out[j];
        out[j] = last;
    }
}
