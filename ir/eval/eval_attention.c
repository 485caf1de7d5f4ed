/* Attention: q, y, dy [b,t,h,d], k, v [b,s,kv,d], mask broadcast to [b,h,t,s]. Scores are made one query at a time.
 * Causality, window and mask are a choice of which keys are visited, so a query that sees nothing gets zeros, a
 * log-sum-exp of -inf, and zero gradients, without a special value. */
#include <math.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

typedef struct attention {
    int64_t b, t, s, h, kv, d;
    bool causal;
    int64_t window; /* 0: none */
    double scale;
    const double *mask; /* NULL: all visible */
    int64_t mask_strides[4];
    mpc_format rounded; /* of probabilities; none in f64 mode */
} attention;

typedef struct query { /* which row of scores */
    int64_t b, h, i;
} query;

static void read_mask(attention *a, const mpc_tensor *mask) {
    int64_t strides[MPC_MAX_RANK];
    uint32_t rank = mask->type.rank;
    mpc_dense_strides(&mask->type, strides);
    a->mask = mask->data;
    for (uint32_t i = 0; i < rank; i++)
        if (mask->type.dims[i] != 1) a->mask_strides[4 - rank + i] = strides[i];
}

static attention read_attention(const mpc_eval *e, uint32_t mask_operand) {
    const int64_t *q = e->operands[0].type.dims;
    attention a = {.b = q[0], .t = q[1], .h = q[2], .d = q[3]};
    a.s = e->operands[1].type.dims[1];
    a.kv = e->operands[1].type.dims[2];
    a.window = mpc_attr_int(e->graph, e->node, "window");
    a.causal = mpc_attr_bool(e->graph, e->node, "causal");
    a.scale = mpc_attr_float(e->graph, e->node, "scale");
    a.rounded = e->exact ? e->operands[2].type.format : MPC_FMT_none;
    if (e->operand_count > mask_operand) read_mask(&a, &e->operands[mask_operand]);
    return a;
}

static int64_t query_at(const attention *a, query at) { return ((at.b * a->t + at.i) * a->h + at.h) * a->d; }
static int64_t key_at(const attention *a, query at, int64_t j) {
    return ((at.b * a->s + j) * a->kv + at.h / (a->h / a->kv)) * a->d;
}
static int64_t lse_at(const attention *a, query at) { return (at.b * a->h + at.h) * a->t + at.i; }

static bool visible(const attention *a, query at, int64_t j) {
    int64_t distance = j > at.i ? j - at.i : at.i - j;
    if ((a->causal && j > at.i) || (a->window > 0 && distance >= a->window)) return false;
    const int64_t *s = a->mask_strides;
    return a->mask == NULL || a->mask[at.b * s[0] + at.h * s[1] + at.i * s[2] + j * s[3]] != 0;
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add_scaled(double *out, double factor, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] += factor * x[i];
}

/* Probabilities of visible keys; the log-sum-exp of their scores, -inf when there is none. Not exp(score -
 * log-sum-exp): of scores beyond 1e15 that is no probability. */
static double weigh(const attention *a, const mpc_eval *e, query at, double *p) {
    double max = -HUGE_VAL, sum = 0;
    bool any = false;
    for (int64_t j = 0; j < a->s; j++) {
        if (!visible(a, at, j)) continue;
        any = true;
        p[j] = a->scale * dot(e->operands[0].data + query_at(a, at), e->operands[1].data + key_at(a, at, j), a->d);
        max = mpc_max_nan(max, p[j]);
    }
    if (!any) return -HUGE_VAL;
    for (int64_t j = 0; j < a->s; j++)
        if (visible(a, at, j)) sum += p[j] = exp(p[j] - max);
    for (int64_t j = 0; j < a->s; j++)
        if (visible(a, at, j)) p[j] /= sum;
    return max + log(sum);
}

static void attend(const attention *a, mpc_eval *e, query at, double *p) {
    e->results[1].data[lse_at(a, at)] = weigh(a, e, at, p);
    for (int64_t j = 0; j < a->s; j++)
        if (visible(a, at, j))
            add_scaled(e->results[0].data + query_at(a, at), mpc_round_to(a->rounded, p[j]),
                       e->operands[2].data + key_at(a, at, j), a->d);
}

/* (q, k, v, y, lse, dy): dv += p dy; ds = p (dy.v - dy.y); dq += scale ds k; dk += scale ds q */
static void attend_back(const attention *a, mpc_eval *e, query at, double *scores) {
    const double *q = e->operands[0].data + query_at(a, at), *dy = e->operands[5].data + query_at(a, at);
    double lse = e->operands[4].data[lse_at(a, at)], kept = dot(dy, e->operands[3].data + query_at(a, at), a->d);
    (void)scores;
    for (int64_t j = 0; j < a->s; j++) {
        if (!visible(a, at, j)) continue;
        int64_t key = key_at(a, at, j);
        double p = exp(a->scale * dot(q, e->operands[1].data + key, a->d) - lse);
        double ds = a->scale * p * (dot(dy, e->operands[2].data + key, a->d) - kept);
        add_scaled(e->results[0].data + query_at(a, at), ds, e->operands[1].data + key, a->d);
        add_scaled(e->results[1].data + key, ds, q, a->d);
        add_scaled(e->results[2].data + key, mpc_round_to(a->rounded, p), dy, a->d);
    }
}

static bool walk_queries(mpc_eval *e, uint32_t mask_operand,
                         void (*rule)(const attention *, mpc_eval *, query, double *)) {
    attention a = read_attention(e, mask_operand);
    double *scores = mpc_eval_scratch(e, a.s);
    if (scores == NULL) return false;
    for (int64_t b = 0; b < a.b; b++)
        for (int64_t h = 0; h < a.h; h++)
            for (int64_t i = 0; i < a.t; i++) rule(&a, e, (query){b, h, i}, scores);
    return true;
}

bool mpc_eval_attention(mpc_eval *e) { return walk_queries(e, 3, attend); }
bool mpc_eval_attention_grad(mpc_eval *e) { return walk_queries(e, 6, attend_back); }
