/* mpc dump-ir: the training graph after a stage, as text, for Graphviz, or as JSON. Works without the data; then column
 * counts aren't checked and a schedule has no length. JSON keeps apart what is decided: the four formats of a node, and
 * the format that each value is stored in, which is the node's only where the value's type isn't fixed. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "driver/session.h"
#include "passes/precision/precision.h"
#include "passes/scale_units.h"

/* What is known about values beside their types. In `arena`. */
typedef struct facts {
    mpc_arena *arena;
    mpc_scale_unit *units; /* NULL: not asked for, or there is no loss scale */
    bool *fixed;           /* by value: stored as typed whatever was decided; NULL: there are no decisions */
} facts;

static void print_dot(const mpc_graph *g) {
    printf("digraph \"%s\" {\n  node [shape=box fontname=monospace fontsize=10];\n", mpc_sym_text(g->ctx, g->name));
    for (uint32_t i = 0; i < g->input_count; i++)
        printf("  v%u [label=\"%s\" shape=ellipse];\n", g->inputs[i].value, mpc_value_name(g, g->inputs[i].value));
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        mpc_str type = {0};
        mpc_type_print(mpc_value_type(g, n->result_begin), &type);
        printf("  v%u [label=\"%s\\n%s\\n%s\"%s];\n", n->result_begin, mpc_value_name(g, n->result_begin),
               mpc_node_op(g, i)->name, mpc_str_cstr(&type), n->op == MPC_OP_state ? " style=filled" : "");
        mpc_str_free(&type);
        for (uint32_t k = 0; k < n->operand_count; k++) {
            mpc_value_id from = mpc_operand(g, n, k);
            const mpc_node *producer = mpc_producer(g, from);
            printf("  v%u -> v%u;\n", producer ? producer->result_begin : from, n->result_begin);
        }
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        const mpc_node *producer = mpc_producer(g, g->outputs[i].value);
        printf("  o%u [label=\"%s\" shape=ellipse]; v%u -> o%u;\n", i, mpc_sym_text(g->ctx, g->outputs[i].name),
               producer ? producer->result_begin : g->outputs[i].value, i);
    }
    printf("}\n");
}

static json_t *type_json(const mpc_graph *g, mpc_value_id value) {
    mpc_str text = {0};
    mpc_type_print(mpc_value_type(g, value), &text);
    json_t *json = json_string(mpc_str_cstr(&text));
    mpc_str_free(&text);
    return json;
}

static const char *format_name(mpc_format format) {
    return format == MPC_FMT_none ? "-" : mpc_format_get(format)->name;
}

static mpc_format stored_format(const mpc_graph *g, mpc_node_id id, mpc_value_id value, const facts *f) {
    bool decided = f->fixed && g->decisions[id].present && g->decisions[id].result && !f->fixed[value];
    return decided ? g->decisions[id].result : mpc_value_format(g, value);
}

static json_t *result_json(const mpc_graph *g, mpc_node_id id, mpc_value_id value, const facts *f) {
    json_t *json = json_pack("{s:s, s:o}", "name", mpc_value_name(g, value), "type", type_json(g, value));
    json_object_set_new(json, "stored", json_string(format_name(stored_format(g, id, value, f))));
    mpc_str unit = {0};
    if (f->units) mpc_scale_unit_print(&f->units[value], &unit);
    if (f->units) json_object_set_new(json, "unit", json_string(mpc_str_cstr(&unit)));
    mpc_str_free(&unit);
    return json;
}

static json_t *decision_json(const mpc_decision *d) {
    return json_pack("{s:s, s:s, s:s, s:s}", "reads", format_name(d->operand), "computes", format_name(d->compute),
                     "accumulates", format_name(d->acc), "stores", format_name(d->result));
}

static json_t *node_json(const mpc_graph *g, mpc_node_id id, const facts *f) {
    const mpc_node *n = &g->nodes[id];
    json_t *operands = json_array(), *results = json_array();
    for (uint32_t k = 0; k < n->operand_count; k++)
        json_array_append_new(operands, json_string(mpc_value_name(g, mpc_operand(g, n, k))));
    for (uint32_t k = 0; k < n->result_count; k++)
        json_array_append_new(results, result_json(g, id, mpc_result(n, k), f));
    json_t *node =
        json_pack("{s:s, s:o, s:o}", "op", mpc_node_op(g, id)->name, "operands", operands, "results", results);
    if (f->fixed && g->decisions[id].present) json_object_set_new(node, "decision", decision_json(&g->decisions[id]));
    if (n->why) json_object_set_new(node, "why", json_string(mpc_sym_text(g->ctx, n->why)));
    if (n->loc.file)
        json_object_set_new(node, "loc",
                            json_pack("{s:s, s:i, s:i}", "file", mpc_sym_text(g->ctx, n->loc.file), "line",
                                      (int)n->loc.line, "column", (int)n->loc.column));
    return node;
}

