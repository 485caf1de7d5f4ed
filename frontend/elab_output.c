/* loss, metric and output. A loss is the mean of its elements that count; a metric hands a numerator and a denominator
 * to whoever sums over batches. Nothing of them is made for prediction, whose outputs are made for nothing else. */
#include <string.h>

#include "frontend/fe_elab.h"

const char *fe_statement_name(const fe_ast *s) {
    if (s->text) return s->text;
    const fe_ast *v = s->kid[0];
    return v->kind == AST_CALL && v->kid[0]->kind == AST_NAME ? v->kid[0]->text
           : v->kind == AST_NAME && s->kind == AST_OUTPUT     ? v->text
                                                              : NULL;
}

/* The mask of `where`, brought to the shape of the elements. Poison after an error; kind FE_HOLE without `where`. */
static fe_value eval_mask(fe_elab *e, const fe_ast *where, fe_value elements) {
    if (!where) return (fe_value){.kind = FE_HOLE};
    fe_value mask = fe_eval(e, where, NULL);
    if (mask.kind == FE_POISON || elements.kind != FE_TENSOR) return FE_POISONED;
    if (mask.kind == FE_BOOL) mask = fe_scalar(e, where, mask, MPC_FMT_bool);
    if (mask.kind != FE_TENSOR || fe_type(mask)->format != MPC_FMT_bool) {
        fe_error(e->d, "E014", where->span, "`where` needs truth values, such as target >= 0");
        return FE_POISONED;
    }
    const mpc_type *t = fe_type(elements), *m = fe_type(mask);
    bool ok = m->rank <= t->rank;
    for (uint32_t i = 0; ok && i < m->rank; i++) {
        int64_t size = m->dims[m->rank - 1 - i];
        ok = size == 1 || size == t->dims[t->rank - 1 - i];
    }
    if (!ok) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E020", where->span, "the mask doesn't fit the values it selects");
        fe_label(&r, "%s, but the values are %s", fe_shape_text(e, mask), fe_shape_text(e, elements));
        fe_send(&r);
        return FE_POISONED;
    }
    int64_t dims[MPC_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    return fe_expand(e, where, mask, t->rank, dims);
}

static fe_value eval_elements(fe_elab *e, const fe_ast *at, const char *name) {
    e->masked = at->kid[1] != NULL;
    fe_value v = fe_eval(e, at->kid[0], name);
    e->masked = false;
    if (v.kind == FE_POISON) return v;
    if (v.kind == FE_TENSOR || fe_is_number(v)) return fe_to_float(e, at->kid[0], v);
    fe_error(e->d, "E014", at->kid[0]->span, "a tensor of numbers is needed here, not %s", fe_kind_name(v.kind));
    return FE_POISONED;
}

static double eval_weight(fe_elab *e, const fe_ast *weight) {
    if (!weight) return 1;
    fe_value v = fe_eval(e, weight, NULL);
    if (fe_is_number(v)) return fe_number(v);
    if (v.kind != FE_POISON) fe_error(e->d, "E016", weight->span, "the weight of a loss is a constant number");
    return 1;
}

void fe_run_loss(fe_elab *e, const fe_ast *at) {
    const char *name = fe_statement_name(at);
    fe_value elements = e->phase == MPC_PHASE_PREDICT ? FE_POISONED : eval_elements(e, at, name);
    if (elements.kind != FE_TENSOR) return;
    fe_value mask = eval_mask(e, at->kid[1], elements);
    if (mask.kind == FE_POISON) return;
    bool scalar = fe_type(elements)->rank == 0;
    if (scalar && e->m->config.accumulate > 1 && e->phase == MPC_PHASE_TRAIN)
        fe_warning(e->d, "W106", at->span,
                   "this loss is one number already: with accumulate = %lld it counts once for each micro-batch, "
                   "whatever that holds",
                   (long long)e->m->config.accumulate);
    fe_op o = fe_op_begin(e, at, MPC_OP_loss_mean, fe_format(e, "loss.%s", name ? name : "loss"));
    fe_op_in(&o, elements);
    if (mask.kind == FE_TENSOR) fe_op_in(&o, mask);
    fe_loss loss = {.at = at,
                    .name = name,
                    .weight = eval_weight(e, at->kid[2]),
                    .mask = mask.kind == FE_TENSOR ? mask.t->id : MPC_NONE,
                    .rank = fe_type(elements)->rank,
                    .group = fe_group_of_loss(e, at)};
    loss.mean = fe_op_end(&o);
    loss.count = fe_other_result(e, loss.mean, 1);
    if (loss.mean.kind == FE_TENSOR && !mpc_array_push(&e->losses, loss)) fe_no_memory_value(e);
}

/* The losses of one group, weighted, or of one share of it, and the count of the first one; share 0: of all. */
static void build_sum(fe_elab *e, const char *name, uint32_t group, uint32_t share, const fe_value *parts) {
    fe_value total = FE_POISONED, count = FE_POISONED;
    for (size_t i = 0; i < e->losses.count; i++) {
        const fe_loss *l = &e->losses.data[i];
        if (l->group != group || (share && l->share != share)) continue;
        if (count.kind == FE_POISON) count = l->count;
        total = total.kind == FE_POISON ? parts[i] : fe_binary(e, l->at, "+", total, parts[i], name);
    }
    if (total.kind != FE_TENSOR || count.kind != FE_TENSOR) return;
    mpc_build_output(e->b, name, total.t->id);
    mpc_build_output(e->b, fe_format(e, "%s.count", name), count.t->id);
}

