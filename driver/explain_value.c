/* One value of the training graph after autocast: formats, reason, source line, readers, and the words that change its
 * format. Gradients follow the forward value they come from, so the advice for one names that value. */
#include "driver/explain_value.h"

#include <jansson.h>
#include <string.h>

static const char *format_name(mpc_format format) {
    return format == MPC_FMT_none ? "-" : mpc_format_get(format)->name;
}

mpc_format mpc_stored_format(const mpc_graph *g, mpc_node_id id) {
    mpc_decision d = g->decisions ? g->decisions[id] : (mpc_decision){0};
    return d.present && d.result != MPC_FMT_none ? d.result : mpc_value_format(g, g->nodes[id].result_begin);
}

/* ---- the parts ---- */

/* As the user wrote it: what was tried with a file of the same name came later. */
static const char *text_of_node(const mpc_session *s, const mpc_graph *g, const mpc_node *n, size_t *length) {
    const char *name = mpc_sym_text(g->ctx, n->loc.file);
    *length = s->text_length;
    if (n->loc.file && strcmp(name, s->cli->options->file) == 0) return s->text;
    uint32_t file = n->loc.file ? mpc_sources_find(s->sources, name) : 0;
    return file ? mpc_sources_text(s->sources, file, length) : NULL;
}

void mpc_explain_source_line(const mpc_session *s, const mpc_graph *g, const mpc_node *n, mpc_str *out) {
    size_t length;
    const char *at = text_of_node(s, g, n, &length);
    if (!at) return;
    const char *end = at + length;
    for (uint32_t line = 1; at < end && line < n->loc.line; at++) line += *at == '\n';
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    const char *stop = at;
    while (stop < end && *stop != '\n' && *stop != '\r') stop++;
    mpc_str_append_n(out, at, (size_t)(stop - at));
}

static bool reads(const mpc_graph *g, const mpc_node *n, mpc_value_id first, uint32_t count) {
    for (uint32_t k = 0; k < n->operand_count; k++)
        if (mpc_operand(g, n, k) >= first && mpc_operand(g, n, k) < first + count) return true;
    return false;
}

/* "name (op, reads it in bf16)" of every node that reads a result of `of`, then outputs and states. */
static json_t *list_readers(const mpc_graph *g, const mpc_node *of) {
    json_t *readers = json_array();
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (!reads(g, n, of->result_begin, of->result_count)) continue;
        mpc_decision d = g->decisions ? g->decisions[i] : (mpc_decision){0};
        mpc_str text = {0};
        mpc_str_printf(&text, "%s (%s", mpc_value_name(g, n->result_begin), mpc_node_op(g, i)->name);
        if (d.present && d.operand != MPC_FMT_none) mpc_str_printf(&text, ", reads it in %s", format_name(d.operand));
        mpc_str_append(&text, ")");
        json_array_append_new(readers, json_string(mpc_str_cstr(&text)));
        mpc_str_free(&text);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i].value - of->result_begin < of->result_count)
            json_array_append_new(readers, json_sprintf("output %s", mpc_sym_text(g->ctx, g->outputs[i].name)));
    for (uint32_t i = 0; i < g->next_count; i++)
        if (g->nexts[i].value - of->result_begin < of->result_count)
            json_array_append_new(readers, json_sprintf("next value of %s", mpc_value_name(g, g->nexts[i].state)));
    return readers;
}

static bool is_float(mpc_format format) { return mpc_format_get(format)->kind == MPC_FORMAT_FLOAT; }

mpc_format mpc_explain_decided(const mpc_graph *g, mpc_node_id id) {
    mpc_decision d = g->decisions ? g->decisions[id] : (mpc_decision){0};
    bool by_operand = mpc_node_op(g, id)->cls == MPC_CLASS_LOW && d.operand != MPC_FMT_none;
    return by_operand ? d.operand : mpc_stored_format(g, id);
}

/* ---- what to write ---- */

/* "y =", "[a, b] =": `loss l =`, `return` and the data section's `input x =` take no `@`, nor does one that has an `@`.
 */
static bool is_assignment(const char *line) {
    bool word = false;
    for (; *line && *line != '='; line++) {
        bool name = (*line >= 'a' && *line <= 'z') || (*line >= 'A' && *line <= 'Z') ||
                    (*line >= '0' && *line <= '9') || *line == '_';
        if (!name && !strchr(" ,[]", *line)) return false;
        if (name && word && line[-1] == ' ') return false;
        word = name || (word && *line == ' ');
    }
    return *line == '=' && line[1] != '=';
}

