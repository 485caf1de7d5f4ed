/* Reverse-mode autodiff. The forward graph is copied, then its nodes are walked backwards once: a node whose result has
 * a gradient and one of whose operands needs one calls its rule (passes/grad_*.c). What is easy to get wrong: a value
 * gets its gradient only when its producer is reached, because only then all its readers have contributed; until then
 * contributions are kept in a list. Where losses say what they train there is one such walk for each group of losses,
 * and where some of a group count differently one for each share of it, all from the same forward part and the same
 * seed. */
#include <stdio.h>
#include <string.h>

#include "passes/expand_build.h"
#include "passes/grad_build.h"
#include "passes/grad_parts.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { NAME_SIZE = 512 };

typedef struct value_gradient {     /* of one forward value */
    mpc_contribution *first, **end; /* in the order of arrival */
    uint32_t readers;               /* operands that will contribute, at most */
    bool reached;                   /* the loss depends on it */
    bool needed;                    /* a trainable state is behind it */
    bool selected;                  /* see mpc_grad.selected */
} value_gradient;

typedef struct backward {
    mpc_rewrite rw;
    value_gradient *values;             /* by value of the new graph's forward part */
    mpc_node_id node_count;             /* of the forward part */
    mpc_value_id *dresults, *doperands; /* room for the largest node */
    bool *wanted, *shared;
    uint32_t value_count; /* of the forward part */
    int64_t group;        /* of losses, that this walk is for; 0: all parameters, from output `loss` */
    int64_t share;        /* of that group, where its losses count differently: a gradient of its own; 0: all of it */
    bool *trained;        /* by node of the forward part: a state that some walk found a gradient of */
    mpc_value_id seed;    /* loss.seed, shared by all walks; MPC_NONE: not built yet */
    bool each;            /* every float value gets its gradient, as an output: inputs and frozen states, too */
} backward;

static bool is_trainable(const mpc_graph *g, const mpc_node *n) {
    return n->op == MPC_OP_state && mpc_attr_bool(g, n, "trainable") &&
           mpc_attr_format(g, n, "derived") == MPC_FMT_none;
}

/* Trainable, and moved by the gradient of this walk. */
static bool is_target(const backward *bw, const mpc_graph *g, const mpc_node *n) {
    return is_trainable(g, n) && (bw->group == 0 || mpc_attr_int(g, n, "group") == bw->group);
}

static bool any_operand_needed(const backward *bw, const mpc_graph *g, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(g, n, i);
        if (bw->values[v].needed) return true;
    }
    return false;
}

/* A composite without a rule of its own, on the way from a parameter. */
static bool needs_expansion(const mpc_op *op) {
    return op->grad == NULL && op->expand != NULL && (op->flags & MPC_OPF_NO_GRAD) == 0;
}

/* Whether a gradient can come through: the forward walk that `wanted` rests on. */
static bool passes_gradient(const backward *bw, const mpc_graph *g, const mpc_node *n) {
    const mpc_op *op = mpc_op_get(g->ctx, n->op);
    if (is_target(bw, g, n) || (bw->each && n->op == MPC_OP_state)) return true;
    if ((op->flags & MPC_OPF_NO_GRAD) != 0 || (op->grad == NULL && !needs_expansion(op))) return false;
    return any_operand_needed(bw, g, n);
}

static void mark_needed(backward *bw, const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    if (!passes_gradient(bw, g, n)) return;
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        bw->values[v].needed = mpc_format_is_float(mpc_value_format(g, v));
    }
}

static void mark_inputs(backward *bw, const mpc_graph *g) {
    for (uint32_t i = 0; bw->each && i < g->input_count; i++) {
        mpc_value_id v = g->inputs[i].value;
        bw->values[v].needed = mpc_format_is_float(mpc_value_format(g, v));
    }
}

/* Copies the forward part; `needs` is by value of the old graph. */
static void copy_forward(backward *bw) {
    const mpc_graph *in = bw->rw.in;
    mark_inputs(bw, in);
    for (mpc_node_id id = 0; id < in->node_count && !mpc_builder_failed(bw->rw.b); id++) {
        const mpc_node *n = &in->nodes[id];
        mark_needed(bw, in, id);
        if (needs_expansion(mpc_op_get(in->ctx, n->op)) && any_operand_needed(bw, in, n))
            mpc_expand_composite(&bw->rw, n, &(mpc_expand_how){.keep_prec = true});
        else mpc_rewrite_copy_node(&bw->rw, id);
    }
    mpc_build_copy_ends(bw->rw.b, in, bw->rw.map);
}

static bool alloc_values(backward *bw, uint32_t count) {
    bw->values = mpc_rewrite_scratch(&bw->rw, count, sizeof *bw->values);
    for (uint32_t i = 0; bw->values != NULL && i < count; i++) bw->values[i].end = &bw->values[i].first;
    return bw->values != NULL;
}

