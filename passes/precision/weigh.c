/* What each decision of a solved plan was worth: the plan's price with that one decision in either format, and what stands against the other one. A decision
 * touches few terms (its values, what it reads, its op), so only these are priced again. Of a LOW op what it reads is turned, of others the result; what a
 * user's word would do, backward ops and all, takes another solve (driver/explain_flip.c). */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "passes/precision/labels.h"

typedef struct weigher {
    mpc_plan *p;
    const mpc_labels *l;
    const mpc_costs *c;
    mpc_pricing pricing;
    uint32_t *begin;        /* by variable, + 1: into `values` */
    mpc_value_id *values;   /* by the variable of their storage */
    mpc_value_id *activation; /* by value: what folds into its product, MPC_NONE */
    uint32_t *implied_by;   /* by variable: some implication that ends here, from a low one; MPC_NONE */
    uint32_t *implies;      /* by variable: some implication that begins here and ends at an f32 one */
    MPC_ARRAY(mpc_value_id) stored;
    MPC_ARRAY(mpc_value_id) ties;
    mpc_node_id node[1];
    bool failed;
} weigher;

/* --- terms of one decision --- */

/* The value and, where it is a view, what it looks at: copies are asked for through views. */
static void add_stored(weigher *w, mpc_value_id v) {
    const mpc_graph *g = w->p->g;
    for (int views = 0; views < 16; views++) {
        const mpc_node *n = mpc_producer(g, v);
        if (!mpc_array_push(&w->stored, w->c->storage[v])) w->failed = true;
        if (!mpc_is_relabeling(g, n)) return;
        v = mpc_operand(g, n, 0);
    }
}

static void add_tie(weigher *w, mpc_value_id v) {
    if (!mpc_array_push(&w->ties, v)) w->failed = true;
}

