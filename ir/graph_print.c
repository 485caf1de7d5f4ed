/* The canonical text of a graph (docs/ir.md): one line per node, in order. It names everything by name, so the text
 * doesn't depend on value ids, and it leaves out what is absent; parsing it gives an equal graph. It also prints
 * ill-formed graphs without crashing, because that is when people look. */
#include "ir/attrs.h"
#include "ir/graph.h"
#include "ir/ir_lexer.h"

static void print_name(char sign, const char *name, mpc_str *out) {
    mpc_str_append_n(out, &sign, 1);
    if (mpc_ir_plain_name(name)) mpc_str_append(out, name);
    else mpc_ir_print_quoted(name, out);
}

static void print_value(const mpc_graph *g, mpc_value_id value, mpc_str *out) {
    if (value < g->value_count) print_name('%', mpc_value_name(g, value), out);
    else mpc_str_append(out, "%?");
}

static void print_values(const mpc_graph *g, const mpc_value_id *values, uint32_t count, mpc_str *out) {
    for (uint32_t i = 0; i < count; i++) {
        if (i) mpc_str_append(out, ", ");
        print_value(g, values[i], out);
    }
}

static void print_attr_value(const mpc_graph *g, const mpc_attr *attr, mpc_str *out) {
    switch (attr->kind) {
    case MPC_ATTR_INT:
        mpc_str_printf(out, "%lld", (long long)attr->i);
        break;
    case MPC_ATTR_FLOAT:
        mpc_str_append_double(out, attr->f);
        break;
    case MPC_ATTR_BOOL:
        mpc_str_append(out, attr->b ? "true" : "false");
        break;
    case MPC_ATTR_FORMAT:
        mpc_str_append(out, mpc_format_get(attr->format)->name);
        break;
    case MPC_ATTR_STR: {
        const char *text = mpc_sym_text(g->ctx, attr->s);
        if (mpc_ir_plain_word(text)) mpc_str_append(out, text);
        else mpc_ir_print_quoted(text, out);
        break;
    }
    case MPC_ATTR_INTS:
        mpc_str_append(out, "[");
        for (uint32_t i = 0; i < attr->ints.count; i++)
            mpc_str_printf(out, "%s%lld", i ? "," : "", (long long)attr->ints.data[i]);
        mpc_str_append(out, "]");
        break;
    }
}

static void print_attrs(const mpc_graph *g, uint32_t begin, uint32_t count, mpc_str *out) {
    if (!count) return;
    mpc_str_append(out, " {");
    for (uint32_t i = begin; i < begin + count && i < g->attr_total; i++) {
        mpc_str_printf(out, "%s%s=", i > begin ? " " : "", mpc_sym_text(g->ctx, g->attrs[i].key));
        print_attr_value(g, &g->attrs[i], out);
    }
    mpc_str_append(out, "}");
}

static void print_types(const mpc_graph *g, const mpc_node *node, mpc_str *out) {
    for (uint32_t i = 0; i < node->result_count; i++) {
        mpc_str_append(out, i ? ", " : " : ");
        if (mpc_result(node, i) < g->value_count) mpc_type_print(mpc_value_type(g, mpc_result(node, i)), out);
    }
}

static void print_decision(const mpc_decision *d, mpc_str *out) {
    const struct {
        const char *key;
        mpc_format format;
    } parts[] = {{"in", d->operand}, {"compute", d->compute}, {"acc", d->acc}, {"out", d->result}};
    const char *separator = "";
    mpc_str_append(out, " assign(");
    for (unsigned i = 0; i < 4; i++) {
        if (!parts[i].format) continue;
        mpc_str_printf(out, "%s%s=%s", separator, parts[i].key, mpc_format_get(parts[i].format)->name);
        separator = " ";
    }
    mpc_str_append(out, ")");
}

static void print_quoted_suffix(const mpc_graph *g, const char *word, mpc_sym text, mpc_str *out) {
    if (!text) return;
    mpc_str_printf(out, " %s(", word);
    mpc_ir_print_quoted(mpc_sym_text(g->ctx, text), out);
    mpc_str_append(out, ")");
}

