/* Draws beside the uniform one. In exact mode a normal draw is base/rng.h's, bit for bit, as every device makes it; in
 * f64 mode it is the same without roundings. Comparisons with a rate are in
 * f32 in every mode: which elements are hit is not a matter of accuracy. */
#include <math.h>

#include "base/rng.h"
#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static double polynomial(const double *coefficients, double z) {
    double p = 0;
    for (int i = 0; i < MPC_GAUSS_TERMS; i++) p = p * z + coefficients[i];
    return p;
}

/* -log x */
static double bits_of(double x) {
    double exponent = 0;
    for (int i = 0; i < MPC_GAUSS_SHIFTS; i++)
        if (x < mpc_gauss_shifts[i].below) {
            x *= mpc_gauss_shifts[i].factor;
            exponent += mpc_gauss_shifts[i].exponent;
        }
    double t = (x - 1) / (x + 1);
    return exponent * MPC_GAUSS_LN2 - t * polynomial(mpc_gauss_log, t * t);
}

/* mpc_random_gauss without its roundings */
static double wide_gauss(const mpc_draw *s, uint64_t i) {
    double u = (double)mpc_random_uniform(s->seed, s->stream, s->step, i);
    double w = (double)mpc_random_uniform(s->seed, s->stream ^ MPC_RANDOM_SISTER, s->step, i);
    double angle = MPC_GAUSS_TURN * (0.25 - fabs(w - 0.5));
    return sqrt(2 * bits_of(1 - u)) * (angle * polynomial(mpc_gauss_sine, angle * angle));
}

bool mpc_eval_random_normal(mpc_eval *e) {
    mpc_draw s = mpc_eval_draw(e, 0);
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++)
        e->results[0].data[i] =
            e->exact ? (double)mpc_random_gauss(s.seed, s.stream, s.step, (uint64_t)i) : wide_gauss(&s, (uint64_t)i);
    return true;
}

bool mpc_eval_bernoulli(mpc_eval *e) {
    mpc_draw s = mpc_eval_draw(e, 0);
    float p = (float)mpc_attr_float(e->graph, e->node, "p");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++)
        e->results[0].data[i] = mpc_random_uniform(s.seed, s.stream, s.step, (uint64_t)i) < p;
    return true;
}

bool mpc_eval_drop_path(mpc_eval *e) {
    mpc_draw s = mpc_eval_draw(e, 1);
    double rate = mpc_attr_float(e->graph, e->node, "rate");
    const mpc_type *t = &e->results[0].type;
    int64_t rows = t->dims[0], size = rows > 0 ? mpc_type_elements(t) / rows : 0;
    for (int64_t i = 0; i < rows; i++) {
        bool kept = mpc_random_uniform(s.seed, s.stream, s.step, (uint64_t)i) >= (float)rate;
        for (int64_t j = i * size; j < (i + 1) * size; j++)
            e->results[0].data[j] = kept ? e->operands[0].data[j] / (1 - rate) : 0;
    }
    return true;
}
