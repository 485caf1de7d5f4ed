/* Why a value has its format and not the other one: what the other would cost, and the word, the rule or the neighbours
 * that stand in its way. What is told was tried (explain_flip.c): the price is the difference of whole steps, solved
 * again with the advice or with a pin, and a neighbour is named that turns the value. Of solvers that tell no choices
 * (mpc_plan_choices) the class rules are asked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/explain_value.h"
#include "driver/json_values.h"
#include "passes/precision/cost.h"

typedef struct verdict {
    mpc_explained x;      /* kind, rule and blockers are those of the class rules at first */
    const char *word;     /* the user's that decides: "@f32 m.mpg:4"; NULL: none */
    const char *price_of; /* what the price is of; NULL: there is none */
    double price;
    mpc_word turned_by; /* the word that turns it: node MPC_NONE: none */
    bool other_word;    /* an `@` in the place of the user's turns it */
    mpc_node_id at;     /* the node before whose statement an `@` turns it; MPC_NONE */
    mpc_trial trial;    /* of that word or edit, or of the last that was tried */
    mpc_trial pin;      /* of a weighing solver */
    bool weighed;
} verdict;

static const char *name_of(const mpc_graph *g, mpc_node_id id) { return mpc_value_name(g, g->nodes[id].result_begin); }

/* ---- whose word turns it ---- */

enum { MOST_TRIES = 6 };
static const double NOISE = 1e-13; /* seconds: of sums in another order */

typedef struct neighbours {
    mpc_node_id node[MOST_TRIES];
    uint32_t count, operands; /* operands come first */
} neighbours;

static void add(mpc_node_id id, neighbours *out) {
    for (uint32_t i = 0; i < out->count; i++)
        if (out->node[i] == id) return;
    if (out->count < MOST_TRIES) out->node[out->count++] = id;
}

static void add_neighbour(const mpc_graph *g, mpc_node_id id, mpc_node_id self, neighbours *out) {
    if (id != MPC_NONE && id != self && mpc_explain_can_be_named(g, id)) add(id, out);
}

/* Who takes words for it: the node itself, what lies behind the views that it is one of, and the same of its forward
 * value. */
static void list_speakers(const mpc_graph *g, mpc_node_id id, neighbours *out) {
    mpc_sym origin = g->nodes[id].origin;
    for (mpc_node_id at = id; at != MPC_NONE; at = g->values[mpc_operand(g, &g->nodes[at], 0)].producer) {
        if (mpc_explain_takes_words(g, at)) add(at, out);
        if (mpc_node_op(g, at)->cls != MPC_CLASS_CLEAR || !g->nodes[at].operand_count) break;
    }
    mpc_value_id forward = origin ? mpc_graph_find_value(g, mpc_sym_text(g->ctx, origin)) : MPC_NONE;
    if (forward != MPC_NONE && g->values[forward].producer != MPC_NONE && !g->nodes[g->values[forward].producer].origin)
        list_speakers(g, g->values[forward].producer, out);
}

static double without_noise(double price) { return fabs(price) < NOISE ? 0 : price; }

static void take_trial(verdict *v, mpc_trial trial) {
    v->trial = trial;
    v->price = without_noise(trial.price);
    v->price_of = "word";
}

static bool try_edit(const mpc_explaining *e, const mpc_text_edit *edit, verdict *v) {
    if (!edit->from || !edit->to || !edit->file) return false;
    mpc_trial trial = mpc_explain_try_edit(e, edit);
    if (trial.turned && v->turned_by.node == MPC_NONE) take_trial(v, trial);
    return trial.turned;
}

/* "@f32 m.mpg:4": the word of a region or statement in another way. */
static bool try_other_word(const mpc_explaining *e, verdict *v) {
    const char *space = strchr(v->word, ' '), *colon = strrchr(v->word, ':');
    if (!space || !colon || colon < space) return false;
    mpc_text_edit edit = {.to = mpc_arena_printf(e->arena, "@%s", mpc_format_get(e->other)->name),
                          .from = mpc_arena_printf(e->arena, "%.*s", (int)(space - v->word), v->word),
                          .file = mpc_arena_printf(e->arena, "%.*s", (int)(colon - space - 1), space + 1),
                          .line = (uint32_t)strtoul(colon + 1, NULL, 10)};
    return try_edit(e, &edit, v);
}

