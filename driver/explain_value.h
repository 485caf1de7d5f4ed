/* mpc explain FILE VALUE: everything about one value, and what to write to change it. */
#ifndef MPC_DRIVER_EXPLAIN_VALUE_H
#define MPC_DRIVER_EXPLAIN_VALUE_H

#include "driver/session.h"

/* The format that a value is stored in after the assignment. */
mpc_format mpc_stored_format(const mpc_graph *decided, mpc_node_id node);
/* Prints node `id` of the graph after autocast, as text or as one JSON object. */
bool mpc_explain_value(mpc_session *s, const mpc_graph *decided, mpc_node_id id);
/* The same for an input of the graph; false: none has this name. */
bool mpc_explain_input(const mpc_session *s, const mpc_graph *decided, const char *name);
/* E361 with names that come near. */
void mpc_explain_unknown(const mpc_session *s, const mpc_graph *decided, const char *name);

#endif
