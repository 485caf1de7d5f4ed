/* Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). key = seed, counter = (element block, stream,
 * attempted micro-step): the same numbers on every device, for any thread count, after any resume. */
#ifndef MPC_BASE_RNG_H
#define MPC_BASE_RNG_H

#include <stdint.h>

void mpc_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The contract of every random op on every device. Element i of a tensor draws word i % 4 of
 *   philox(counter = {i / 4 low 32, stream low 32, stream high 32, step low 32}, key = {seed low, seed high ^ (i/4 high 32)}). */
uint32_t mpc_random_bits(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
/* Uniform in [0, 1): top 24 bits times 2^-24, exact in f32. */
float mpc_random_uniform(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
/* Standard normal by Box-Muller on elements 2k and 2k+1 (host only, in double, rounded once): for initialisers. */
float mpc_random_normal(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
/* Permutation of 0..n-1 by Fisher-Yates; depends on (seed, stream, step) only. */
void mpc_random_permutation(uint64_t seed, uint64_t stream, uint32_t step, uint32_t *out, uint32_t n);

#endif