/* Room for the walks over the forward part as it stands in the new graph. */
static bool prepare(backward *bw) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    uint32_t widest = 1;
    if (mpc_builder_failed(bw->rw.b)) return false;
    bw->node_count = g->node_count;
    bw->value_count = g->value_count;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        if (n->operand_count > widest) widest = n->operand_count;
        if (n->result_count > widest) widest = n->result_count;
    }
    bw->dresults = mpc_rewrite_scratch(&bw->rw, widest, sizeof *bw->dresults);
    bw->doperands = mpc_rewrite_scratch(&bw->rw, widest, sizeof *bw->doperands);
    bw->wanted = mpc_rewrite_scratch(&bw->rw, widest, sizeof *bw->wanted);
    bw->shared = mpc_rewrite_scratch(&bw->rw, widest, sizeof *bw->shared);
    bw->trained = mpc_rewrite_scratch(&bw->rw, bw->node_count + 1, sizeof *bw->trained);
    return bw->trained != NULL && bw->dresults != NULL && bw->doperands != NULL && bw->wanted != NULL &&
           bw->shared != NULL;
}

static mpc_contribution *contribute(backward *bw, mpc_value_id value, mpc_value_id gradient, bool selected) {
    value_gradient *v = &bw->values[value];
    mpc_contribution *c = mpc_rewrite_scratch(&bw->rw, 1, sizeof *c);
    if (c == NULL) return NULL;
    c->gradient = gradient;
    *v->end = c;
    v->end = &c->next;
    v->selected = v->selected || selected;
    return c;
}

/* What the backward nodes of a forward node share. */
static void dress_like(backward *bw, const mpc_node *n, mpc_value_id first) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    mpc_builder_set_loc(bw->rw.b, n->loc);
    mpc_builder_set_origin(bw->rw.b, n->origin != 0 ? n->origin : g->values[first].name);
    mpc_builder_set_why(bw->rw.b, 0);
}

static mpc_format prec_of(const mpc_graph *g, const mpc_node *n) {
    const mpc_op *op = mpc_op_get(g->ctx, n->op);
    return mpc_expand_has_prec(g->ctx, op) ? mpc_attr_format(g, n, "prec") : MPC_FMT_none;
}

/* What all contributions so far make; MPC_NONE: the loss doesn't depend on the value. */
static mpc_value_id collect(backward *bw, mpc_value_id value, mpc_format prec) {
    value_gradient *v = &bw->values[value];
    mpc_value_id gradient = mpc_grad_gather_contributions(&bw->rw, value, v->first, prec, &v->selected);
    if (bw->each && gradient != MPC_NONE && !mpc_builder_failed(bw->rw.b)) {
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "each:%s", mpc_value_name(mpc_builder_graph(bw->rw.b), value));
        mpc_build_output(bw->rw.b, name, gradient);
    }
    return gradient;
}

/* Gradients of the node's results; false if there are none. */
static bool collect_results(backward *bw, const mpc_node *n, mpc_format prec, bool *selected) {
    bool any = false;
    *selected = false;
    mpc_builder_set_why(bw->rw.b, prec != MPC_FMT_none ? n->why : 0);
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        bw->dresults[i] = collect(bw, v, prec);
        any = any || bw->dresults[i] != MPC_NONE;
        *selected = *selected || bw->values[v].selected;
    }
    mpc_builder_set_why(bw->rw.b, 0);
    return any;
}

static bool mark_wanted(backward *bw, const mpc_node *n) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    bool any = false;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const value_gradient *v = &bw->values[mpc_operand(g, n, i)];
        bw->wanted[i] = v->needed;
        bw->shared[i] = v->readers > 1;
        bw->doperands[i] = MPC_NONE;
        any = any || bw->wanted[i];
    }
    return any;
}

/* Zeros made by a selection stay zeros element by element. */
static bool keeps_zeros(mpc_op_kind kind) {
    return kind == MPC_KIND_EWISE || kind == MPC_KIND_VIEW || kind == MPC_KIND_REDUCE;
}

/* The gradient of a slice: where it goes is decided when all parts are known. */
static void contribute_part(backward *bw, mpc_grad *grad) {
    mpc_value_id operand = mpc_grad_operand(grad, 0);
    uint32_t rank = mpc_grad_type(grad, operand).rank;
    mpc_value_id gradient = mpc_grad_convert(grad, grad->doperands[0], mpc_grad_format(grad, 0));
    mpc_contribution *c = gradient != MPC_NONE ? contribute(bw, operand, gradient, grad->selected) : NULL;
    if (c == NULL) return;
    c->is_part = true;
    c->via = mpc_grad_result(grad, 0);
    for (uint32_t i = 0; i < rank; i++) c->start[i] = grad->part.data[i];
}

