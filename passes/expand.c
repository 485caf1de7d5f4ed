/* Composite ops become primitives: one walk that copies what is primitive and calls the rule (passes/expand_*.c) of
 * what isn't. Rules build primitives only, so one walk is enough. Primitives keep the composite's place and reason, and
 * its name as origin; the value that replaces a result keeps the result's name and format. What option `keep` names is
 * copied like a primitive, and opaque to all that follows. */
#include <string.h>

#include "passes/expand_build.h"
#include "passes/passes.h"

/* A value that a rule gave, in the format of result r. */
static mpc_value_id fit_result(mpc_expand *e, uint32_t r) {
    mpc_format format = mpc_expand_result_type(e, r).format;
    if (e->results[r] == MPC_NONE || !e->used[r] || mpc_builder_failed(e->b)) return MPC_NONE;
    if (mpc_expand_type(e, e->results[r]).format == format) return e->results[r];
    mpc_expand_name_result(e, r);
    return mpc_expand_as(e, e->results[r], format);
}

static void take_results(mpc_rewrite *rw, mpc_expand *e, const mpc_op *op) {
    for (uint32_t r = 0; r < e->node->result_count; r++) {
        rw->map[mpc_result(e->node, r)] = fit_result(e, r);
        if (e->used[r] && e->results[r] == MPC_NONE && !mpc_builder_failed(e->b))
            mpc_builder_fail(e->b, "the expansion of %s leaves out result %u", op->name, r);
    }
}

void mpc_expand_composite(mpc_rewrite *rw, const mpc_node *n, const mpc_expand_how *how) {
    mpc_context *ctx = rw->in->ctx;
    const mpc_op *op = mpc_op_get(ctx, n->op);
    mpc_value_id results[MPC_MAX_RANK];
    bool all[MPC_MAX_RANK];
    if (mpc_builder_failed(rw->b)) return;
    if (n->result_count > MPC_MAX_RANK) {
        mpc_builder_fail(rw->b, "%s has too many results to expand", op->name);
        return;
    }
    for (uint32_t r = 0; r < MPC_MAX_RANK; r++) {
        results[r] = MPC_NONE;
        all[r] = r < n->result_count;
    }
    mpc_expand e = {.b = rw->b, .from = rw->in, .node = n, .operand_count = n->operand_count, .results = results};
    e.operands = mpc_rewrite_operands(rw, n);
    e.used = how->used != NULL ? how->used : all;
    e.decays = how->decays;
    e.memo = how->memo;
    if (how->keep_prec && mpc_expand_has_prec(ctx, op)) e.prec = mpc_attr_format(rw->in, n, "prec");
    mpc_builder_set_loc(rw->b, n->loc);
    mpc_builder_set_origin(rw->b, n->origin != 0 ? n->origin : rw->in->values[mpc_result(n, 0)].name);
    mpc_builder_set_why(rw->b, n->why);
    op->expand(&e);
    take_results(rw, &e, op);
}

/* By value of the graph: somebody reads it. */
static bool *find_used(mpc_rewrite *rw) {
    const mpc_graph *g = rw->in;
    bool *used = mpc_rewrite_scratch(rw, g->value_count, sizeof *used);
    if (used == NULL) return NULL;
    for (mpc_node_id id = 0; id < g->node_count; id++)
        for (uint32_t i = 0; i < g->nodes[id].operand_count; i++) used[mpc_operand(g, &g->nodes[id], i)] = true;
    for (uint32_t i = 0; i < g->next_count; i++) used[g->nexts[i].value] = true;
    for (uint32_t i = 0; i < g->output_count; i++) used[g->outputs[i].value] = true;
    return used;
}

/* By op: some node of the graph decays its weights. Found once: every update asks. */
static bool *find_decays(mpc_rewrite *rw) {
    const mpc_graph *g = rw->in;
    mpc_sym decay = mpc_intern(g->ctx, "decay");
    bool *decays = mpc_rewrite_scratch(rw, mpc_op_count(g->ctx), sizeof *decays);
    for (mpc_node_id id = 0; decays != NULL && id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        for (uint32_t i = 0; i < n->attr_count; i++) {
            const mpc_attr *a = &g->attrs[n->attr_begin + i];
            if (a->key == decay && a->f != 0) decays[n->op] = true;
        }
    }
    return decays;
}

/* Of several results, those that nobody reads may be left out by the rule. */
static void expand_or_copy(mpc_rewrite *rw, mpc_node_id id, const mpc_expand_how *whole, bool keep_attention) {
    const mpc_node *n = &rw->in->nodes[id];
    bool kept = keep_attention && mpc_attention_fuses(rw->in, n);
    mpc_expand_how how = {.used = whole->used + n->result_begin, .decays = whole->decays, .memo = whole->memo};
    if (kept || mpc_op_get(rw->in->ctx, n->op)->expand == NULL) mpc_rewrite_copy_node(rw, id);
    else mpc_expand_composite(rw, n, &how);
}

mpc_graph *mpc_expand_graph(const mpc_graph *in, bool keep_attention) {
    mpc_rewrite rw;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    mpc_expand_how whole = {.used = find_used(&rw), .decays = find_decays(&rw)};
    if (in->unnamed) whole.memo = mpc_rewrite_scratch(&rw, 1, sizeof *whole.memo);
    bool ready = whole.used != NULL && whole.decays != NULL;
    for (mpc_node_id id = 0; ready && id < in->node_count && !mpc_builder_failed(rw.b); id++)
        expand_or_copy(&rw, id, &whole, keep_attention);
    mpc_build_copy_ends(rw.b, in, rw.map);
    return mpc_rewrite_finish(&rw);
}

mpc_graph *mpc_pass_expand(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)env;
    return mpc_expand_graph(in, options != NULL && strcmp(mpc_option_str(options, "keep"), "attention") == 0);
}
