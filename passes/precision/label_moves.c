/* One move as a minimum cut: every free variable keeps its format (sink side) or takes `to` (source side). A value has a node per format in which it may
 * be needed, held on its side by whoever needs it, so that a copy is paid once however many readers it has. From all-f32 this is the exact optimum of two
 * formats; with several, a move is a step of a descent. Seconds become integers by a power of two, so that equal plans have equal cuts. */
#include <math.h>

#include "base/alloc.h"
#include "passes/precision/cut.h"
#include "passes/precision/labels.h"

/* A side: a node of the cut, or one of the two ends. */
enum { AT_SINK = 0, AT_SOURCE = 1, FIRST = 2 };
typedef uint32_t side;

/* Copies of a value in one format: on the side where it exists. 0: nobody can need it. */
typedef struct copy_nodes {
    side stored, needed;
    bool made;
} copy_nodes;

typedef struct mover {
    mpc_labels *l;
    const mpc_costs *c;
    const mpc_format *to;
    uint32_t to_count;
    mpc_cut *cut;
    side *of;                         /* by variable */
    mpc_format formats[MPC_FMT_count]; /* in use: `to` first */
    uint32_t format_count, index[MPC_FMT_count];
    copy_nodes *copies; /* by value times format_count */
    bool *asks;         /* by value: asks_for_more */
    double unit, constant; /* seconds of one unit of the cut; what is paid anyway */
} mover;

/* --- the cut --- */

static int64_t scaled(const mover *m, double seconds) {
    double units = seconds / m->unit;
    return units > 1e15 ? (int64_t)1000000000000000 : (int64_t)llround(units);
}

static void cost_side(mover *m, side s, double on_source, double on_sink) {
    if (s == AT_SOURCE) m->constant += on_source;
    else if (s == AT_SINK) m->constant += on_sink;
    else {
        double both = fmin(on_source, on_sink);
        m->constant += both;
        mpc_cut_side(m->cut, s - FIRST, scaled(m, on_source - both), scaled(m, on_sink - both));
    }
}

/* Cost when `a` is at the source and `b` at the sink. */
static void cost_edge(mover *m, side a, side b, double seconds) {
    if (a == AT_SINK || b == AT_SOURCE || a == b) return;
    if (a == AT_SOURCE) cost_side(m, b, 0, seconds);
    else if (b == AT_SINK) cost_side(m, a, seconds, 0);
    else mpc_cut_edge(m->cut, a - FIRST, b - FIRST, scaled(m, seconds));
}

static void forbid(mover *m, side a, side b) {
    if (a == AT_SINK || b == AT_SOURCE || a == b) return;
    if (a == AT_SOURCE && b == AT_SINK) return; /* both pinned: nothing to decide */
    if (a == AT_SOURCE) mpc_cut_side(m->cut, b - FIRST, 0, MPC_CUT_INFINITE);
    else if (b == AT_SINK) mpc_cut_side(m->cut, a - FIRST, MPC_CUT_INFINITE, 0);
    else mpc_cut_edge(m->cut, a - FIRST, b - FIRST, MPC_CUT_INFINITE);
}

static side new_side(mover *m) { return mpc_cut_node(m->cut) + FIRST; }

/* --- terms in the format of a side: the cheapest of `to` where the move is relaxed --- */

typedef double (*price_of)(const mpc_costs *c, uint32_t id, mpc_format f);

static double price_to(const mover *m, price_of price, uint32_t id) {
    double best = HUGE_VAL;
    for (uint32_t i = 0; i < m->to_count; i++) best = fmin(best, price(m->c, id, m->to[i]));
    return best;
}

static double price_in(const mover *m, price_of price, uint32_t id, mpc_format f) {
    return f == m->to[0] ? price_to(m, price, id) : price(m->c, id, f);
}

static double price_cast(const mover *m, mpc_value_id v, mpc_format from, mpc_format to) {
    return from == to ? 0 : mpc_cost_cast(m->c, v, from, to);
}

/* --- variables --- */

static bool may_move(const mover *m, uint32_t variable) {
    for (uint32_t i = 0; i < m->to_count; i++)
        if (mpc_label_may_be(m->l, variable, m->to[i])) return true;
    return false;
}

