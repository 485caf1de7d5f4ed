/* Casts that change no bit: to the format a value has, and a widening followed by a cast of what it widened. A
 * narrowing followed by a widening rounds, so it stays; so does every cast that the user wrote, even one that changes
 * nothing (N99, FC-092). */
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

static bool is_inserted(const mpc_graph *g, const mpc_node *n) {
    return n != NULL && n->op == MPC_OP_cast && strcmp(mpc_attr_str(g, n, "by"), "user") != 0;
}

/* Every value of `from` is one of `to`. */
static bool widens(mpc_format from, mpc_format to) {
    return mpc_format_is_float(from) && mpc_format_is_float(to) && mpc_format_join(from, to) == to;
}

/* Where the bits of an inserted cast really come from. `v`: its operand in the new graph. */
static mpc_value_id source_of(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (is_inserted(g, n) && widens(mpc_value_format(g, mpc_operand(g, n, 0)), mpc_value_format(g, v))) {
        v = mpc_operand(g, n, 0);
        n = mpc_producer(g, v);
    }
    return v;
}

static void fold_cast(mpc_rewrite *rw, mpc_node_id id) {
    const mpc_node *n = &rw->in->nodes[id];
    mpc_format to = mpc_attr_format(rw->in, n, "to");
    mpc_value_id v = rw->map[mpc_operand(rw->in, n, 0)];
    if (mpc_builder_failed(rw->b)) return;
    mpc_value_id source = source_of(mpc_builder_graph(rw->b), v);
    if (mpc_builder_type(rw->b, source)->format == to) rw->map[mpc_result(n, 0)] = source;
    else mpc_rewrite_map_results(rw, n, mpc_build_copy(rw->b, rw->in, id, &source));
}

mpc_graph *mpc_pass_fold_casts(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    mpc_rewrite rw;
    (void)options;
    (void)env;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    for (mpc_node_id id = 0; id < in->node_count; id++) {
        if (is_inserted(in, &in->nodes[id])) fold_cast(&rw, id);
        else mpc_rewrite_copy_node(&rw, id);
    }
    mpc_build_copy_ends(rw.b, in, rw.map);
    return mpc_rewrite_finish(&rw);
}
