/* The variables and hard rules of an assignment, from the same facts as the solver `list` uses (readers.c, fixed.c), so that what `list` decides is one of
 * the choices here. A rule is never a cost: it pins a variable, makes two values share one, or says "low only if that one is low". All-f32 keeps every
 * rule, except where the user has decided otherwise; that is why the cut always has an answer. */
#include "passes/precision/labels.h"

#include <math.h>

static uint32_t add_variable(mpc_labels *l, mpc_node_id node, mpc_format pinned, const char *rule) {
    l->variables[l->count] = (mpc_variable){.pinned = pinned, .label = MPC_FMT_f32, .node = node, .rule = rule};
    return l->count++;
}

static void imply(mpc_labels *l, uint32_t a, uint32_t b, const char *rule) {
    if (a == b || l->variables[a].pinned != MPC_FMT_none) return;
    if (l->implication_count == l->implication_room) {
        l->failed = true;
        return;
    }
    l->implications[l->implication_count++] = (mpc_implication){a, b, rule};
}

/* Results whose types are fixed keep them; the others share `variable`. */
static void give_results(mpc_labels *l, mpc_node_id id, uint32_t variable) {
    const mpc_plan *p = l->plan;
    const mpc_node *n = &p->g->nodes[id];
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        if (!p->fixed.result[v] && variable != MPC_NONE) l->of_value[v] = variable;
        else
            l->of_value[v] = mpc_value_format(p->g, v) == MPC_FMT_f32
                                 ? l->f32
                                 : add_variable(l, id, mpc_value_format(p->g, v), "its type is fixed");
    }
}

/* --- what is ruled out, as bits by format --- */

static bool is_every_low(const mpc_plan *p, uint32_t banned) {
    mpc_format lows[2];
    uint32_t every = 0, count = mpc_plan_lows(p, lows);
    for (uint32_t i = 0; i < count; i++) every |= 1u << lows[i];
    return banned == every;
}

static uint32_t banned_by_range(const mpc_plan *p, mpc_value_id v) {
    mpc_format lows[2];
    uint32_t banned = 0, count = mpc_plan_lows(p, lows);
    for (uint32_t i = 0; i < count; i++)
        if (mpc_plan_forced(p, v, lows[i]) != 0) banned |= 1u << lows[i];
    return banned;
}

static uint32_t banned_for_results(const mpc_plan *p, const mpc_node *n) {
    uint32_t banned = 0;
    for (uint32_t i = 0; i < n->result_count; i++) banned |= banned_by_range(p, mpc_result(n, i));
    return banned;
}

static uint32_t banned_for_operands(const mpc_plan *p, const mpc_node *n) {
    uint32_t banned = 0;
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (!p->fixed.operand[n->operand_begin + i]) banned |= banned_by_range(p, mpc_operand(p->g, n, i));
    return banned;
}

static uint32_t banned_by_constants(const mpc_plan *p, const mpc_node *n) {
    mpc_format lows[2];
    uint32_t banned = 0, count = mpc_plan_lows(p, lows);
    for (uint32_t i = 0; i < count; i++)
        if (!mpc_constants_survive(p, n, lows[i])) banned |= 1u << lows[i];
    return banned;
}

static uint32_t add_free(mpc_labels *l, mpc_node_id node, uint32_t banned) {
    uint32_t variable = add_variable(l, node, MPC_FMT_none, NULL);
    l->variables[variable].banned = banned;
    return variable;
}

static void pin(mpc_labels *l, mpc_node_id id, const char *rule) {
    give_results(l, id, add_variable(l, id, MPC_FMT_f32, rule));
}

/* --- rules by class --- */

static void rule_given(mpc_labels *l, mpc_node_id id) {
    const mpc_decision *d = &l->plan->decisions[id];
    uint32_t result = d->result == MPC_FMT_none ? MPC_NONE : add_variable(l, id, d->result, "given");
    give_results(l, id, result);
    if (mpc_node_op(l->plan->g, id)->cls == MPC_CLASS_LOW && d->operand != MPC_FMT_none)
        l->of_node[id] = add_variable(l, id, d->operand, "given");
}

