/* The last walk over an elaborated graph: a copy that leaves out what nothing needs, with the inputs' ranges, which are
 * known only at the end. Parameters stay in training and evaluation even when unused there, so that checkpoints hold
 * them. */
#include <string.h>

#include "frontend/fe_elab.h"

static bool is_state(const mpc_node *n) { return n->op == MPC_OP_state; }

static void mark(const mpc_graph *g, const mpc_node *n, bool *live) {
    for (uint32_t i = 0; i < n->operand_count; i++) live[mpc_operand(g, n, i)] = true;
}

static bool any_live(const mpc_node *n, const bool *live) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (live[mpc_result(n, i)]) return true;
    return false;
}

static void find_live(fe_elab *e, const mpc_graph *g, bool *live) {
    for (uint32_t i = 0; i < g->output_count; i++) live[g->outputs[i].value] = true;
    for (uint32_t i = 0; i < g->next_count; i++) live[g->nexts[i].state] = live[g->nexts[i].value] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const mpc_node *n = &g->nodes[i];
        if (is_state(n) && e->phase != MPC_PHASE_PREDICT) live[n->result_begin] = true;
        if (any_live(n, live)) mark(g, n, live);
    }
}

static mpc_value_id copy_input(fe_elab *e, mpc_builder *b, const mpc_graph *g, const fe_field *f) {
    mpc_attr_arg attrs[5];
    uint32_t n = 0;
    if (*f->source) attrs[n++] = MPC_A_STR("source", f->source);
    attrs[n++] = MPC_A_STR("model", f->inputs);
    if (f->ranged) {
        attrs[n++] = MPC_A_INT("lo", f->lo);
        attrs[n++] = MPC_A_INT("hi", f->hi);
        attrs[n++] = MPC_A_STR("where", f->where);
    }
    (void)e;
    const char *name = mpc_value_name(g, f->id);
    mpc_builder_set_name(b, name);
    return mpc_build_input(b, name, f->type, attrs, n);
}

static void copy_nodes(fe_elab *e, mpc_builder *b, const mpc_graph *g, const bool *live, mpc_value_id *map) {
    for (size_t i = 0; i < e->fields.count; i++) {
        const fe_field *f = &e->fields.data[i];
        if (live[f->id]) map[f->id] = copy_input(e, b, g, f);
    }
    for (uint32_t i = 0; i < g->node_count && !mpc_builder_failed(b); i++) {
        const mpc_node *n = &g->nodes[i];
        if (!any_live(n, live)) continue;
        mpc_value_id few[FE_MAX_OP_IN], *operands = few;
        if (n->operand_count > FE_MAX_OP_IN) operands = fe_alloc(e, n->operand_count * sizeof *operands);
        if (!operands) return;
        for (uint32_t k = 0; k < n->operand_count; k++) operands[k] = map[mpc_operand(g, n, k)];
        mpc_value_id first = mpc_build_copy(b, g, i, operands);
        if (first == MPC_NONE) return;
        for (uint32_t k = 0; k < n->result_count; k++) map[mpc_result(n, k)] = first + k;
    }
}

mpc_graph *fe_prune(fe_elab *e, const mpc_graph *g) {
    bool *live = fe_alloc(e, g->value_count + 1);
    mpc_value_id *map = fe_alloc(e, (g->value_count + 1) * sizeof *map);
    mpc_builder *b = live && map ? mpc_builder_create(e->ctx, mpc_sym_text(e->ctx, g->name)) : NULL;
    if (!b) return fe_no_memory_value(e), NULL;
    for (uint32_t i = 0; i < g->value_count; i++) map[i] = MPC_NONE;
    find_live(e, g, live);
    copy_nodes(e, b, g, live, map);
    mpc_build_copy_ends(b, g, map);
    if (e->failed) return mpc_builder_destroy(b), NULL;
    return mpc_builder_finish(b);
}

/* Marks what a gradient can reach, walking back from the loss, or that of one group. */
static bool *reached(fe_elab *e, const mpc_graph *g, uint32_t group) {
    bool *grad = fe_alloc(e, g->value_count + 1);
    mpc_value_id loss = mpc_graph_find_output(g, group ? fe_format(e, "group.%u", group) : "loss");
    if (!grad || loss == MPC_NONE) return NULL;
    grad[loss] = true;
    for (uint32_t i = g->node_count; i-- > 0;) {
        const mpc_node *n = &g->nodes[i];
        const mpc_op *op = mpc_op_get(e->ctx, n->op);
        if (!any_live(n, grad) || (op->flags & MPC_OPF_NO_GRAD)) continue;
        for (uint32_t k = 0; k < n->operand_count; k++)
            if (mpc_format_is_float(mpc_value_format(g, mpc_operand(g, n, k)))) grad[mpc_operand(g, n, k)] = true;
    }
    return grad;
}

static void not_reached(fe_elab *e, const fe_param *p) {
    const char *losses = p->group ? fe_group_text(e, p->group) : "";
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E046", p->span,
                           p->group ? "no loss that trains the parameter `%s` reaches it: %s"
                                    : "no loss reaches the parameter `%s`%s",
                           p->path, losses);
    fe_help(&r, "use its result, remove it, or freeze it: params { \"%s\" { freeze = true } }", p->path);
    fe_send(&r);
}

void fe_check_reached(fe_elab *e, const mpc_graph *g) {
    bool any = false, frozen = false;
    for (uint32_t k = 0; k <= e->groups; k++) {
        bool *grad = reached(e, g, k);
        if (!grad) return;
        for (size_t i = 0; i < e->params.count; i++) {
            const fe_param *p = &e->params.data[i];
            bool hit = grad[p->value.t->id];
            if (p->group == k) any = any || (hit && !p->frozen);
            frozen = frozen || p->frozen;
            if (!p->frozen && !hit && p->group == k) not_reached(e, p);
        }
    }
    if (any || e->d->errors || !e->losses.count) return;
    mpc_span span = e->losses.data[0].at->span;
    if (frozen) fe_warning(e->d, "W107", span, "every parameter is frozen: steps will change nothing");
    else fe_error(e->d, "E046", span, "this model has no parameter that a loss could train");
}