/* Does the line stand between the parentheses of a call that began before? */
static bool is_continued(const char *text, size_t length, uint32_t line) {
    int depth = 0;
    bool quoted = false, comment = false;
    for (size_t i = 0; i < length && line > 1; i++) {
        char c = text[i];
        if (c == '\n') line--, comment = quoted = false;
        else if (comment) continue;
        else if (c == '"') quoted = !quoted;
        else if (!quoted && c == '#') comment = true;
        else if (!quoted) depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    }
    return depth > 0;
}

/* Files of `std` are part of the program. */
bool mpc_explain_takes_at_sign(const mpc_session *s, const mpc_graph *g, const mpc_node *n) {
    size_t length;
    const char *text = text_of_node(s, g, n, &length);
    bool built_in = strncmp(mpc_sym_text(g->ctx, n->loc.file), "std/", 4) == 0;
    mpc_str line = {0};
    mpc_explain_source_line(s, g, n, &line);
    bool takes = text && !built_in && is_assignment(mpc_str_cstr(&line)) && !is_continued(text, length, n->loc.line);
    mpc_str_free(&line);
    return takes;
}

void mpc_explain_words(const mpc_explaining *e, mpc_node_id at, bool named, mpc_str *out) {
    const char *name = mpc_value_name(e->g, e->g->nodes[e->id].result_begin), *format = mpc_format_get(e->other)->name;
    if (at != MPC_NONE) mpc_str_printf(out, "`@%s` before the statement of line %u", format, e->g->nodes[at].loc.line);
    if (at != MPC_NONE && named) mpc_str_append(out, ", or ");
    if (named) mpc_str_printf(out, "policy { \"%s\" = %s }", name, format);
    if (at == MPC_NONE && !named)
        mpc_str_printf(out, "a name of its own, by a line `name = ...` or by `as name`: no policy finds `%s`", name);
}

/* Of what nothing is decided about. */
static void append_change(const mpc_graph *g, mpc_node_id id, mpc_str *out) {
    const mpc_node *n = &g->nodes[id];
    mpc_format stored = mpc_stored_format(g, id);
    if (n->op == MPC_OP_state && mpc_attr_format(g, n, "stored") != MPC_FMT_none)
        mpc_str_printf(
            out, "weights = master in params: without a master it is stored in %s, and the update rounds to it (N73)",
            mpc_format_get(mpc_attr_format(g, n, "stored"))->name);
    else if (n->op == MPC_OP_state)
        mpc_str_append(out, "nothing: states keep their format (N70); readers take a low copy that the update writes "
                            "(N75)");
    else if (!is_float(stored)) mpc_str_append(out, "nothing: integers and flags keep their type (N44)");
    else mpc_str_append(out, "nothing: it is fixed by what it is for");
}

/* ---- both forms ---- */

static json_t *describe(const mpc_session *s, const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    mpc_decision d = g->decisions ? g->decisions[id] : (mpc_decision){0};
    mpc_str type = {0}, line = {0}, change = {0};
    mpc_type_print(mpc_value_type(g, n->result_begin), &type);
    mpc_explain_source_line(s, g, n, &line);
    append_change(g, id, &change);
    json_t *operands = json_array();
    for (uint32_t k = 0; k < n->operand_count; k++)
        json_array_append_new(operands, json_string(mpc_value_name(g, mpc_operand(g, n, k))));
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:s, s:o, s:o, s:s}", "value",
        mpc_value_name(g, n->result_begin), "type", mpc_str_cstr(&type), "op", mpc_node_op(g, id)->name, "reads",
        d.present ? format_name(d.operand) : "-", "computes", d.present ? format_name(d.compute) : "-", "accumulates",
        d.present ? format_name(d.acc) : "-", "stores", format_name(mpc_stored_format(g, id)), "why",
        mpc_sym_text(g->ctx, n->why), "file", mpc_sym_text(g->ctx, n->loc.file), "line", (int)n->loc.line, "source",
        mpc_str_cstr(&line), "operands", operands, "readers", list_readers(g, n), "change", mpc_str_cstr(&change));
    mpc_str_free(&type);
    mpc_str_free(&line);
    mpc_str_free(&change);
    return all;
}

static const char *text_of(const json_t *all, const char *key) { return json_string_value(json_object_get(all, key)); }