static void rule_held(mpc_labels *l, mpc_node_id id) {
    give_results(l, id, MPC_NONE);
    if (mpc_node_op(l->plan->g, id)->cls == MPC_CLASS_LOW) l->of_node[id] = add_variable(l, id, MPC_FMT_f32, "held");
}

static void rule_low(mpc_labels *l, mpc_node_id id) {
    const mpc_plan *p = l->plan;
    const mpc_node *n = &p->g->nodes[id];
    uint32_t operands = banned_for_operands(p, n), results = banned_for_results(p, n);
    l->of_node[id] = is_every_low(p, operands) ? add_variable(l, id, MPC_FMT_f32, "range")
                                               : add_free(l, id, operands);
    if (is_every_low(p, results)) pin(l, id, "range");
    else if (mpc_result_stays_f32(p, n)) pin(l, id, "N60");
    else give_results(l, id, add_free(l, id, results));
}

/* What it says is low only if all that have a say are. */
static void follow_operands(mpc_labels *l, mpc_node_id id, uint32_t variable) {
    const mpc_plan *p = l->plan;
    const mpc_node *n = &p->g->nodes[id];
    int64_t elements = mpc_type_elements(mpc_value_type(p->g, mpc_result(n, 0)));
    bool any = false;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        if (!mpc_has_a_say(p->g, v, elements)) continue;
        imply(l, variable, l->of_value[v], "N43");
        any = true;
    }
    if (any) return;
    l->variables[variable].pinned = MPC_FMT_f32;
    l->variables[variable].rule = "N43";
}

static bool is_intermediate(const mpc_plan *p, const mpc_node *n) {
    mpc_value_id v = mpc_result(n, 0);
    return p->inside[v] && p->read[v];
}

static void say_only(mpc_labels *l, mpc_node_id id) {
    uint32_t said = add_variable(l, id, MPC_FMT_none, NULL);
    const mpc_node *n = &l->plan->g->nodes[id];
    give_results(l, id, said);
    for (uint32_t i = 0; i < n->result_count; i++) l->wide[mpc_result(n, i)] = true;
    follow_operands(l, id, said);
}

/* The LOW op that would have the value low, through views. */
static mpc_node_id low_reader(const mpc_plan *p, mpc_value_id v) {
    for (mpc_node_id id = p->wanted_by[v]; id != MPC_NONE; id = p->wanted_by[mpc_result(&p->g->nodes[id], 0)]) {
        const mpc_op *op = mpc_node_op(p->g, id);
        if (op->cls == MPC_CLASS_LOW) return id;
        if (op->kind != MPC_KIND_VIEW) return MPC_NONE;
    }
    return MPC_NONE;
}

static void rule_high(mpc_labels *l, mpc_node_id id) {
    const mpc_plan *p = l->plan;
    const mpc_node *n = &p->g->nodes[id];
    mpc_value_id y = mpc_result(n, 0);
    uint32_t banned = banned_for_results(p, n);
    bool may = mpc_node_stores_low(p->g, id) && !p->fixed.result[y] && p->wanted_by[y] != MPC_NONE &&
               n->operand_count > 0 && !is_every_low(p, banned);
    if (!may) {
        if (is_intermediate(p, n)) say_only(l, id);
        else pin(l, id, is_every_low(p, banned) ? "range" : "N41");
        return;
    }
    uint32_t result = add_free(l, id, banned);
    give_results(l, id, result);
    if (!(p->only_wanted[y] && p->read[y])) imply(l, result, mpc_storage_variable(l, mpc_operand(p->g, n, 0)), "N30");
}

