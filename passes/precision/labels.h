/* What the cut decides about: one variable per free storage format and per format that a LOW op reads in, and the hard rules between them. Private to
 * passes/precision. */
#ifndef MPC_PASSES_LABELS_H
#define MPC_PASSES_LABELS_H

#include "passes/precision/cost_data.h"

typedef struct mpc_variable {
    mpc_format pinned; /* none: free */
    mpc_format label;  /* its format now */
    mpc_format kept;   /* room for a label to go back to */
    uint32_t banned;   /* bits by format: what it may not take; both low formats: it is pinned */
    mpc_node_id node;  /* the first node that it stands for; MPC_NONE: an input */
    const char *rule;  /* why it is pinned */
    bool sunk;         /* never low, for something that it implies never is */
} mpc_variable;

/* `a` takes a low format only if `b` takes the same. */
typedef struct mpc_implication {
    uint32_t a, b;
    const char *rule;
} mpc_implication;

typedef struct mpc_labels {
    const mpc_plan *plan;
    mpc_arena *arena;
    mpc_variable *variables;
    uint32_t count;
    uint32_t *of_value; /* what the value says to ops that follow, and its storage, unless it is `wide` */
    bool *wide;         /* by value: stored in f32 whatever it says: an intermediate of a gradient */
    uint32_t *of_node;  /* operands of LOW ops and of views that join; MPC_NONE: others */
    mpc_implication *implications;
    uint32_t implication_count, implication_room;
    uint32_t f32; /* a variable pinned to f32 */
    bool failed;
} mpc_labels;

/* For solving with the given low format of the plan. `failed`: out of memory. */
mpc_labels mpc_labels_create(const mpc_plan *plan, mpc_arena *arena);
static inline uint32_t mpc_storage_variable(const mpc_labels *l, mpc_value_id v) {
    return l->wide[v] ? l->f32 : l->of_value[v];
}
static inline mpc_format mpc_label_of(const mpc_labels *l, uint32_t variable) {
    return l->variables[variable].pinned != MPC_FMT_none ? l->variables[variable].pinned : l->variables[variable].label;
}

/* May a free variable take the format? */
static inline bool mpc_label_may_be(const mpc_labels *l, uint32_t variable, mpc_format f) {
    return (l->variables[variable].banned >> f & 1) == 0;
}

/* The variable of a node: of what it reads where that is decided (LOW ops, views that join), else of its result (mpc_open_result). */
uint32_t mpc_deciding_variable(const mpc_labels *labels, mpc_node_id id);
/* Holds a decision in a format, with all that the rules tie to it; fills `possible` and `rule`. false: out of memory. */
bool mpc_labels_pin(mpc_labels *labels, mpc_pin *pin);

/* Decisions and formats of the open nodes straight from labels, without reasons: enough to price them. */
void mpc_labels_write(const mpc_labels *labels, mpc_plan *plan);

/* Changes labels to formats of `to`, where that is cheaper: with one format from all-f32, the optimum of two formats. `relaxed` with several: each term at
 * the cheapest of them, so *value is a lower bound (labels become to[0] and mean nothing more). *value: seconds after the move. */
mpc_status mpc_labels_move(mpc_labels *labels, const mpc_costs *costs, const mpc_format *to, uint32_t to_count,
                           double *value);

/* Fills the table with the choices of a plan that the labels decided. The plan is the same afterwards. */
mpc_status mpc_weigh_choices(mpc_plan *plan, const mpc_labels *labels, const mpc_costs *costs, mpc_plan_choices *out);

/* Decides all open nodes: the optimum over f32 and formats[0]; with more formats a descent. `choices`
 * may be NULL. out: cost, bound, seconds. */
mpc_status mpc_mincut_formats(mpc_plan *plan, const mpc_costs *costs, const mpc_format *formats, uint32_t count,
                              mpc_plan_choices *choices, mpc_solution *out);

#endif
