/* Copying from another graph of the same context. A copied node keeps its types, names, location, origin and reason;
 * nothing is inferred again, because formats may have been chosen by a pass. Side tables (groups, places) aren't
 * copied: they are about one order. */
#include "ir/builder_internal.h"

static bool copy_names(mpc_builder *b, const mpc_graph *from, const mpc_node *node, mpc_sym *names,
                       mpc_type_id *types) {
    for (uint32_t i = 0; i < node->result_count; i++) {
        const mpc_value *value = &from->values[mpc_result(node, i)];
        names[i] = mpc_builder_unique_sym(b, value->name);
        types[i] = value->type;
    }
    return !b->failed;
}

mpc_value_id mpc_build_copy(mpc_builder *b, const mpc_graph *from, mpc_node_id id, const mpc_value_id *operands) {
    if (mpc_builder_failed(b)) return MPC_NONE;
    const mpc_node *node = &from->nodes[id];
    for (uint32_t i = 0; i < node->operand_count; i++) {
        if (operands[i] < b->graph->value_count) continue;
        mpc_builder_fail(b, "copy of %s: operand %u is no value of the new graph",
                         mpc_sym_text(b->ctx, from->values[node->result_begin].name), i);
        return MPC_NONE;
    }
    mpc_sym names[MPC_MAX_RESULTS];
    mpc_type_id types[MPC_MAX_RESULTS];
    mpc_node copy = *node;
    copy.operand_begin = b->graph->operand_total;
    b->pending_name = 0;
    if (node->result_count > MPC_MAX_RESULTS || !copy_names(b, from, node, names, types)) return MPC_NONE;
    if (!mpc_builder_add_operands(b, operands, node->operand_count)) return MPC_NONE;
    if (!mpc_builder_add_attrs(b, from->attrs + node->attr_begin, node->attr_count, &copy.attr_begin)) return MPC_NONE;
    return mpc_builder_add_node(b, &copy, types, names, node->result_count);
}

void mpc_build_copy_inputs(mpc_builder *b, const mpc_graph *from, mpc_value_id *map) {
    for (uint32_t i = 0; i < from->input_count && !mpc_builder_failed(b); i++) {
        const mpc_input *input = &from->inputs[i];
        const mpc_value *value = &from->values[input->value];
        mpc_sym name = mpc_builder_unique_sym(b, value->name);
        map[input->value] =
            mpc_builder_add_input(b, name, value->type, from->attrs + input->attr_begin, input->attr_count);
    }
}

/* A state that wasn't copied takes its next with it. */
void mpc_build_copy_ends(mpc_builder *b, const mpc_graph *from, const mpc_value_id *map) {
    for (uint32_t i = 0; i < from->next_count && !mpc_builder_failed(b); i++)
        if (map[from->nexts[i].state] != MPC_NONE)
            mpc_build_next(b, map[from->nexts[i].state], map[from->nexts[i].value]);
    for (uint32_t i = 0; i < from->output_count && !mpc_builder_failed(b); i++)
        mpc_build_output(b, mpc_sym_text(b->ctx, from->outputs[i].name), map[from->outputs[i].value]);
}

static void copy_node(mpc_builder *b, const mpc_graph *from, mpc_node_id id, mpc_value_id *map,
                      mpc_value_id *operands) {
    const mpc_node *node = &from->nodes[id];
    for (uint32_t i = 0; i < node->operand_count; i++) operands[i] = map[mpc_operand(from, node, i)];
    mpc_value_id first = mpc_build_copy(b, from, id, operands);
    for (uint32_t i = 0; first != MPC_NONE && i < node->result_count; i++) map[mpc_result(node, i)] = first + i;
    if (first != MPC_NONE && from->decisions && from->decisions[id].present)
        mpc_build_decision(b, first, &from->decisions[id]);
}

/* Decisions come along: they are about nodes, and all nodes do. */
void mpc_build_copy_all(mpc_builder *b, const mpc_graph *from, mpc_value_id *map) {
    if (mpc_builder_failed(b)) return;
    uint32_t most = 0;
    for (uint32_t i = 0; i < from->node_count; i++)
        if (from->nodes[i].operand_count > most) most = from->nodes[i].operand_count;
    mpc_value_id *operands = mpc_arena_alloc(b->graph->arena, (most + 1) * sizeof *operands);
    if (!operands) {
        mpc_builder_no_memory(b);
        return;
    }
    mpc_build_copy_inputs(b, from, map);
    for (uint32_t i = 0; i < from->node_count && !b->failed; i++) copy_node(b, from, i, map, operands);
    mpc_build_copy_ends(b, from, map);
}
