/* The optimizer's ops and the loss scaler. Each is its paper's formula in doubles, with eps outside the root and
 * decoupled decay (but of Adam's own); a device computes them in f32. Steps are counted from 1 at the first applied step. */
#include <math.h>
#include <string.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"
#include "ir/schedule_rate.h"

static double attr(const mpc_eval *e, const char *key) { return mpc_attr_float(e->graph, e->node, key); }

/* Without decay an infinite weight stays one. */
static double decayed(double w, double factor) { return factor == 0 ? w : w - factor * w; }

/* (w, g, m, rate) -> w', m' */
bool mpc_eval_sgd(mpc_eval *e) {
    double momentum = attr(e, "momentum"), decay = attr(e, "decay"), rate = e->operands[3].data[0] * attr(e, "lr");
    bool nesterov = mpc_attr_bool(e->graph, e->node, "nesterov");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        double w = e->operands[0].data[i], g = e->operands[1].data[i], m = momentum * e->operands[2].data[i] + g;
        e->results[0].data[i] = decayed(w, rate * decay) - rate * (nesterov ? g + momentum * m : m);
        e->results[1].data[i] = m;
    }
    return true;
}

/* (w, g, m, v, rate, t) -> w', m', v' */
bool mpc_eval_adamw(mpc_eval *e) {
    double beta1 = attr(e, "beta1"), beta2 = attr(e, "beta2"), eps = attr(e, "eps"), decay = attr(e, "decay");
    double rate = e->operands[4].data[0] * attr(e, "lr"), t = e->operands[5].data[0];
    double correct1 = 1 - pow(beta1, t), correct2 = 1 - pow(beta2, t);
    bool coupled = mpc_attr_bool(e->graph, e->node, "coupled");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        double w = e->operands[0].data[i], g = e->operands[1].data[i];
        if (coupled && decay != 0) g += decay * w;
        double m = beta1 * e->operands[2].data[i] + (1 - beta1) * g,
               v = beta2 * e->operands[3].data[i] + (1 - beta2) * g * g;
        double kept = coupled ? w : decayed(w, rate * decay);
        e->results[0].data[i] = kept - rate * (m / correct1) / (sqrt(v / correct2) + eps);
        e->results[1].data[i] = m;
        e->results[2].data[i] = v;
    }
    return true;
}

static double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

/* (w, g, m, rate) -> w', m' */
bool mpc_eval_lion(mpc_eval *e) {
    double beta1 = attr(e, "beta1"), beta2 = attr(e, "beta2"), decay = attr(e, "decay");
    double rate = e->operands[3].data[0] * attr(e, "lr");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        double w = e->operands[0].data[i], g = e->operands[1].data[i], m = e->operands[2].data[i];
        e->results[0].data[i] = decayed(w, rate * decay) - rate * sign(beta1 * m + (1 - beta1) * g);
        e->results[1].data[i] = beta2 * m + (1 - beta2) * g;
    }
    return true;
}

/* x on the grid of a format with `bits` of fraction and least exponent `least`: away from zero where 1 - u doesn't
 * exceed the share that is cut off. */
static double stochastic(double x, double u, int bits, int least) {
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexp(x, &exponent);
    double unit = ldexp(1, (exponent - 1 > least ? exponent - 1 : least) - bits);
    double low = trunc(x / unit), share = fabs(x / unit - low);
    return (low + copysign(1 - u <= share, x)) * unit;
}

static bool round_all(mpc_eval *e, int bits, int least) {
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++)
        e->results[0].data[i] = stochastic(e->operands[0].data[i], e->operands[1].data[i], bits, least);
    return true;
}

bool mpc_eval_stochastic_bf16(mpc_eval *e) { return round_all(e, 7, -126); }

bool mpc_eval_stochastic_f16(mpc_eval *e) { return round_all(e, 10, -14); }

bool mpc_eval_schedule(mpc_eval *e) {
    mpc_schedule_rule rule = {.kind = mpc_attr_str(e->graph, e->node, "kind"),
                              .rate = attr(e, "rate"),
                              .warmup = attr(e, "warmup"),
                              .total = attr(e, "total"),
                              .final = attr(e, "final"),
                              .every = attr(e, "every"),
                              .factor = attr(e, "factor")};
    e->results[0].data[0] = mpc_schedule_rate(&rule, e->operands[0].data[0]);
    return true;
}

/* (scale, clean steps, overflow, clean) -> scale', clean steps' */
bool mpc_eval_scaler_update(mpc_eval *e) {
    double scale = e->operands[0].data[0], steps = e->operands[1].data[0];
    if (e->operands[2].data[0] != 0) {
        scale *= attr(e, "backoff");
        steps = 0;
    } else if (e->operands[3].data[0] != 0) {
        steps += 1;
        if (steps >= (double)mpc_attr_int(e->graph, e->node, "interval")) {
            double grown = scale * attr(e, "growth"), max = attr(e, "max");
            scale = grown < max ? grown : max;
            steps = 0;
        }
    }
    e->results[0].data[0] = scale;
    e->results[1].data[0] = steps;
    return true;
}
