/* The solver `mincut`: of all assignments that keep the hard rules (labels.c) the cheapest by the terms of cost.h, found as a minimum cut (label_moves.c).
 * Two formats: exact. With a third one, moves go on until none helps, and a relaxed cut says how far from the optimum that can be. On a device where the
 * low format gains nothing the classes decide as in `list`, since whoever asks for it there wants its numbers, not its speed. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "passes/precision/labels.h"
#include "passes/precision/sensitivity.h"

enum { MOST_ROUNDS = 8 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- reasons --- */

static const char *name_of(mpc_format f) { return f == MPC_FMT_none ? "as typed" : mpc_format_get(f)->name; }

/* "12.3 us" */
static const char *seconds_text(double seconds, char out[16]) {
    double us = seconds * 1e6;
    if (us < 0.0005) snprintf(out, 16, "0 us");
    else if (us < 1e4) snprintf(out, 16, "%.3g us", us);
    else snprintf(out, 16, "%.3g ms", us * 1e-3);
    return out;
}

static const char *rule_of_result(const mpc_labels *l, mpc_node_id id) {
    mpc_value_id v = mpc_result(&l->plan->g->nodes[id], 0);
    const char *rule = l->variables[l->of_value[v]].rule;
    return l->wide[v] ? "N60" : rule;
}

/* "" or the low format that the decision might not have, which the numbers ruled out. */
static const char *ban_text(const mpc_plan *p, const mpc_labels *l, uint32_t variable, char out[32]) {
    char rule[MPC_RULE_SIZE];
    mpc_format lows[2];
    uint32_t count = mpc_plan_lows(p, lows);
    out[0] = '\0';
    if (variable == MPC_NONE || count == 1 || l->variables[variable].pinned != MPC_FMT_none) return out;
    for (uint32_t i = 0; i < count; i++)
        if (!mpc_label_may_be(l, variable, lows[i])) {
            mpc_find_range_rule(p, l->variables[variable].node, lows[i], rule);
            snprintf(out, 32, "; can't be %s (%.3s)", name_of(lows[i]), rule);
        }
    return out;
}

/* "" or what keeps a decision in f32 beside time: rounding that is charged because of a loss budget. */
static const char *charge_text(const mpc_plan *p, const mpc_costs *c, mpc_node_id id, mpc_format f, char out[64]) {
    const mpc_node *n = &p->g->nodes[id];
    char seconds[16];
    double charge = 0;
    bool low = mpc_node_op(p->g, id)->cls == MPC_CLASS_LOW;
    for (uint32_t i = 0; low && c->charge_operand != NULL && i < n->operand_count; i++)
        charge += c->charge_operand[n->operand_begin + i];
    for (uint32_t i = 0; !low && c->charge_value != NULL && i < n->result_count; i++) charge += c->charge_value[mpc_result(n, i)];
    out[0] = '\0';
    if (!mpc_format_is_low(f) && charge > 0)
        snprintf(out, 64, "; the loss budget prices its rounding at %s", seconds_text(charge, seconds));
    return out;
}

static void decide_low(mpc_plan *p, const mpc_labels *l, const mpc_costs *c, mpc_node_id id, mpc_decision d) {
    char low[16], wide[16], stores[48] = "", charge[64], ban[32];
    d.operand = mpc_label_of(l, l->of_node[id]);
    mpc_format other = mpc_format_is_low(d.operand) ? MPC_FMT_f32 : p->low;
    const char *rule = rule_of_result(l, id), *reads = l->variables[l->of_node[id]].rule;
    if (reads != NULL && strcmp(reads, "range") == 0) { /* what must stay f32 is told by the evidence (range_force.c) */
        mpc_plan_decide(p, id, d, "LOW: reads f32 (range)");
        return;
    }
    if (!mpc_format_is_low(d.result) && rule != NULL) snprintf(stores, sizeof stores, "; stores f32 (%s)", rule);
    else snprintf(stores, sizeof stores, "; stores %s", name_of(d.result));
    mpc_plan_decide(p, id, d, "LOW: reads %s: %s against %s in %s%s%s%s (N01)", name_of(d.operand),
                    seconds_text(mpc_cost_op(c, id, d.operand), low), seconds_text(mpc_cost_op(c, id, other), wide),
                    name_of(other), charge_text(p, c, id, d.operand, charge), stores,
                    ban_text(p, l, l->of_node[id], ban));
}