static side side_of_variable(mover *m, uint32_t variable) {
    const mpc_variable *x = &m->l->variables[variable];
    if (x->sunk) return AT_SINK;
    if (x->pinned == MPC_FMT_none && x->label == m->to[0]) return AT_SOURCE;
    if (x->pinned == MPC_FMT_none) return may_move(m, variable) ? new_side(m) : AT_SINK;
    for (uint32_t i = 0; i < m->to_count; i++)
        if (x->pinned == m->to[i]) return AT_SOURCE;
    return AT_SINK;
}

static void list_formats(mover *m) {
    m->formats[m->format_count++] = m->to[0];
    m->index[m->to[0]] = 0;
    for (uint32_t i = 0; i < m->l->count; i++) {
        mpc_format f = mpc_label_of(m->l, i);
        bool known = !mpc_format_is_float(f);
        for (uint32_t k = 0; k < m->format_count && !known; k++) known = m->formats[k] == f;
        for (uint32_t k = 0; k < m->to_count && !known; k++) known = m->to[k] == f;
        if (known) continue;
        m->index[f] = m->format_count;
        m->formats[m->format_count++] = f;
    }
}

static void add_rules(mover *m) {
    const mpc_labels *l = m->l;
    for (uint32_t i = 0; i < l->implication_count; i++) {
        const mpc_implication *r = &l->implications[i];
        forbid(m, m->of[r->a], m->of[r->b]);
        /* a keeps a low format: so must b keep the same */
        if (mpc_format_is_low(mpc_label_of(l, r->a)) && m->of[r->a] >= FIRST) forbid(m, m->of[r->b], m->of[r->a]);
    }
}

/* --- copies of a value --- */

static copy_nodes *copy_in(mover *m, mpc_value_id v, mpc_format f) {
    return &m->copies[(size_t)v * m->format_count + m->index[f]];
}

/* Can a format be needed that crosses no border? */
static bool asks_for_more(const mover *m, mpc_value_id v) {
    const mpc_costs *c = m->c;
    for (uint32_t i = c->begin[v]; i < c->begin[v + 1]; i++) {
        const mpc_reading *r = &c->readings[i];
        if (!r->crosses && r->as != MPC_READ_STORED) return true;
        if (r->as == MPC_READ_COPIES && m->asks[r->through]) return true;
    }
    return false;
}

static copy_nodes *make_copy(mover *m, mpc_value_id v, mpc_format f) {
    copy_nodes *copy = copy_in(m, v, f);
    if (copy->made) return copy;
    copy->made = true;
    copy->stored = copy->needed = new_side(m);
    if (!m->asks[v]) return copy;
    copy->needed = new_side(m);
    if (f == m->to[0]) forbid(m, copy->stored, copy->needed);
    else forbid(m, copy->needed, copy->stored);
    return copy;
}

/* `who` on its side needs the copy there. */
static void hold(mover *m, mpc_format f, side copy, side who) {
    if (f == m->to[0]) forbid(m, who, copy);
    else forbid(m, copy, who);
}

/* Whoever reads in format `kept`, or in `to` after the move, needs copies; reading them costs. */
static void read_as(mover *m, mpc_value_id v, const mpc_reading *r, side who, mpc_format kept) {
    const mpc_format ends[2] = {m->to[0], kept};
    const side at[2] = {AT_SOURCE, AT_SINK};
    for (int i = 0; i < 2; i++) {
        if (who == at[1 - i]) continue;
        copy_nodes *copy = make_copy(m, v, ends[i]);
        hold(m, ends[i], r->crosses ? copy->stored : copy->needed, who);
    }
    if (r->counted)
        cost_side(m, who, who == AT_SINK ? 0 : price_to(m, mpc_cost_read, v), who == AT_SOURCE ? 0 : mpc_cost_read(m->c, v, kept));
}

static void read_copies(mover *m, mpc_value_id v, const mpc_reading *r) {
    for (uint32_t k = 0; k < m->format_count; k++) {
        mpc_format f = m->formats[k];
        const copy_nodes *view = copy_in(m, r->through, f);
        if (!view->made) continue;
        copy_nodes *copy = make_copy(m, v, f);
        if (r->crosses) hold(m, f, copy->stored, view->stored);
        hold(m, f, copy->needed, view->needed);
        double seconds = r->counted ? price_in(m, mpc_cost_read, v, f) : 0;
        if (k == 0) cost_side(m, view->stored, seconds, 0);
        else cost_side(m, view->stored, 0, seconds);
    }
}

