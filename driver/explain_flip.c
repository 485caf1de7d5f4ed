/* What comes of another word or of a pin, found by asking the solver again: the model is assigned once more, and the
 * two assignments are compared. So what explain tells of advice, prices and neighbours holds for every solver, one from
 * a plugin included. Only what a policy can name gets a word: forward ops with names of their own. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/explain_value.h"
#include "passes/precision/cost.h"
#include "passes/precision/hard_rules.h"

static bool has_prec(const mpc_graph *g, const mpc_node *n) {
    const mpc_op *op = mpc_op_get(g->ctx, n->op);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(mpc_sym_text(g->ctx, op->attrs[i].key), "prec") == 0) return true;
    return false;
}

bool mpc_explain_takes_words(const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    return n->origin == 0 && n->loc.file != 0 && g->decisions && g->decisions[id].present && has_prec(g, n);
}

bool mpc_explain_can_be_named(const mpc_graph *g, mpc_node_id id) {
    return mpc_explain_takes_words(g, id) && !strchr(mpc_value_name(g, g->nodes[id].result_begin), ':');
}

/* policy."fc1"=f32 for every node, behind the settings that the command line has. */
static bool add_words(const mpc_explaining *e, const mpc_word *words, uint32_t count, mpc_options *o) {
    o->changes = (mpc_text_list){0};
    for (uint32_t i = 0; i < count; i++) {
        const char *name = mpc_value_name(e->g, e->g->nodes[words[i].node].result_begin);
        const char *word = mpc_arena_printf(e->arena, "policy.\"%s\"=%s", name, mpc_format_get(words[i].format)->name);
        if (!word || !mpc_text_list_push(&o->changes, word)) return false;
    }
    return true;
}

/* ---- the two assignments ---- */

/* Only ops that hear the new word are asked: what a solver or an agreement breaks elsewhere is not its doing. */
static void find_broken(const mpc_explaining *e, const mpc_graph *after, mpc_trial *out) {
    mpc_broken_rules broken;
    mpc_pass_env env = {.ctx = after->ctx, .profile = e->s->profile, .observed = e->s->observed};
    if (mpc_hard_rules_check_words(after, e->g, e->low, &env, e->arena, &broken) != MPC_OK) return;
    for (uint32_t i = 0; i < broken.count && !out->rule; i++) {
        const mpc_broken_rule *r = &broken.data[i];
        const mpc_node *n = &after->nodes[r->node];
        if (!has_prec(after, n) || mpc_attr_format(after, n, "prec") == MPC_FMT_none) continue;
        out->rule = mpc_arena_strdup(e->arena, *r->rule ? r->rule : "type");
        out->at = mpc_arena_strdup(e->arena, mpc_value_name(after, n->result_begin));
        out->what = mpc_arena_strdup(e->arena, r->why);
    }
}

static void compare(const mpc_explaining *e, const mpc_graph *after, mpc_trial *out) {
    const char *name = mpc_value_name(e->g, e->g->nodes[e->id].result_begin);
    mpc_pass_env env = {.ctx = after->ctx, .profile = e->s->profile, .observed = e->s->observed};
    mpc_plan_cost cost;
    if (mpc_graph_price(after, e->s->profile, &env, &cost) == MPC_OK) out->price = cost.seconds - e->step;
    for (mpc_node_id i = 0; i < after->node_count; i++)
        if (after->nodes[i].result_count && strcmp(mpc_value_name(after, after->nodes[i].result_begin), name) == 0)
            out->turned = mpc_explain_decided(after, i) == e->other;
}

/* The first error's text, for those who hear why a word can't be. */
typedef struct listener {
    mpc_arena *arena;
    mpc_trial *out;
} listener;

static void hear(void *user, const mpc_diag *diag) {
    const listener *l = user;
    if (diag->severity == MPC_SEV_ERROR && !l->out->error)
        l->out->error = mpc_arena_printf(l->arena, "%s [%s]", diag->message, diag->code);
}

/* The session's model with something else: options, a pin in `choices`, or an edit. */
static void assign_again(const mpc_explaining *e, mpc_cli cli, mpc_plan_choices *choices, mpc_trial *out) {
    listener l = {e->arena, out};
    cli.sink = (mpc_sink){.emit = hear, .user = &l};
    mpc_session other;
    mpc_graph *after = NULL;
    if (mpc_session_open(&other, &cli)) {
        other.facts = e->s->facts;
        other.profile = e->s->profile;
        other.plan_choices = choices;
        after = mpc_session_graph(&other, MPC_PHASE_TRAIN, other.train->batch, MPC_STAGE_DECIDED);
    }
    if (after) compare(e, after, out);
    if (after && out->turned && !choices) find_broken(e, after, out);
    mpc_graph_destroy(after);
    mpc_session_close(&other);
}

mpc_trial mpc_explain_try_words(const mpc_explaining *e, const mpc_word *words, uint32_t count) {
    mpc_trial out = {.price = NAN};
    mpc_options options = *e->s->cli->options;
    mpc_cli cli = *e->s->cli;
    cli.options = &options;
    if (add_words(e, words, count, &options)) assign_again(e, cli, NULL, &out);
    mpc_array_free(&options.changes);
    return out;
}

mpc_trial mpc_explain_try_edit(const mpc_explaining *e, const mpc_text_edit *edit) {
    mpc_trial out = {.price = NAN};
    mpc_cli cli = *e->s->cli;
    cli.edit = edit;
    assign_again(e, cli, NULL, &out);
    return out;
}

mpc_trial mpc_explain_try_pin(const mpc_explaining *e) {
    mpc_trial out = {.price = NAN};
    mpc_plan_choices *choices = mpc_plan_choices_create();
    if (!choices) return out;
    mpc_pin *pin = mpc_plan_choices_pin(choices);
    *pin = (mpc_pin){.value = mpc_value_name(e->g, e->g->nodes[e->id].result_begin), .format = e->other};
    assign_again(e, *e->s->cli, choices, &out);
    out.rule = pin->rule;
    out.possible = pin->possible && out.turned;
    mpc_plan_choices_destroy(choices);
    return out;
}