static void contribute_operands(backward *bw, mpc_grad *grad) {
    const mpc_op *op = mpc_op_get(mpc_builder_context(bw->rw.b), grad->node.op);
    bool selected = grad->selects || (grad->selected && keeps_zeros(op->kind));
    for (uint32_t i = 0; i < grad->node.operand_count; i++) {
        if (!grad->wanted[i] || grad->doperands[i] == MPC_NONE) continue;
        mpc_value_id fitted = mpc_grad_fit(grad, i, grad->doperands[i]);
        if (fitted != MPC_NONE) contribute(bw, mpc_grad_operand(grad, i), fitted, selected);
    }
}

static void differentiate(backward *bw, mpc_node_id id) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    mpc_node n = g->nodes[id];
    const mpc_op *op = mpc_op_get(g->ctx, n.op);
    if (op->grad == NULL || (op->flags & MPC_OPF_NO_GRAD) != 0 || !mark_wanted(bw, &n)) return;
    mpc_grad grad = {.shared = bw->shared,
                     .b = bw->rw.b,
                     .g = g,
                     .node = n,
                     .dresults = bw->dresults,
                     .doperands = bw->doperands,
                     .wanted = bw->wanted};
    grad.prec = prec_of(g, &n);
    dress_like(bw, &n, mpc_result(&n, 0));
    if (!collect_results(bw, &n, grad.prec, &grad.selected)) return;
    grad.g = mpc_builder_graph(bw->rw.b);
    op->grad(&grad);
    if (grad.part.count > 0) contribute_part(bw, &grad);
    else contribute_operands(bw, &grad);
}

/* Output grad:NAME, f32, of one parameter; grad:NAME#SHARE where shares have gradients of their own. */
static void finish_state(backward *bw, mpc_node_id id) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    mpc_node n = g->nodes[id];
    mpc_value_id state = mpc_result(&n, 0);
    char name[NAME_SIZE];
    if (!is_target(bw, g, &n)) {
        if (bw->each && n.op == MPC_OP_state && bw->values[state].needed) collect(bw, state, MPC_FMT_none);
        return;
    }
    const char *path = mpc_attr_str(g, &n, "name");
    dress_like(bw, &n, state);
    mpc_value_id gradient = collect(bw, state, MPC_FMT_none);
    if (mpc_builder_failed(bw->rw.b)) return;
    if (gradient == MPC_NONE) return;
    bw->trained[id] = true;
    snprintf(name, sizeof name, "d.%s", path);
    mpc_builder_set_name(bw->rw.b, name);
    gradient = mpc_build_cast(bw->rw.b, gradient, MPC_FMT_f32, "grad");
    if (bw->share == 0) snprintf(name, sizeof name, "grad:%s", path);
    else snprintf(name, sizeof name, "grad:%s#%lld", path, (long long)bw->share);
    mpc_build_output(bw->rw.b, name, gradient);
}

/* Nothing produces an input, so nothing has asked for its gradient yet. */
static void finish_input(backward *bw, uint32_t index) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    mpc_value_id v = g->inputs[index].value;
    if (bw->values[v].needed) collect(bw, v, MPC_FMT_none);
}

static void start_from(backward *bw, mpc_value_id loss) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    if (!bw->values[loss].needed) return;
    if (bw->seed == MPC_NONE) {
        dress_like(bw, mpc_producer(g, loss), loss);
        mpc_builder_set_name(bw->rw.b, "loss.seed");
        bw->seed = mpc_build_const(bw->rw.b, 1, MPC_FMT_f32);
    }
    if (bw->seed != MPC_NONE) contribute(bw, loss, bw->seed, false);
}

/* The scalar to differentiate, in `in`; MPC_NONE after an error. */
static mpc_value_id find_loss(const mpc_graph *in, const char *output) {
    mpc_value_id loss = mpc_graph_find_output(in, output);
    const mpc_sink *sink = mpc_context_sink(in->ctx);
    if (loss == MPC_NONE) {
        mpc_error(sink, "E108", "grad: the graph has no output `%s` to differentiate", output);
        return MPC_NONE;
    }
    const mpc_type *t = mpc_value_type(in, loss);
    if (t->rank == 0 && t->format == MPC_FMT_f32) return loss;
    mpc_error(sink, "E108", "grad: output `%s` must be an f32 scalar, %s has %u dims of %s", output,
              mpc_value_name(in, loss), t->rank, mpc_format_get(t->format)->name);
    return MPC_NONE;
}

static bool is_reached(const backward *bw, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (bw->values[mpc_result(n, i)].reached) return true;
    return false;
}

