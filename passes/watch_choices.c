/* Makes every choice on which the loss depends an output choice:NAME, so that two steps can be compared by what they
 * chose; or takes it from an input of that name, so that one step can be given the choices of another. A choice is a
 * value that is no float, made from a float: what top_k or argmax took, a comparison, a cast to integers. Rounding may
 * make it fall out otherwise, and then the loss jumps, which no derivative knows. What is easy to get wrong: a choice
 * reaches the loss through values without a gradient, so what counts is who reads whom. */
#include "base/str.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static bool reads_a_float(const mpc_graph *g, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (mpc_format_is_float(mpc_value_format(g, mpc_operand(g, n, i)))) return true;
    return false;
}

static bool is_needed(const mpc_node *n, const bool *needed) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (needed[mpc_result(n, i)]) return true;
    return false;
}

static void mark_needed(const mpc_graph *g, bool *needed) {
    needed[mpc_graph_find_output(g, "loss")] = true;
    for (mpc_node_id id = g->node_count; id-- > 0;) {
        const mpc_node *n = &g->nodes[id];
        for (uint32_t i = 0; i < n->operand_count && is_needed(n, needed); i++) needed[mpc_operand(g, n, i)] = true;
    }
}

static void watch(mpc_rewrite *rw, mpc_value_id value, bool given) {
    mpc_attr_arg source = MPC_A_STR("source", "control:choice");
    mpc_str name = {0};
    mpc_str_printf(&name, "choice:%s", mpc_value_name(rw->in, value));
    if (name.failed) mpc_builder_fail(rw->b, "out of memory");
    else if (given) rw->map[value] = mpc_build_input(rw->b, name.data, rw->in->values[value].type, &source, 1);
    else mpc_build_output(rw->b, name.data, rw->map[value]);
    mpc_str_free(&name);
}

static void watch_results(mpc_rewrite *rw, const mpc_node *n, const bool *needed, bool given) {
    for (uint32_t i = 0; i < n->result_count && reads_a_float(rw->in, n); i++) {
        mpc_value_id v = mpc_result(n, i);
        if (needed[v] && !mpc_format_is_float(mpc_value_format(rw->in, v))) watch(rw, v, given);
    }
}

mpc_graph *mpc_pass_watch_choices(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    mpc_rewrite rw;
    (void)env;
    bool given = options != NULL && mpc_option_bool(options, "given");
    if (mpc_check_scalar_output(in, "watch-choices", "loss", MPC_FMT_f32, false) != MPC_OK) return NULL;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    bool *needed = mpc_rewrite_scratch(&rw, in->value_count, sizeof *needed);
    if (needed != NULL) {
        mark_needed(in, needed);
        for (mpc_node_id id = 0; id < in->node_count; id++) {
            mpc_rewrite_copy_node(&rw, id);
            if (given) watch_results(&rw, &in->nodes[id], needed, true); /* before anybody reads it */
        }
        mpc_build_copy_ends(rw.b, in, rw.map);
        for (mpc_node_id id = 0; id < in->node_count && !given; id++) watch_results(&rw, &in->nodes[id], needed, false);
    }
    return mpc_rewrite_finish(&rw);
}
