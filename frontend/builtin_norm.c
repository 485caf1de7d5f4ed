/* Normalisation, attention and what draws random numbers. Statistics of a batch norm are states that move in training
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
    int64_t size = 0;
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_layer_norm, c->name);
    fe_op_in(&o, x);
    fe_op_in(&o, fe_make_param(c, "weight", 1, &size, &ones));
    fe_op_in(&o, fe_make_param(c, "bias", 1, &size, &zeros));
    fe_op_attr(&o, MPC_A_FLOAT("eps", eps));
    return fe_op_end(&o);
}

static fe_value mean_over(fe_call *c, fe_value x, const int64_t *axes, uint32_t count) {
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_mean, NULL);
    fe_op_in(&o, x);
    fe_op_attr(&o, MPC_A_INTS("axes", axes, count));
    fe_op_attr(&o, MPC_A_BOOL("keep", true));
    return fe_op_end(&o);
}

fe_value fe_fn_rms_norm(fe_call *c) {
    static const fe_init ones = {.kind = FE_INIT_ONES};
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    double eps = fe_arg_float(c, 1, 1e-6);
    int64_t size = 0;
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    int64_t axis = fe_type(x)->rank - 1;
    fe_value weight = fe_make_param(c, "weight", 1, &size, &ones);
    fe_value mean = mean_over(c, fe_emit2(e, c->at, MPC_OP_mul, x, x, NULL), &axis, 1);
    fe_value scale = fe_emit1(e, c->at, MPC_OP_rsqrt, fe_binary(e, c->at, "+", mean, fe_float(eps), NULL), NULL);
    return fe_binary(e, c->at, "*", fe_binary(e, c->at, "*", x, scale, NULL), weight, c->name ? c->name : "rms_norm");
}

/* Over the positions and the channels of one group of one example. */
fe_value fe_fn_group_norm(fe_call *c) {
    static const fe_init ones = {.kind = FE_INIT_ONES}, zeros = {.kind = FE_INIT_ZEROS};
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    int64_t groups = fe_arg_int(c, 1, 1), size = 0, axes[MPC_MAX_RANK], parts[MPC_MAX_RANK];
    double eps = fe_arg_float(c, 2, 1e-5);
    if (c->bad || !channels_of(c, x, &size)) return FE_POISONED;
    mpc_type t = *fe_type(x);
    if (groups < 1 || size % groups || t.rank == MPC_MAX_RANK) {
        fe_error(e->d, "E022", fe_arg_span(c, 1), "%lld channels can't be divided into %lld groups", (long long)size,
                 (long long)groups);
        return FE_POISONED;
    }
    memcpy(parts, t.dims, sizeof parts);
    parts[t.rank - 1] = groups;
    parts[t.rank] = size / groups;
    uint32_t count = 0;
    for (uint32_t i = 1; i <= t.rank; i++)
        if (i != t.rank - 1) axes[count++] = i;
    fe_value gamma = fe_make_param(c, "weight", 1, &size, &ones), beta = fe_make_param(c, "bias", 1, &size, &zeros);
    fe_value y = fe_reshape(e, c->at, x, t.rank + 1, parts);
    y = fe_binary(e, c->at, "-", y, mean_over(c, y, axes, count), NULL);
    fe_value var = mean_over(c, fe_emit2(e, c->at, MPC_OP_mul, y, y, NULL), axes, count);
    fe_value scale = fe_emit1(e, c->at, MPC_OP_rsqrt, fe_binary(e, c->at, "+", var, fe_float(eps), NULL), NULL);
    y = fe_reshape(e, c->at, fe_binary(e, c->at, "*", y, scale, NULL), t.rank, t.dims);
    return fe_binary(e, c->at, "+", fe_binary(e, c->at, "*", y, gamma, NULL), beta, c->name ? c->name : "group_norm");
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

/* [b, s, h, d] to [b, s, heads, d]: head i of the result is head i / (heads / h). */
static fe_value repeat_heads(fe_call *c, fe_value x, int64_t heads) {
    if (x.kind != FE_TENSOR) return x;
    const mpc_type *t = fe_type(x);
    if (t->dims[2] == heads) return x;
    int64_t thin[] = {t->dims[0], t->dims[1], t->dims[2], 1, t->dims[3]};
    int64_t wide[] = {t->dims[0], t->dims[1], t->dims[2], heads / t->dims[2], t->dims[3]};
    int64_t out[] = {t->dims[0], t->dims[1], heads, t->dims[3]};
    x = fe_expand(c->e, c->at, fe_reshape(c->e, c->at, x, 5, thin), 5, wide);
    return fe_reshape(c->e, c->at, x, 4, out);
}

fe_value fe_fn_attention(fe_call *c) {
    fe_value q = fe_arg_float_tensor(c, 0), k = fe_arg_float_tensor(c, 1), v = fe_arg_float_tensor(c, 2);
    fe_value mask = fe_given(c, 3) ? fe_arg_tensor(c, 3) : FE_POISONED;
    bool causal = fe_arg_bool(c, 4, false);
    if (c->bad || !heads_fit(c)) return FE_POISONED;
    double scale = fe_arg_float(c, 5, 1 / sqrt((double)fe_type(q)->dims[3]));
    if (c->bad) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_attention, c->name);
    fe_op_in(&o, q);
    fe_op_in(&o, repeat_heads(c, k, fe_type(q)->dims[2]));
    fe_op_in(&o, repeat_heads(c, v, fe_type(q)->dims[2]));
    if (fe_given(c, 3)) fe_op_in(&o, mask);
    fe_op_attr(&o, MPC_A_BOOL("causal", causal));
    fe_op_attr(&o, MPC_A_FLOAT("scale", scale));
    return fe_op_end(&o);
}

