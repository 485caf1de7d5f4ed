/* mpc explain FILE VALUE: everything about one value, and what to write to change it. */
#ifndef MPC_DRIVER_EXPLAIN_VALUE_H
#define MPC_DRIVER_EXPLAIN_VALUE_H

#include <jansson.h>

#include "driver/session.h"

/* The format that a value is stored in after the assignment. */
mpc_format mpc_stored_format(const mpc_graph *decided, mpc_node_id node);
/* Appends the line of the model, or of a file that it uses, that a node comes from, without the blanks around it;
 * nothing when it comes from elsewhere. */
void mpc_explain_source_line(const mpc_session *s, const mpc_graph *g, const mpc_node *n, mpc_str *out);
/* Prints node `id` of the graph after autocast, as text or as one JSON object. */
bool mpc_explain_value(mpc_session *s, const mpc_graph *decided, mpc_node_id id);
/* The same for an input of the graph; false: none has this name. */
bool mpc_explain_input(const mpc_session *s, const mpc_graph *decided, const char *name);
/* E361 with names that come near. */
void mpc_explain_unknown(const mpc_session *s, const mpc_graph *decided, const char *name);

/* Adds the alternative, its price and what stands in its way to the description of a value: alternative, price (seconds; null: a hard
 * rule forbids it), step, target, blocked_by (price, rule, value), rule, blockers. Nothing for what isn't decided about. */
bool mpc_explain_choice(mpc_session *s, const mpc_graph *decided, mpc_node_id id, json_t *all);
void mpc_explain_print_choice(const json_t *all);
/* Can a policy name this node and change its format? */
bool mpc_explain_can_be_named(const mpc_graph *decided, mpc_node_id id);
/* Does node `id` take the other format once all these neighbours have theirs, by the user's word? The model is assigned anew. */
bool mpc_explain_flips(const mpc_session *s, const mpc_graph *decided, mpc_node_id id, const mpc_node_id *neighbours, uint32_t count);
/* The graph after autocast, casts and masters as Graphviz text (explain_dot.c). */
bool mpc_explain_dot(const mpc_graph *g, mpc_str *out);

#endif