static void rule_follow(mpc_labels *l, mpc_node_id id) {
    const mpc_plan *p = l->plan;
    const mpc_node *n = &p->g->nodes[id];
    uint32_t range = banned_for_results(p, n), constants;
    if (is_every_low(p, range)) pin(l, id, "range");
    else if (p->only_f32[mpc_result(n, 0)]) pin(l, id, "N40");
    else if (is_intermediate(p, n)) say_only(l, id);
    else if (is_every_low(p, constants = banned_by_constants(p, n))) pin(l, id, "N45");
    else if (is_every_low(p, range | constants)) pin(l, id, "range");
    else {
        uint32_t result = add_free(l, id, range | constants);
        give_results(l, id, result);
        follow_operands(l, id, result);
    }
}

static void rule_clear(mpc_labels *l, mpc_node_id id) {
    const mpc_plan *p = l->plan;
    const mpc_node *n = &p->g->nodes[id];
    if (n->op == MPC_OP_cast) {
        give_results(l, id, add_variable(l, id, mpc_attr_format(p->g, n, "to"), "N99"));
        return;
    }
    if (n->operand_count == 0) {
        pin(l, id, "a constant");
        return;
    }
    if (mpc_node_op(p->g, id)->kind != MPC_KIND_VIEW || n->operand_count == 1) {
        give_results(l, id, mpc_storage_variable(l, mpc_operand(p->g, n, 0)));
        return;
    }
    uint32_t banned = banned_for_results(p, n);
    if (is_every_low(p, banned)) {
        pin(l, id, "range");
        l->of_node[id] = l->of_value[mpc_result(n, 0)];
        return;
    }
    uint32_t joined = add_free(l, id, banned);
    give_results(l, id, joined);
    l->of_node[id] = joined;
    for (uint32_t i = 0; i < n->operand_count; i++)
        imply(l, joined, mpc_storage_variable(l, mpc_operand(p->g, n, i)), "N43");
}

static void rule_of(mpc_labels *l, mpc_node_id id) {
    const mpc_plan *p = l->plan;
    if (!mpc_is_assigned(p->g, id)) give_results(l, id, MPC_NONE);
    else if (p->given[id]) rule_given(l, id);
    else if (p->fixed.held[id] != 0) rule_held(l, id);
    else
        switch (mpc_node_op(p->g, id)->cls) {
        case MPC_CLASS_LOW: rule_low(l, id); break;
        case MPC_CLASS_HIGH: rule_high(l, id); break;
        case MPC_CLASS_FOLLOW: rule_follow(l, id); break;
        case MPC_CLASS_CLEAR: rule_clear(l, id); break;
        case MPC_CLASS_NONE: break;
        }
}

/* --- rules that look ahead --- */

/* A HIGH result is low for the sake of a LOW op that reads it low. */
static void tie_high_to_readers(mpc_labels *l) {
    const mpc_plan *p = l->plan;
    for (mpc_node_id id = 0; id < p->g->node_count; id++) {
        if (!mpc_is_assigned(p->g, id) || p->given[id] || mpc_node_op(p->g, id)->cls != MPC_CLASS_HIGH) continue;
        mpc_value_id y = mpc_result(&p->g->nodes[id], 0);
        mpc_node_id reader = low_reader(p, y);
        if (l->wide[y] || reader == MPC_NONE || l->of_node[reader] == MPC_NONE) continue;
        imply(l, l->of_value[y], l->of_node[reader], "N10");
    }
}

/* What the user has pinned low stays apart here; such plans are settled afterwards. */
static void tie_agreements(mpc_labels *l) {
    for (uint32_t i = 0; i < l->plan->agree_count; i++) {
        uint32_t a = mpc_storage_variable(l, l->plan->agree[i].a), b = mpc_storage_variable(l, l->plan->agree[i].b);
        if (mpc_format_is_low(l->variables[a].pinned) || mpc_format_is_low(l->variables[b].pinned)) continue;
        imply(l, a, b, "agree");
        imply(l, b, a, "agree");
    }
}

/* Whatever implies an f32 variable, at however many removes, is f32: found here in one walk, these chains need no flow, which would run along their whole
 * length again and again. */
