/* Losses and metrics, all value by value: the mean is taken by the loss statement, which knows what counts. They never
 * broadcast. */
#include <string.h>

#include "frontend/fe_builtins.h"

/* The ids first and the logits second. */
static bool swapped(fe_call *c) {
    fe_elab *e = c->e;
    const mpc_type *x = fe_type(c->v[0]), *y = fe_type(c->v[1]);
    if (mpc_format_get(x->format)->kind != MPC_FORMAT_INT || !mpc_format_is_float(y->format)) return false;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E021", fe_arg_span(c, 0),
                           "%s takes the logits first and the class ids second", c->fn->name);
    fe_label(&r, "integers, %s", fe_shape_text(e, c->v[0]));
    fe_second(&r, fe_arg_span(c, 1), "%s", fe_shape_text(e, c->v[1]));
    fe_help(&r, "swap them: %s(%s, %s)", c->fn->name, fe_arg_text(c, 1), fe_arg_text(c, 0));
    fe_send(&r);
    return true;
}

static bool class_ids(fe_call *c) {
    fe_elab *e = c->e;
    fe_value logits = c->v[0], labels = c->v[1];
    const mpc_type *x = fe_type(logits), *y = fe_type(labels);
    if (mpc_format_get(y->format)->kind != MPC_FORMAT_INT) {
        bool same = x->rank == y->rank && memcmp(x->dims, y->dims, x->rank * sizeof *x->dims) == 0;
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E021", fe_arg_span(c, 1), "%s needs class ids, which are integers",
                               c->fn->name);
        fe_label(&r, "%s, %s", mpc_format_get(y->format)->name, fe_shape_text(e, labels));
        if (same)
            fe_help(&r, "for soft labels of this shape: loss ce = -sum(%s * log_softmax(%s), axis = -1)",
                    fe_arg_text(c, 1), fe_arg_text(c, 0));
        else fe_help(&r, "declare the input as i32: %s: i32[batch]", fe_arg_text(c, 1));
        fe_send(&r);
        return false;
    }
    if (x->rank >= 1 && y->rank == x->rank - 1 && memcmp(x->dims, y->dims, y->rank * sizeof *y->dims) == 0) return true;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E025", fe_arg_span(c, 0),
                           "%s takes logits [..., classes] and ids of the same leading axes", c->fn->name);
    fe_label(&r, "%s", fe_shape_text(e, logits));
    fe_second(&r, fe_arg_span(c, 1), "%s", fe_shape_text(e, labels));
    if (y->rank == x->rank && y->dims[y->rank - 1] == 1)
        fe_help(&r, "drop the last axis: %s(%s, %s[..., 0])", c->fn->name, fe_arg_text(c, 0), fe_arg_text(c, 1));
    fe_send(&r);
    return false;
}

static bool read_pair(fe_call *c, fe_value *logits) {
    fe_lift_arguments(c, 0, 1);
    *logits = fe_arg_float_tensor(c, 0);
    fe_arg_tensor(c, 1);
    if (c->bad || logits->kind != FE_TENSOR) return false;
    return !swapped(c) && class_ids(c);
}

static void warn_softmax(fe_call *c) {
    fe_elab *e = c->e;
    if (!c->v[0].t->probabilities || e->phase != MPC_PHASE_TRAIN) return;
    const fe_ast *arg = c->ast[0];
    const char *inner =
        arg->kind == AST_CALL && arg->list.first ? fe_source_text(e->m, arg->list.first->kid[0]->span) : "logits";
    fe_report r = fe_begin(e->d, MPC_SEV_WARNING, "W101", arg->kind == AST_CALL ? arg->kid[0]->span : arg->span,
                           "cross_entropy takes logits, but gets probabilities");
    fe_label(&r, "softmax is already part of cross_entropy");
    fe_help(&r, "cross_entropy(%s, %s), and `output prob = softmax(%s)` if you want them from predict", inner,
            fe_arg_text(c, 1), inner);
    fe_send(&r);
}

static const char *label_use(fe_call *c) {
    fe_elab *e = c->e;
    return fe_format(e, "%s, %s is %s (%s)", fe_source_text(e->m, c->at->span), fe_arg_text(c, 0),
                     fe_shape_text(e, c->v[0]), fe_place_text(e->d, c->at->span));
}

/* (1 - s) * ce - s * mean(log_softmax): the uniform part of the target. */
static fe_value smoothed(fe_call *c, fe_value logits, fe_value ce, double smooth) {
    fe_elab *e = c->e;
    int64_t axis = fe_type(logits)->rank - 1;
    fe_op o = fe_op_begin(e, c->at, MPC_OP_log_softmax, NULL);
    fe_op_in(&o, logits);
    fe_op_attr(&o, MPC_A_INT("axis", axis));
    fe_value spread = fe_reduce(e, c->at, MPC_OP_mean, fe_op_end(&o), &axis, 1);
    fe_value a = fe_binary(e, c->at, "*", ce, fe_float(1 - smooth), NULL),
             b = fe_binary(e, c->at, "*", spread, fe_float(smooth), NULL);
    return fe_binary(e, c->at, "-", a, b, c->name ? c->name : "cross_entropy");
}

fe_value fe_fn_cross_entropy(fe_call *c) {
    fe_value logits;
    if (!read_pair(c, &logits)) return FE_POISONED;
    double smooth = fe_arg_float(c, 2, 0);
    if (c->bad) return FE_POISONED;
    warn_softmax(c);
    const mpc_type *t = fe_type(logits);
    fe_limit_range(c->e, c->v[1], t->dims[t->rank - 1], label_use(c));
    fe_value v = fe_emit2(c->e, c->at, MPC_OP_cross_entropy, logits, c->v[1], c->name ? c->name : "cross_entropy");
    return smooth != 0 && v.kind == FE_TENSOR ? smoothed(c, logits, v, smooth) : v;
}