/* Who will contribute to what: a gradient that comes in one piece is called otherwise than a piece of one. */
static void count_readers(backward *bw, mpc_value_id loss) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    bw->values[loss].reached = true;
    for (mpc_node_id id = bw->node_count; id-- > 0;) {
        const mpc_node *n = &g->nodes[id];
        if (!is_reached(bw, n) || !passes_gradient(bw, g, n)) continue;
        for (uint32_t i = 0; i < n->operand_count; i++) {
            value_gradient *v = &bw->values[mpc_operand(g, n, i)];
            v->readers += v->needed;
            v->reached = v->reached || v->needed;
        }
    }
}

/* One backward pass, for the parameters of `group`. */
static void walk_back(backward *bw, mpc_value_id loss, int64_t group, int64_t share) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    bw->group = group;
    bw->share = share;
    if (!alloc_values(bw, bw->value_count)) return;
    mark_inputs(bw, g);
    for (mpc_node_id id = 0; id < bw->node_count; id++) mark_needed(bw, g, id);
    count_readers(bw, loss);
    start_from(bw, loss);
    for (mpc_node_id id = bw->node_count; id-- > 0 && !mpc_builder_failed(bw->rw.b);) differentiate(bw, id);
    for (mpc_node_id id = 0; id < bw->node_count && !mpc_builder_failed(bw->rw.b); id++) finish_state(bw, id);
    uint32_t inputs = mpc_builder_graph(bw->rw.b)->input_count;
    for (uint32_t i = 0; bw->each && i < inputs && !mpc_builder_failed(bw->rw.b); i++) finish_input(bw, i);
}

/* What a walk starts from, in the old graph; MPC_NONE: there is no such group or share. */
static mpc_value_id find_start(const backward *bw, int64_t group, int64_t share) {
    char name[NAME_SIZE];
    if (share > 0) snprintf(name, sizeof name, "share.%lld.%lld", (long long)group, (long long)share);
    else snprintf(name, sizeof name, "group.%lld", (long long)group);
    return bw->each ? MPC_NONE : mpc_graph_find_output(bw->rw.in, name);
}

/* The total, and that every group and share can be differentiated, too. */
static mpc_value_id check_starts(const mpc_graph *in) {
    mpc_value_id loss = find_loss(in, "loss");
    for (uint32_t i = 0; i < in->output_count && loss != MPC_NONE; i++) {
        const char *name = mpc_sym_text(in->ctx, in->outputs[i].name);
        bool starts = strncmp(name, "group.", 6) == 0 || strncmp(name, "share.", 6) == 0;
        if (starts && find_loss(in, name) == MPC_NONE) return MPC_NONE;
    }
    return loss;
}

/* One walk for a group, or one for each of its shares. For measuring (`each`) the total stands for all of them. */
static void walk_group(backward *bw, int64_t group, mpc_value_id total) {
    int64_t share = 0;
    mpc_value_id part = find_start(bw, group, 1);
    for (; part != MPC_NONE; part = find_start(bw, group, share + 1)) walk_back(bw, bw->rw.map[part], group, ++share);
    if (share == 0) walk_back(bw, bw->rw.map[total], group, 0);
}

static void warn_of_untrained(const backward *bw, int64_t groups) {
    const mpc_graph *g = mpc_builder_graph(bw->rw.b);
    for (mpc_node_id id = 0; id < bw->node_count && !mpc_builder_failed(bw->rw.b); id++) {
        const mpc_node *n = &g->nodes[id];
        if (bw->trained[id] || !is_trainable(g, n)) continue;
        int64_t group = mpc_attr_int(g, n, "group");
        if (groups > 0 && (group < 1 || group > groups)) continue;
        mpc_warn(mpc_context_sink(g->ctx), "W154", (mpc_span){0},
                 "the loss does not depend on parameter %s: it is not trained", mpc_attr_str(g, n, "name"));
    }
}

mpc_graph *mpc_pass_grad(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)env;
    backward bw = {.each = options != NULL && mpc_option_bool(options, "each"), .seed = MPC_NONE};
    mpc_value_id loss = check_starts(in), total;
    if (loss == MPC_NONE || !mpc_rewrite_begin(&bw.rw, in)) return NULL;
    if (alloc_values(&bw, in->value_count)) {
        copy_forward(&bw);
        bool ready = prepare(&bw);
        int64_t groups = 0;
        while (ready && (total = find_start(&bw, groups + 1, 0)) != MPC_NONE) walk_group(&bw, ++groups, total);
        if (ready && groups == 0) walk_group(&bw, 0, loss);
        if (ready) warn_of_untrained(&bw, groups);
    }
    return mpc_rewrite_finish(&bw.rw);
}
