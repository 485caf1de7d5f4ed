/* Why a value has its format and not the other one: what the other would cost, and the rule or the neighbours that
 * stand in its way. A solver that weighs costs has told its choices (mpc_plan_choices); of other assignments the class
 * rules are asked. */
#include <math.h>
#include <string.h>

#include "driver/explain_value.h"
#include "driver/json_values.h"
#include "passes/precision/cost.h"

/* A blocker by name, with its format and, where a user's word can change it, that word. */
static json_t *blocker_json(const mpc_graph *g, mpc_value_id v) {
    mpc_node_id id = g->values[v].producer;
    mpc_format stored = id == MPC_NONE ? mpc_value_format(g, v) : mpc_stored_format(g, id);
    const char *op = id == MPC_NONE ? "input" : mpc_node_op(g, id)->name;
    json_t *b =
        json_pack("{s:s, s:s, s:s}", "value", mpc_value_name(g, v), "op", op, "stores", mpc_format_get(stored)->name);
    if (b && id != MPC_NONE && g->nodes[id].loc.file)
        json_object_set_new(b, "line", json_integer((json_int_t)g->nodes[id].loc.line));
    return b;
}

static bool put_blockers(const mpc_graph *g, const mpc_explained *x, json_t *all) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < x->blocker_count; i++) json_array_append_new(list, blocker_json(g, x->blockers[i]));
    return json_object_set_new(all, "blockers", list) == 0;
}

/* ---- who decides, where a solver weighed ---- */

enum { MOST_TRIES = 6 };

typedef struct neighbours {
    mpc_node_id node[MOST_TRIES];
    uint32_t count, operands; /* operands come first */
} neighbours;

static void add_neighbour(const mpc_graph *g, mpc_node_id id, mpc_node_id self, neighbours *out) {
    if (id == MPC_NONE || id == self || out->count == MOST_TRIES || !mpc_explain_can_be_named(g, id)) return;
    for (uint32_t i = 0; i < out->count; i++)
        if (out->node[i] == id) return;
    out->node[out->count++] = id;
}

static void add_readers(const mpc_graph *g, mpc_node_id id, neighbours *out) {
    mpc_value_id v = g->nodes[id].result_begin;
    for (mpc_node_id i = id + 1; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].operand_count; k++)
            if (mpc_operand(g, &g->nodes[i], k) == v) add_neighbour(g, i, id, out);
}

static bool try_neighbours(const mpc_session *s, const mpc_graph *g, mpc_node_id id, const mpc_node_id *nodes,
                           uint32_t count, mpc_explained *x) {
    if (!mpc_explain_flips(s, g, id, nodes, count)) return false;
    x->kind = MPC_BLOCK_VALUE;
    x->blocker_count = 0;
    for (uint32_t i = 0; i < count; i++) x->blockers[x->blocker_count++] = g->nodes[nodes[i]].result_begin;
    return true;
}

/* The neighbour that the solver names, else another one that turns this node, else all that it reads; none: its own
 * terms, or a rule. */
static void find_deciders(const mpc_session *s, const mpc_graph *g, mpc_node_id id, const mpc_choice_line *line,
                          mpc_explained *x) {
    neighbours n = {.count = 0};
    mpc_value_id named = line && line->blocker ? mpc_graph_find_value(g, line->blocker) : MPC_NONE;
    x->blocker_count = 0;
    if (named != MPC_NONE) add_neighbour(g, g->values[named].producer, id, &n);
    if (n.count && try_neighbours(s, g, id, n.node, 1, x)) return;
    n.count = 0;
    for (uint32_t k = 0; k < g->nodes[id].operand_count; k++)
        add_neighbour(g, g->values[mpc_operand(g, &g->nodes[id], k)].producer, id, &n);
    n.operands = n.count;
    add_readers(g, id, &n);
    for (uint32_t i = 0; i < n.count; i++)
        if (try_neighbours(s, g, id, &n.node[i], 1, x)) return;
    if (n.operands > 1 && try_neighbours(s, g, id, n.node, n.operands, x)) return;
    x->kind = line && line->choice.rule ? MPC_BLOCK_RULE : MPC_BLOCK_NONE;
}

static void take_rule(const mpc_choice_line *line, mpc_explained *x) {
    if (!line) return;
    x->rule[0] = '\0';
    if (line->choice.rule) snprintf(x->rule, sizeof x->rule, "%s", line->choice.rule);
}

