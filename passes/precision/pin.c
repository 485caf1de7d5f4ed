/* A decision held in a format while everything else is solved again: what it costs to have it so, all hard rules kept.
 * The variable takes along what the rules tie to it (whatever it implies to be low, whatever implies it to be f32), so
 * that a pin that no plan can have is found here and never by a cut, which would answer it with something infinite. */
#include <string.h>

#include "passes/precision/labels.h"

uint32_t mpc_deciding_variable(const mpc_labels *l, mpc_node_id id) {
    if (l->of_node[id] != MPC_NONE) return l->of_node[id];
    return mpc_storage_variable(l, mpc_open_result(l->plan, &l->plan->g->nodes[id]));
}

typedef struct pinning {
    mpc_labels *l;
    mpc_format format;
    uint32_t first;    /* the variable that is asked for */
    uint32_t *through; /* by variable: the implication that took it along; MPC_NONE: it isn't */
    const char *rule;  /* what forbids it; NULL: nothing so far */
} pinning;

/* The rule of the first step from the variable that is asked for to one that can't. */
static const char *first_rule(const pinning *x, uint32_t variable) {
    bool low = mpc_format_is_low(x->format);
    const char *rule = x->l->variables[variable].rule;
    while (variable != x->first) {
        const mpc_implication *i = &x->l->implications[x->through[variable]];
        rule = i->rule;
        variable = low ? i->a : i->b;
    }
    return rule != NULL ? rule : "range";
}

static void take(pinning *x, uint32_t variable, uint32_t implication) {
    const mpc_variable *v = &x->l->variables[variable];
    bool fits = v->pinned == MPC_FMT_none ? mpc_label_may_be(x->l, variable, x->format) : v->pinned == x->format;
    x->through[variable] = implication;
    if (!fits) x->rule = first_rule(x, variable);
}

/* Implications come in the order of nodes, so that one pass from the end settles most chains of what must be low, one
 * from the beginning those of f32. */
static bool take_along(pinning *x, uint32_t k) {
    const mpc_implication *i = &x->l->implications[k];
    bool low = mpc_format_is_low(x->format);
    uint32_t from = low ? i->a : i->b, to = low ? i->b : i->a;
    if (x->through[from] == MPC_NONE || x->through[to] != MPC_NONE) return false;
    take(x, to, k);
    return true;
}

static void close_over(pinning *x) {
    uint32_t count = x->l->implication_count;
    bool low = mpc_format_is_low(x->format);
    for (bool any = true; any && x->rule == NULL;) {
        any = false;
        for (uint32_t k = 0; k < count && x->rule == NULL; k++) any = take_along(x, low ? count - 1 - k : k) || any;
    }
}

static mpc_node_id node_named(const mpc_graph *g, const char *name) {
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (mpc_is_assigned(g, id) && strcmp(mpc_value_name(g, mpc_result(&g->nodes[id], 0)), name) == 0) return id;
    return MPC_NONE;
}

static const char *rule_of(const mpc_labels *l, mpc_node_id id, const char *rule) {
    bool wide = l->of_node[id] == MPC_NONE && l->wide[mpc_result(&l->plan->g->nodes[id], 0)];
    return wide ? "N60" : rule;
}

bool mpc_labels_pin(mpc_labels *l, mpc_pin *pin) {
    mpc_node_id id = node_named(l->plan->g, pin->value);
    if (id == MPC_NONE || l->failed) return !l->failed;
    pinning x = {.l = l, .format = pin->format, .first = mpc_deciding_variable(l, id)};
    x.through = mpc_arena_alloc(l->arena, ((size_t)l->count + 1) * sizeof *x.through);
    if (x.through == NULL) return false;
    for (uint32_t i = 0; i < l->count; i++) x.through[i] = MPC_NONE;
    take(&x, x.first, 0);
    if (x.rule == NULL) close_over(&x);
    pin->rule = x.rule == NULL ? NULL : rule_of(l, id, x.rule);
    pin->possible = x.rule == NULL;
    for (uint32_t i = 0; i < l->count && pin->possible; i++)
        if (x.through[i] != MPC_NONE) l->variables[i].pinned = pin->format;
    return true;
}
