/* The dial: the fastest assignment whose predicted deviation of the loss stays within a budget. A price per unit of variance turns the question into a cut
 * that is solved exactly; the price is found between an assignment beyond the budget and one within it, by the line through both, until no cut lies below that
 * line. What is left is the gap between the best point of the convex hull and the bound that the price proves. A newcomer would forget that only what is
 * computed before the loss has a say: a gradient's rounding moves later losses, not this one. */
#include <math.h>

#include "passes/precision/labels.h"
#include "passes/precision/sensitivity.h"

enum { MOST_ROUNDS = 40 };
static const double MOST_VARIANCE = 1e12;

typedef struct charges { /* variances of the loss, or those times a price */
    double *by_value, *by_operand;
} charges;

typedef struct point { /* a solved assignment */
    double price, seconds, variance;
} point;

typedef struct dial {
    mpc_plan *p;
    mpc_costs *c;
    charges variance, priced;
    double allowed; /* variance */
    double most;    /* a price for one charge that nobody pays */
    double bound;
    uint32_t rounds;
} dial;

static bool make_charges(const mpc_graph *g, mpc_arena *arena, charges *out) {
    out->by_value = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *out->by_value);
    out->by_operand = mpc_arena_alloc(arena, ((size_t)g->operand_total + 1) * sizeof *out->by_operand);
    return out->by_value != NULL && out->by_operand != NULL;
}

/* Nodes before the seed of the backward pass. */
static mpc_node_id forward_count(const mpc_graph *g) {
    mpc_value_id seed = mpc_graph_find_value(g, "loss.seed");
    return seed == MPC_NONE ? g->node_count : g->values[seed].producer;
}

/* Variances by what is stored low and by what a cast makes low. */
static void fill(const mpc_plan *p, const mpc_sensitivity *s, charges *out) {
    const mpc_graph *g = p->g;
    mpc_node_id end = forward_count(g);
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        mpc_node_id producer = g->values[v].producer;
        if (producer == MPC_NONE || producer >= end) continue;
        const mpc_sensitive *e = mpc_sensitivity_find(s, mpc_value_name(g, v));
        if (e != NULL) out->by_value[v] = mpc_sensitivity_of(e, true, p->low);
    }
    for (mpc_node_id id = 0; id < end; id++) {
        const mpc_node *n = &g->nodes[id];
        if (mpc_node_op(g, id)->cls != MPC_CLASS_LOW) continue;
        for (uint32_t i = 0; i < n->operand_count; i++) {
            const mpc_sensitive *e = mpc_sensitivity_find(s, mpc_value_name(g, mpc_operand(g, n, i)));
            if (e != NULL && !p->fixed.operand[n->operand_begin + i])
                out->by_operand[n->operand_begin + i] = mpc_sensitivity_of(e, false, p->low);
        }
    }
}

/* Sums stay finite: what is beyond `most` can't be afforded anyway. */
static void scale(const mpc_graph *g, const charges *from, double factor, double most, charges *to) {
    for (uint32_t i = 0; i < g->value_count; i++) to->by_value[i] = fmin(from->by_value[i] * factor, most);
    for (uint32_t i = 0; i < g->operand_total; i++) to->by_operand[i] = fmin(from->by_operand[i] * factor, most);
}

static void charge(mpc_costs *c, const charges *x) {
    mpc_costs_charge(c, x->by_value, NULL);
    mpc_costs_charge_casts(c, x->by_operand);
}

/* An overflow is infinite, but sums stay finite. */
static bool make_variances(const mpc_plan *p, const mpc_sensitivity *s, charges *out) {
    if (!make_charges(p->g, p->arena, out)) return false;
    fill(p, s, out);
    scale(p->g, out, 1, MOST_VARIANCE, out);
    return true;
}

mpc_status mpc_sensitivity_charge(const mpc_plan *p, const mpc_sensitivity *s, mpc_costs *c) {
    charges variances;
    if (!make_variances(p, s, &variances)) return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    charge(c, &variances);
    return MPC_OK;
}

/* The cheapest assignment at this price. It is the plan's afterwards, with the priced charges. Whatever keeps the budget costs at this price at most its
 * seconds and price times what is allowed, and no less than the assignment found: hence the bound. Charges count in it as they were capped for the cut; with
 * the true ones of the assignment found it would be no bound. */