static void decide_stored(mpc_plan *p, const mpc_labels *l, const mpc_costs *c, mpc_node_id id, mpc_decision d) {
    mpc_value_id v = mpc_result(&p->g->nodes[id], 0);
    const char *cls = mpc_class_name(mpc_node_op(p->g, id)->cls), *rule = rule_of_result(l, id);
    char one[16], two[16], charge[64], ban[32];
    ban_text(p, l, mpc_storage_variable(l, v), ban);
    if (p->fixed.held[id] != 0) {
        mpc_plan_decide(p, id, d, "%s", mpc_sym_text(p->g->ctx, p->fixed.held[id]));
        return;
    }
    if (!mpc_format_is_low(d.result) && rule != NULL) {
        mpc_plan_decide(p, id, d, "%s: f32 (%s)", cls, rule);
        return;
    }
    mpc_format other = mpc_format_is_low(d.result) ? MPC_FMT_f32 : p->low;
    double here = mpc_cost_value(c, v, d.result), there = mpc_cost_value(c, v, other);
    if (there > 0)
        mpc_plan_decide(p, id, d, "%s: %s: moves %s against %s in %s%s%s", cls, name_of(d.result),
                        seconds_text(here, one), seconds_text(there, two), name_of(other),
                        charge_text(p, c, id, d.result, charge), ban);
    else
        mpc_plan_decide(p, id, d, "%s: %s, stays in its kernel%s%s", cls, name_of(d.result),
                        charge_text(p, c, id, d.result, charge), ban);
}

static void decide_node(mpc_plan *p, const mpc_labels *l, const mpc_costs *c, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    const mpc_op *op = mpc_node_op(p->g, id);
    mpc_value_id v = mpc_open_result(p, n);
    mpc_decision d = {.present = true, .compute = MPC_FMT_f32};
    if (mpc_node_has_attr(p->g, n, "acc")) d.acc = mpc_attr_format(p->g, n, "acc");
    d.result = p->fixed.result[v] ? MPC_FMT_none : mpc_label_of(l, mpc_storage_variable(l, v));
    if (op->cls == MPC_CLASS_LOW) {
        if (d.result == MPC_FMT_none) d.result = MPC_FMT_f32;
        decide_low(p, l, c, id, d);
    } else if (op->cls == MPC_CLASS_CLEAR) {
        mpc_solve_list(p, id); /* moves what it gets; formats before it are known */
        if (l->of_node[id] == MPC_NONE) return;
        d.operand = d.result;
        mpc_plan_decide(p, id, d, "CLEAR: joins in %s (N43)", name_of(d.result));
    } else {
        if (d.result == MPC_FMT_none) d.result = MPC_FMT_f32;
        decide_stored(p, l, c, id, d);
    }
}

static void report_lost_constants(const mpc_plan *p, const mpc_labels *l, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    const char *rule = l->variables[l->of_value[mpc_result(n, 0)]].rule;
    int64_t elements = mpc_type_elements(mpc_value_type(p->g, mpc_result(n, 0)));
    bool any = false;
    if (rule == NULL || rule[0] != 'N' || rule[1] != '4' || rule[2] != '5') return;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        if (!mpc_has_a_say(p->g, v, elements)) continue;
        if (!mpc_format_is_low(mpc_label_of(l, l->of_value[v]))) return;
        any = true;
    }
    if (any) mpc_report_constants(p, n, p->low);
}

static void decide_all(mpc_plan *p, const mpc_labels *l, const mpc_costs *c) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (!mpc_is_assigned(g, id) || p->given[id]) continue;
        decide_node(p, l, c, id);
        report_lost_constants(p, l, id);
        for (uint32_t i = 0; i < g->nodes[id].result_count; i++) {
            mpc_value_id v = mpc_result(&g->nodes[id], i);
            if (l->wide[v] && !p->fixed.result[v]) p->say[v] = mpc_label_of(l, l->of_value[v]);
        }
    }
}

/* --- the search --- */

/* Labels as they were, to go back to. */
typedef struct descent {
    mpc_plan *p;
    mpc_labels *l;
    const mpc_costs *c;
    mpc_format *best; /* by variable */
    double price;     /* of `best` */
} descent;

