/* Holds decisions against the hard rules, whoever made them. The rules aren't written down a second time: labels.c
 * makes the variables, pins and implications that the cut keeps, here they are read off the decisions. What says one
 * thing and stores another (an intermediate of a gradient) has its variable computed from what its operands say. */
#include "passes/precision/hard_rules.h"

#include <stdlib.h>
#include <string.h>

#include "passes/precision/baseline.h"
#include "passes/precision/labels.h"
#include "passes/precision/range.h"

typedef struct checker {
    const mpc_graph *g; /* decided */
    mpc_plan plan;      /* open, but for the user's words */
    mpc_labels labels;
    mpc_format *stored; /* by value: as decided */
    bool *low;          /* by variable */
    mpc_broken_rules *out;
    mpc_node_id last; /* of the last finding */
} checker;

static bool is_free(const checker *c, mpc_value_id v) {
    return mpc_format_is_float(mpc_value_format(c->g, v)) && !c->plan.fixed.result[v];
}

/* --- what each variable stands for in this assignment --- */

static void read_decisions(checker *c) {
    const mpc_graph *g = c->g;
    for (uint32_t v = 0; v < g->value_count; v++) {
        mpc_node_id id = g->values[v].producer;
        mpc_format decided = id == MPC_NONE ? MPC_FMT_none : g->decisions[id].result;
        c->stored[v] = is_free(c, v) && decided != MPC_FMT_none ? decided : mpc_value_format(g, v);
    }
}

/* Of values that share a variable the one that it was made for speaks; that the others have its format is for
 * check_moves. */
static void read_variables(checker *c) {
    const mpc_graph *g = c->g;
    const mpc_labels *l = &c->labels;
    for (uint32_t v = 0; v < g->value_count; v++) {
        bool owner = l->variables[l->of_value[v]].node == g->values[v].producer;
        if (owner && mpc_format_is_low(c->stored[v]) && !l->wide[v]) c->low[l->of_value[v]] = true;
    }
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (l->of_node[id] != MPC_NONE && mpc_node_op(g, id)->cls == MPC_CLASS_LOW)
            c->low[l->of_node[id]] = mpc_format_is_low(g->decisions[id].operand);
}

/* Implications come in the order of nodes, so what an intermediate reads has been settled before it. */
static void read_sayings(checker *c) {
    const mpc_labels *l = &c->labels;
    for (uint32_t v = 0; v < c->g->value_count; v++)
        if (l->wide[v] && l->variables[l->of_value[v]].pinned == MPC_FMT_none) c->low[l->of_value[v]] = true;
    for (uint32_t i = 0; i < l->implication_count; i++) {
        const mpc_implication *rule = &l->implications[i];
        mpc_node_id id = l->variables[rule->a].node;
        bool says = id != MPC_NONE && l->wide[mpc_result(&c->g->nodes[id], 0)];
        if (says && !c->low[rule->b]) c->low[rule->a] = false;
    }
}

/* --- findings --- */

static const char *sentence(const char *rule) {
    static const struct {
        const char *rule, *text;
    } sentences[] = {
        {"N01", "reads its operands in one low format"},
        {"N10", "is stored low, but the product that reads it reads f32"},
        {"N30", "is stored low, but its input isn't and others than products read it"},
        {"N40", "is stored low, but only sums and f32 ops read it"},
        {"N41", "is f32 inside and out, and stored low"},
        {"N42", "moves bits and changes their format"},
        {"N43", "is stored low, but an operand is wider"},
        {"N45", "is stored low, but a constant of its doesn't survive that"},
        {"N60", "is a gradient on its way to a master, and stored low"},
    };
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (strcmp(sentences[i].rule, rule) == 0) return sentences[i].text;
    return "is stored in a format that it can't have";
}

static bool is_cited(const char *rule) { return rule[0] == 'N' && rule[1] >= '0' && rule[1] <= '9'; }

static const char *rule_of_range(const checker *c, mpc_node_id id) {
    char rule[MPC_RULE_SIZE];
    mpc_find_range_rule(&c->plan, id, MPC_FMT_none, rule);
    return mpc_sym_text(c->g->ctx, mpc_intern(c->g->ctx, rule));
}

