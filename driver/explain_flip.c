/* Who decides a value's format, found by asking the solver again: the model is assigned once more with the user's word
 * on a neighbour, and where the value turns, the neighbour is named. So what explain names holds for every solver, one
 * from a plugin included. Only what a policy can name is asked: forward ops with names of their own. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/explain_value.h"

static void drop(void *user, const mpc_diag *diag) {
    (void)user;
    (void)diag;
}

static bool reads_low(const mpc_graph *g, mpc_node_id id) {
    mpc_decision d = g->decisions ? g->decisions[id] : (mpc_decision){0};
    bool by_operand = mpc_node_op(g, id)->cls == MPC_CLASS_LOW && d.operand != MPC_FMT_none;
    return mpc_format_is_low(by_operand ? d.operand : mpc_stored_format(g, id));
}

static bool has_prec(const mpc_graph *g, const mpc_node *n) {
    const mpc_op *op = mpc_op_get(g->ctx, n->op);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(mpc_sym_text(g->ctx, op->attrs[i].key), "prec") == 0) return true;
    return false;
}

bool mpc_explain_can_be_named(const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    return n->origin == 0 && n->loc.file != 0 && g->decisions && g->decisions[id].present && has_prec(g, n) &&
           !strchr(mpc_value_name(g, n->result_begin), ':');
}

/* policy."fc1"=f32 for every neighbour, behind the settings that the command line has. */
static bool add_words(const mpc_session *s, const mpc_graph *g, const mpc_node_id *neighbours, uint32_t count,
                      mpc_arena *arena, mpc_options *o) {
    const char *low = strcmp(s->train->precision, "f16") == 0 ? "f16" : "bf16";
    o->changes = (mpc_text_list){0};
    for (uint32_t i = 0; i < count; i++) {
        const char *name = mpc_value_name(g, g->nodes[neighbours[i]].result_begin);
        const char *word = mpc_arena_printf(arena, "policy.\"%s\"=%s", name, reads_low(g, neighbours[i]) ? "f32" : low);
        if (!word || !mpc_text_list_push(&o->changes, word)) return false;
    }
    return true;
}

static bool turned(const mpc_graph *before, mpc_node_id id, const mpc_graph *after) {
    const char *name = mpc_value_name(before, before->nodes[id].result_begin);
    for (mpc_node_id i = 0; i < after->node_count; i++)
        if (after->nodes[i].result_count && strcmp(mpc_value_name(after, after->nodes[i].result_begin), name) == 0)
            return reads_low(after, i) != reads_low(before, id);
    return false;
}

static bool assign_again(const mpc_session *s, const mpc_options *options, const mpc_graph *g, mpc_node_id id) {
    mpc_cli cli = *s->cli;
    cli.options = options;
    cli.sink = (mpc_sink){.emit = drop};
    mpc_session other;
    mpc_graph *after = NULL;
    if (mpc_session_open(&other, &cli)) {
        other.facts = s->facts;
        other.profile = s->profile;
        after = mpc_session_graph(&other, MPC_PHASE_TRAIN, other.train->batch, MPC_STAGE_DECIDED);
    }
    bool ok = after && turned(g, id, after);
    mpc_graph_destroy(after);
    mpc_session_close(&other);
    return ok;
}

bool mpc_explain_flips(const mpc_session *s, const mpc_graph *g, mpc_node_id id, const mpc_node_id *neighbours,
                       uint32_t count) {
    mpc_arena *arena = mpc_arena_create();
    mpc_options options = *s->cli->options;
    bool ok = arena != NULL && count > 0;
    for (uint32_t i = 0; i < count && ok; i++) ok = mpc_explain_can_be_named(g, neighbours[i]) && neighbours[i] != id;
    if (ok) {
        ok = add_words(s, g, neighbours, count, arena, &options) && assign_again(s, &options, g, id);
        mpc_array_free(&options.changes);
    }
    mpc_arena_destroy(arena);
    return ok;
}
