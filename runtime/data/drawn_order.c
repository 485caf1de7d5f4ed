/* A permutation of many rows, computed position by position: four Feistel rounds on the smallest even number of bits
 * that holds the count, walked on until the result is a row. No memory, no start-up, and the same order on every
 * machine. */
#include "base/rng.h"
#include "runtime/data/dataset_impl.h"

enum { ROUNDS = 4 };

static uint64_t encipher(uint64_t seed, uint64_t stream, uint32_t step, unsigned half, uint64_t x) {
    uint64_t mask = (UINT64_C(1) << half) - 1, left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t f = mpc_random_bits(seed, stream, step, right * ROUNDS + round);
        uint64_t next = (left ^ f) & mask;
        left = right;
        right = next;
    }
    return left << half | right;
}

int64_t mpc_drawn_row(uint64_t seed, uint64_t stream, uint32_t step, uint64_t n, int64_t position) {
    unsigned half = 1;
    while (half < 31 && UINT64_C(1) << 2 * half < n) half++;
    uint64_t x = (uint64_t)position;
    do x = encipher(seed, stream, step, half, x);
    while (x >= n);
    return (int64_t)x;
}