/* What the parameters of a group descend. Where it has several counts and a window several micro-batches, each share
 * is differentiated by itself, since what it is divided by is known only when the window ends. */
static void build_group(fe_elab *e, uint32_t group, const fe_value *parts) {
    uint32_t shares = 0;
    if (group) build_sum(e, fe_format(e, "group.%u", group), group, 0, parts);
    for (size_t i = 0; i < e->losses.count; i++) {
        const fe_loss *l = &e->losses.data[i];
        if (l->group == group && l->share > shares) shares = l->share;
    }
    if (shares < 2 || e->m->config.accumulate < 2) return;
    for (uint32_t k = 1; k <= shares; k++) build_sum(e, fe_format(e, "share.%u.%u", group, k), group, k, parts);
}

static void output_weight(fe_elab *e, const fe_loss *l) {
    fe_value weight = fe_scalar(e, l->at, fe_float(l->weight), MPC_FMT_f32);
    if (weight.kind == FE_TENSOR) mpc_build_output(e->b, fe_format(e, "weight.%s", l->name), weight.t->id);
}

void fe_finish_losses(fe_elab *e) {
    if (e->phase == MPC_PHASE_PREDICT || e->d->errors || e->failed) return;
    fe_value total = FE_POISONED, *parts = fe_alloc(e, (e->losses.count + 1) * sizeof *parts);
    for (size_t i = 0; parts && i < e->losses.count; i++) {
        const fe_loss *l = &e->losses.data[i];
        parts[i] = l->mean;
        if (l->weight != 1) parts[i] = fe_binary(e, l->at, "*", l->mean, fe_float(l->weight), "loss.weighted");
        total = i == 0 ? parts[i] : fe_binary(e, l->at, "+", total, parts[i], "loss.total");
        if (total.kind != FE_TENSOR || l->count.kind != FE_TENSOR) return;
        mpc_build_output(e->b, fe_format(e, "loss.%s", l->name), l->mean.t->id);
        mpc_build_output(e->b, fe_format(e, "count.%s", l->name), l->count.t->id);
        if (l->weight != 1) output_weight(e, l);
    }
    if (total.kind != FE_TENSOR) return;
    fe_share_losses(e);
    for (uint32_t k = e->groups ? 1 : 0; k <= e->groups && e->phase == MPC_PHASE_TRAIN; k++) build_group(e, k, parts);
    mpc_build_output(e->b, "loss", total.t->id);
    mpc_build_output(e->b, "count", e->losses.data[0].count.t->id);
}

static fe_value sum_all(fe_elab *e, const fe_ast *at, fe_value v) {
    if (v.kind != FE_TENSOR) return FE_POISONED;
    int64_t axes[MPC_MAX_RANK];
    uint32_t rank = fe_type(v)->rank;
    for (uint32_t i = 0; i < rank; i++) axes[i] = i;
    return rank ? fe_reduce(e, at, MPC_OP_sum, v, axes, rank) : v;
}

void fe_run_metric(fe_elab *e, const fe_ast *at) {
    if (e->phase == MPC_PHASE_PREDICT) return;
    const char *name = fe_statement_name(at);
    e->in_metric = true;
    fe_value elements = eval_elements(e, at, name);
    e->in_metric = false;
    if (elements.kind != FE_TENSOR) return;
    elements = fe_cast(e, at, elements, MPC_FMT_f32, "front");
    fe_value mask = eval_mask(e, at->kid[1], elements);
    if (mask.kind == FE_POISON) return;
    fe_value den;
    if (mask.kind == FE_TENSOR) {
        fe_value zero = fe_scalar(e, at, fe_float(0), MPC_FMT_f32);
        fe_op o = fe_op_begin(e, at, MPC_OP_where, NULL);
        fe_op_in(&o, mask);
        fe_op_in(&o, elements);
        fe_op_in(&o, zero);
        elements = fe_op_end(&o);
        den = sum_all(e, at, fe_cast(e, at, mask, MPC_FMT_f32, "front"));
    } else den = fe_scalar(e, at, fe_float((double)mpc_type_elements(fe_type(elements))), MPC_FMT_f32);
    fe_value num = sum_all(e, at, elements);
    if (num.kind != FE_TENSOR || den.kind != FE_TENSOR) return;
    mpc_build_output(e->b, fe_format(e, "metric.%s.num", name), num.t->id);
    mpc_build_output(e->b, fe_format(e, "metric.%s.den", name), den.t->id);
}

void fe_run_output(fe_elab *e, const fe_ast *at) {
    const char *name = fe_statement_name(at);
    fe_value v = fe_eval(e, at->kid[0], name);
    if (v.kind == FE_POISON) return;
    if (v.kind != FE_TENSOR) {
        fe_error(e->d, "E014", at->kid[0]->span, "an output is a tensor, not %s", fe_kind_name(v.kind));
        return;
    }
    if (e->phase == MPC_PHASE_PREDICT)
        mpc_build_output(e->b, fe_format(e, "output.%s", name ? name : "output"), v.t->id);
}
