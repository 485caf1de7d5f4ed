/* The frame that copying passes share. Old ids index `map`, new ids come from the builder: the two never mix, and a
 * value of the old graph that a pass wants to use in the new one goes through the map. */
#include "passes/rewrite.h"

#include <string.h>

static uint32_t most_operands(const mpc_graph *g) {
    uint32_t most = 0;
    for (mpc_node_id i = 0; i < g->node_count; i++)
        if (g->nodes[i].operand_count > most) most = g->nodes[i].operand_count;
    return most;
}

bool mpc_rewrite_begin(mpc_rewrite *rw, const mpc_graph *in) {
    *rw = (mpc_rewrite){
        .in = in, .b = mpc_builder_create(in->ctx, mpc_sym_text(in->ctx, in->name)), .scratch = mpc_arena_create()};
    if (rw->scratch != NULL) {
        rw->map = mpc_arena_alloc(rw->scratch, (in->value_count + 1) * sizeof *rw->map);
        rw->operands = mpc_arena_alloc(rw->scratch, (most_operands(in) + 1) * sizeof *rw->operands);
    }
    if (rw->b == NULL || rw->map == NULL || rw->operands == NULL) {
        mpc_builder_destroy(rw->b);
        mpc_arena_destroy(rw->scratch);
        mpc_error(mpc_context_sink(in->ctx), "E901", "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < in->value_count; i++) rw->map[i] = MPC_NONE;
    mpc_builder_reserve(rw->b, in);
    mpc_build_copy_inputs(rw->b, in, rw->map);
    return true;
}

const mpc_value_id *mpc_rewrite_operands(mpc_rewrite *rw, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++) rw->operands[i] = rw->map[mpc_operand(rw->in, n, i)];
    return rw->operands;
}

void mpc_rewrite_map_results(mpc_rewrite *rw, const mpc_node *n, mpc_value_id first) {
    for (uint32_t i = 0; i < n->result_count; i++) rw->map[mpc_result(n, i)] = first == MPC_NONE ? MPC_NONE : first + i;
}

void mpc_rewrite_copy_node(mpc_rewrite *rw, mpc_node_id id) {
    const mpc_node *n = &rw->in->nodes[id];
    mpc_rewrite_map_results(rw, n, mpc_build_copy(rw->b, rw->in, id, mpc_rewrite_operands(rw, n)));
}

void mpc_rewrite_dress(mpc_rewrite *rw, const mpc_node *n) {
    mpc_builder_set_loc(rw->b, n->loc);
    mpc_builder_set_origin(rw->b, n->origin);
    mpc_builder_set_why(rw->b, n->why);
    if (n->result_count > 0) mpc_builder_set_name_of(rw->b, rw->in, mpc_result(n, 0));
}

mpc_graph *mpc_rewrite_finish(mpc_rewrite *rw) {
    bool bound = mpc_builder_graph(rw->b)->next_count + mpc_builder_graph(rw->b)->output_count > 0;
    if (!bound) mpc_build_copy_ends(rw->b, rw->in, rw->map);
    mpc_graph *g = mpc_builder_finish(rw->b);
    mpc_arena_destroy(rw->scratch);
    *rw = (mpc_rewrite){0};
    return g;
}

void *mpc_rewrite_scratch(mpc_rewrite *rw, size_t count, size_t size) {
    void *p = count > SIZE_MAX / size - 1 ? NULL : mpc_arena_alloc(rw->scratch, (count + 1) * size);
    if (p == NULL) mpc_builder_fail(rw->b, "out of memory");
    return p;
}

void mpc_rewrite_attrs(const mpc_graph *g, const mpc_node *n, mpc_attr_arg *args) {
    for (uint32_t i = 0; i < n->attr_count; i++) {
        const mpc_attr *a = &g->attrs[n->attr_begin + i];
        mpc_attr_arg *out = &args[i];
        *out = (mpc_attr_arg){.key = mpc_sym_text(g->ctx, a->key), .kind = a->kind};
        if (a->kind == MPC_ATTR_FLOAT) out->f = a->f;
        else if (a->kind == MPC_ATTR_BOOL) out->i = a->b;
        else if (a->kind == MPC_ATTR_STR) out->s = mpc_sym_text(g->ctx, a->s);
        else if (a->kind == MPC_ATTR_FORMAT) out->format = a->format;
        else if (a->kind == MPC_ATTR_INT) out->i = a->i;
        else {
            out->ints = a->ints.data;
            out->count = a->ints.count;
        }
    }
}

mpc_type_id mpc_scalar_type(mpc_context *ctx, mpc_format format) { return mpc_type_make(ctx, format, 0, NULL); }

mpc_status mpc_check_scalar_output(const mpc_graph *g, const char *pass, const char *name, mpc_format format,
                                   bool optional) {
    mpc_value_id v = mpc_graph_find_output(g, name);
    const mpc_sink *sink = mpc_context_sink(g->ctx);
    if (v == MPC_NONE && optional) return MPC_OK;
    if (v == MPC_NONE) return mpc_error(sink, "E108", "%s: the graph has no output `%s`", pass, name);
    if (mpc_value_format(g, v) == format && mpc_value_type(g, v)->rank == 0) return MPC_OK;
    return mpc_error(sink, "E108", "%s: the output `%s` must be a scalar of format %s", pass, name,
                     mpc_format_get(format)->name);
}

mpc_value_id mpc_rewrite_state(mpc_rewrite *rw, const char *name, mpc_type_id type, const char *skip, const char *role,
                               double init) {
    mpc_attr_arg attrs[5] = {MPC_A_STR("name", name), MPC_A_STR("skip", skip), MPC_A_STR("role", role)};
    uint32_t count = 3;
    if (init != 0) {
        attrs[count++] = MPC_A_STR("init", "constant");
        attrs[count++] = MPC_A_FLOAT("a", init);
    }
    mpc_builder_set_name(rw->b, name);
    return mpc_build_state(rw->b, name, type, attrs, count);
}