static mpc_status solve(dial *d, double price, mpc_plan_choices *choices, mpc_solution *solution, point *out) {
    scale(d->p->g, &d->variance, price, d->most > 0 ? d->most : HUGE_VAL, &d->priced);
    charge(d->c, &d->priced);
    mpc_status status = mpc_mincut_formats(d->p, d->c, &d->p->low, 1, choices, solution);
    if (status != MPC_OK) return status;
    charge(d->c, &d->variance);
    mpc_plan_cost cost = mpc_plan_price(d->p, d->c);
    *out = (point){.price = price, .seconds = cost.seconds - cost.deviation, .variance = cost.deviation};
    charge(d->c, &d->priced);
    d->rounds++;
    d->bound = fmax(d->bound, mpc_plan_price(d->p, d->c).seconds - price * d->allowed);
    return MPC_OK;
}

/* Between `over` and `within`; *within is the best at the end. */
static mpc_status close_in(dial *d, point over, point *within) {
    while (d->rounds < MOST_ROUNDS && within->seconds > over.seconds) {
        mpc_solution ignored = {0};
        point next;
        double price = (within->seconds - over.seconds) / (over.variance - within->variance);
        double line = over.seconds + price * over.variance;
        mpc_status status = solve(d, price, NULL, &ignored, &next);
        if (status != MPC_OK) return status;
        bool below = next.seconds + price * next.variance < line * (1 - 1e-9);
        if (next.variance > d->allowed) over = next;
        else if (next.seconds < within->seconds) *within = next;
        if (!below) break;
    }
    return MPC_OK;
}

static mpc_status refuse(const dial *d, const point *within) {
    return mpc_error(mpc_context_sink(d->p->g->ctx), "E368",
                     "no assignment keeps the loss budget %.3g: with what is low by the user's word, and little else, the loss deviates by %.3g",
                     sqrt(d->allowed), sqrt(within->variance));
}

static mpc_status search(dial *d, point *best, mpc_dial *report) {
    mpc_solution solution = {0};
    mpc_status status = solve(d, 0, NULL, &solution, best);
    if (status != MPC_OK) return status;
    report->f32_seconds = solution.f32.seconds - solution.f32.deviation;
    report->free_seconds = best->seconds;
    report->free_predicted = sqrt(best->variance);
    if (best->variance <= d->allowed) return MPC_OK;
    d->most = 24 * fmax(report->f32_seconds, best->seconds);
    point over = *best;
    status = solve(d, d->most / d->allowed, NULL, &solution, best);
    if (status == MPC_OK && best->variance > d->allowed) status = solve(d, 100 * d->most / d->allowed, NULL, &solution, best);
    if (status != MPC_OK) return status;
    return best->variance > d->allowed ? refuse(d, best) : close_in(d, over, best);
}

static bool begin(dial *d, mpc_plan *p, const mpc_solver_env *env, double budget) {
    *d = (dial){.p = p, .allowed = budget * budget};
    d->c = mpc_arena_alloc(p->arena, sizeof *d->c);
    if (d->c == NULL || !make_variances(p, env->pass->sensitivity, &d->variance)) return false;
    *d->c = *env->costs;
    return make_charges(p->g, p->arena, &d->priced);
}

mpc_status mpc_dial_solve(mpc_plan *p, const mpc_solver_env *env) {
    dial d;
    point best, last;
    mpc_solution solution = {0};
    mpc_dial report = {.budget = env->pass->loss_budget};
    mpc_plan_choices *choices = env->pass->choices;
    if (!begin(&d, p, env, report.budget)) return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    mpc_status status = search(&d, &best, &report);
    if (status == MPC_OK) status = solve(&d, best.price, choices, &solution, &last);
    if (status != MPC_OK) return status;
    if (choices != NULL) *mpc_plan_choices_solution(choices) = solution;
    report.present = true;
    report.seconds = last.seconds;
    report.predicted = sqrt(last.variance);
    report.price = last.price;
    report.bound = fmin(d.bound, last.seconds);
    report.rounds = d.rounds;
    if (env->pass->dial != NULL) *env->pass->dial = report;
    return MPC_OK;
}
