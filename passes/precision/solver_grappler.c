/* The solver `list-tf`: the painting of TensorFlow's auto_mixed_precision over the joint graph. (1) ops on the allow
 * list are allowed; (2) deny spreads forward from denied ops through infer and clear ops that lead to an infer or
 * denied op; (3) infer and clear ops between two allowed ones are allowed; (4) clear ops that touch an allowed one are
 * allowed. What is allowed reads and stores low, everything else f32: so an infer op behind the last matmul stays f32,
 * which is what surprises. */
#include "passes/precision/baseline.h"

typedef struct painting {
    const mpc_baseline *b;
    mpc_uses uses;
    bool *allow, *deny;
    bool *mark;         /* of the step at work */
    mpc_node_id *stack; /* node_count entries suffice: a node is pushed when it is marked */
    uint32_t depth;
} painting;

typedef bool (*may_enter)(const painting *p, mpc_node_id id);

static mpc_listed listed(const painting *p, mpc_node_id id) { return mpc_baseline_listed(p->b, id); }

/* The lists are about the model's float ops. */
static bool takes_part(const painting *p, mpc_node_id id) {
    return mpc_is_assigned(p->b->p->g, id) && p->b->p->fixed.held[id] == 0;
}

static bool is_clear(const painting *p, mpc_node_id id) {
    return takes_part(p, id) && listed(p, id) == MPC_LISTED_CLEAR;
}

static bool is_gray(const painting *p, mpc_node_id id) {
    return takes_part(p, id) && (listed(p, id) == MPC_LISTED_CLEAR || listed(p, id) == MPC_LISTED_FOLLOW);
}

static bool is_denied_op(const painting *p, mpc_node_id id) {
    return takes_part(p, id) && listed(p, id) == MPC_LISTED_HIGH;
}

static bool is_allowed_op(const painting *p, mpc_node_id id) {
    return takes_part(p, id) && listed(p, id) == MPC_LISTED_LOW;
}

static void push(painting *p, mpc_node_id id) {
    p->mark[id] = true;
    p->stack[p->depth++] = id;
}

static void visit_inputs(painting *p, mpc_node_id id, may_enter enter) {
    const mpc_graph *g = p->b->p->g;
    const mpc_node *n = &g->nodes[id];
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(g, n, i);
        mpc_node_id from = g->values[v].producer;
        if (from == MPC_NONE || p->mark[from] || !mpc_format_is_float(mpc_value_format(g, v))) continue;
        if (enter(p, from)) push(p, from);
    }
}

static void visit_readers(painting *p, mpc_node_id id, may_enter enter) {
    const mpc_graph *g = p->b->p->g;
    const mpc_node *n = &g->nodes[id];
    for (uint32_t r = 0; r < n->result_count; r++) {
        mpc_value_id v = mpc_result(n, r);
        if (!mpc_format_is_float(mpc_value_format(g, v))) continue;
        for (uint32_t u = p->uses.begin[v]; u < p->uses.begin[v + 1]; u++)
            if (!p->mark[p->uses.users[u]] && enter(p, p->uses.users[u])) push(p, p->uses.users[u]);
    }
}

enum { INPUTS = 1, READERS = 2 };

/* Marks the roots and all that can be entered from them. */
static void spread(painting *p, may_enter is_root, may_enter enter, int directions) {
    uint32_t count = p->b->p->g->node_count;
    for (mpc_node_id id = 0; id < count; id++) p->mark[id] = false;
    for (mpc_node_id id = 0; id < count; id++) {
        if (p->mark[id] || !is_root(p, id)) continue;
        push(p, id);
        while (p->depth > 0) {
            mpc_node_id at = p->stack[--p->depth];
            if (directions & INPUTS) visit_inputs(p, at, enter);
            if (directions & READERS) visit_readers(p, at, enter);
        }
    }
}

static void swap_marks(painting *p, bool **with) {
    bool *marked = p->mark;
    p->mark = *with;
    *with = marked;
}