fe_value fe_fn_perplexity(fe_call *c) {
    fe_value logits;
    if (!c->e->in_metric) {
        fe_error(c->e->d, "E014", c->at->span, "perplexity is a metric: metric ppl = perplexity(logits, targets)");
        return FE_POISONED;
    }
    if (!read_pair(c, &logits)) return FE_POISONED;
    return fe_emit2(c->e, c->at, MPC_OP_cross_entropy, logits, c->v[1], c->name ? c->name : "perplexity");
}

fe_value fe_fn_accuracy(fe_call *c) {
    fe_value logits;
    if (!read_pair(c, &logits)) return FE_POISONED;
    return fe_emit2(c->e, c->at, MPC_OP_accuracy, logits, c->v[1], c->name ? c->name : "accuracy");
}

static bool same_shapes(fe_call *c) {
    fe_elab *e = c->e;
    const mpc_type *a = fe_type(c->v[0]), *b = fe_type(c->v[1]);
    if (a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0) return true;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E025", fe_arg_span(c, 0),
                           "%s compares value by value, but the shapes are not the same", c->fn->name);
    fe_label(&r, "%s", fe_shape_text(e, c->v[0]));
    fe_second(&r, fe_arg_span(c, 1), "%s", fe_shape_text(e, c->v[1]));
    bool left = a->rank == b->rank + 1 && a->dims[a->rank - 1] == 1,
         right = b->rank == a->rank + 1 && b->dims[b->rank - 1] == 1;
    const char *x = fe_arg_text(c, 0), *y = fe_arg_text(c, 1), *cut = (left ? a : b)->rank == 2 ? "[:, 0]" : "[..., 0]";
    if (left) fe_help(&r, "drop the last axis: %s(%s%s, %s)", c->fn->name, x, cut, y);
    if (right) fe_help(&r, "drop the last axis: %s(%s, %s%s)", c->fn->name, x, y, cut);
    if (left || right)
        fe_note(&r, (mpc_span){0}, "broadcasting would have compared every prediction with every %s", left ? y : x);
    fe_send(&r);
    return false;
}

static fe_value huber(fe_call *c, fe_value a, fe_value b) {
    fe_elab *e = c->e;
    fe_value d = fe_emit1(e, c->at, MPC_OP_abs, fe_binary(e, c->at, "-", a, b, NULL), NULL);
    fe_value near = fe_binary(e, c->at, "*", fe_emit2(e, c->at, MPC_OP_mul, d, d, NULL), fe_float(0.5), NULL);
    fe_op o = fe_op_begin(e, c->at, MPC_OP_where, c->name ? c->name : "huber");
    fe_op_in(&o, fe_binary(e, c->at, "<", d, fe_float(1), NULL));
    fe_op_in(&o, near);
    fe_op_in(&o, fe_binary(e, c->at, "-", d, fe_float(0.5), NULL));
    return fe_op_end(&o);
}

/* where(t == at, 0, max(x, 0) * share): an infinite logit on the side that the target rules out costs nothing, not 0 *
 * inf. */
static fe_value one_side(fe_call *c, fe_value x, fe_value share, fe_value t, double at) {
    fe_elab *e = c->e;
    fe_value product = fe_binary(e, c->at, "*", fe_above_zero(c, x), share, NULL);
    if (product.kind != FE_TENSOR) return product;
    fe_op o = fe_op_begin(e, c->at, MPC_OP_where, NULL);
    fe_op_in(&o, fe_binary(e, c->at, "==", t, fe_float(at), NULL));
    fe_op_in(&o, fe_scalar(e, c->at, fe_float(0), fe_type(product)->format));
    fe_op_in(&o, product);
    return fe_op_end(&o);
}

/* max(z, 0) * (1 - t) + max(-z, 0) * t + log(1 + exp(-|z|)) */
static fe_value bce(fe_call *c, fe_value z, fe_value t, const char *name) {
    fe_elab *e = c->e;
    fe_value off = one_side(c, z, fe_binary(e, c->at, "-", fe_float(1), t, NULL), t, 1);
    fe_value on = one_side(c, fe_emit1(e, c->at, MPC_OP_neg, z, NULL), t, t, 0);
    return fe_binary(e, c->at, "+", fe_binary(e, c->at, "+", off, on, NULL), fe_softplus_tail(c, z), name);
}

fe_value fe_fn_pairwise_loss(fe_call *c) {
    fe_elab *e = c->e;
    fe_lift_arguments(c, 0, 1);
    fe_value a = fe_arg_float_tensor(c, 0), b = fe_arg_float_tensor(c, 1);
    if (c->bad || a.kind != FE_TENSOR || b.kind != FE_TENSOR || !same_shapes(c)) return FE_POISONED;
    const char *name = c->name ? c->name : c->fn->name;
    if (strcmp(c->fn->name, "mse") == 0) return fe_emit2(e, c->at, MPC_OP_mse, a, b, name);
    if (strcmp(c->fn->name, "mae") == 0)
        return fe_emit1(e, c->at, MPC_OP_abs, fe_binary(e, c->at, "-", a, b, NULL), name);
    if (strcmp(c->fn->name, "huber") == 0) return huber(c, a, b);
    return bce(c, a, b, name);
}
