/* Between the files of lint: one run, and its rules. A rule looks at one forward node and adds what it finds. Private. */
#ifndef MPC_PASSES_LINT_H
#define MPC_PASSES_LINT_H

#include "passes/precision/range.h"

typedef struct mpc_lint_run {
    const mpc_graph *g;
    mpc_format low;
    const mpc_interval *range; /* by value, of the graph as if all were f32 */
    mpc_uses uses;
    const mpc_observations *seen; /* or NULL */
    mpc_arena *arena;
    bool *told; /* by value: a whole number too large for its format, reported where it first came up */
    mpc_findings *out;
    bool failed; /* out of memory */
} mpc_lint_run;

typedef void (*mpc_lint_rule)(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_literals(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_whole_numbers(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_range(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_profile(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_exp(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_vanished(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_log_odds(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_angle(mpc_lint_run *l, mpc_node_id id);

/* The format that a value is stored in, by the decision or by its type. */
mpc_format mpc_lint_stored(const mpc_graph *g, mpc_value_id v);
/* The node behind casts and views of one operand; NULL: an input. */
const mpc_node *mpc_lint_origin_of(const mpc_graph *g, mpc_value_id v);
/* The decision cites the rule for storing this node's result in f32. */
bool mpc_lint_kept(const mpc_graph *g, mpc_node_id id, const char *rule);
/* In the run's arena; NULL when out of memory. */
const char *mpc_lint_text(mpc_lint_run *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Once per code and statement. */
void mpc_lint_add(mpc_lint_run *l, mpc_finding finding);

#endif
