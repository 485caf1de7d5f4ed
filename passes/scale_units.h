/* Scale units: the power of the loss scale S that each float value carries. The seed of the backward pass is multiplied by S, so
 * every gradient behind it is S^1 times the true one, until `unscale` divides. An analysis of the verifier: what joins or judges
 * values needs them in one unit. */
#ifndef MPC_PASSES_SCALE_UNITS_H
#define MPC_PASSES_SCALE_UNITS_H

#include "ir/graph.h"

typedef enum mpc_scale_unit_kind {
    MPC_SCALE_UNIT_ANY,   /* zero or infinite: the same in every unit */
    MPC_SCALE_UNIT_POWER, /* S to the exponent; 0: the true value */
    MPC_SCALE_UNIT_SCALE, /* S itself, a number of the scaler's: S^1 for what is multiplied by it */
    MPC_SCALE_UNIT_OPEN,  /* unknown: behind a plugin's op that read something scaled */
} mpc_scale_unit_kind;

typedef struct mpc_scale_unit {
    mpc_scale_unit_kind kind;
    int exponent;
    mpc_value_id from; /* where the unit comes from: the scaler, a seed, an unscale, or the value itself */
} mpc_scale_unit;

/* By value, in `arena`; *units is NULL where no loss scale is to be seen: none was asked for, or a static one, which is a literal,
 * has been folded into others. MPC_FAILED after V20 for each node, output or next value that breaks a rule. */
mpc_status mpc_scale_units(const mpc_graph *g, mpc_arena *arena, mpc_scale_unit **units);
/* Only the check: asked after every pass, so linear and quick. `maker`: the pass that made the graph, which messages name; NULL: it came so. */
mpc_status mpc_scale_units_verify(const mpc_graph *g, const char *maker);
/* "S^1", "S", "1", "any", "open". */
void mpc_scale_unit_print(const mpc_scale_unit *unit, mpc_str *out);

#endif