/* A move among three formats may cost more than it thinks; then it is taken back. */
static bool keep_if_better(descent *d) {
    mpc_labels_write(d->l, d->p);
    double price = mpc_plan_price(d->p, d->c).seconds;
    bool better = price < d->price;
    if (better) d->price = price;
    for (uint32_t i = 0; i < d->l->count; i++) {
        if (better) d->best[i] = d->l->variables[i].label;
        else d->l->variables[i].label = d->best[i];
    }
    return better;
}

static mpc_status round_of_moves(descent *d, const mpc_format *formats, uint32_t count, bool *any) {
    double ignored;
    *any = false;
    for (uint32_t i = 0; i <= count; i++) {
        mpc_format to = i < count ? formats[i] : MPC_FMT_f32;
        mpc_status status = mpc_labels_move(d->l, d->c, &to, 1, &ignored);
        if (status != MPC_OK) return status;
        if (keep_if_better(d)) *any = true;
    }
    return MPC_OK;
}

/* From the best pair of formats on. */
static mpc_status descend(mpc_plan *p, mpc_labels *l, const mpc_costs *c, const mpc_format *formats, uint32_t count) {
    descent d = {.p = p, .l = l, .c = c, .price = HUGE_VAL};
    mpc_status status = MPC_OK;
    double ignored;
    bool any = true;
    d.best = mpc_arena_alloc(p->arena, ((size_t)l->count + 1) * sizeof *d.best);
    if (d.best == NULL) return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    for (uint32_t k = 0; k < count && status == MPC_OK; k++) {
        for (uint32_t i = 0; i < l->count; i++) l->variables[i].label = MPC_FMT_f32;
        status = mpc_labels_move(l, c, &formats[k], 1, &ignored);
        if (status == MPC_OK) keep_if_better(&d);
    }
    for (int round = 0; status == MPC_OK && any && round < MOST_ROUNDS; round++)
        status = round_of_moves(&d, formats, count, &any);
    return status;
}

static mpc_status lower_bound(const mpc_plan *p, const mpc_costs *c, const mpc_format *formats, uint32_t count, double *bound) {
    mpc_arena *scratch = mpc_arena_create();
    if (scratch == NULL) return MPC_NO_MEMORY;
    mpc_labels relaxed = mpc_labels_create(p, scratch);
    mpc_status status = mpc_labels_move(&relaxed, c, formats, count, bound);
    mpc_arena_destroy(scratch);
    return status;
}

/* The price of all-f32, where nothing was given otherwise. The labels are as before afterwards. */
static void price_f32(mpc_plan *p, mpc_labels *l, const mpc_costs *c, mpc_solution *out) {
    for (uint32_t i = 0; i < l->count; i++) l->variables[i].kept = l->variables[i].label, l->variables[i].label = MPC_FMT_f32;
    mpc_labels_write(l, p);
    out->f32 = mpc_plan_price(p, c);
    for (uint32_t i = 0; i < l->count; i++) l->variables[i].label = l->variables[i].kept;
}

mpc_status mpc_mincut_formats(mpc_plan *p, const mpc_costs *c, const mpc_format *formats, uint32_t count,
                              mpc_plan_choices *choices, mpc_solution *out) {
    double begin = now();
    mpc_labels l = mpc_labels_create(p, p->arena);
    mpc_pin *pin = choices != NULL ? mpc_plan_choices_pin(choices) : NULL;
    if (pin != NULL && pin->value != NULL && !mpc_labels_pin(&l, pin)) l.failed = true;
    mpc_status status = count == 1 ? mpc_labels_move(&l, c, formats, 1, &out->bound) : descend(p, &l, c, formats, count);
    if (status == MPC_OK && count > 1) status = lower_bound(p, c, formats, count, &out->bound);
    out->seconds = now() - begin;
    if (status != MPC_OK) return status;
    price_f32(p, &l, c, out);
    decide_all(p, &l, c);
    out->cost = mpc_plan_price(p, c);
    out->present = true;
    return choices == NULL ? MPC_OK : mpc_weigh_choices(p, &l, c, choices);
}

/* --- where nothing multiplies faster --- */

/* "8.1 % more than f32 (574 us)" */
static void compare_to_f32(double seconds, double f32, char out[64]) {
    char text[16];
    double share = f32 > 0 ? 100 * (seconds / f32 - 1) : 0;
    if (fabs(share) < 0.05) snprintf(out, 64, "as in f32");
    else snprintf(out, 64, "%.2g %% %s than f32 (%s)", fabs(share), share > 0 ? "more" : "less", seconds_text(f32, text));
}