static void add(checker *c, mpc_node_id id, const char *rule, const char *why) {
    mpc_broken_rules *out = c->out;
    if (id == MPC_NONE) return;
    if (strcmp(rule, "range") == 0) rule = rule_of_range(c, id);
    for (uint32_t i = out->count; i-- > 0 && out->data[i].node == id;)
        if (strcmp(out->data[i].rule, rule) == 0) return;
    if (why == NULL) why = sentence(rule);
    out->data[out->count++] = (mpc_broken_rule){is_cited(rule) ? rule : "", id, why};
}

/* An op that moves bits and reads another format than it stores needs a cast. */
static void check_moves(checker *c, mpc_node_id id) {
    const mpc_node *n = &c->g->nodes[id];
    const mpc_op *op = mpc_node_op(c->g, id);
    if (op->cls != MPC_CLASS_CLEAR || n->op == MPC_OP_cast || n->operand_count != 1 || c->plan.given[id]) return;
    mpc_value_id x = mpc_operand(c->g, n, 0), y = mpc_result(n, 0);
    if (mpc_is_param_state(c->g, mpc_producer(c->g, x))) return; /* its low copy is there already (N75) */
    if (is_free(c, y) && mpc_format_is_float(c->stored[x]) && c->stored[x] != c->stored[y]) add(c, id, "N42", NULL);
}

/* Labels have one rule for what is f32 and HIGH; whose it is depends on what the op is. */
static void add_pinned(checker *c, mpc_node_id id, mpc_value_id v, const char *rule) {
    bool high = strcmp(rule, "N41") == 0 && mpc_node_op(c->g, id)->kind != MPC_KIND_EWISE;
    if (high && c->g->nodes[id].origin != 0 && c->plan.only_f32[v]) add(c, id, "N60", NULL);
    else if (high) add(c, id, "N40", "is a sum, and stored low");
    else add(c, id, rule, NULL);
}

/* What is held stays f32 even if the decision says otherwise (mpc_format_read); a plan that says so breaks the rule all the same. */
static void check_held(checker *c, mpc_node_id id) {
    mpc_decision d = c->g->decisions[id];
    mpc_sym held = c->plan.fixed.held[id];
    char rule[MPC_RULE_SIZE];
    if (held == 0 || (!mpc_format_is_low(d.operand) && !mpc_format_is_low(d.result))) return;
    bool cited = mpc_find_rule(mpc_sym_text(c->g->ctx, held), rule);
    add(c, id, cited ? mpc_sym_text(c->g->ctx, mpc_intern(c->g->ctx, rule)) : "",
        "is no part of the model but of the step, and decided low");
}

static void check_node(checker *c, mpc_node_id id) {
    const mpc_node *n = &c->g->nodes[id];
    const mpc_labels *l = &c->labels;
    check_held(c, id);
    if (!mpc_is_assigned(c->g, id) || c->plan.given[id]) return;
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        const mpc_variable *x = &l->variables[l->of_value[v]];
        if (!is_free(c, v) || !mpc_format_is_low(c->stored[v])) continue;
        if (l->wide[v]) add(c, id, "N60", "is an intermediate of a gradient, and stored low");
        else if (x->pinned == MPC_FMT_f32 && x->rule != NULL && x->node == id) add_pinned(c, id, v, x->rule);
        else if (!mpc_label_may_be(l, l->of_value[v], c->stored[v]))
            add(c, id, "range", "is stored in a format that can't hold it");
    }
    uint32_t reads = l->of_node[id];
    if (reads != MPC_NONE && c->low[reads] && l->variables[reads].pinned == MPC_FMT_f32)
        add(c, id, "range", "reads low what must stay f32");
    else if (reads != MPC_NONE && !mpc_label_may_be(l, reads, c->g->decisions[id].operand))
        add(c, id, "range", "reads in a format what that can't hold");
    check_moves(c, id);
}