static void print_json(const mpc_graph *g, const facts *f) {
    json_t *inputs = json_array(), *nodes = json_array(), *nexts = json_array(), *outputs = json_object();
    for (uint32_t i = 0; i < g->input_count; i++)
        json_array_append_new(inputs, json_pack("{s:s, s:o}", "name", mpc_value_name(g, g->inputs[i].value), "type",
                                                type_json(g, g->inputs[i].value)));
    for (mpc_node_id i = 0; i < g->node_count; i++) json_array_append_new(nodes, node_json(g, i, f));
    for (uint32_t i = 0; i < g->next_count; i++)
        json_array_append_new(nexts, json_pack("{s:s, s:s}", "state", mpc_value_name(g, g->nexts[i].state), "value",
                                               mpc_value_name(g, g->nexts[i].value)));
    for (uint32_t i = 0; i < g->output_count; i++)
        json_object_set_new(outputs, mpc_sym_text(g->ctx, g->outputs[i].name),
                            json_string(mpc_value_name(g, g->outputs[i].value)));
    json_t *graph = json_pack("{s:s, s:o, s:o, s:o, s:o}", "graph", mpc_sym_text(g->ctx, g->name), "inputs", inputs,
                              "nodes", nodes, "next", nexts, "outputs", outputs);
    if (graph) json_dumpf(graph, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(graph);
}

static void print_text(const mpc_graph *g, bool reasons) {
    mpc_str text = {0};
    mpc_graph_print(g, reasons ? MPC_PRINT_LOC | MPC_PRINT_WHY : 0, &text);
    fputs(mpc_str_cstr(&text), stdout);
    mpc_str_free(&text);
}

/* A comment per value, so that the whole is still a graph. */
static void print_units(const mpc_graph *g, const mpc_scale_unit *units) {
    mpc_str text = {0};
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        if (!mpc_format_is_float(mpc_value_format(g, v))) continue;
        mpc_str_printf(&text, "# unit of %s: ", mpc_value_name(g, v));
        mpc_scale_unit_print(&units[v], &text);
        mpc_str_append(&text, "\n");
    }
    fputs(mpc_str_cstr(&text), stdout);
    mpc_str_free(&text);
}

/* Likewise the floats that aren't stored as their node says. */
static void print_storage(const mpc_graph *g, const facts *f) {
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_decision *d = &g->decisions[i];
        for (uint32_t k = 0; d->present && d->result && k < g->nodes[i].result_count; k++) {
            mpc_value_id v = mpc_result(&g->nodes[i], k);
            mpc_format stored = stored_format(g, i, v, f);
            if (mpc_format_is_float(stored) && stored != d->result)
                printf("# %s is stored in %s, not %s\n", mpc_value_name(g, v), format_name(stored),
                       format_name(d->result));
        }
    }
}

static bool find_facts(const mpc_session *s, const mpc_graph *g, facts *f) {
    *f = (facts){.arena = mpc_arena_create()};
    if (!f->arena) return mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory"), false;
    if (s->cli->options->units && mpc_scale_units(g, f->arena, &f->units) != MPC_OK) return false;
    if (g->decisions) f->fixed = mpc_fixed_formats(g, f->arena).result;
    return true;
}

static bool dump(mpc_session *s, mpc_stage stage, const char *format) {
    if (!mpc_session_try_facts(s)) return false;
    mpc_graph *g = mpc_session_graph(s, MPC_PHASE_TRAIN, s->train->batch, stage);
    if (!g) return false;
    facts f;
    bool ok = find_facts(s, g, &f);
    if (ok && strcmp(format, "dot") == 0) print_dot(g);
    else if (ok && strcmp(format, "json") == 0) print_json(g, &f);
    else if (ok) print_text(g, s->cli->options->reasons);
    if (ok && f.fixed && strcmp(format, "text") == 0) print_storage(g, &f);
    if (ok && f.units && strcmp(format, "text") == 0) print_units(g, f.units);
    mpc_arena_destroy(f.arena);
    mpc_graph_destroy(g);
    return ok;
}

int mpc_cmd_dump_ir(mpc_cli *cli) {
    const char *name = cli->options->stage ? cli->options->stage : "autocast";
    const char *format = cli->options->format ? cli->options->format : cli->options->json ? "json" : "text";
    mpc_stage stage;
    if (!mpc_stage_find(name, &stage)) {
        fprintf(stderr,
                "mpc dump-ir: the stages are parsed, grad, decided, autocast, lowered, fused, final; not `%s`\n", name);
        return MPC_EXIT_USAGE;
    }
    if (strcmp(format, "text") != 0 && strcmp(format, "dot") != 0 && strcmp(format, "json") != 0) {
        fprintf(stderr, "mpc dump-ir: the formats are text, dot, json; not `%s`\n", format);
        return MPC_EXIT_USAGE;
    }
    mpc_session session;
    bool ok = mpc_session_open(&session, cli) && dump(&session, stage, format);
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