static void say_list(const mpc_plan *p, const mpc_device_profile *profile, double seconds, double f32) {
    char text[400], time[16], share[64];
    const mpc_sink *sink = mpc_context_sink(p->g->ctx);
    compare_to_f32(seconds, f32, share);
    snprintf(text, sizeof text,
             "%s multiplies no faster than f32 on %s, so it is taken for its numbers: formats are assigned by class, as by "
             "solver list: %s a step by the model, %s",
             name_of(p->low), profile->name, seconds_text(seconds, time), share);
    const mpc_diag note = {.severity = MPC_SEV_NOTE, .code = "W155", .message = text};
    if (sink != NULL) sink->emit(sink->user, &note);
}

/* What f32 costs, and for those who ask for choices what the cheapest assignment would. */
static mpc_status price_others(const mpc_plan *p, const mpc_solver_env *env, mpc_solution *out) {
    mpc_plan scratch;
    mpc_format formats[2];
    uint32_t count = mpc_plan_lows(p, formats);
    if (!mpc_plan_copy(p, &scratch))
        return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    mpc_labels l = mpc_labels_create(&scratch, p->arena);
    if (!l.failed) price_f32(&scratch, &l, env->costs, out);
    if (env->pass->choices == NULL && !l.failed) return MPC_OK;
    return count == 1 ? mpc_labels_move(&l, env->costs, formats, 1, &out->bound)
                      : lower_bound(&scratch, env->costs, formats, count, &out->bound);
}

static mpc_status solve_as_list(mpc_plan *p, const mpc_solver_env *env) {
    mpc_solution s = {.as_list = true};
    mpc_status status = price_others(p, env, &s);
    if (status == MPC_OK) status = mpc_solver_list(p, env);
    if (status != MPC_OK) return status;
    s.cost = mpc_plan_price(p, env->costs);
    double f32 = env->pass->f32_seconds > 0 ? env->pass->f32_seconds : s.f32.seconds;
    if (!env->goes_on) say_list(p, mpc_costs_profile(env->costs), s.cost.seconds, f32);
    if (env->pass->choices != NULL) *mpc_plan_choices_solution(env->pass->choices) = s;
    return MPC_OK;
}

static void say_gap(const mpc_plan *p, const mpc_solution *s) {
    char text[200], one[16], two[16], above[64] = "the best assignment there is";
    const mpc_sink *sink = mpc_context_sink(p->g->ctx);
    double gap = s->bound > 0 ? s->cost.seconds / s->bound - 1 : 0;
    if (gap > 1e-6) snprintf(above, sizeof above, "at most %.2g %% above the best assignment", 100 * gap);
    snprintf(text, sizeof text, "f32, %s and %s: %s a step by the model, lower bound %s: %s", name_of(p->low),
             name_of(p->also), seconds_text(s->cost.seconds, one), seconds_text(s->bound, two), above);
    const mpc_diag note = {.severity = MPC_SEV_NOTE, .code = "W156", .message = text};
    if (sink != NULL) sink->emit(sink->user, &note);
}

static mpc_status solve_for_budget(mpc_plan *p, const mpc_solver_env *env) {
    if (p->also == MPC_FMT_none) return mpc_dial_solve(p, env);
    return mpc_error(mpc_context_sink(p->g->ctx), "E105",
                     "a loss budget weighs f32 against one low format: leave `also = %s` out", name_of(p->also));
}

mpc_status mpc_solver_mincut(mpc_plan *p, const mpc_solver_env *env) {
    mpc_solution solution = {0};
    const mpc_device_profile *profile = mpc_costs_profile(env->costs);
    mpc_format formats[2];
    uint32_t count = mpc_plan_lows(p, formats);
    if (env->pass->sensitivity != NULL && env->pass->loss_budget > 0) return solve_for_budget(p, env);
    if (!mpc_device_gains(profile, p->low) && (count == 1 || !mpc_device_gains(profile, p->also)))
        return solve_as_list(p, env);
    mpc_plan_choices *choices = env->pass->choices;
    mpc_status status = mpc_mincut_formats(p, env->costs, formats, count, choices, &solution);
    if (status == MPC_OK && count > 1 && !env->goes_on) say_gap(p, &solution);
    if (status == MPC_OK && choices != NULL) *mpc_plan_choices_solution(choices) = solution;
    return status;
}