/* A word on its statement, or on that of what its format comes with. */
static bool try_statement(const mpc_explaining *e, mpc_node_id id, verdict *v) {
    const mpc_node *n = &e->g->nodes[id];
    if (!mpc_explain_takes_at_sign(e->s, e->g, n)) return false;
    mpc_text_edit edit = {.from = "",
                          .to = mpc_arena_printf(e->arena, "@%s ", mpc_format_get(e->other)->name),
                          .file = mpc_sym_text(e->g->ctx, n->loc.file),
                          .line = n->loc.line};
    return try_edit(e, &edit, v);
}

static void try_policies(const mpc_explaining *e, const neighbours *speakers, verdict *v) {
    for (uint32_t i = 0; i < speakers->count && v->turned_by.node == MPC_NONE; i++) {
        mpc_word word = {speakers->node[i], e->other};
        if (!mpc_explain_can_be_named(e->g, word.node)) continue;
        mpc_trial trial = mpc_explain_try_words(e, &word, 1);
        if (trial.turned) v->turned_by = word;
        if (trial.turned) take_trial(v, trial);
        else if (word.node == e->id) v->trial.error = trial.error;
    }
}

static void find_price(const mpc_explaining *e, verdict *v) {
    neighbours speakers = {.count = 0};
    v->price = v->x.seconds;
    v->price_of = "alone";
    if (v->weighed) {
        v->pin = mpc_explain_try_pin(e);
        v->price_of = v->pin.possible ? "plan" : NULL;
        v->price = v->pin.possible ? without_noise(v->pin.price) : HUGE_VAL;
    }
    list_speakers(e->g, e->id, &speakers);
    try_policies(e, &speakers, v);
    bool at_sign = v->word && *v->word == '@';
    v->other_word = at_sign && v->turned_by.node == MPC_NONE && try_other_word(e, v);
    for (uint32_t i = 0; i < speakers.count && !at_sign && v->at == MPC_NONE; i++) {
        bool asks = v->turned_by.node == MPC_NONE || v->turned_by.node == speakers.node[i];
        if (asks && try_statement(e, speakers.node[i], v)) v->at = speakers.node[i];
    }
    if (e->s->loss_budget <= 0) return;
    v->price = v->x.seconds; /* the words do turn it, but the trials were solved without the budget */
    v->price_of = "alone";
}

/* ---- who decides, where a solver weighed ---- */

static void add_readers(const mpc_graph *g, mpc_node_id id, neighbours *out) {
    mpc_value_id v = g->nodes[id].result_begin;
    for (mpc_node_id i = id + 1; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].operand_count; k++)
            if (mpc_operand(g, &g->nodes[i], k) == v) add_neighbour(g, i, id, out);
}

/* Each takes its other format; then this one must. */
static bool try_neighbours(const mpc_explaining *e, const mpc_node_id *nodes, uint32_t count, verdict *v) {
    mpc_explained *x = &v->x;
    mpc_word words[MOST_TRIES] = {{0}};
    for (uint32_t i = 0; i < count; i++)
        words[i] = (mpc_word){nodes[i], mpc_is_decided_low(e->g, nodes[i]) ? MPC_FMT_f32 : e->low};
    mpc_trial trial = mpc_explain_try_words(e, words, count);
    if (!trial.turned) return false;
    if (count == 1 && v->turned_by.node == MPC_NONE && v->at == MPC_NONE) {
        v->turned_by = words[0];
        take_trial(v, trial);
    }
    x->kind = MPC_BLOCK_VALUE;
    x->blocker_count = 0;
    for (uint32_t i = 0; i < count; i++) x->blockers[x->blocker_count++] = e->g->nodes[nodes[i]].result_begin;
    return true;
}