fe_value fe_fn_dropout(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0), seed, step;
    double rate = fe_arg_float(c, 1, 0);
    if (c->bad) return FE_POISONED;
    if (!(rate >= 0 && rate < 1)) {
        fe_error(e->d, "E017", fe_arg_span(c, 1), "dropout's rate lies in [0, 1), this is %g", rate);
        return FE_POISONED;
    }
    if (rate == 0 || e->phase != MPC_PHASE_TRAIN) return x;
    if (!fe_rng(e, c->at, &seed, &step)) return FE_POISONED;
    const char *name = c->name ? c->name : "dropout";
    fe_op o = fe_op_begin(e, c->at, MPC_OP_dropout, name);
    fe_op_in(&o, x);
    fe_op_in(&o, seed);
    fe_op_in(&o, step);
    fe_op_attr(&o, MPC_A_FLOAT("rate", rate));
    fe_op_attr(&o, MPC_A_INT("stream", fe_stream(e, name)));
    return fe_op_end(&o);
}

static fe_value uniform(fe_call *c, const int64_t *dims, uint32_t n, const char *name) {
    fe_value seed, step;
    if (!fe_rng(c->e, c->at, &seed, &step)) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, MPC_OP_random_uniform, name);
    fe_op_in(&o, seed);
    fe_op_in(&o, step);
    fe_op_attr(&o, MPC_A_INTS("shape", dims, n));
    fe_op_attr(&o, MPC_A_INT("stream", fe_stream(c->e, name)));
    return fe_op_end(&o);
}

/* Leaves out whole examples of a residual branch, in training. */
fe_value fe_fn_drop_path(fe_call *c) {
    fe_elab *e = c->e;
    fe_value x = fe_arg_float_tensor(c, 0);
    double rate = fe_arg_float(c, 1, 0);
    if (c->bad || x.kind != FE_TENSOR) return FE_POISONED;
    if (!(rate >= 0 && rate < 1) || fe_type(x)->rank < 1) {
        fe_error(e->d, "E017", fe_arg_span(c, 1), "drop_path's rate lies in [0, 1), this is %g", rate);
        return FE_POISONED;
    }
    if (rate == 0 || e->phase != MPC_PHASE_TRAIN) return x;
    int64_t dims[MPC_MAX_RANK] = {fe_type(x)->dims[0], 1, 1, 1, 1, 1, 1, 1};
    fe_value draw = uniform(c, dims, fe_type(x)->rank, "drop_path");
    if (fe_lead(e, x)) draw = fe_mark_row(e, draw);
    fe_op o = fe_op_begin(e, c->at, MPC_OP_where, c->name ? c->name : "drop_path");
    fe_op_in(&o, fe_binary(e, c->at, ">=", draw, fe_float(rate), NULL));
    fe_op_in(&o, fe_binary(e, c->at, "/", x, fe_float(1 - rate), NULL));
    fe_op_in(&o, fe_scalar(e, c->at, fe_float(0), MPC_FMT_f32));
    return fe_op_end(&o);
}

/* Box-Muller on two draws; 1 - u is never 0. */
static fe_value normal(fe_call *c, const int64_t *dims, uint32_t n) {
    fe_elab *e = c->e;
    fe_value u = uniform(c, dims, n, "radius"), w = uniform(c, dims, n, "angle");
    fe_value radius = fe_emit1(e, c->at, MPC_OP_log, fe_binary(e, c->at, "-", fe_float(1), u, NULL), NULL);
    radius = fe_emit1(e, c->at, MPC_OP_sqrt, fe_binary(e, c->at, "*", radius, fe_float(-2), NULL), NULL);
    fe_value angle =
        fe_emit1(e, c->at, MPC_OP_cos, fe_binary(e, c->at, "*", w, fe_float(6.283185307179586), NULL), NULL);
    return fe_binary(e, c->at, "*", radius, angle, c->name ? c->name : "random_normal");
}

fe_value fe_fn_random(fe_call *c) {
    int64_t dims[MPC_MAX_RANK] = {c->e->batch};
    uint32_t lead = c->e->mapping != NULL; /* each row has its own */
    uint32_t n = fe_arg_ints(c, 0, dims + lead, MPC_MAX_RANK - lead, 1);
    if (c->bad) return FE_POISONED;
    n += lead;
    fe_value v = strcmp(c->fn->name, "random_normal") == 0 ? normal(c, dims, n)
                                                           : uniform(c, dims, n, c->name ? c->name : "random_uniform");
    return lead ? fe_mark_row(c->e, v) : v;
}
