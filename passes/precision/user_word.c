/* What the user asks for against what can't be had: a node whose float results are all f32 by its type (losses,
 * log-sum-exps, statistics) can't be narrowed by a policy, a region or an annotation. Only forward nodes are asked:
 * backward ops inherit their region and store what N60 says. */
#include "passes/precision/cost.h"
#include "passes/precision/precision.h"

static bool all_results_fixed(const mpc_plan *p, const mpc_node *n) {
    bool floats = false;
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        if (!mpc_format_is_float(mpc_value_format(p->g, v))) continue;
        floats = true;
        if (!p->fixed.result[v]) return false;
    }
    return floats;
}

/* " (N12)": the rule that holds the node, else the first that the op's documentation cites. */
static void append_rule(const mpc_plan *p, mpc_node_id id, mpc_str *out) {
    char rule[MPC_RULE_SIZE];
    const char *held = mpc_sym_text(p->g->ctx, p->fixed.held[id]);
    if (mpc_find_rule(held, rule) || mpc_find_rule(mpc_node_op(p->g, id)->doc, rule))
        mpc_str_printf(out, " (%s)", rule);
}

static mpc_status refuse(const mpc_plan *p, mpc_node_id id, mpc_format prec) {
    const mpc_graph *g = p->g;
    const mpc_node *n = &g->nodes[id];
    const char *format = mpc_format_get(prec)->name;
    mpc_str text = {0};
    if (n->why != 0) mpc_str_printf(&text, "%s asks for %s", mpc_sym_text(g->ctx, n->why), format);
    else mpc_str_printf(&text, "@%s is asked for", format);
    mpc_str_printf(&text, ", but `%s` (%s", mpc_value_name(g, mpc_result(n, 0)), mpc_node_op(g, id)->name);
    if (n->loc.file != 0) mpc_str_printf(&text, ", %s:%u", mpc_sym_text(g->ctx, n->loc.file), n->loc.line);
    mpc_str_append(&text, ") is f32 by a hard rule");
    append_rule(p, id, &text);
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E111",
                     .message = mpc_str_cstr(&text),
                     .help = "leave it out, or take it out of the policy by a later line with f32"};
    const mpc_sink *sink = mpc_context_sink(g->ctx);
    sink->emit(sink->user, &diag);
    mpc_str_free(&text);
    return MPC_FAILED;
}

mpc_status mpc_plan_check_words(const mpc_plan *p) {
    const mpc_graph *g = p->g;
    mpc_status status = MPC_OK;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        if (n->origin != 0 || !mpc_is_assigned(g, id)) continue;
        mpc_format prec = mpc_node_prec(g, n);
        if (mpc_format_is_low(prec) && all_results_fixed(p, n)) status = refuse(p, id, prec);
    }
    return status;
}