static void check_implication(checker *c, const mpc_implication *rule) {
    mpc_node_id id = c->labels.variables[rule->a].node;
    if (id == MPC_NONE || !c->low[rule->a] || c->low[rule->b]) return;
    if (c->labels.wide[mpc_result(&c->g->nodes[id], 0)]) return;
    add(c, id, rule->rule,
        strcmp(rule->rule, "agree") == 0 ? "has another format than the value it agrees with" : NULL);
}

static int by_node(const void *a, const void *b) {
    const mpc_broken_rule *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return strcmp(x->rule, y->rule);
}

/* --- the whole --- */

static bool has_word(const mpc_graph *g, mpc_node_id id) {
    return mpc_is_assigned(g, id) && mpc_node_prec(g, &g->nodes[id]) != MPC_FMT_none;
}

static bool had_word(const mpc_graph *before, const mpc_graph *g, mpc_node_id id) {
    mpc_value_id v = mpc_graph_find_value(before, mpc_value_name(g, mpc_result(&g->nodes[id], 0)));
    return v != MPC_NONE && before->values[v].producer != MPC_NONE && has_word(before, before->values[v].producer);
}

/* before: NULL, or the graph whose words alone count. */
static void take_words(mpc_plan *p, const mpc_graph *decided, const mpc_graph *before) {
    for (mpc_node_id id = 0; id < decided->node_count; id++) {
        if (!has_word(decided, id) || (before != NULL && !had_word(before, decided, id))) continue;
        p->given[id] = true;
        p->decisions[id] = decided->decisions[id];
    }
}

static uint32_t count_kept(const mpc_graph *g) {
    uint32_t count = 0;
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (strstr(mpc_sym_text(g->ctx, g->nodes[id].why), MPC_KEPT_BY_TYPE) != NULL) count++;
    return count;
}

static bool prepare(checker *c, const mpc_graph *before, mpc_format low, mpc_pass_env *env, mpc_arena *arena) {
    c->plan = mpc_plan_create(c->g, low, arena);
    if (c->plan.g == NULL || mpc_plan_allow(&c->plan, mpc_graph_low(c->g, low)) != MPC_OK) return false;
    mpc_plan_read_backwards(&c->plan);
    take_words(&c->plan, c->g, before);
    if (mpc_range_force(&c->plan, env->observed) != MPC_OK) return false;
    c->labels = mpc_labels_create(&c->plan, arena);
    c->stored = mpc_arena_alloc(arena, ((size_t)c->g->value_count + 1) * sizeof *c->stored);
    c->low = mpc_arena_alloc(arena, (size_t)c->labels.count + 1);
    size_t most = (size_t)c->g->value_count + 2 * (size_t)c->g->node_count + c->labels.implication_count + 1;
    c->out->data = mpc_arena_alloc(arena, most * sizeof *c->out->data);
    return !c->labels.failed && c->stored != NULL && c->low != NULL && c->out->data != NULL;
}

mpc_status mpc_hard_rules_check_words(const mpc_graph *decided, const mpc_graph *before, mpc_format low, mpc_pass_env *env,
                                      mpc_arena *arena, mpc_broken_rules *out) {
    checker c = {.g = decided, .out = out};
    *out = (mpc_broken_rules){0};
    if (!prepare(&c, before, low, env, arena))
        return mpc_error(mpc_context_sink(decided->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    read_decisions(&c);
    read_variables(&c);
    read_sayings(&c);
    for (mpc_node_id id = 0; id < decided->node_count; id++) check_node(&c, id);
    for (uint32_t i = 0; i < c.labels.implication_count; i++) check_implication(&c, &c.labels.implications[i]);
    qsort(out->data, out->count, sizeof *out->data, by_node);
    out->kept = count_kept(decided);
    return MPC_OK;
}

mpc_status mpc_hard_rules_check(const mpc_graph *decided, mpc_format low, mpc_pass_env *env, mpc_arena *arena,
                                mpc_broken_rules *out) {
    return mpc_hard_rules_check_words(decided, NULL, low, env, arena, out);
}
