/* What differs between two graphs or assignments. Both become tables by name first, so that the order of nodes, line
 * numbers and reasons don't matter; a value that only moved is equal. Constants that nobody named are paired by what
 * they are. Group numbers and places are left out: they
 * follow from the rest. */
#include "driver/ir_diff.h"

#include <string.h>

static const char *format_name(mpc_format format) {
    return format == MPC_FMT_none ? "-" : mpc_format_get(format)->name;
}

/* ---- sides ---- */

static void append_attr(const mpc_graph *g, const mpc_attr *a, mpc_str *out) {
    mpc_str_printf(out, "%s%s=", out->length ? " " : "", mpc_sym_text(g->ctx, a->key));
    switch (a->kind) {
    case MPC_ATTR_INT:
        mpc_str_printf(out, "%lld", (long long)a->i);
        break;
    case MPC_ATTR_FLOAT:
        mpc_str_append_double(out, a->f);
        break;
    case MPC_ATTR_BOOL:
        mpc_str_append(out, a->b ? "true" : "false");
        break;
    case MPC_ATTR_STR:
        mpc_str_append(out, mpc_sym_text(g->ctx, a->s));
        break;
    case MPC_ATTR_FORMAT:
        mpc_str_append(out, format_name(a->format));
        break;
    case MPC_ATTR_INTS:
        for (uint32_t i = 0; i < a->ints.count; i++)
            mpc_str_printf(out, "%s%lld", i ? "," : "[", (long long)a->ints.data[i]);
        mpc_str_append(out, a->ints.count ? "]" : "[]");
        break;
    }
}

static bool put(json_t *line, const char *key, const mpc_str *text) {
    return !text->failed && json_object_set_new(line, key, json_string(mpc_str_cstr(text))) == 0;
}

/* All but `where`, which is a place in the source. */
static bool put_attrs(const mpc_graph *g, uint32_t begin, uint32_t count, json_t *line) {
    mpc_str text = {0};
    for (uint32_t i = begin; i < begin + count; i++)
        if (strcmp(mpc_sym_text(g->ctx, g->attrs[i].key), "where") != 0) append_attr(g, &g->attrs[i], &text);
    bool ok = !text.length || put(line, "attributes", &text);
    mpc_str_free(&text);
    return ok;
}

/* "const", "const_12", "d.h.const:2": numbered as they come, so two graphs have the same name for different constants. */
static bool is_numbered_const(const char *name) {
    const char *dot = strrchr(name, '.'), *at = dot ? dot + 1 : name;
    if (strncmp(at, "const", strlen("const")) != 0) return false;
    at += strlen("const");
    if (*at == '_') at += 1 + strspn(at + 1, "0123456789");
    if (*at == ':') at += 1 + strspn(at + 1, "0123456789");
    return *at == '\0';
}

/* What a value goes by here: its name, a constant that nobody named by what it is: "const 0.5 f32[]", which no name can be, for its blanks. */
static void append_label(const mpc_graph *g, mpc_value_id v, mpc_str *out) {
    const mpc_node *n = mpc_producer(g, v);
    const char *name = mpc_value_name(g, v);
    if (!n || n->op != MPC_OP_const || !is_numbered_const(name)) {
        mpc_str_append(out, name);
        return;
    }
    mpc_str_append(out, "const ");
    mpc_str_append_double(out, mpc_attr_float(g, n, "value"));
    mpc_str_append(out, " ");
    mpc_type_print(mpc_value_type(g, v), out);
}

/* Under its label; equal constants share a line. */
static bool set_line(json_t *side, const mpc_graph *g, mpc_value_id v, json_t *line) {
    mpc_str label = {0};
    append_label(g, v, &label);
    bool ok = json_object_set_new(side, mpc_str_cstr(&label), line) == 0 && !label.failed;
    mpc_str_free(&label);
    return ok;
}

static bool put_operands(const mpc_graph *g, const mpc_node *n, json_t *line) {
    mpc_str text = {0};
    for (uint32_t k = 0; k < n->operand_count; k++) {
        if (k) mpc_str_append(&text, ", ");
        append_label(g, mpc_operand(g, n, k), &text);
    }
    bool ok = put(line, "operands", &text);
    mpc_str_free(&text);
    return ok;
}

