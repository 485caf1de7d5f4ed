/* The draw walks the tokens in their order and not in that of their scores, so that one number decides and nothing
 * depends on how a sort treats equals. What was cut, or has score -inf, has weight 0 and is never drawn, also when
 * rounding leaves a rest at the end. */
#include "driver/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/str.h"

static int descending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* -1: there is none to be had. */
static int64_t likeliest(const double *logits, int64_t count) {
    int64_t best = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(logits[i])) return -1;
        if (logits[i] > logits[best]) best = i;
    }
    return count > 0 && isfinite(logits[best]) ? best : -1;
}

typedef struct cut { /* kept: what is above `score`, and the first `ties` of those equal to it */
    double score;
    int64_t ties;
} cut;

static cut find_cut(const double *logits, int64_t count, int64_t k, double *scratch) {
    if (k <= 0 || k >= count) return (cut){.score = -INFINITY, .ties = count};
    memcpy(scratch, logits, (size_t)count * sizeof *scratch);
    qsort(scratch, (size_t)count, sizeof *scratch, descending);
    cut c = {.score = scratch[k - 1], .ties = k};
    for (int64_t i = 0; i < k; i++) c.ties -= scratch[i] > c.score;
    return c;
}

/* Weights into `scratch`; their sum. */
static double weigh(const mpc_sampling *s, const double *logits, int64_t count, double max, double *scratch) {
    cut c = find_cut(logits, count, s->top_k, scratch);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        bool kept = logits[i] > c.score || (logits[i] == c.score && c.ties-- > 0);
        scratch[i] = kept ? exp((logits[i] - max) / s->temperature) : 0;
        sum += scratch[i];
    }
    return sum;
}

int64_t mpc_sample(const mpc_sampling *s, const double *logits, int64_t count, double *scratch, uint64_t index) {
    int64_t best = likeliest(logits, count);
    if (best < 0 || s->temperature <= 0) return best;
    double left = weigh(s, logits, count, logits[best], scratch);
    left *= (double)mpc_random_uniform(s->seed, mpc_hash_str("sample"), 0, index);
    for (int64_t i = 0; i < count; i++) {
        left -= scratch[i];
        if (left < 0) return i;
    }
    return best;
}