static void print_suffixes(const mpc_graph *g, mpc_node_id id, unsigned flags, mpc_str *out) {
    const mpc_node *node = &g->nodes[id];
    if (g->decisions && g->decisions[id].present) print_decision(&g->decisions[id], out);
    if (g->groups && g->groups[id]) mpc_str_printf(out, " group(%u)", g->groups[id]);
    if ((flags & MPC_PRINT_LOC) && node->loc.file) {
        mpc_str_append(out, " loc(");
        mpc_ir_print_quoted(mpc_sym_text(g->ctx, node->loc.file), out);
        mpc_str_printf(out, ":%u:%u)", node->loc.line, node->loc.column);
    }
    if (flags & MPC_PRINT_ORIGIN) print_quoted_suffix(g, "origin", node->origin, out);
    if (flags & MPC_PRINT_WHY) print_quoted_suffix(g, "why", node->why, out);
}

static void print_node(const mpc_graph *g, mpc_node_id id, unsigned flags, mpc_str *out) {
    const mpc_node *node = &g->nodes[id];
    const mpc_op *op = mpc_op_get(g->ctx, node->op);
    mpc_str_append(out, "  ");
    for (uint32_t i = 0; i < node->result_count; i++) {
        if (i) mpc_str_append(out, ", ");
        print_value(g, mpc_result(node, i), out);
    }
    mpc_str_printf(out, " = %s(", op ? op->name : "?");
    if (node->operand_begin + node->operand_count <= g->operand_total)
        print_values(g, g->operands + node->operand_begin, node->operand_count, out);
    mpc_str_append(out, ")");
    print_attrs(g, node->attr_begin, node->attr_count, out);
    print_types(g, node, out);
    print_suffixes(g, id, flags, out);
    mpc_str_append(out, "\n");
}

static void print_header(const mpc_graph *g, mpc_str *out) {
    mpc_str_append(out, "mpir 1\ngraph ");
    print_name('@', mpc_sym_text(g->ctx, g->name), out);
    mpc_str_append(out, "(");
    for (uint32_t i = 0; i < g->input_count; i++) {
        const mpc_input *input = &g->inputs[i];
        if (i) mpc_str_append(out, ", ");
        print_value(g, input->value, out);
        mpc_str_append(out, ": ");
        if (input->value < g->value_count) mpc_type_print(mpc_value_type(g, input->value), out);
        print_attrs(g, input->attr_begin, input->attr_count, out);
    }
    mpc_str_append(out, ") {\n");
}

static void print_place(const mpc_graph *g, mpc_value_id value, mpc_str *out) {
    const mpc_place *place = &g->places[value];
    if (place->kind == MPC_PLACE_NONE) return;
    mpc_str_append(out, "  place ");
    print_value(g, value, out);
    if (place->kind == MPC_PLACE_IN_VALUE) {
        mpc_str_append(out, " in ");
        print_value(g, place->value, out);
    } else {
        mpc_str_printf(out, " at %llu size %llu", (unsigned long long)place->offset, (unsigned long long)place->bytes);
    }
    mpc_str_append(out, "\n");
}

/* Inputs first, then results in order: the same for equal graphs, whatever their value ids. */
static void print_places(const mpc_graph *g, mpc_str *out) {
    for (uint32_t i = 0; i < g->input_count; i++)
        if (g->inputs[i].value < g->value_count) print_place(g, g->inputs[i].value, out);
    for (uint32_t i = 0; i < g->node_count; i++)
        for (uint32_t j = 0; j < g->nodes[i].result_count; j++)
            if (mpc_result(&g->nodes[i], j) < g->value_count) print_place(g, mpc_result(&g->nodes[i], j), out);
}

static void print_outputs(const mpc_graph *g, mpc_str *out) {
    mpc_str_append(out, "  return(");
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (i) mpc_str_append(out, ", ");
        mpc_ir_print_quoted(mpc_sym_text(g->ctx, g->outputs[i].name), out);
        mpc_str_append(out, ": ");
        print_value(g, g->outputs[i].value, out);
    }
    mpc_str_append(out, ")\n}\n");
}

void mpc_graph_print(const mpc_graph *g, unsigned flags, mpc_str *out) {
    print_header(g, out);
    for (uint32_t i = 0; i < g->node_count; i++) print_node(g, i, flags, out);
    for (uint32_t i = 0; i < g->next_count; i++) {
        mpc_str_append(out, "  next ");
        print_value(g, g->nexts[i].state, out);
        mpc_str_append(out, ", ");
        print_value(g, g->nexts[i].value, out);
        mpc_str_append(out, "\n");
    }
    if (g->places) print_places(g, out);
    if (g->arena_bytes) mpc_str_printf(out, "  arena %llu\n", (unsigned long long)g->arena_bytes);
    print_outputs(g, out);
}