/* --- (2) --- */

static bool is_denied_or_infer(const painting *p, mpc_node_id id) {
    return is_denied_op(p, id) || (takes_part(p, id) && listed(p, id) == MPC_LISTED_FOLLOW);
}

static bool leads_to_f32(const painting *p, mpc_node_id id) { return p->deny[id]; }

/* Upstream of a denied or infer op first, through clear ops; then forward from denied ops within that. `deny` holds the
 * first set while the second is made. */
static void paint_deny(painting *p) {
    spread(p, is_denied_or_infer, is_clear, INPUTS);
    swap_marks(p, &p->deny);
    spread(p, is_denied_op, leads_to_f32, READERS);
    swap_marks(p, &p->deny);
}

/* --- (3), (4) --- */

static bool is_open(const painting *p, mpc_node_id id) { return is_gray(p, id) && !p->deny[id]; }

static bool lies_behind_allowed(const painting *p, mpc_node_id id) { return p->allow[id]; }

static void paint_between(painting *p) {
    spread(p, is_allowed_op, is_open, READERS);
    swap_marks(p, &p->allow);
    spread(p, is_allowed_op, lies_behind_allowed, INPUTS);
    swap_marks(p, &p->allow);
}

static bool is_allowed(const painting *p, mpc_node_id id) { return p->allow[id]; }

static bool is_open_clear(const painting *p, mpc_node_id id) { return is_clear(p, id) && !p->deny[id]; }

static void paint_touching(painting *p) {
    spread(p, is_allowed, is_open_clear, INPUTS | READERS);
    swap_marks(p, &p->allow);
}

/* --- decisions --- */

static const char *reason(const painting *p, mpc_node_id id) {
    mpc_listed l = listed(p, id);
    if (l == MPC_LISTED_LOW) return "grappler: on the allow list";
    if (l == MPC_LISTED_HIGH) return "grappler: on the deny list";
    if (p->allow[id])
        return l == MPC_LISTED_CLEAR ? "grappler: clear, touches an allowed op"
                                     : "grappler: infer, between allowed ops";
    if (p->deny[id]) return "grappler: denied, behind an op of the deny list";
    if (l == MPC_LISTED_NOT) return "grappler: on no list, f32";
    return l == MPC_LISTED_CLEAR ? "grappler: clear, touches no allowed op"
                                 : "grappler: infer, not between allowed ops";
}

static bool create(painting *p, const mpc_baseline *b) {
    mpc_arena *arena = b->p->arena;
    size_t nodes = (size_t)b->p->g->node_count + 1;
    *p = (painting){.b = b,
                    .uses = mpc_graph_uses(b->p->g, arena),
                    .allow = mpc_arena_alloc(arena, nodes),
                    .deny = mpc_arena_alloc(arena, nodes),
                    .mark = mpc_arena_alloc(arena, nodes),
                    .stack = mpc_arena_alloc(arena, nodes * sizeof *p->stack)};
    return p->uses.begin != NULL && p->allow != NULL && p->deny != NULL && p->mark != NULL && p->stack != NULL;
}

mpc_status mpc_solver_list_tf(mpc_plan *plan, const mpc_solver_env *env) {
    mpc_baseline b;
    painting p;
    (void)env;
    if (!mpc_baseline_init(&b, plan, MPC_SYSTEM_grappler)) return MPC_NO_MEMORY;
    if (!create(&p, &b)) return mpc_error(mpc_context_sink(plan->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    paint_deny(&p);
    paint_between(&p);
    paint_touching(&p);
    for (mpc_node_id id = 0; id < plan->g->node_count; id++) {
        if (!mpc_is_assigned(plan->g, id) || plan->given[id] || mpc_baseline_settle(&b, id)) continue;
        mpc_format f = p.allow[id] ? plan->low : MPC_FMT_f32;
        mpc_baseline_decide(&b, id, f, f, reason(&p, id));
    }
    return MPC_OK;
}
