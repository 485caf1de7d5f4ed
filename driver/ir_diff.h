/* Two graphs or two assignments compared by the names of their values, whatever their order. */
#ifndef MPC_DRIVER_IR_DIFF_H
#define MPC_DRIVER_IR_DIFF_H

#include <jansson.h>

#include "driver/session.h"

/* What is compared: an object by name, each with the fields op, operands, attributes, type, reads, computes,
 * accumulates, stores. NULL: out of memory. */
json_t *mpc_diff_side_of_graph(const mpc_graph *g);
json_t *mpc_diff_side_of_assignment(const mpc_assignment *a);

/* {"equal", "changed": [{"value", "op", "was": {field: text}, "now": {...}}], "removed": [{"value", ...}], "added":
 * [...]}, in the order of the sides. NULL: out of memory. */
json_t *mpc_diff_sides(const json_t *a, const json_t *b);
bool mpc_diff_is_equal(const json_t *diff);
/* For people; every name with what changed, at most `most` names of a kind (0: all), the rest counted. */
void mpc_diff_print(const json_t *diff, size_t most, mpc_str *out);

#endif