static void read_value(mover *m, mpc_value_id v, const mpc_reading *r) {
    const mpc_labels *l = m->l;
    uint32_t stored = mpc_storage_variable(l, v);
    if (r->as == MPC_READ_COPIES) read_copies(m, v, r);
    else if (r->as == MPC_READ_FIXED) {
        bool moved = false;
        for (uint32_t i = 0; i < m->to_count; i++) moved = moved || r->format == m->to[i];
        read_as(m, v, r, moved ? AT_SOURCE : AT_SINK, r->format);
        if (moved) cost_edge(m, AT_SOURCE, m->of[stored], mpc_cost_cast_charge(m->c, v, r));
    } else {
        uint32_t variable = r->as == MPC_READ_OPERANDS && l->of_node[r->reader] != MPC_NONE ? l->of_node[r->reader] : stored;
        read_as(m, v, r, m->of[variable], mpc_label_of(l, variable));
        if (r->as == MPC_READ_OPERANDS) cost_edge(m, m->of[variable], m->of[stored], mpc_cost_cast_charge(m->c, v, r));
    }
}

/* A copy in another format than the stored one is a cast. `kept`: the storage format on the sink side. */
static void pay_cast(mover *m, mpc_value_id v, mpc_format f, const copy_nodes *copy, side stored, mpc_format kept) {
    if (f == m->to[0]) {
        cost_edge(m, copy->needed, stored, price_cast(m, v, kept, f));
    } else if (f == kept) {
        cost_edge(m, stored, copy->needed, price_cast(m, v, m->to[0], f));
    } else { /* neither side stores it so */
        cost_side(m, copy->needed, 0, fmax(price_cast(m, v, kept, f), price_cast(m, v, m->to[0], f)));
    }
}

static void add_value(mover *m, mpc_value_id v) {
    const mpc_costs *c = m->c;
    uint32_t variable = mpc_storage_variable(m->l, v);
    side stored = m->of[variable];
    mpc_format kept = mpc_label_of(m->l, variable);
    if (c->storage[v] != v || !(c->elements[v] > 0)) return;
    m->asks[v] = asks_for_more(m, v);
    for (uint32_t i = c->begin[v]; i < c->begin[v + 1]; i++) read_value(m, v, &c->readings[i]);
    if (c->begin[v] < c->begin[v + 1] && mpc_cost_always_stored(c, v)) {
        const mpc_reading own = {.as = MPC_READ_STORED, .crosses = true};
        read_as(m, v, &own, stored, kept);
    }
    for (uint32_t k = 0; k < m->format_count; k++) {
        mpc_format f = m->formats[k];
        const copy_nodes *copy = copy_in(m, v, f);
        if (!copy->made) continue;
        double seconds = price_in(m, mpc_cost_write, v, f);
        cost_side(m, copy->stored, k == 0 ? seconds : 0, k == 0 ? 0 : seconds);
        pay_cast(m, v, f, copy, stored, kept);
    }
}

/* An activation folds into its product where both are stored alike. */
static void add_tie(mover *m, mpc_value_id v) {
    const mpc_costs *c = m->c;
    if (c->folded[v] == MPC_NONE) return;
    uint32_t a = mpc_storage_variable(m->l, v), b = mpc_storage_variable(m->l, c->folded[v]);
    double seconds = mpc_cost_unfold(c, v);
    if (mpc_label_of(m->l, a) == mpc_label_of(m->l, b)) cost_edge(m, m->of[b], m->of[a], seconds);
    else cost_side(m, m->of[a], 0, seconds);
    cost_edge(m, m->of[a], m->of[b], seconds);
}