/* The neighbour that the solver names, else another one that turns this node, else all that it reads. */
static bool find_neighbours(const mpc_explaining *e, const mpc_choice_line *line, verdict *v) {
    const mpc_graph *g = e->g;
    neighbours n = {.count = 0};
    mpc_value_id named = line && line->blocker ? mpc_graph_find_value(g, line->blocker) : MPC_NONE;
    v->x.blocker_count = 0;
    if (named != MPC_NONE) add_neighbour(g, g->values[named].producer, e->id, &n);
    if (n.count && try_neighbours(e, n.node, 1, v)) return true;
    n.count = 0;
    for (uint32_t k = 0; k < g->nodes[e->id].operand_count; k++)
        add_neighbour(g, g->values[mpc_operand(g, &g->nodes[e->id], k)].producer, e->id, &n);
    n.operands = n.count;
    add_readers(g, e->id, &n);
    for (uint32_t i = 0; i < n.count; i++)
        if (try_neighbours(e, &n.node[i], 1, v)) return true;
    return n.operands > 1 && try_neighbours(e, n.node, n.operands, v);
}

/* What a solver says of a rule: its number, or one of the kinds that have none; else the reason has the number, as of
 * range evidence. */
static void take_rule(const char *said, const char *why, char rule[MPC_RULE_SIZE]) {
    static const struct {
        const char *said, *kind;
    } kinds[] = {{"a constant", "constant"}, {"agree", "agree"}, {"given", "user"}};
    if (mpc_find_rule(said, rule)) return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].said, said) == 0) {
            snprintf(rule, MPC_RULE_SIZE, "%s", kinds[i].kind);
            return;
        }
    bool typed = strcmp(said, "its type is fixed") == 0;
    if (typed || !mpc_find_rule(why, rule))
        snprintf(rule, MPC_RULE_SIZE, "%s", strcmp(said, "range") == 0 ? "range" : "type");
}

/* A view of a parameter or of another state. */
static bool views_a_state(const mpc_graph *g, mpc_node_id id) {
    while (id != MPC_NONE && mpc_node_op(g, id)->kind == MPC_KIND_VIEW && g->nodes[id].operand_count == 1)
        id = g->values[mpc_operand(g, &g->nodes[id], 0)].producer;
    return id != MPC_NONE && g->nodes[id].op == MPC_OP_state;
}

/* A rule decides where no plan that keeps them all has the value otherwise, or where the word that would make the step
 * faster breaks one; else the price does, unless a neighbour's format turns it. */
static void find_decider(const mpc_explaining *e, const mpc_choice_line *line, verdict *v) {
    const char *why = mpc_sym_text(e->g->ctx, e->g->nodes[e->id].why);
    mpc_explained *x = &v->x;
    x->rule[0] = '\0';
    x->kind = MPC_BLOCK_NONE;
    if (!v->pin.possible) take_rule(v->pin.rule ? v->pin.rule : "range", why, x->rule);
    if (!v->pin.possible && views_a_state(e->g, e->id)) snprintf(x->rule, sizeof x->rule, "N70");
    if (!find_neighbours(e, line, v) && *x->rule) x->kind = MPC_BLOCK_RULE;
    if (v->price < 0 && !*x->rule && v->trial.rule) snprintf(x->rule, sizeof x->rule, "%s", v->trial.rule);
    if (v->price < 0 && !*x->rule)
        snprintf(x->rule, sizeof x->rule, "%s", mpc_format_is_low(mpc_format_find(e->s->train->also)) ? "gap" : "word");
    if (v->price < 0 && x->kind == MPC_BLOCK_NONE) x->kind = MPC_BLOCK_RULE;
}

/* The reasons of the solver `list` begin with the class that decided. */
static bool by_class_rules(const char *why) {
    static const char *const classes[] = {"LOW: ", "HIGH: ", "FOLLOW: ", "CLEAR: "};
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strncmp(why, classes[i], strlen(classes[i])) == 0) return true;
    return false;
}