static bool put_types(const mpc_graph *g, mpc_value_id first, uint32_t count, json_t *line) {
    mpc_str text = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (i) mpc_str_append(&text, ", ");
        mpc_type_print(mpc_value_type(g, first + i), &text);
    }
    bool ok = put(line, "type", &text);
    mpc_str_free(&text);
    return ok;
}

static bool put_decision(const mpc_decision *d, json_t *line) {
    const struct {
        const char *key;
        mpc_format format;
    } parts[] = {{"reads", d->operand}, {"computes", d->compute}, {"accumulates", d->acc}, {"stores", d->result}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (json_object_set_new(line, parts[i].key, json_string(format_name(parts[i].format))) != 0) return false;
    return true;
}

static bool add_node(const mpc_graph *g, mpc_node_id id, json_t *side) {
    const mpc_node *n = &g->nodes[id];
    json_t *line = json_pack("{s:s}", "op", mpc_node_op(g, id)->name);
    bool ok = line && put_operands(g, n, line) && put_attrs(g, n->attr_begin, n->attr_count, line) &&
              put_types(g, n->result_begin, n->result_count, line) &&
              (!g->decisions || !g->decisions[id].present || put_decision(&g->decisions[id], line));
    return set_line(side, g, n->result_begin, line) && ok;
}

static bool add_input(const mpc_graph *g, const mpc_input *in, json_t *side) {
    json_t *line = json_pack("{s:s}", "op", "input");
    bool ok = line && put_attrs(g, in->attr_begin, in->attr_count, line) && put_types(g, in->value, 1, line);
    return json_object_set_new(side, mpc_value_name(g, in->value), line) == 0 && ok;
}

/* Outputs and nexts are lines too; their names can't meet a value's, which have no blanks before them. */
static bool add_end(const mpc_graph *g, const char *kind, const char *name, mpc_value_id value, json_t *side) {
    mpc_str key = {0}, label = {0};
    mpc_str_printf(&key, "%s %s", kind, name);
    append_label(g, value, &label);
    json_t *line = json_pack("{s:s, s:s}", "op", kind, "operands", mpc_str_cstr(&label));
    bool ok = !key.failed && !label.failed && line;
    ok = json_object_set_new(side, mpc_str_cstr(&key), line) == 0 && ok;
    mpc_str_free(&key);
    mpc_str_free(&label);
    return ok;
}

json_t *mpc_diff_side_of_graph(const mpc_graph *g) {
    json_t *side = json_object();
    bool ok = side != NULL;
    for (uint32_t i = 0; i < g->input_count && ok; i++) ok = add_input(g, &g->inputs[i], side);
    for (mpc_node_id i = 0; i < g->node_count && ok; i++) ok = !g->nodes[i].result_count || add_node(g, i, side);
    for (uint32_t i = 0; i < g->next_count && ok; i++)
        ok = add_end(g, "next", mpc_value_name(g, g->nexts[i].state), g->nexts[i].value, side);
    for (uint32_t i = 0; i < g->output_count && ok; i++)
        ok = add_end(g, "output", mpc_sym_text(g->ctx, g->outputs[i].name), g->outputs[i].value, side);
    if (ok) return side;
    json_decref(side);
    return NULL;
}

/* The first six of the fields that tabs separate; the seventh is the reason. */
static bool add_assigned(char *text, json_t *side) {
    static const char *const keys[] = {NULL, "op", "reads", "computes", "accumulates", "stores"};
    json_t *line = json_object();
    char *name = text, *at = text;
    bool ok = line != NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && ok && at; i++) {
        char *tab = strchr(at, '\t');
        if (tab) *tab = '\0';
        if (keys[i]) ok = json_object_set_new(line, keys[i], json_string(at)) == 0;
        at = tab ? tab + 1 : NULL;
    }
    return json_object_set_new(side, name, line) == 0 && ok;
}

json_t *mpc_diff_side_of_assignment(const mpc_assignment *a) {
    mpc_str text = {0};
    mpc_assignment_print(a, &text);
    json_t *side = json_object();
    bool ok = side && !text.failed;
    char *at = ok ? text.data : NULL;
    for (uint32_t line = 0; ok && at && *at; line++) {
        char *end = at + strcspn(at, "\n"), *next = *end ? end + 1 : end;
        *end = '\0';
        if (line && *at && *at != '#') ok = add_assigned(at, side);
        at = next;
    }
    mpc_str_free(&text);
    if (ok) return side;
    json_decref(side);
    return NULL;
}

