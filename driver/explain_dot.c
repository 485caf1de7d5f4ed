/* mpc explain --dot: the graph after autocast, casts and masters as a Graphviz picture. Ops are boxes filled by the
 * format they store, casts are red diamonds, edges are values with their format and bytes, blocks of the model are
 * clusters. The text is the same for the same graph: nodes come by path, then in the graph's order. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/explain_value.h"

typedef struct item {
    mpc_node_id id;
    const char *name; /* of the first result */
    size_t path;      /* length of its path: "layer.0" of "layer.0.fc1" */
} item;

static const struct {
    mpc_format format;
    const char *fill, *line;
} COLORS[] = {{MPC_FMT_f64, "#d9d2e9", "#674ea7"},    {MPC_FMT_f32, "#cfe2f3", "#1c4587"},
              {MPC_FMT_bf16, "#fce5cd", "#b45f06"},   {MPC_FMT_f16, "#d9ead3", "#38761d"},
              {MPC_FMT_f8e4m3, "#fff2cc", "#7f6000"}, {MPC_FMT_f8e5m2, "#fff2cc", "#7f6000"}};
enum { COLOR_COUNT = sizeof COLORS / sizeof *COLORS };

static const char *fill_of(mpc_format format) {
    for (size_t i = 0; i < COLOR_COUNT; i++)
        if (COLORS[i].format == format) return COLORS[i].fill;
    return "#eeeeee";
}

static const char *line_of(mpc_format format) {
    for (size_t i = 0; i < COLOR_COUNT; i++)
        if (COLORS[i].format == format) return COLORS[i].line;
    return "#888888";
}

/* Text inside quotes; line ends of a label are written by the caller. */
static void append_quoted(const char *text, size_t length, mpc_str *out) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\') mpc_str_append(out, "\\");
        if ((unsigned char)text[i] >= ' ') mpc_str_append_n(out, text + i, 1);
    }
}

static void append_text(const char *text, mpc_str *out) { append_quoted(text, strlen(text), out); }

/* ---- nodes ---- */

static void indent(size_t depth, mpc_str *out) {
    for (size_t i = 0; i <= depth; i++) mpc_str_append(out, "  ");
}

static void append_node(const mpc_graph *g, const item *it, size_t depth, mpc_str *out) {
    const mpc_node *n = &g->nodes[it->id];
    mpc_format format = mpc_value_format(g, n->result_begin);
    mpc_str type = {0};
    mpc_type_print(mpc_value_type(g, n->result_begin), &type);
    indent(depth, out);
    mpc_str_printf(out, "n%u [label=\"", it->id);
    append_text(it->name, out);
    mpc_str_append(out, "\\n");
    append_text(mpc_node_op(g, it->id)->name, out);
    mpc_str_append(out, "\\n");
    append_text(mpc_str_cstr(&type), out);
    mpc_str_printf(out, "\" fillcolor=\"%s\" color=\"%s\"", fill_of(format),
                   n->op == MPC_OP_cast ? "#cc0000" : line_of(format));
    if (n->op == MPC_OP_cast) mpc_str_append(out, " shape=diamond fontcolor=\"#cc0000\" penwidth=3");
    else if (n->op == MPC_OP_state) mpc_str_append(out, " shape=cylinder");
    if (n->why) {
        mpc_str_append(out, " tooltip=\"");
        append_text(mpc_sym_text(g->ctx, n->why), out);
        mpc_str_append(out, "\"");
    }
    mpc_str_append(out, "];\n");
    mpc_str_free(&type);
}

/* '.' before every other letter, so that what a cluster holds lies together. */
static int compare_paths(const item *a, const item *b) {
    for (size_t i = 0;; i++) {
        int x = i < a->path ? (a->name[i] == '.' ? 1 : (unsigned char)a->name[i] + 1) : 0;
        int y = i < b->path ? (b->name[i] == '.' ? 1 : (unsigned char)b->name[i] + 1) : 0;
        if (x != y) return x - y;
        if (x == 0) return 0;
    }
}

static int compare_items(const void *left, const void *right) {
    const item *a = left, *b = right;
    int paths = compare_paths(a, b);
    return paths ? paths : (a->id > b->id) - (a->id < b->id);
}

static size_t depth_of(const item *it) {
    size_t depth = it->path > 0;
    for (size_t i = 0; i < it->path; i++) depth += it->name[i] == '.';
    return depth;
}

/* Length of the first `depth` parts of a path. */
static size_t prefix_length(const item *it, size_t depth) {
    size_t i = 0;
    while (i < it->path && (it->name[i] != '.' || --depth > 0)) i++;
    return i;
}

static size_t common_depth(const item *a, const item *b) {
    size_t depth = 0, most = depth_of(a) < depth_of(b) ? depth_of(a) : depth_of(b);
    while (depth < most) {
        size_t x = prefix_length(a, depth + 1), y = prefix_length(b, depth + 1);
        if (x != y || memcmp(a->name, b->name, x) != 0) break;
        depth++;
    }
    return depth;
}