static int by_descending_id(const void *a, const void *b) {
    mpc_value_id x = *(const mpc_value_id *)a, y = *(const mpc_value_id *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void collect_variable(weigher *w, uint32_t variable) {
    for (uint32_t i = w->begin[variable]; i < w->begin[variable + 1]; i++) {
        mpc_value_id v = w->values[i];
        add_stored(w, v);
        add_tie(w, v);
        if (w->activation[v] != MPC_NONE) add_tie(w, w->activation[v]);
    }
}

static void sort_unique(mpc_value_id *data, size_t *count) {
    size_t kept = 0;
    if (*count > 1) qsort(data, *count, sizeof *data, by_descending_id);
    for (size_t i = 0; i < *count; i++)
        if (kept == 0 || data[kept - 1] != data[i]) data[kept++] = data[i];
    *count = kept;
}

static mpc_terms terms_of(weigher *w, mpc_node_id id, uint32_t deciding) {
    const mpc_graph *g = w->p->g;
    const mpc_node *n = &g->nodes[id];
    bool low = w->l->of_node[id] != MPC_NONE;
    w->stored.count = w->ties.count = 0;
    if (w->l->variables[deciding].pinned == MPC_FMT_none) collect_variable(w, deciding);
    for (uint32_t i = 0; low && i < n->operand_count; i++) add_stored(w, mpc_operand(g, n, i));
    for (uint32_t i = 0; low && i < n->result_count; i++) add_tie(w, mpc_result(n, i));
    sort_unique(w->stored.data, &w->stored.count);
    sort_unique(w->ties.data, &w->ties.count);
    w->node[0] = id;
    return (mpc_terms){.values = w->stored.data,
                       .ties = w->ties.data,
                       .nodes = w->node,
                       .value_count = (uint32_t)w->stored.count,
                       .tie_count = (uint32_t)w->ties.count,
                       .node_count = low ? 1 : 0};
}

static void set_format(weigher *w, mpc_node_id id, uint32_t deciding, mpc_format f) {
    if (w->l->variables[deciding].pinned != MPC_FMT_none) return;
    for (uint32_t i = w->begin[deciding]; i < w->begin[deciding + 1]; i++) w->p->format[w->values[i]] = f;
    if (w->l->of_node[id] == deciding) w->p->decisions[id].operand = f;
}

/* --- who stands against it --- */

static mpc_node_id node_of(const weigher *w, uint32_t variable) { return w->l->variables[variable].node; }

static void block_by_rule(mpc_choice *out, mpc_node_id blocker, const char *rule) {
    out->blocked_by = blocker == MPC_NONE ? MPC_BLOCK_RULE : MPC_BLOCK_VALUE;
    out->blocker = blocker;
    out->rule = rule;
}

/* By the hard rules, whether the variable may take the other format with all others as they are. */
static bool is_forbidden(const weigher *w, uint32_t variable, mpc_choice *out) {
    const mpc_labels *l = w->l;
    const mpc_variable *x = &l->variables[variable];
    bool low = mpc_format_is_low(mpc_label_of(l, variable));
    uint32_t at = low ? w->implied_by[variable] : w->implies[variable];
    if (x->pinned != MPC_FMT_none) block_by_rule(out, MPC_NONE, x->rule);
    else if (at != MPC_NONE) {
        const mpc_implication *i = &l->implications[at];
        uint32_t other = low ? i->a : i->b;
        const mpc_variable *o = &l->variables[other];
        block_by_rule(out, o->pinned != MPC_FMT_none && o->node == MPC_NONE ? MPC_NONE : node_of(w, other), i->rule);
    } else return false;
    return true;
}

/* The neighbour whose format makes the other one dear: the largest operand of a LOW op that is stored as the op reads it, else the LOW op that reads the
 * result. */
static mpc_node_id dear_neighbour(const weigher *w, mpc_node_id id) {
    const mpc_plan *p = w->p;
    const mpc_node *n = &p->g->nodes[id];
    mpc_node_id best = MPC_NONE;
    double most = 0;
    if (w->l->of_node[id] == MPC_NONE) return p->wanted_by[mpc_result(n, 0)];
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = w->c->storage[mpc_operand(p->g, n, i)];
        if (p->fixed.operand[n->operand_begin + i] || p->format[v] != p->decisions[id].operand) continue;
        if (w->c->made[v] >= MPC_MADE_BEFORE || w->c->elements[v] <= most) continue;
        most = w->c->elements[v];
        best = p->g->values[v].producer;
    }
    return best;
}

/* The low format to weigh against f32: the one it has, or the first that it may have. */
static mpc_format low_of(const weigher *w, uint32_t deciding) {
    mpc_format now = mpc_label_of(w->l, deciding);
    if (mpc_format_is_low(now)) return now;
    bool other = w->p->also != MPC_FMT_none && !mpc_label_may_be(w->l, deciding, w->p->low);
    return other ? w->p->also : w->p->low;
}

static void find_blocker(weigher *w, mpc_node_id id, uint32_t deciding, mpc_choice *out) {
    mpc_format now = mpc_label_of(w->l, deciding), other = mpc_format_is_low(now) ? MPC_FMT_f32 : out->low_format;
    out->blocker = MPC_NONE;
    if (is_forbidden(w, deciding, out)) {
        out->f32 = mpc_format_is_low(now) ? HUGE_VAL : 0;
        out->low = mpc_format_is_low(now) ? 0 : HUGE_VAL;
        return;
    }
    mpc_value_id v = mpc_result(&w->p->g->nodes[id], 0);
    double own = mpc_cost_op(w->c, id, other) - mpc_cost_op(w->c, id, now);
    if (w->l->of_node[id] == MPC_NONE) own = mpc_cost_value(w->c, v, other) - mpc_cost_value(w->c, v, now);
    if (own >= 0) return;
    out->blocker = dear_neighbour(w, id);
    out->blocked_by = out->blocker == MPC_NONE ? MPC_BLOCK_NONE : MPC_BLOCK_VALUE;
}

/* --- one decision --- */

static double price_with(weigher *w, mpc_node_id id, uint32_t deciding, mpc_format f) {
    mpc_terms t = terms_of(w, id, deciding);
    set_format(w, id, deciding, f);
    return mpc_price_terms(&w->pricing, &t);
}

static mpc_choice weigh(weigher *w, mpc_node_id id) {
    uint32_t deciding = mpc_deciding_variable(w->l, id);
    mpc_format now = mpc_label_of(w->l, deciding);
    mpc_choice out = {.present = true, .low_format = low_of(w, deciding)};
    out.f32 = price_with(w, id, deciding, MPC_FMT_f32);
    out.low = price_with(w, id, deciding, out.low_format);
    price_with(w, id, deciding, now); /* as it was, for those that are weighed next */
    double least = fmin(out.f32, out.low);
    out.f32 -= least;
    out.low -= least;
    find_blocker(w, id, deciding, &out);
    return out;
}

/* --- all of them --- */

static bool index_variables(weigher *w, mpc_arena *arena) {
    const mpc_graph *g = w->p->g;
    const mpc_labels *l = w->l;
    w->begin = mpc_arena_alloc(arena, ((size_t)l->count + 3) * sizeof *w->begin);
    w->values = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *w->values);
    w->activation = mpc_arena_alloc(arena, ((size_t)g->value_count + 1) * sizeof *w->activation);
    w->implied_by = mpc_arena_alloc(arena, ((size_t)l->count + 1) * sizeof *w->implied_by);
    w->implies = mpc_arena_alloc(arena, ((size_t)l->count + 1) * sizeof *w->implies);
    if (!w->begin || !w->values || !w->activation || !w->implied_by || !w->implies) return false;
    for (uint32_t v = 0; v < g->value_count; v++) {
        w->activation[v] = MPC_NONE;
        w->begin[mpc_storage_variable(l, v) + 2]++;
    }
    for (uint32_t i = 2; i <= l->count + 1; i++) w->begin[i] += w->begin[i - 1];
    for (uint32_t v = 0; v < g->value_count; v++) {
        w->values[w->begin[mpc_storage_variable(l, v) + 1]++] = v;
        if (w->c->folded[v] != MPC_NONE) w->activation[w->c->folded[v]] = v;
    }
    for (uint32_t i = 0; i < l->count; i++) w->implied_by[i] = w->implies[i] = MPC_NONE;
    for (uint32_t i = 0; i < l->implication_count; i++) {
        const mpc_implication *r = &l->implications[i];
        if (mpc_format_is_low(mpc_label_of(l, r->a))) w->implied_by[r->b] = i;
        if (!mpc_format_is_low(mpc_label_of(l, r->b))) w->implies[r->a] = i;
    }
    return true;
}

