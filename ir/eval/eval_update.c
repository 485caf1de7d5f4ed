/* The optimizer's ops and the loss scaler. Each is its paper's formula in doubles, with eps outside the root and
 * decoupled decay; a device computes them in f32. Steps are counted from 1 at the first applied step. */
#include <math.h>
#include <string.h>

#include "ir/eval/eval_util.h"
#include "ir/rules.h"

static double attr(const mpc_eval *e, const char *key) { return mpc_attr_float(e->graph, e->node, key); }

/* Without decay an infinite weight stays one. */
static double decayed(double w, double factor) { return factor == 0 ? w : w - factor * w; }

/* (w, g, m, rate) -> w', m' */
bool mpc_eval_sgd(mpc_eval *e) {
    double momentum = attr(e, "momentum"), decay = attr(e, "decay"), rate = e->operands[3].data[0] * attr(e, "lr");
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        double w = e->operands[0].data[i], m = momentum * e->operands[2].data[i] + e->operands[1].data[i];
        e->results[0].data[i] = decayed(w, rate * decay) - rate * m;
        e->results[1].data[i] = m;
    }
    return true;
}

/* (w, g, m, v, rate, t) -> w', m', v' */
bool mpc_eval_adamw(mpc_eval *e) {
    double beta1 = attr(e, "beta1"), beta2 = attr(e, "beta2"), eps = attr(e, "eps"), decay = attr(e, "decay");
    double rate = e->operands[4].data[0] * attr(e, "lr"), t = e->operands[5].data[0];
    double correct1 = 1 - pow(beta1, t), correct2 = 1 - pow(beta2, t);
    int64_t count = mpc_type_elements(&e->results[0].type);
    for (int64_t i = 0; i < count; i++) {
        double w = e->operands[0].data[i], g = e->operands[1].data[i];
        double m = beta1 * e->operands[2].data[i] + (1 - beta1) * g,
               v = beta2 * e->operands[3].data[i] + (1 - beta2) * g * g;
        e->results[0].data[i] = decayed(w, rate * decay) - rate * (m / correct1) / (sqrt(v / correct2) + eps);
        e->results[1].data[i] = m;
        e->results[2].data[i] = v;
    }
    return true;
}

bool mpc_eval_schedule(mpc_eval *e) {
    double rate = attr(e, "rate"), warmup = attr(e, "warmup"), total = attr(e, "total"), final = attr(e, "final");
    double t = e->operands[0].data[0] + 1, out = rate;
    if (t <= warmup) {
        out = rate * t / warmup;
    } else if (strcmp(mpc_attr_str(e->graph, e->node, "kind"), "cosine") == 0) {
        double done = total > warmup ? (t - warmup) / (total - warmup) : 1;
        done = done < 1 ? done : 1;
        out = rate * (final + (1 - final) * 0.5 * (1 + cos(done * 3.14159265358979323846)));
    }
    e->results[0].data[0] = out;
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