static bool put_terms(const mpc_choice *choice, json_t *all) {
    json_t *terms = json_pack("{s:o, s:o}", "f32", mpc_json_number(choice->f32), "low", mpc_json_number(choice->low));
    return json_object_set_new(all, "terms", terms) == 0;
}

/* The reasons of the solver `list` begin with the class that decided. */
static bool by_class_rules(const char *why) {
    static const char *const classes[] = {"LOW: ", "HIGH: ", "FOLLOW: ", "CLEAR: "};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strncmp(why, classes[i], strlen(classes[i])) == 0) return true;
    return false;
}

static const char *const KINDS[] = {[MPC_BLOCK_NONE] = "price", [MPC_BLOCK_RULE] = "rule", [MPC_BLOCK_VALUE] = "value"};

bool mpc_explain_choice(mpc_session *s, const mpc_graph *g, mpc_node_id id, json_t *all) {
    mpc_explained x;
    mpc_pass_env env = {.ctx = s->ctx, .profile = s->profile};
    if (mpc_graph_explain(g, id, s->profile, &env, &x) != MPC_OK) return false;
    if (!x.present) return true;
    const mpc_choice_line *line =
        s->plan_choices ? mpc_plan_choices_find(s->plan_choices, mpc_value_name(g, g->nodes[id].result_begin)) : NULL;
    bool weighed = s->plan_choices && mpc_plan_choices_solution(s->plan_choices)->present, ok = true;
    if (line && line->choice.present) ok = put_terms(&line->choice, all);
    if (isfinite(x.seconds) && (weighed || !by_class_rules(mpc_sym_text(g->ctx, g->nodes[id].why)))) {
        take_rule(line, &x);
        find_deciders(s, g, id, line, &x);
        if (!weighed && x.kind == MPC_BLOCK_NONE) x.kind = MPC_BLOCK_RULE; /* the solver's own, told in the reason */
    }
    if (!isfinite(x.seconds))
        ok = ok && json_object_set_new(all, "change", json_string("nothing: its type is f32 by a hard rule")) == 0;
    ok = ok && json_object_set_new(all, "alternative", json_string(mpc_format_get(x.other)->name)) == 0 &&
         json_object_set_new(all, "price", mpc_json_number(x.seconds)) == 0 &&
         json_object_set_new(all, "step", json_real(x.total)) == 0 &&
         json_object_set_new(all, "target", json_string(s->profile->name)) == 0 &&
         json_object_set_new(all, "blocked_by", json_string(KINDS[x.kind])) == 0 &&
         json_object_set_new(all, "rule", *x.rule ? json_string(x.rule) : json_null()) == 0 && put_blockers(g, &x, all);
    if (!ok) mpc_error(s->sink, "E901", "out of memory");
    return ok;
}

/* ---- for people ---- */

static const char *text_of(const json_t *all, const char *key) { return json_string_value(json_object_get(all, key)); }

static void print_price(const json_t *all) {
    const json_t *price = json_object_get(all, "price");
    double step = json_real_value(json_object_get(all, "step")), more = json_real_value(price);
    if (!json_is_real(price)) {
        printf("  %-12s %s: never, its type is f32 by a hard rule\n", "instead", text_of(all, "alternative"));
        return;
    }
    printf("  %-12s %s: %+.3f us of the %.1f us that formats decide in a step (%s)\n", "instead",
           text_of(all, "alternative"), 1e6 * more, 1e6 * step, text_of(all, "target"));
}

void mpc_explain_print_choice(const json_t *all) {
    const json_t *blockers = json_object_get(all, "blockers");
    const char *kind = text_of(all, "blocked_by"), *rule = text_of(all, "rule");
    if (!kind) return;
    print_price(all);
    if (strcmp(kind, "price") == 0) printf("  %-12s its own price\n", "decided by");
    if (strcmp(kind, "rule") == 0)
        printf("  %-12s %s%s\n", "decided by", rule ? "rule " : "the reason above", rule ? rule : "");
    for (size_t i = 0; i < json_array_size(blockers); i++) {
        const json_t *b = json_array_get(blockers, i);
        printf("  %-12s %s (%s), which stores %s%s%s\n", i ? "" : "decided by", text_of(b, "value"), text_of(b, "op"),
               text_of(b, "stores"), rule ? ": " : "", rule ? rule : "");
    }
}
