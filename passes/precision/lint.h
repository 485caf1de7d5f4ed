/* Between the files of lint: one run, and its rules. A rule looks at one forward node and adds what it finds. Private. */
#ifndef MPC_PASSES_LINT_H
#define MPC_PASSES_LINT_H

#include "passes/precision/precision.h"
#include "passes/precision/range.h"

typedef struct mpc_lint_run {
    const mpc_graph *g;
    mpc_format low;
    mpc_fixed fixed;
    const mpc_interval *range; /* by value, of the graph as if all were f32 */
    const mpc_reach *reach;    /* by value */
    mpc_uses uses;
    const mpc_observations *seen; /* or NULL */
    mpc_arena *arena;
    bool *told;   /* by value: made of whole numbers too large for a format, which were reported where they came up */
    bool *passed; /* by value: made of an element beyond its format, which has been reported */
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
void mpc_lint_reach(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_reads(mpc_lint_run *l, mpc_node_id id);
void mpc_lint_forced(mpc_lint_run *l, mpc_node_id id);

/* The format that a value is stored in, by the decision or by its type. */
static inline mpc_format mpc_lint_stored(const mpc_lint_run *l, mpc_value_id v) {
    return mpc_format_stored(l->g, &l->fixed, v);
}
/* The one that operand i of a node is read in. */
static inline mpc_format mpc_lint_read(const mpc_lint_run *l, mpc_node_id id, uint32_t i) {
    return mpc_format_read(l->g, &l->fixed, id, i);
}
/* The node behind casts and views of one operand; NULL: an input. */
const mpc_node *mpc_lint_origin_of(const mpc_graph *g, mpc_value_id v);
/* The decision cites the rule for storing this node's result in f32. */
bool mpc_lint_kept(const mpc_lint_run *l, mpc_node_id id, const char *rule);
/* A literal of the model behind casts and views of operand i, not one that a later pass put beside it. */
bool mpc_lint_literal(const mpc_lint_run *l, const mpc_node *n, uint32_t i, double *c);
/* The finding about a literal that a format loses; `what` by mpc_constant_loss. */
void mpc_lint_add_literal(mpc_lint_run *l, mpc_node_id id, double c, const char *what, mpc_format f, bool kept);
/* In the run's arena; NULL when out of memory. */
const char *mpc_lint_text(mpc_lint_run *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An op that a builtin made, not the user: what needs it off 0 stands at the very same place, where a reader that is
 * written out stands before its operand. */
bool mpc_lint_is_builtins(const mpc_lint_run *l, mpc_node_id id);
/* Something has been found at this node. */
bool mpc_lint_has(const mpc_lint_run *l, mpc_node_id id);
/* Once per code and statement. */
void mpc_lint_add(mpc_lint_run *l, mpc_finding finding);

#endif