/* ---- the difference ---- */

/* Fields of `line` that `other` lacks or has otherwise. */
static json_t *fields_apart(const json_t *line, const json_t *other) {
    json_t *apart = json_object();
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)line, key, value) {
        if (json_equal(value, json_object_get(other, key))) continue;
        if (json_object_set(apart, key, value) != 0) break;
    }
    return apart;
}

static bool push_changed(json_t *list, const char *name, const json_t *a, const json_t *b) {
    if (json_equal(a, b)) return true;
    json_t *item = json_pack("{s:s, s:O, s:o, s:o}", "value", name, "op", json_object_get(b, "op"), "was",
                             fields_apart(a, b), "now", fields_apart(b, a));
    return json_array_append_new(list, item) == 0;
}

static bool push_alone(json_t *list, const char *name, const json_t *line) {
    json_t *item = json_pack("{s:s}", "value", name);
    if (!item || json_object_update(item, (json_t *)(uintptr_t)line) != 0) {
        json_decref(item);
        return false;
    }
    return json_array_append_new(list, item) == 0;
}

json_t *mpc_diff_sides(const json_t *a, const json_t *b) {
    json_t *changed = json_array(), *removed = json_array(), *added = json_array();
    const char *key;
    json_t *line;
    bool ok = changed && removed && added;
    json_object_foreach((json_t *)(uintptr_t)a, key, line) {
        json_t *other = json_object_get(b, key);
        ok = ok && (other ? push_changed(changed, key, line, other) : push_alone(removed, key, line));
    }
    json_object_foreach((json_t *)(uintptr_t)b, key, line) {
        ok = ok && (json_object_get(a, key) || push_alone(added, key, line));
    }
    bool equal = !json_array_size(changed) && !json_array_size(removed) && !json_array_size(added);
    json_t *diff =
        json_pack("{s:b, s:o, s:o, s:o}", "equal", equal, "changed", changed, "removed", removed, "added", added);
    if (ok) return diff;
    json_decref(diff);
    return NULL;
}

bool mpc_diff_is_equal(const json_t *diff) { return json_is_true(json_object_get(diff, "equal")); }

/* ---- for people ---- */

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "-";
}

/* All fields that either has. */
static void print_fields(const json_t *was, const json_t *now, mpc_str *out) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)was, key, value) {
        mpc_str_printf(out, "    %-12s %s -> %s\n", key, text_of(was, key), text_of(now, key));
    }
    json_object_foreach((json_t *)(uintptr_t)now, key, value) {
        if (!json_object_get(was, key)) mpc_str_printf(out, "    %-12s - -> %s\n", key, text_of(now, key));
    }
}

static void print_alone(const char *sign, const json_t *item, mpc_str *out) {
    mpc_str_printf(out, "%s %s (%s)", sign, text_of(item, "value"), text_of(item, "op"));
    if (json_object_get(item, "type")) mpc_str_printf(out, " : %s", text_of(item, "type"));
    if (json_object_get(item, "stores")) mpc_str_printf(out, ", stores %s", text_of(item, "stores"));
    mpc_str_append(out, "\n");
}

static void print_list(const json_t *list, size_t most, const char *sign, mpc_str *out) {
    size_t count = json_array_size(list), shown = most && count > most ? most : count;
    for (size_t i = 0; i < shown; i++) {
        const json_t *item = json_array_get(list, i), *was = json_object_get(item, "was");
        if (!was) print_alone(sign, item, out);
        else {
            mpc_str_printf(out, "%s %s (%s)\n", sign, text_of(item, "value"), text_of(item, "op"));
            print_fields(was, json_object_get(item, "now"), out);
        }
    }
    if (shown < count) mpc_str_printf(out, "%s and %zu more\n", sign, count - shown);
}

void mpc_diff_print(const json_t *diff, size_t most, mpc_str *out) {
    print_list(json_object_get(diff, "changed"), most, "~", out);
    print_list(json_object_get(diff, "removed"), most, "-", out);
    print_list(json_object_get(diff, "added"), most, "+", out);
}