static bool weigh_all(weigher *w, mpc_plan_choices *out) {
    const mpc_graph *g = w->p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (!mpc_is_assigned(g, id) || w->p->given[id]) continue;
        mpc_choice_line line = {.value = mpc_value_name(g, mpc_result(&g->nodes[id], 0)), .choice = weigh(w, id)};
        mpc_node_id blocker = line.choice.blocker;
        if (blocker != MPC_NONE) line.blocker = mpc_value_name(g, mpc_result(&g->nodes[blocker], 0));
        if (w->failed || !mpc_plan_choices_add(out, &line)) return false;
    }
    return true;
}

mpc_status mpc_weigh_choices(mpc_plan *p, const mpc_labels *l, const mpc_costs *c, mpc_plan_choices *out) {
    mpc_arena *arena = mpc_arena_create();
    weigher w = {.p = p, .l = l, .c = c};
    bool ok = arena != NULL && index_variables(&w, arena) && mpc_pricing_begin(&w.pricing, p, c, arena);
    if (ok) {
        mpc_pricing_all(&w.pricing);
        ok = weigh_all(&w, out);
    }
    mpc_array_free(&w.stored);
    mpc_array_free(&w.ties);
    mpc_arena_destroy(arena);
    if (ok) return MPC_OK;
    mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory");
    return MPC_NO_MEMORY;
}