/* "@f32 m.mpg:4" or "policy m.mpg:12". */
static const char *word_of(const char *why) {
    static const char *const heads[] = {"user: ", "prec: "};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(why, heads[i], strlen(heads[i])) == 0) return why + strlen(heads[i]);
    return why;
}

/* Under a loss budget the dial weighed, and told it in the reason alone: time against time, or rounding. */
static void judge_by_budget(const char *why, mpc_explained *x) {
    if (strstr(why, " against ") || strstr(why, "stays in its kernel")) {
        x->kind = MPC_BLOCK_NONE;
        x->rule[0] = '\0';
    }
    if (!strstr(why, "loss budget")) return;
    x->kind = MPC_BLOCK_RULE;
    snprintf(x->rule, sizeof x->rule, "budget");
}

static void judge(const mpc_explaining *e, const mpc_choice_line *line, verdict *v) {
    const char *why = mpc_sym_text(e->g->ctx, e->g->nodes[e->id].why);
    if (!isfinite(v->x.seconds)) { /* its type */
        v->x.kind = MPC_BLOCK_RULE;
        v->price = HUGE_VAL;
        return;
    }
    bool by_user = v->x.kind == MPC_BLOCK_USER;
    if (by_user) v->word = word_of(why);
    find_price(e, v);
    if (by_user) v->x.rule[0] = '\0';
    else if (e->s->loss_budget > 0) judge_by_budget(why, &v->x);
    else if (v->weighed) find_decider(e, line, v);
    else if (!by_class_rules(why)) {
        bool by_neighbours = find_neighbours(e, line, v);
        if (!by_neighbours) v->x.kind = MPC_BLOCK_RULE;
        if (strcmp(v->x.rule, "class") == 0) snprintf(v->x.rule, sizeof v->x.rule, "%s", by_neighbours ? "" : "solver");
    }
}

/* ---- what to write ---- */

/* A region or statement is the nearest word, which no policy overrides. Files of `std` can't have another one. */
static void advise_region(const mpc_explaining *e, const verdict *v, mpc_str *out) {
    const char *space = strchr(v->word, ' '), *place = space ? space + 1 : "the model";
    int length = space ? (int)(space - v->word) : (int)strlen(v->word);
    if (v->other_word)
        mpc_str_printf(out, "`@%s` in the place of `%.*s` in %s, which wins over every policy",
                       mpc_format_get(e->other)->name, length, v->word, place);
    else mpc_str_printf(out, "nothing: `%.*s` in %s wins over every policy", length, v->word, place);
}

/* A later line of policy wins, and the command line is heard after the file. */
static void advise_later(const mpc_explaining *e, const char *place, mpc_str *out) {
    const char *name = name_of(e->g, e->id), *format = mpc_format_get(e->other)->name;
    bool by_command = strncmp(place, "--set ", 6) == 0;
    if (by_command) mpc_str_printf(out, "after the command line's: --set 'policy.\"%s\"=%s'", name, format);
    else mpc_str_printf(out, "after %s: policy { \"%s\" = %s }", place, name, format);
}

static void advise_nothing(const mpc_explaining *e, const verdict *v, mpc_str *out) {
    mpc_str_append(out, "nothing: ");
    if (!isfinite(v->x.seconds)) mpc_str_append(out, "its type is f32 by a hard rule");
    else if (v->trial.error) mpc_str_append(out, v->trial.error);
    else if (views_a_state(e->g, e->id))
        mpc_str_append(out, "it is a view of a state, which keeps its format (N70); readers take a low copy (N75)");
    else if (*v->x.rule) mpc_str_printf(out, "no word turns it (%s)", v->x.rule);
    else mpc_str_append(out, "no word turns it alone");
}

