/* Losses and metrics, all value by value: the mean is taken by the loss statement, which knows what counts. They never
 * broadcast. A newcomer forgets that labels may be ids or, for cross_entropy, a number for each class. */
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

static bool same_dims(const mpc_type *a, const mpc_type *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

static void report_float_labels(fe_call *c, bool soft_labels) {
    fe_elab *e = c->e;
    const mpc_type *x = fe_type(c->v[0]), *y = fe_type(c->v[1]);
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E021", fe_arg_span(c, 1), "%s needs class ids, which are integers", c->fn->name);
    fe_label(&r, "%s, %s", mpc_format_get(y->format)->name, fe_shape_text(e, c->v[1]));
    if (same_dims(x, y))
        fe_help(&r, "the largest of these numbers as an id: %s(%s, argmax(%s))", c->fn->name, fe_arg_text(c, 0),
                fe_arg_text(c, 1));
    else fe_help(&r, "declare the input as i32: %s: i32[batch]", fe_arg_text(c, 1));
    if (soft_labels)
        fe_note(&r, (mpc_span){0}, "soft labels are one number for each class, of the shape of the logits: %s",
                fe_shape_text(e, c->v[0]));
    fe_send(&r);
}

/* Integers of the logits' leading axes. */
static bool want_ids(fe_call *c, bool soft_labels) {
    fe_elab *e = c->e;
    fe_value logits = c->v[0], labels = c->v[1];
    const mpc_type *x = fe_type(logits), *y = fe_type(labels);
    if (mpc_format_get(y->format)->kind != MPC_FORMAT_INT) {
        report_float_labels(c, soft_labels);
        return false;
    }
    if (x->rank >= 1 && y->rank == x->rank - 1 && memcmp(x->dims, y->dims, y->rank * sizeof *y->dims) == 0) return true;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E025", fe_arg_span(c, 0),
                           "%s takes logits [..., classes] and ids of the same leading axes", c->fn->name);
    fe_label(&r, "%s", fe_shape_text(e, logits));
    fe_second(&r, fe_arg_span(c, 1), "%s", fe_shape_text(e, labels));
    if (y->rank > 0 && y->rank == x->rank && y->dims[y->rank - 1] == 1)
        fe_help(&r, "drop the last axis: %s(%s, %s[..., 0])", c->fn->name, fe_arg_text(c, 0), fe_arg_text(c, 1));
    fe_send(&r);
    return false;
}

/* Both tensors; the labels are not looked at yet. */
static bool read_tensors(fe_call *c, fe_value *logits) {
    fe_lift_arguments(c, 0, 1);
    *logits = fe_arg_float_tensor(c, 0);
    fe_arg_tensor(c, 1);
    return !c->bad && logits->kind == FE_TENSOR && !swapped(c);
}

static bool read_pair(fe_call *c, fe_value *logits) { return read_tensors(c, logits) && want_ids(c, false); }

/* --- what people write out of habit --- */

/* The op that made a tensor, if it turns logits into something else; NULL: none of these. */
static const char *squashed_by(fe_elab *e, fe_value v) {
    const mpc_graph *g = mpc_builder_graph(e->b);
    mpc_node_id node = v.kind == FE_TENSOR ? g->values[v.t->id].producer : MPC_NONE;
    if (node == MPC_NONE) return NULL;
    mpc_op_id op = g->nodes[node].op;
    return op == MPC_OP_softmax       ? "softmax"
           : op == MPC_OP_log_softmax ? "log_softmax"
           : op == MPC_OP_sigmoid     ? "sigmoid"
                                      : NULL;
}

/* "h" of `softmax(h)` */
static const char *squashed_text(fe_call *c, uint32_t i, const char *otherwise) {
    const fe_ast *arg = c->ast[i];
    return arg->kind == AST_CALL && arg->list.first ? fe_source_text(c->e->m, arg->list.first->kid[0]->span)
                                                    : otherwise;
}

static mpc_span callee_span(fe_call *c, uint32_t i) {
    const fe_ast *arg = c->ast[i];
    return arg->kind == AST_CALL ? arg->kid[0]->span : arg->span;
}

