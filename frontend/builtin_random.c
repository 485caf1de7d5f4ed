/* What draws random numbers. A draw's stream is a hash of its path, so a label keeps its numbers when lines above
 * change; seed and step are states, so every step draws anew and an evaluation always draws the same. */
#include <string.h>

#include "frontend/fe_builtins.h"

/* `op` on x (if it takes one), seed and step. */
static fe_op begin_draw(fe_call *c, mpc_op_id op, const fe_value *x, const char *name) {
    fe_op o = fe_op_begin(c->e, c->at, op, name);
    fe_value seed, step;
    if (!fe_rng(c->e, c->at, &seed, &step)) seed = step = FE_POISONED;
    if (x) fe_op_in(&o, *x);
    fe_op_in(&o, seed);
    fe_op_in(&o, step);
    fe_op_attr(&o, MPC_A_INT("stream", fe_stream(c->e, name)));
    return o;
}

/* Values, or whole examples of a residual branch; nothing happens outside training. */
static fe_value drop(fe_call *c, mpc_op_id op) {
    fe_value x = fe_arg_float_tensor(c, 0);
    double rate = fe_arg_float(c, 1, 0);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    if (!(rate >= 0 && rate < 1)) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 1), "%s's rate lies in [0, 1), this is %g", c->fn->name, rate);
        return FE_POISONED;
    }
    if (rate == 0 || c->e->phase != MPC_PHASE_TRAIN) return x;
    fe_op o = begin_draw(c, op, &x, c->name ? c->name : c->fn->name);
    fe_op_attr(&o, MPC_A_FLOAT("rate", rate));
    return fe_op_end(&o);
}

fe_value fe_fn_dropout(fe_call *c) { return drop(c, MPC_OP_dropout); }

fe_value fe_fn_drop_path(fe_call *c) { return drop(c, MPC_OP_drop_path); }

static bool sizes_are_positive(fe_call *c, const int64_t *dims, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (dims[i] < 1) {
            fe_error(c->e->d, "E017", fe_arg_span(c, 0), "%s needs sizes of at least 1, axis %u has %lld", c->fn->name,
                     i, (long long)dims[i]);
            return false;
        }
    return true;
}

/* New values of the shape that argument 0 gives; in a mapping each row has its own. `p` >= 0: the attribute of that
 * name. */
static fe_value draw(fe_call *c, mpc_op_id op, double p, const char *name) {
    int64_t dims[MPC_MAX_RANK] = {c->e->batch};
    uint32_t lead = c->e->mapping != NULL;
    uint32_t n = fe_arg_ints(c, 0, dims + lead, MPC_MAX_RANK - lead, 1);
    if (c->bad || !sizes_are_positive(c, dims + lead, n)) return FE_POISONED;
    fe_op o = begin_draw(c, op, NULL, name);
    fe_op_attr(&o, MPC_A_INTS("shape", dims, n + lead));
    if (p >= 0) fe_op_attr(&o, MPC_A_FLOAT("p", p));
    fe_value v = fe_op_end(&o);
    return lead ? fe_mark_row(c->e, v) : v;
}

fe_value fe_fn_random_normal(fe_call *c) {
    return draw(c, MPC_OP_random_normal, -1, c->name ? c->name : "random_normal");
}

fe_value fe_fn_bernoulli(fe_call *c) {
    double p = fe_arg_float(c, 1, 0.5);
    if (c->bad) return FE_POISONED;
    if (p >= 0 && p <= 1) return draw(c, MPC_OP_bernoulli, p, c->name ? c->name : "bernoulli");
    fe_error(c->e->d, "E017", fe_arg_span(c, 1), "bernoulli's p is a probability between 0 and 1, this is %g", p);
    return FE_POISONED;
}

/* low + (high - low) u */
fe_value fe_fn_random_uniform(fe_call *c) {
    double low = fe_arg_float(c, 1, 0), high = fe_arg_float(c, 2, 1);
    const char *name = c->name ? c->name : "random_uniform";
    if (c->bad) return FE_POISONED;
    if (!(low <= high)) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 1),
                 "random_uniform draws from low = %g up to high = %g, which is less", low, high);
        return FE_POISONED;
    }
    if (!fe_given(c, 1) && !fe_given(c, 2)) return draw(c, MPC_OP_random_uniform, -1, name);
    fe_value u = draw(c, MPC_OP_random_uniform, -1, "unit");
    return fe_binary(c->e, c->at, "+", fe_binary(c->e, c->at, "*", u, fe_float(high - low), NULL), fe_float(low), name);
}
