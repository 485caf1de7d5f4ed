/* Which hard rules of docs/precision.md an assignment breaks: the rules are those that `mincut` keeps, so a plan without findings is
 * one that it could have chosen. */
#ifndef MPC_PASSES_HARD_RULES_H
#define MPC_PASSES_HARD_RULES_H

#include "passes/pass.h"

typedef struct mpc_broken_rule {
    const char *rule; /* "N60"; "" where it is a type or the user's word */
    mpc_node_id node; /* whose decision breaks it */
    const char *why;  /* a sentence without subject: "is an intermediate of a gradient and stored low" */
} mpc_broken_rule;

typedef struct mpc_broken_rules { /* in order of nodes, each rule once a node */
    mpc_broken_rule *data;
    uint32_t count;
    uint32_t kept; /* decisions of a baseline solver that would be low, but for the type of our op */
} mpc_broken_rules;

/* Of a graph with the decisions of autocast, before casts are inserted. `low`: what it was narrowed to. In `arena`; MPC_NO_MEMORY
 * after a diagnostic. */
mpc_status mpc_hard_rules_check(const mpc_graph *decided, mpc_format low, mpc_pass_env *env, mpc_arena *arena,
                                mpc_broken_rules *out);
/* Also what the user's words break that `before`, the same graph with fewer words, hasn't. */
mpc_status mpc_hard_rules_check_words(const mpc_graph *decided, const mpc_graph *before, mpc_format low, mpc_pass_env *env,
                                      mpc_arena *arena, mpc_broken_rules *out);

#endif
