/* What the precision passes share: which formats an op's own types fix, what the readers of a value do with it, the plan that a
 * solver fills, and the assignment that carries a plan from one elaboration to the next. Private to passes/precision. */
#ifndef MPC_PASSES_PRECISION_H
#define MPC_PASSES_PRECISION_H

#include "passes/pass.h"

/* By operand slot (index into graph->operands) and by value: the type stays as it is whatever is decided, because the shape rule
 * accepts nothing else: biases, statistics, gamma, masters, losses. Also everything that isn't a float. */
typedef struct mpc_fixed {
    bool *operand, *result;
    mpc_sym *held; /* by node: why it reads no operand low and stores its results as typed, whoever decides; 0: it isn't held. What a step
                    * computes beside the model (step_arithmetic.c): data mapping, losses' scalars, loss scale, update */
} mpc_fixed;
/* In `arena`; NULL fields when out of memory. */
mpc_fixed mpc_fixed_formats(const mpc_graph *g, mpc_arena *arena);
/* Fills `held`, and `result` where that follows; false when out of memory. For mpc_fixed_formats. */
bool mpc_fixed_hold(const mpc_graph *g, mpc_fixed *fixed, mpc_arena *arena);
/* Of a node; all zero where nothing was decided. */
static inline mpc_decision mpc_decision_at(const mpc_graph *g, mpc_node_id id) {
    return g->decisions == NULL ? (mpc_decision){0} : g->decisions[id];
}
/* What a graph with decisions stores a value in, and what operand `i` of a node is converted to before it is read, if it isn't that. */
mpc_format mpc_format_stored(const mpc_graph *g, const mpc_fixed *fixed, mpc_value_id v);
mpc_format mpc_format_read(const mpc_graph *g, const mpc_fixed *fixed, mpc_node_id id, uint32_t i);

/* Two values that the user wants in one storage format (`agree` of a policy; the members of a group are chained). */
typedef struct mpc_agreement {
    mpc_value_id a, b;
    mpc_sym why; /* "policy m.mpg:12: agree `fc1`" */
} mpc_agreement;

/* A solver's result. Arrays by value or by node, in `arena`. */
typedef struct mpc_plan {
    const mpc_graph *g;
    mpc_arena *arena;
    mpc_format low; /* what LOW ops read: bf16, f16; f32 and tf32: nothing is narrowed but by the user */
    mpc_format also; /* a second low format, which a solver that takes three may use as well; none: there is none */
    mpc_fixed fixed;
    mpc_node_id *wanted_by; /* by value: a reader that would have it low, directly or through ops that follow; MPC_NONE */
    bool *only_wanted; /* by value: it has readers, and each is a LOW op that reads it low */
    bool *only_f32; /* by value: no reader gains from low storage */
    bool *read; /* by value: some node reads it (not only outputs and nexts) */
    bool *inside; /* by value: an intermediate of one gradient: all readers are elementwise or sums of the same origin */
    mpc_format *format; /* by value: planned storage */
    mpc_format *say; /* by value: what it tells ops that follow; differs from `format` for intermediates only */
    bool *given; /* by node: decided before the solver is asked: by an earlier assignment or by the user */
    mpc_sym *forced_f32; /* by value: it must be neither stored in nor cast to `low`, for this reason (range.h, N45); 0: free. Made by
                          * nodes that aren't given. mpc_plan_decide sees to it, so a solver needs it only to price what it gets. */
    mpc_sym *forced_also;       /* the same for `also`; NULL without it */
    const mpc_agreement *agree; /* hard: format[a] == format[b]; NULL: none. A solver that knows costs weighs them (edges both ways);
                                 * what a solver leaves apart is widened afterwards, by mpc_plan_settle_agreements */
    uint32_t agree_count;
    mpc_decision *decisions; /* by node */
    mpc_sym *why; /* by node; 0: none */
} mpc_plan;

/* NULL g when out of memory (diagnostic sent). */
mpc_plan mpc_plan_create(const mpc_graph *g, mpc_format low, mpc_arena *arena);
/* A second low format, before anything is decided; MPC_NO_MEMORY after a diagnostic. */
mpc_status mpc_plan_allow(mpc_plan *plan, mpc_format also);
/* The same plan with room for other decisions, in its arena; false when out of memory. */
bool mpc_plan_copy(const mpc_plan *plan, mpc_plan *out);
/* The low formats that a solver may use: one, or two with `also`; returns how many. */
static inline uint32_t mpc_plan_lows(const mpc_plan *p, mpc_format out[2]) {
    out[0] = p->low;
    out[1] = p->also;
    return p->also == MPC_FMT_none ? 1 : 2;
}
/* The first result whose format is up to a decision; the first of all where none is. */
static inline mpc_value_id mpc_open_result(const mpc_plan *p, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (!p->fixed.result[mpc_result(n, i)]) return mpc_result(n, i);
    return mpc_result(n, 0);
}
/* Why a value may not be held in a low format; 0: it may. */
static inline mpc_sym mpc_plan_forced(const mpc_plan *p, mpc_value_id v, mpc_format f) {
    if (p->forced_also != NULL && f == p->also) return p->forced_also[v];
    return p->forced_f32 != NULL ? p->forced_f32[v] : 0;
}
/* Fills wanted_by, only_wanted, only_f32, inside, read. */
void mpc_plan_read_backwards(mpc_plan *plan);