/* A product of f32 that is stored low: from the side where the value is low to the one where the op reads f32. */
static void add_rounding(mover *m, mpc_value_id v) {
    const mpc_node *n = mpc_producer(m->c->g, v);
    double seconds = mpc_cost_round(m->c, v);
    if (!(seconds > 0)) return;
    uint32_t stored = mpc_storage_variable(m->l, v), reads = m->l->of_node[n - m->c->g->nodes];
    if (reads == MPC_NONE) reads = m->l->f32;
    side value = m->of[stored], op = m->of[reads];
    bool kept_low = mpc_format_is_low(mpc_label_of(m->l, stored)), kept_f32 = mpc_label_of(m->l, reads) == MPC_FMT_f32, to_low = true;
    for (uint32_t i = 0; i < m->to_count; i++) to_low = to_low && mpc_format_is_low(m->to[i]);
    if (to_low && kept_f32) {
        if (kept_low) cost_side(m, op, 0, seconds);
        else cost_edge(m, value, op, seconds);
    } else if (m->to[0] == MPC_FMT_f32 && kept_low) {
        if (kept_f32) cost_side(m, value, 0, seconds);
        else cost_edge(m, op, value, seconds);
    }
}

static void add_charges(mover *m, mpc_value_id v) {
    const mpc_costs *c = m->c;
    uint32_t variable = mpc_storage_variable(m->l, v);
    if (c->charge_value == NULL) return;
    cost_side(m, m->of[variable], c->charge_value[v],
              mpc_format_is_low(mpc_label_of(m->l, variable)) ? c->charge_value[v] : 0);
}

static void add_op(mover *m, mpc_node_id id) {
    const mpc_costs *c = m->c;
    uint32_t variable = m->l->of_node[id];
    if (!c->ops[id].present) return;
    if (variable == MPC_NONE) variable = m->l->f32;
    mpc_format kept = mpc_label_of(m->l, variable);
    double charge = c->charge_node != NULL ? c->charge_node[id] : 0;
    cost_side(m, m->of[variable], price_to(m, mpc_cost_op, id) + charge,
              mpc_cost_op(c, id, kept) + (mpc_format_is_low(kept) ? charge : 0));
}

/* --- all of it --- */

static bool prepare(mover *m, mpc_arena *scratch) {
    const mpc_graph *g = m->c->g;
    double most = 0;
    list_formats(m);
    m->cut = mpc_cut_create();
    m->of = mpc_arena_alloc(scratch, ((size_t)m->l->count + 1) * sizeof *m->of);
    m->copies = mpc_arena_alloc(scratch, ((size_t)g->value_count + 1) * m->format_count * sizeof *m->copies);
    m->asks = mpc_arena_alloc(scratch, (size_t)g->value_count + 1);
    if (m->cut == NULL || m->of == NULL || m->copies == NULL || m->asks == NULL) return false;
    for (mpc_node_id id = 0; id < g->node_count; id++) most += mpc_cost_op(m->c, id, MPC_FMT_f32);
    for (uint32_t v = 0; v < g->value_count; v++) most += mpc_cost_value(m->c, v, MPC_FMT_f32);
    m->unit = ldexp(1, ilogb(fmax(most, 1e-9)) - 44);
    for (uint32_t i = 0; i < m->l->count; i++) m->of[i] = side_of_variable(m, i);
    return true;
}

static bool move(mover *m, mpc_arena *scratch, double *value) {
    const mpc_graph *g = m->c->g;
    int64_t units = 0;
    if (!prepare(m, scratch)) return false;
    add_rules(m);
    for (uint32_t v = g->value_count; v-- > 0;) add_value(m, v); /* views before what they look at */
    for (uint32_t v = 0; v < g->value_count; v++) {
        add_tie(m, v);
        add_rounding(m, v);
        add_charges(m, v);
    }
    for (mpc_node_id id = 0; id < g->node_count; id++) add_op(m, id);
    if (!mpc_cut_solve(m->cut, &units)) return false;
    *value = m->constant + (double)units * m->unit;
    for (uint32_t i = 0; i < m->l->count; i++)
        if (m->of[i] >= FIRST && mpc_cut_on_source(m->cut, m->of[i] - FIRST)) m->l->variables[i].label = m->to[0];
    return true;
}

mpc_status mpc_labels_move(mpc_labels *labels, const mpc_costs *costs, const mpc_format *to, uint32_t to_count,
                           double *value) {
    mover m = {.l = labels, .c = costs, .to = to, .to_count = to_count};
    mpc_arena *scratch = mpc_arena_create();
    bool ok = scratch != NULL && !labels->failed && move(&m, scratch, value);
    mpc_cut_destroy(m.cut);
    mpc_arena_destroy(scratch);
    if (ok) return MPC_OK;
    mpc_error(mpc_context_sink(labels->plan->g->ctx), "E901", "out of memory");
    return MPC_NO_MEMORY;
}
