/* What a rule of range_rules.def sees. Private to the range analysis. */
#ifndef MPC_PASSES_RANGE_RULES_H
#define MPC_PASSES_RANGE_RULES_H

#include "passes/precision/interval.h"

typedef struct mpc_range_op {
    const mpc_graph *g;
    const mpc_node *n;
    const mpc_interval *in; /* by operand */
    mpc_interval *out; /* by result; unknown until the rule says more */
    bool narrow; /* operands may have been rounded to a low format since they were computed, each by itself */
    double floor, ceil; /* of result 0, whatever rounding does: a sigmoid stays in [0, 1] */
    double error; /* absolute, of result 0, beyond the relative one of ops that aren't exactly rounded */
} mpc_range_op;

typedef void (*mpc_range_rule)(mpc_range_op *r);
/* NULL: nothing is known about the op's results but their types. */
mpc_range_rule mpc_range_rule_of(mpc_op_id op);

#endif
