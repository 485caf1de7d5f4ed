/* Normalisation and attention. Statistics of a batch norm are states that move in training
 * only; under a frozen path it uses them and leaves them alone. */
#include <math.h>
#include <string.h>

#include "frontend/fe_builtins.h"

static bool channels_of(fe_call *c, fe_value x, int64_t *size) {
    const mpc_type *t = x.kind == FE_TENSOR ? fe_type(x) : NULL;
    if (t && t->rank >= 2) {
        *size = t->dims[t->rank - 1];
        return true;
    }
    if (t)
        fe_error(c->e->d, "E021", fe_arg_span(c, 0), "%s needs at least two axes; this is %s", c->fn->name,
                 fe_shape_text(c->e, x));
    return false;
}

fe_value fe_fn_layer_norm(fe_call *c) {
    static const fe_init ones = {.kind = FE_INIT_ONES}, zeros = {.kind = FE_INIT_ZEROS};
    fe_value x = fe_arg_float_tensor(c, 0);
    double eps = fe_arg_float(c, 1, 1e-5);
    const fe_init *scale = fe_arg_init(c, 2, &ones);
    int64_t size = 0;
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_layer_norm, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, fe_make_param(c, "weight", 1, &size, scale));
    fe_op_in(&o, fe_make_param(c, "bias", 1, &size, &zeros));
    fe_op_attr(&o, MPC_A_FLOAT("eps", eps));
    return fe_op_end(&o);
}

fe_value fe_fn_rms_norm(fe_call *c) {
    static const fe_init ones = {.kind = FE_INIT_ONES};
    fe_value x = fe_arg_float_tensor(c, 0);
    double eps = fe_arg_float(c, 1, 1e-6);
    const fe_init *scale = fe_arg_init(c, 2, &ones);
    int64_t size = 0;
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_rms_norm, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, fe_make_param(c, "weight", 1, &size, scale));
    fe_op_attr(&o, MPC_A_FLOAT("eps", eps));
    return fe_op_end(&o);
}

/* Over the positions and the channels of one group of one example. */
fe_value fe_fn_group_norm(fe_call *c) {
    static const fe_init ones = {.kind = FE_INIT_ONES}, zeros = {.kind = FE_INIT_ZEROS};
    fe_value x = fe_arg_float_tensor(c, 0);
    int64_t groups = fe_arg_int(c, 1, 1), size = 0;
    double eps = fe_arg_float(c, 2, 1e-5);
    const fe_init *scale = fe_arg_init(c, 3, &ones);
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    if (groups < 1 || size % groups) {
        fe_error(c->e->d, "E022", fe_arg_span(c, 1), "%lld channels can't be divided into %lld groups", (long long)size,
                 (long long)groups);
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_group_norm, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, fe_make_param(c, "weight", 1, &size, scale));
    fe_op_in(&o, fe_make_param(c, "bias", 1, &size, &zeros));
    fe_op_attr(&o, MPC_A_INT("groups", groups));
    fe_op_attr(&o, MPC_A_FLOAT("eps", eps));
    return fe_op_end(&o);
}

/* Statistics as they stand: an earlier application in this step has moved them already. */
static fe_value current(fe_call *c, const char *suffix, fe_value state) {
    fe_param *p = fe_find_param(c->e, fe_format(c->e, "%s.%s", c->path, suffix));
    return p && state.kind == FE_TENSOR ? fe_tensor_value(c->e, p->latest, c->at->span) : FE_POISONED;
}

static void move_statistic(fe_call *c, const char *suffix, fe_value y, uint32_t result) {
    fe_param *p = fe_find_param(c->e, fe_format(c->e, "%s.%s", c->path, suffix));
    if (p && y.kind == FE_TENSOR) p->latest = y.t->id + result;
}

