/* One token out of the scores of all: how a model that predicts the next one writes. */
#ifndef MPC_DRIVER_SAMPLING_H
#define MPC_DRIVER_SAMPLING_H

#include <stdint.h>

typedef struct mpc_sampling {
    double temperature; /* 0: always the likeliest */
    int64_t top_k;      /* keeps the k likeliest; 0, or more than there are: all */
    uint64_t seed;
} mpc_sampling;

/* Logits (or log-probabilities, which are logits too) to a token: first the cut to the k likeliest, then the softmax of
 * what is left divided by the temperature, then draw number `index` of the seed. Among equal scores the lower number is
 * the likelier. `scratch`: room for `count` doubles. -1: a score is NaN, or none is finite. */
int64_t mpc_sample(const mpc_sampling *s, const double *logits, int64_t count, double *scratch, uint64_t index);

#endif