/* E111 for every word of the user that asks for a low format where a hard rule has f32. */
mpc_status mpc_plan_check_words(const mpc_plan *plan);
/* Fills `agree` from the option of autocast: "a|layer.*.b@m.mpg:12;c|d"; E113 when a group finds fewer than two values. */
mpc_status mpc_plan_read_agreements(mpc_plan *plan, const char *text);
/* Before the solver: groups with a member that is given or fixed take its format, their nodes become `given`; E112 when two
 * members can't agree. After it: groups left apart get their widest format, their nodes become `given`, all others are open again
 * and *again is set: solve once more. */
mpc_status mpc_plan_pin_agreements(mpc_plan *plan);
mpc_status mpc_plan_settle_agreements(mpc_plan *plan, bool *again);

/* The attribute `prec` of a node, none where the op has no such attribute. */
mpc_format mpc_node_prec(const mpc_graph *g, const mpc_node *n);
bool mpc_node_has_attr(const mpc_graph *g, const mpc_node *n, const char *key);
/* HIGH ops that may store low: what they give is an activation, not a sum that something else will judge. */
bool mpc_node_stores_low(const mpc_graph *g, mpc_node_id id);
bool mpc_is_param_state(const mpc_graph *g, const mpc_node *n);
/* A conversion that the user or the front end wrote: its result format is their word (N99). */
bool mpc_is_written_cast(const mpc_graph *g, const mpc_node *n);

/* ---- solvers (solvers.def) ---- */
typedef struct mpc_solver_env { /* what a solver may ask for beyond the plan */
    mpc_pass_env *pass;
    const struct mpc_solver *solver; /* the row that is being run: a plugin finds its function by it */
    const struct mpc_costs *costs; /* cost.h: prices on the target device; NULL for solvers that need none */
    double price; /* seconds that one unit of predicted loss deviation is worth; 0: time alone decides */
    bool goes_on; /* another elaboration of the model was decided before: what could be said was said then */
} mpc_solver_env;
/* Decides every node of mpc_is_assigned that isn't `given`, in any order, by mpc_plan_decide, with a reason; formats of `given` nodes are
 * set already. On entry wanted_by, only_wanted, only_f32, inside and read are filled. */
typedef mpc_status (*mpc_solve)(mpc_plan *plan, const mpc_solver_env *env);
#define SOLVER(id, ...) mpc_status mpc_solver_##id(mpc_plan *plan, const mpc_solver_env *env);
#include "passes/precision/solvers.def"
#undef SOLVER
typedef struct mpc_solver {
    const char *name, *doc;
    mpc_solve solve;
    bool needs_costs;
    bool takes_also; /* decides between f32 and two low formats (mpc_plan.also); others know one */
} mpc_solver;
uint32_t mpc_solver_count(void);
const mpc_solver *mpc_solver_at(uint32_t index);
/* Rows of solvers.def, then those of plugins. NULL: none. */
const mpc_solver *mpc_solver_of(const mpc_context *ctx, uint32_t index);
const mpc_solver *mpc_solver_named(const mpc_context *ctx, const char *name);
/* The first low format other than `but` that the decisions of a graph use; none: there is none. */
mpc_format mpc_graph_low(const mpc_graph *decided, mpc_format but);
/* Formats are decided about for this node: it has a class and floats. */
bool mpc_is_assigned(const mpc_graph *g, mpc_node_id id);

/* Facts about single nodes that solvers share. A LOW result that keeps its accumulator's digits: only masters, sums or outputs read it. */
bool mpc_result_stays_f32(const mpc_plan *plan, const mpc_node *n);
/* N43: constants, scalars and parameters spread over a larger tensor say nothing. */
bool mpc_has_a_say(const mpc_graph *g, mpc_value_id v, int64_t result_elements);
/* N45, and the warning W151 where they don't. */
bool mpc_constants_survive(const mpc_plan *plan, const mpc_node *n, mpc_format f);
void mpc_report_constants(const mpc_plan *plan, const mpc_node *n, mpc_format f);

/* A rule of the solver `list`, for a node of a class; the plan's formats of its operands are known. */
void mpc_solve_list(mpc_plan *plan, mpc_node_id id);
/* A reason, without a decision, for a node whose types nothing is decided about: masters, scaler, counters, flags. */
void mpc_explain_typed(mpc_plan *plan, mpc_node_id id);
/* The user's word: prec on the node. */
void mpc_solve_user(mpc_plan *plan, mpc_node_id id, mpc_format prec);
/* Decision of a node, with the reason, printf-style; formats of results follow from it. */
void mpc_plan_decide(mpc_plan *plan, mpc_node_id id, mpc_decision decision, const char *why, ...) __attribute__((format(printf, 4, 5)));

/* One line of an assignment. */
typedef struct mpc_assigned {
    const char *value, *op, *why;
    mpc_decision decision;
} mpc_assigned;
const mpc_assigned *mpc_assignment_find(const mpc_assignment *a, const char *value);
bool mpc_assignment_add(mpc_assignment *a, const mpc_assigned *line); /* copies; false when out of memory */

#endif