fe_value fe_fn_batch_norm(fe_call *c) {
    static const fe_init ones = {.kind = FE_INIT_ONES}, zeros = {.kind = FE_INIT_ZEROS};
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    double momentum = fe_arg_float(c, 1, 0.1), eps = fe_arg_float(c, 2, 1e-5);
    const fe_init *scale = fe_arg_init(c, 3, &ones);
    int64_t size = 0;
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    if (c->layer && c->layer->applied == 1 && e->phase == MPC_PHASE_TRAIN)
        fe_warning(e->d, "W104", c->at->span, "the statistics of `%s` mix both of its applications", c->path);
    fe_value gamma = fe_make_param(c, "weight", 1, &size, scale), beta = fe_make_param(c, "bias", 1, &size, &zeros);
    fe_value mean = fe_make_stat(c, "running_mean", size, false), var = fe_make_stat(c, "running_var", size, true);
    bool moves = e->phase == MPC_PHASE_TRAIN && !fe_norm_frozen(e, c->path);
    fe_op o =
        fe_op_begin(e, c->at, moves ? MPC_OP_batch_norm : MPC_OP_batch_norm_eval, c->name ? c->name : "batch_norm");
    fe_op_in(&o, x);
    fe_op_in(&o, gamma);
    fe_op_in(&o, beta);
    fe_op_in(&o, moves ? current(c, "running_mean", mean) : mean);
    fe_op_in(&o, moves ? current(c, "running_var", var) : var);
    fe_op_attr(&o, MPC_A_FLOAT("eps", eps));
    if (moves) fe_op_attr(&o, MPC_A_FLOAT("momentum", momentum));
    fe_value y = fe_op_end(&o);
    if (moves) move_statistic(c, "running_mean", y, 3);
    if (moves) move_statistic(c, "running_var", y, 4);
    return y;
}

/* k and v may have fewer heads than q, by a whole factor. */
static bool heads_fit(fe_call *c) {
    const mpc_type *q = fe_arg_type(c, 0), *k = fe_arg_type(c, 1), *v = fe_arg_type(c, 2);
    bool ok = q->rank == 4 && k->rank == 4 && v->rank == 4 && memcmp(k->dims, v->dims, 4 * sizeof *k->dims) == 0;
    ok = ok && q->dims[0] == k->dims[0] && q->dims[3] == k->dims[3] && k->dims[2] > 0 && q->dims[2] % k->dims[2] == 0;
    if (ok) return true;
    fe_report r =
        fe_begin(c->e->d, MPC_SEV_ERROR, "E021", c->at->span,
                 "attention takes q [batch, time, heads, size] and k, v of the same size and of as many heads, "
                 "or a part of them");
    fe_label(&r, "q %s, k %s, v %s", fe_shape_text(c->e, c->v[0]), fe_shape_text(c->e, c->v[1]),
             fe_shape_text(c->e, c->v[2]));
    fe_send(&r);
    return false;
}

fe_value fe_fn_attention(fe_call *c) {
    fe_value q = fe_arg_float_tensor(c, 0), k = fe_arg_float_tensor(c, 1), v = fe_arg_float_tensor(c, 2);
    fe_value mask = fe_given(c, 3) ? fe_arg_tensor(c, 3) : FE_POISONED;
    bool causal = fe_arg_bool(c, 4, false);
    if (c->bad || !heads_fit(c)) return FE_POISONED;
    double scale = fe_arg_float(c, 5, 1 / sqrt((double)fe_type(q)->dims[3]));
    int64_t window = fe_arg_int(c, 6, 0);
    if (c->bad) return FE_POISONED;
    if (fe_given(c, 6) && window < 1) {
        fe_error(c->e->d, "E017", fe_arg_span(c, 6),
                 "attention: the window counts the keys that a query sees up to its own: at least 1, not %lld",
                 (long long)window);
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_attention, c->name);
    fe_op_in(&o, q);
    fe_op_in(&o, k);
    fe_op_in(&o, v);
    if (fe_given(c, 3)) fe_op_in(&o, mask);
    fe_op_attr(&o, MPC_A_BOOL("causal", causal));
    fe_op_attr(&o, MPC_A_INT("window", window));
    fe_op_attr(&o, MPC_A_FLOAT("scale", scale));
    return fe_op_end(&o);
}