static void print_list(const char *head, const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++)
        printf("  %-12s %s\n", i ? "" : head, json_string_value(json_array_get(list, i)));
    if (!json_array_size(list)) printf("  %-12s nobody\n", head);
}

static void print_text(const json_t *all) {
    printf("%s: %s of the graph, before casts\n", text_of(all, "value"), text_of(all, "type"));
    printf("  %-12s %s(", "made by", text_of(all, "op"));
    const json_t *operands = json_object_get(all, "operands");
    for (size_t i = 0; i < json_array_size(operands); i++)
        printf("%s%s", i ? ", " : "", json_string_value(json_array_get(operands, i)));
    printf(")\n");
    if (*text_of(all, "file"))
        printf("  %-12s %s:%lld  %s\n", "written at", text_of(all, "file"),
               (long long)json_integer_value(json_object_get(all, "line")), text_of(all, "source"));
    static const char *const rows[] = {"reads", "computes", "accumulates", "stores"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) printf("  %-12s %s\n", rows[i], text_of(all, rows[i]));
    printf("  %-12s %s\n", "because", *text_of(all, "why") ? text_of(all, "why") : "nothing is decided about it");
    mpc_explain_print_choice(all);
    print_list("read by", json_object_get(all, "readers"));
    printf("  %-12s %s\n", "to change it", text_of(all, "change"));
}

bool mpc_explain_value(mpc_session *s, const mpc_graph *g, mpc_node_id id) {
    json_t *all = describe(s, g, id);
    if (!all) {
        mpc_error(s->sink, "E901", "out of memory");
        return false;
    }
    if (!mpc_explain_choice(s, g, id, all)) {
        json_decref(all);
        return false;
    }
    if (s->cli->options->json) {
        json_dumpf(all, stdout, JSON_COMPACT);
        putchar('\n');
    } else print_text(all);
    json_decref(all);
    return true;
}

bool mpc_explain_input(const mpc_session *s, const mpc_graph *g, const char *name) {
    for (uint32_t i = 0; i < g->input_count; i++) {
        const mpc_input *in = &g->inputs[i];
        if (strcmp(mpc_value_name(g, in->value), name) != 0) continue;
        mpc_str type = {0};
        mpc_type_print(mpc_value_type(g, in->value), &type);
        const char *source = mpc_input_attr_str(g, in, "source");
        json_t *line = json_pack("{s:s, s:s, s:s, s:s}", "value", name, "type", mpc_str_cstr(&type), "op", "input",
                                 "source", source);
        if (s->cli->options->json && line) json_dumpf(line, stdout, JSON_COMPACT);
        else printf("%s: %s, an input, fed from %s; nothing is decided about it", name, mpc_str_cstr(&type), source);
        putchar('\n');
        json_decref(line);
        mpc_str_free(&type);
        return true;
    }
    return false;
}

/* A variable whose call has a label: the value bears the label. */
static bool explain_label(const mpc_session *s, const mpc_graph *g, const char *name) {
    const char *dot = strrchr(name, '.'), *variable = dot ? dot + 1 : name;
    const char *label = mpc_model_label(s->model, variable);
    if (!label) return false;
    mpc_str value = {0};
    mpc_str_append_n(&value, name, (size_t)(variable - name));
    mpc_str_append(&value, label);
    bool found = false;
    for (mpc_node_id i = 0; i < g->node_count && !found; i++)
        found = strcmp(mpc_value_name(g, g->nodes[i].result_begin), mpc_str_cstr(&value)) == 0;
    if (found)
        mpc_error(s->sink, "E361", "no value of the training graph is called `%s`: by its label it is `%s`", name,
                  mpc_str_cstr(&value));
    mpc_str_free(&value);
    return found;
}

void mpc_explain_unknown(const mpc_session *s, const mpc_graph *g, const char *name) {
    enum { SHOWN = 4 };
    if (explain_label(s, g, name)) return;
    mpc_str near = {0};
    uint32_t count = 0;
    for (mpc_node_id i = 0; i < g->node_count && count < SHOWN; i++) {
        const char *value = mpc_value_name(g, g->nodes[i].result_begin);
        if (!strstr(value, name) && mpc_edit_distance(name, value, 2) > 2) continue;
        mpc_str_printf(&near, "%s`%s`", count++ ? ", " : "; near it are ", value);
    }
    mpc_error(s->sink, "E361", "no value of the training graph is called `%s`%s", name,
              count ? mpc_str_cstr(&near) : "; mpc explain FILE lists them");
    mpc_str_free(&near);
}