/* W101 where logits are expected. */
static void warn_squashed(fe_call *c) {
    fe_elab *e = c->e;
    const char *by = squashed_by(e, c->v[0]), *inner = squashed_text(c, 0, "logits");
    if (!by || e->phase != MPC_PHASE_TRAIN) return;
    bool logarithm = strcmp(by, "log_softmax") == 0;
    fe_report r = fe_begin(e->d, MPC_SEV_WARNING, "W101", callee_span(c, 0), "%s takes logits, but gets %s",
                           c->fn->name, logarithm ? "log-probabilities" : "probabilities");
    bool cross = strcmp(c->fn->name, "cross_entropy") == 0, own = cross != (strcmp(by, "sigmoid") == 0);
    if (own) fe_label(&r, "%s is already part of %s", by, c->fn->name);
    else fe_label(&r, "%s contains its own %s", c->fn->name, cross ? "softmax" : "sigmoid");
    if (logarithm) fe_help(&r, "%s(%s, %s)", c->fn->name, inner, fe_arg_text(c, 1));
    else
        fe_help(&r, "%s(%s, %s), and `output prob = %s(%s)` if you want them from predict", c->fn->name, inner,
                fe_arg_text(c, 1), by, inner);
    fe_send(&r);
}

/* kl(log p, q): the logarithm on the left only. */
static void warn_kl(fe_call *c) {
    fe_elab *e = c->e;
    const char *p = squashed_by(e, c->v[0]), *q = squashed_by(e, c->v[1]);
    if (e->phase != MPC_PHASE_TRAIN) return;
    if (p && strcmp(p, "softmax") == 0) {
        fe_report r = fe_begin(e->d, MPC_SEV_WARNING, "W101", callee_span(c, 0),
                               "kl takes log-probabilities first, but gets probabilities");
        fe_help(&r, "kl(log_softmax(%s), %s)", squashed_text(c, 0, "logits"), fe_arg_text(c, 1));
        fe_send(&r);
    }
    if (q && strcmp(q, "log_softmax") == 0) {
        fe_report r = fe_begin(e->d, MPC_SEV_WARNING, "W101", callee_span(c, 1),
                               "kl takes probabilities second, but gets their logarithms");
        fe_help(&r, "kl(%s, softmax(%s))", fe_arg_text(c, 0), squashed_text(c, 1, "logits"));
        fe_send(&r);
    }
}

/* Losses are value by value in any case: `reduce = none` says what is so, anything else is an error. */
static bool reduces_nothing(fe_call *c) {
    const fe_ast *word = c->ast[c->count - 1];
    if (!word || (word->kind == AST_NAME && strcmp(word->text, "none") == 0)) return true;
    fe_report r = fe_begin(c->e->d, MPC_SEV_ERROR, "E014", word->span,
                           "%s gives one number for each value: the loss statement takes their mean", c->fn->name);
    fe_help(&r, "leave `reduce` out; for a sum: sum(%s(%s, %s))", c->fn->name, fe_arg_text(c, 0), fe_arg_text(c, 1));
    fe_send(&r);
    return false;
}

static const char *label_use(fe_call *c) {
    fe_elab *e = c->e;
    return fe_format(e, "%s, %s is %s (%s)", fe_source_text(e->m, c->at->span), fe_arg_text(c, 0),
                     fe_shape_text(e, c->v[0]), fe_place_text(e->d, c->at->span));
}

static double read_smooth(fe_call *c) {
    double smooth = fe_arg_float(c, 2, 0);
    if (c->bad || (smooth >= 0 && smooth <= 1)) return smooth;
    fe_error(c->e->d, "E017", fe_arg_span(c, 2), "smooth is a part of the target, between 0 and 1, this is %g", smooth);
    c->bad = true;
    return 0;
}

