/* Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). key = seed, counter = (element block, stream,
 * attempted micro-step): the same numbers on every device, for any thread count, after any resume. */
#ifndef MPC_BASE_RNG_H
#define MPC_BASE_RNG_H

#include <stdint.h>

void mpc_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The contract of every random op on every device. Element i of a tensor draws word i % 4 of
 *   philox(counter = {i / 4 low 32, stream low 32, stream high 32, step low 32}, key = {seed low, seed high ^ (i/4 high
 * 32)}). */
uint32_t mpc_random_bits(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
/* Uniform in [0, 1): top 24 bits times 2^-24, exact in f32. */
float mpc_random_uniform(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
/* What random_normal draws: standard normal in f32 by Box-Muller, the radius from `stream`, the angle from its sister
 * stream; exactly rounded operations only, so devices repeat it bit for bit. Within 1e-6 of the exact formula; never
 * infinite, at most sqrt(48 log 2) = 5.77 in size. */
float mpc_random_gauss(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
#define MPC_RANDOM_SISTER UINT64_C(0x2545f4914f6cdd1d)

/* Constants of mpc_random_gauss, for whoever repeats it, each to be rounded to f32: x below `below` is multiplied by
 * `factor` = 2^exponent; polynomials in z from the highest power on, of log((1 + t) / (1 - t)) / t and sin(a) / a. */
typedef struct mpc_gauss_shift {
    double below, factor, exponent;
} mpc_gauss_shift;
enum { MPC_GAUSS_SHIFTS = 6, MPC_GAUSS_TERMS = 6 };
extern const mpc_gauss_shift mpc_gauss_shifts[MPC_GAUSS_SHIFTS];
extern const double mpc_gauss_log[MPC_GAUSS_TERMS], mpc_gauss_sine[MPC_GAUSS_TERMS];
#define MPC_GAUSS_LN2 0.69314718055994530942
#define MPC_GAUSS_TURN 6.283185307179586476925

/* Standard normal by Box-Muller on elements 2k and 2k+1 (host only, in double, rounded once): for initialisers. */
float mpc_random_normal(uint64_t seed, uint64_t stream, uint32_t step, uint64_t i);
/* Permutation of 0..n-1 by Fisher-Yates; depends on (seed, stream, step) only. */
void mpc_random_permutation(uint64_t seed, uint64_t stream, uint32_t step, uint32_t *out, uint32_t n);

#endif