static void append_clusters(const mpc_graph *g, const item *items, size_t count, mpc_str *out) {
    static const item top;
    const item *last = &top;
    uint32_t clusters = 0;
    for (size_t i = 0; i < count; i++) {
        size_t common = common_depth(last, &items[i]), depth = depth_of(&items[i]);
        for (size_t d = depth_of(last); d > common; d--) {
            indent(d - 1, out);
            mpc_str_append(out, "}\n");
        }
        for (size_t d = common; d < depth; d++) {
            indent(d, out);
            mpc_str_printf(out, "subgraph cluster_%u { label=\"", clusters++);
            append_quoted(items[i].name, prefix_length(&items[i], d + 1), out);
            mpc_str_append(out, "\";\n");
        }
        append_node(g, &items[i], depth, out);
        last = &items[i];
    }
    for (size_t d = depth_of(last); d > 0; d--) {
        indent(d - 1, out);
        mpc_str_append(out, "}\n");
    }
}

static bool append_nodes(const mpc_graph *g, mpc_str *out) {
    item *items = mpc_alloc(((size_t)g->node_count + 1) * sizeof *items);
    if (!items) return false;
    size_t count = 0;
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        if (!g->nodes[i].result_count) continue;
        const char *name = mpc_value_name(g, g->nodes[i].result_begin), *dot = strrchr(name, '.');
        items[count++] = (item){.id = i, .name = name, .path = dot ? (size_t)(dot - name) : 0};
    }
    qsort(items, count, sizeof *items, compare_items);
    append_clusters(g, items, count, out);
    mpc_free(items);
    return true;
}

/* ---- edges ---- */

static void append_edge(const mpc_graph *g, mpc_value_id v, const char *to, uint32_t to_id, const char *style,
                        mpc_str *out) {
    const mpc_type *type = mpc_value_type(g, v);
    const mpc_value *value = &g->values[v];
    bool is_input = value->producer == MPC_NONE;
    mpc_str_printf(out, "  %s%u -> %s%u [label=\"", is_input ? "i" : "n", is_input ? value->index : value->producer, to,
                   to_id);
    if (!is_input && g->nodes[value->producer].result_count > 1) {
        append_text(mpc_value_name(g, v), out);
        mpc_str_append(out, " ");
    }
    mpc_str_printf(out, "%s %llu B\" color=\"%s\" fontcolor=\"%s\"%s];\n", mpc_format_get(type->format)->name,
                   (unsigned long long)mpc_type_bytes(type), line_of(type->format), line_of(type->format), style);
}

static void append_edges(const mpc_graph *g, mpc_str *out) {
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->operand_count && n->result_count; k++)
            append_edge(g, mpc_operand(g, n, k), "n", i, "", out);
    }
    for (uint32_t i = 0; i < g->next_count; i++)
        append_edge(g, g->nexts[i].value, "n", g->values[g->nexts[i].state].producer, " style=dashed constraint=false",
                    out);
    for (uint32_t i = 0; i < g->output_count; i++) append_edge(g, g->outputs[i].value, "o", i, "", out);
}

/* ---- the picture ---- */

static void append_ends(const mpc_graph *g, mpc_str *out) {
    for (uint32_t i = 0; i < g->input_count; i++) {
        mpc_format format = mpc_value_format(g, g->inputs[i].value);
        mpc_str_printf(out, "  i%u [label=\"", i);
        append_text(mpc_value_name(g, g->inputs[i].value), out);
        mpc_str_printf(out, "\\ninput\" shape=ellipse fillcolor=\"%s\" color=\"%s\"];\n", fill_of(format),
                       line_of(format));
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        mpc_str_printf(out, "  o%u [label=\"", i);
        append_text(mpc_sym_text(g->ctx, g->outputs[i].name), out);
        mpc_str_append(out, "\\noutput\" shape=ellipse fillcolor=white];\n");
    }
}

static void append_legend(const mpc_graph *g, mpc_str *out) {
    bool seen[COLOR_COUNT] = {false};
    for (mpc_value_id v = 0; v < g->value_count; v++)
        for (size_t i = 0; i < COLOR_COUNT; i++) seen[i] = seen[i] || COLORS[i].format == mpc_value_format(g, v);
    mpc_str_append(out, "  subgraph cluster_legend { label=\"stored in\"; style=dashed;\n");
    for (size_t i = 0; i < COLOR_COUNT; i++)
        if (seen[i])
            mpc_str_printf(out, "    legend_%s [label=\"%s\" fillcolor=\"%s\" color=\"%s\"];\n",
                           mpc_format_get(COLORS[i].format)->name, mpc_format_get(COLORS[i].format)->name,
                           COLORS[i].fill, COLORS[i].line);
    mpc_str_append(out, "    legend_cast [label=\"cast\" shape=diamond fillcolor=white color=\"#cc0000\" "
                        "fontcolor=\"#cc0000\" penwidth=3];\n  }\n");
}

bool mpc_explain_dot(const mpc_graph *g, mpc_str *out) {
    mpc_str_append(out, "digraph \"");
    append_text(mpc_sym_text(g->ctx, g->name), out);
    mpc_str_append(out, "\" {\n  graph [fontname=\"monospace\" fontsize=10];\n"
                        "  node [shape=box style=filled fontname=\"monospace\" fontsize=10];\n"
                        "  edge [fontname=\"monospace\" fontsize=8];\n");
    append_legend(g, out);
    append_ends(g, out);
    bool ok = append_nodes(g, out);
    append_edges(g, out);
    mpc_str_append(out, "}\n");
    return ok && !out->failed;
}