static void advise(const mpc_explaining *e, const verdict *v, mpc_str *out) {
    mpc_node_id by = v->turned_by.node;
    bool user_at = v->word && *v->word == '@';
    if (!isfinite(v->x.seconds)) advise_nothing(e, v, out);
    else if (user_at && by == MPC_NONE) advise_region(e, v, out);
    else if (by == e->id && v->word && strncmp(v->word, "policy ", 7) == 0) advise_later(e, v->word + 7, out);
    else if (by == e->id || (by == MPC_NONE && v->at != MPC_NONE)) mpc_explain_words(e, v->at, by == e->id, out);
    else if (by != MPC_NONE)
        mpc_str_printf(out, "its format comes with `%s`: policy { \"%s\" = %s }", name_of(e->g, by), name_of(e->g, by),
                       mpc_format_get(v->turned_by.format)->name);
    else if (mpc_explain_takes_words(e->g, e->id) && !mpc_explain_can_be_named(e->g, e->id))
        mpc_explain_words(e, MPC_NONE, false, out);
    else advise_nothing(e, v, out);
}

/* ---- as JSON ---- */

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
    for (uint32_t i = 0; i < x->blocker_count && x->kind == MPC_BLOCK_VALUE; i++)
        json_array_append_new(list, blocker_json(g, x->blockers[i]));
    return json_object_set_new(all, "blockers", list) == 0;
}

static bool put_terms(const mpc_choice *choice, json_t *all) {
    json_t *terms = json_pack("{s:o, s:o}", "f32", mpc_json_number(choice->f32), "low", mpc_json_number(choice->low));
    return json_object_set_new(all, "terms", terms) == 0;
}

static const char *const KINDS[] = {
    [MPC_BLOCK_NONE] = "price", [MPC_BLOCK_RULE] = "rule", [MPC_BLOCK_VALUE] = "value", [MPC_BLOCK_USER] = "user"};

/* What the word breaks that turns the value: it wins over these rules all the same (N99). */
static json_t *breaks_json(const verdict *v) {
    if (!v->price_of || strcmp(v->price_of, "word") != 0 || !v->trial.rule) return json_null();
    return json_pack("{s:s, s:s, s:s}", "rule", v->trial.rule, "value", v->trial.at, "what", v->trial.what);
}

static bool put(const mpc_explaining *e, const verdict *v, json_t *all) {
    mpc_str change = {0};
    advise(e, v, &change);
    bool ok = json_object_set_new(all, "change", json_string(mpc_str_cstr(&change))) == 0 &&
              json_object_set_new(all, "alternative", json_string(mpc_format_get(v->x.other)->name)) == 0 &&
              json_object_set_new(all, "price", mpc_json_number(v->price)) == 0 &&
              json_object_set_new(all, "price_of", mpc_json_text(isfinite(v->price) ? v->price_of : NULL)) == 0 &&
              json_object_set_new(all, "step", json_real(e->step)) == 0 &&
              json_object_set_new(all, "target", json_string(e->s->profile->name)) == 0 &&
              json_object_set_new(all, "blocked_by", json_string(KINDS[v->x.kind])) == 0 &&
              json_object_set_new(all, "word", mpc_json_text(v->word)) == 0 &&
              json_object_set_new(all, "rule", mpc_json_text(v->x.rule)) == 0 &&
              json_object_set_new(all, "breaks", breaks_json(v)) == 0 && put_blockers(e->g, &v->x, all);
    mpc_str_free(&change);
    return ok;
}

static mpc_format low_of(const mpc_session *s) {
    mpc_format low = mpc_format_find(s->train->precision);
    return mpc_format_is_low(low) ? low : MPC_FMT_bf16;
}

static bool explain(mpc_explaining *e, json_t *all) {
    mpc_plan_choices *choices = e->s->plan_choices;
    const mpc_choice_line *line = choices ? mpc_plan_choices_find(choices, name_of(e->g, e->id)) : NULL;
    mpc_pass_env env = {.ctx = e->s->ctx, .profile = e->s->profile};
    verdict v = {.turned_by = {.node = MPC_NONE},
                 .at = MPC_NONE,
                 .weighed = choices && mpc_plan_choices_solution(choices)->present};
    if (line && line->choice.low_format != MPC_FMT_none) e->low = line->choice.low_format;
    if (mpc_graph_explain(e->g, e->id, e->low, &env, &v.x) != MPC_OK) return false;
    if (!v.x.present) return true;
    e->other = v.x.other;
    e->step = v.x.total;
    judge(e, line, &v);
    bool told = line && line->choice.present && isfinite(v.x.seconds);
    bool ok = (!told || put_terms(&line->choice, all)) && put(e, &v, all);
    if (!ok) mpc_error(e->s->sink, "E901", "out of memory");
    return ok;
}