static void sink_implied(mpc_labels *l) {
    uint32_t *begin = mpc_arena_alloc(l->arena, ((size_t)l->count + 3) * sizeof *begin);
    uint32_t *by_end = mpc_arena_alloc(l->arena, ((size_t)l->implication_count + 1) * sizeof *by_end);
    uint32_t *queue = mpc_arena_alloc(l->arena, ((size_t)l->count + 1) * sizeof *queue), head = 0, tail = 0;
    if (begin == NULL || by_end == NULL || queue == NULL) {
        l->failed = true;
        return;
    }
    for (uint32_t i = 0; i < l->implication_count; i++) begin[l->implications[i].b + 2]++;
    for (uint32_t i = 2; i <= l->count + 1; i++) begin[i] += begin[i - 1];
    for (uint32_t i = 0; i < l->implication_count; i++) by_end[begin[l->implications[i].b + 1]++] = i;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->variables[i].pinned != MPC_FMT_none && !mpc_format_is_low(l->variables[i].pinned)) queue[tail++] = i;
    while (head < tail) {
        uint32_t b = queue[head++];
        for (uint32_t k = begin[b]; k < begin[b + 1]; k++) {
            mpc_variable *a = &l->variables[l->implications[by_end[k]].a];
            if (a->sunk || a->pinned != MPC_FMT_none) continue;
            a->sunk = true;
            queue[tail++] = l->implications[by_end[k]].a;
        }
    }
}

static bool make_room(mpc_labels *l) {
    const mpc_graph *g = l->plan->g;
    size_t most = (size_t)g->value_count + 2 * (size_t)g->node_count + 2;
    l->implication_room = g->operand_total + 2 * g->node_count + 2 * l->plan->agree_count;
    l->variables = mpc_arena_alloc(l->arena, most * sizeof *l->variables);
    l->of_value = mpc_arena_alloc(l->arena, ((size_t)g->value_count + 1) * sizeof *l->of_value);
    l->wide = mpc_arena_alloc(l->arena, (size_t)g->value_count + 1);
    l->of_node = mpc_arena_alloc(l->arena, ((size_t)g->node_count + 1) * sizeof *l->of_node);
    l->implications = mpc_arena_alloc(l->arena, ((size_t)l->implication_room + 1) * sizeof *l->implications);
    return l->variables && l->of_value && l->wide && l->of_node && l->implications;
}

mpc_labels mpc_labels_create(const mpc_plan *plan, mpc_arena *arena) {
    const mpc_graph *g = plan->g;
    mpc_labels l = {.plan = plan, .arena = arena};
    if (!make_room(&l)) {
        l.failed = true;
        return l;
    }
    l.f32 = add_variable(&l, MPC_NONE, MPC_FMT_f32, "its type is fixed");
    for (mpc_node_id id = 0; id < g->node_count; id++) l.of_node[id] = MPC_NONE;
    for (uint32_t v = 0; v < g->value_count; v++)
        if (g->values[v].producer == MPC_NONE)
            l.of_value[v] = mpc_value_format(g, v) == MPC_FMT_f32
                                ? l.f32
                                : add_variable(&l, MPC_NONE, mpc_value_format(g, v), "its type is fixed");
    for (mpc_node_id id = 0; id < g->node_count; id++) rule_of(&l, id);
    tie_high_to_readers(&l);
    tie_agreements(&l);
    sink_implied(&l);
    return l;
}

void mpc_labels_write(const mpc_labels *l, mpc_plan *p) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        if (!mpc_is_assigned(g, id) || p->given[id]) continue;
        mpc_decision d = {.present = true, .compute = MPC_FMT_f32};
        for (uint32_t i = 0; i < n->result_count; i++) {
            mpc_value_id v = mpc_result(n, i);
            if (p->fixed.result[v]) continue;
            p->format[v] = d.result = mpc_label_of(l, mpc_storage_variable(l, v));
        }
        if (l->of_node[id] != MPC_NONE) d.operand = mpc_label_of(l, l->of_node[id]);
        else if (mpc_node_op(g, id)->kind == MPC_KIND_VIEW) d.operand = d.result;
        p->decisions[id] = d;
    }
}