/* Ids, or a number for each class: floats of the logits' shape. */
fe_value fe_fn_cross_entropy(fe_call *c) {
    fe_value logits;
    double smooth = read_smooth(c);
    if (!read_tensors(c, &logits) || !reduces_nothing(c)) return FE_POISONED;
    const mpc_type *x = fe_type(logits), *y = fe_type(c->v[1]);
    bool soft = mpc_format_is_float(y->format) && x->rank > 0 && same_dims(x, y);
    if (!soft && !want_ids(c, true)) return FE_POISONED;
    warn_squashed(c);
    if (!soft) fe_limit_range(c->e, c->v[1], x->dims[x->rank - 1], label_use(c));
    fe_op o = fe_op_begin(c->e, c->at, soft ? MPC_OP_soft_cross_entropy : MPC_OP_cross_entropy,
                          c->name ? c->name : "cross_entropy");
    fe_op_in(&o, logits);
    fe_op_in(&o, c->v[1]);
    fe_op_attr(&o, MPC_A_FLOAT("smooth", smooth));
    return fe_op_end(&o);
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

fe_value fe_fn_top_k_accuracy(fe_call *c) {
    fe_elab *e = c->e;
    fe_value logits;
    int64_t k = fe_arg_int(c, 2, 5);
    if (!read_pair(c, &logits)) return FE_POISONED;
    int64_t classes = fe_type(logits)->dims[fe_type(logits)->rank - 1];
    if (k < 1 || k > classes) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E017", fe_given(c, 2) ? fe_arg_span(c, 2) : c->at->span,
                               "k = %lld, but there are %lld classes", (long long)k, (long long)classes);
        fe_help(&r, "%s(%s, %s, k = %lld)", c->fn->name, fe_arg_text(c, 0), fe_arg_text(c, 1),
                (long long)(classes > 3 ? 3 : 1));
        fe_send(&r);
        return FE_POISONED;
    }
    fe_op o = fe_op_begin(e, c->at, MPC_OP_top_k_accuracy, c->name ? c->name : "top_k_accuracy");
    fe_op_in(&o, logits);
    fe_op_in(&o, c->v[1]);
    fe_op_attr(&o, MPC_A_INT("k", k));
    return fe_op_end(&o);
}

static bool same_shapes(fe_call *c) {
    fe_elab *e = c->e;
    const mpc_type *a = fe_type(c->v[0]), *b = fe_type(c->v[1]);
    if (same_dims(a, b)) return true;
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

static bool read_equal(fe_call *c, fe_value *a, fe_value *b) {
    fe_lift_arguments(c, 0, 1);
    *a = fe_arg_float_tensor(c, 0);
    *b = fe_arg_float_tensor(c, 1);
    return !c->bad && a->kind == FE_TENSOR && b->kind == FE_TENSOR && same_shapes(c);
}

static mpc_op_id pairwise_op(const char *name) {
    static const struct {
        const char *name;
        mpc_op_id op;
    } rows[] = {{"mse", MPC_OP_mse},     {"l1", MPC_OP_l1}, {"mae", MPC_OP_l1},
                {"huber", MPC_OP_huber}, {"kl", MPC_OP_kl}, {"bce_with_logits", MPC_OP_bce_with_logits}};
    size_t i = 0;
    while (strcmp(rows[i].name, name) != 0) i++;
    return rows[i].op;
}

static double read_delta(fe_call *c) {
    double delta = fe_arg_float(c, 2, 1);
    if (c->bad || delta > 0) return delta;
    fe_error(c->e->d, "E017", fe_arg_span(c, 2),
             "huber's delta is the distance where it turns straight: a positive number, not %g", delta);
    c->bad = true;
    return 1;
}

fe_value fe_fn_pairwise_loss(fe_call *c) {
    fe_value a, b;
    mpc_op_id op = pairwise_op(c->fn->name);
    double delta = op == MPC_OP_huber ? read_delta(c) : 0;
    if (!read_equal(c, &a, &b) || !reduces_nothing(c)) return FE_POISONED;
    if (op == MPC_OP_bce_with_logits) warn_squashed(c);
    if (op == MPC_OP_kl) warn_kl(c);
    fe_op o = fe_op_begin(c->e, c->at, op, c->name ? c->name : c->fn->name);
    fe_op_in(&o, a);
    fe_op_in(&o, b);
    if (op == MPC_OP_huber) fe_op_attr(&o, MPC_A_FLOAT("delta", delta));
    return fe_op_end(&o);
}

/* 1 where the sign of the logit and the side of the target agree; a NaN is on no side of one half, nor above 0. */
fe_value fe_fn_binary_accuracy(fe_call *c) {
    fe_elab *e = c->e;
    fe_value z, t;
    if (!read_equal(c, &z, &t)) return FE_POISONED;
    fe_value on = fe_binary(e, c->at, ">", z, fe_float(0), NULL),
             one = fe_binary(e, c->at, ">", t, fe_float(0.5), NULL);
    fe_value zero = fe_binary(e, c->at, "<=", z, fe_float(0), NULL);
    if (on.kind != FE_TENSOR || one.kind != FE_TENSOR || zero.kind != FE_TENSOR) return FE_POISONED;
    fe_op o = fe_op_begin(e, c->at, MPC_OP_where, NULL);
    fe_op_in(&o, one);
    fe_op_in(&o, on);
    fe_op_in(&o, zero);
    return fe_cast(e, c->at, fe_op_end(&o), MPC_FMT_f32, "front");
}