bool mpc_explain_choice(mpc_session *s, const mpc_graph *g, mpc_node_id id, json_t *all) {
    mpc_explaining e = {.s = s, .g = g, .id = id, .arena = mpc_arena_create(), .low = low_of(s)};
    if (!e.arena) mpc_error(s->sink, "E901", "out of memory");
    bool ok = e.arena && explain(&e, all);
    mpc_arena_destroy(e.arena);
    return ok;
}

/* ---- for people ---- */

static const char *text_of(const json_t *all, const char *key) { return json_string_value(json_object_get(all, key)); }

static const char *price_words(const char *of) {
    if (strcmp(of, "word") == 0) return "with the line below, all solved again";
    if (strcmp(of, "plan") == 0) return "the fastest step that has it so and keeps the rules";
    return "it alone, all else as it is";
}

static void print_price(const json_t *all) {
    const json_t *price = json_object_get(all, "price"), *breaks = json_object_get(all, "breaks");
    double step = json_real_value(json_object_get(all, "step")), more = json_real_value(price);
    if (!json_is_real(price)) {
        bool by_rule = strcmp(text_of(all, "blocked_by"), "user") != 0;
        printf("  %-12s %s: %s\n", "instead", text_of(all, "alternative"),
               by_rule ? "never, by a hard rule" : "not before the user's word is another one");
        return;
    }
    printf("  %-12s %s: %+.3f us of the %.1f us that formats decide in a step (%s): %s\n", "instead",
           text_of(all, "alternative"), 1e6 * more, 1e6 * step, text_of(all, "target"),
           price_words(text_of(all, "price_of")));
    if (json_is_object(breaks))
        printf("  %-12s %s at %s, which %s\n", "breaks", text_of(breaks, "rule"), text_of(breaks, "value"),
               text_of(breaks, "what"));
}

/* A rule by its number, or a kind of reason that has none. */
static void print_rule(const char *rule) {
    static const struct {
        const char *kind, *text;
    } kinds[] = {{"type", "its op's own types"},
                 {"class", "its op's class"},
                 {"solver", "the solver, for the reason above"},
                 {"constant", "being a constant"},
                 {"agree", "an agreement of the policy"},
                 {"user", "the user's word on what it shares a format with"},
                 {"range", "the range of its numbers"},
                 {"budget", "the loss budget"},
                 {"gap", "the search, which stopped above the fastest step"},
                 {"word", "what a word may do and no solver does"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, rule) == 0) {
            printf("  %-12s %s\n", "decided by", kinds[i].text);
            return;
        }
    printf("  %-12s rule %s\n", "decided by", rule);
}

void mpc_explain_print_choice(const json_t *all) {
    const json_t *blockers = json_object_get(all, "blockers");
    const char *kind = text_of(all, "blocked_by"), *rule = text_of(all, "rule");
    if (!kind) return;
    print_price(all);
    if (strcmp(kind, "user") == 0) printf("  %-12s the user: %s\n", "decided by", text_of(all, "word"));
    if (strcmp(kind, "price") == 0) printf("  %-12s its own price\n", "decided by");
    if (strcmp(kind, "rule") == 0) print_rule(rule);
    for (size_t i = 0; i < json_array_size(blockers); i++) {
        const json_t *b = json_array_get(blockers, i);
        printf("  %-12s %s (%s), which stores %s%s%s\n", i ? "" : "decided by", text_of(b, "value"), text_of(b, "op"),
               text_of(b, "stores"), rule ? ": " : "", rule ? rule : "");
    }
}
