/* From mpc's tables to a plugin's passes: the frame around `run`. Outputs and next values that the pass didn't set
 * itself are copied afterwards, so a pass that replaces a value replaces it there too; if one of them leads to a value
 * that was never made, the pass has failed, and the graph that it read is as it was. */
#include "passes/plugins/plugin_functions.h"

static mpc_id made_of(mpc_call *c, mpc_value_id old, const char *what) {
    mpc_id made = c->rw->map[old];
    if (made == MPC_NONE)
        mpc_call_fail(c, "%s is `%s`, which was neither copied nor replaced", what, mpc_value_name(c->g, old));
    return made;
}

static bool has_output(const mpc_graph *g, mpc_sym name) {
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i].name == name) return true;
    return false;
}

static void copy_ends(mpc_call *c) {
    mpc_builder *b = c->rw->b;
    for (uint32_t i = 0; i < c->g->next_count && !mpc_call_failed(c); i++) {
        mpc_id state = made_of(c, c->g->nexts[i].state, "a state"),
               value = made_of(c, c->g->nexts[i].value, "a next value");
        if (!mpc_call_failed(c) && mpc_graph_next_of(mpc_builder_graph(b), state) == MPC_NONE)
            mpc_build_next(b, state, value);
    }
    for (uint32_t i = 0; i < c->g->output_count && !mpc_call_failed(c); i++) {
        if (has_output(mpc_builder_graph(b), c->g->outputs[i].name)) continue;
        mpc_id value = made_of(c, c->g->outputs[i].value, "an output");
        if (!mpc_call_failed(c)) mpc_build_output(b, mpc_sym_text(c->ctx, c->g->outputs[i].name), value);
    }
}

mpc_graph *mpc_plugin_run_pass(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    const mpc_plugin_pass_row *row = (const mpc_plugin_pass_row *)options->pass;
    mpc_rewrite rw;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    mpc_call c = {.kind = MPC_CALL_PASS, .ctx = env->ctx, .who = row->who, .g = in, .options = options, .rw = &rw};
    row->theirs->run(&mpc_plugin_functions, &c);
    if (!mpc_call_failed(&c)) copy_ends(&c);
    mpc_call_end(&c);
    if (c.failed) {
        mpc_builder_destroy(rw.b);
        mpc_arena_destroy(rw.scratch);
        return NULL;
    }
    return mpc_rewrite_finish(&rw);
}
