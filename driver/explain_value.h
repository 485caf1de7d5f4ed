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
 * rule forbids it), price_of (word: the step solved again with the advice; plan: the fastest step that has it so; alone: all else as it is), step,
 * target, blocked_by (user, price, rule, value), word, rule, breaks, blockers, change. Nothing for what isn't decided about. */
bool mpc_explain_choice(mpc_session *s, const mpc_graph *decided, mpc_node_id id, json_t *all);
void mpc_explain_print_choice(const json_t *all);

/* A node that is being explained. */
typedef struct mpc_explaining {
    const mpc_session *s;
    const mpc_graph *g; /* decided */
    mpc_node_id id;
    mpc_arena *arena;      /* of the texts of trials */
    mpc_format low, other; /* what f32 ones could be instead, and this one */
    double step;           /* seconds */
} mpc_explaining;

/* Takes the node a user's word? Can a policy name it, too? */
bool mpc_explain_takes_words(const mpc_graph *decided, mpc_node_id id);
bool mpc_explain_can_be_named(const mpc_graph *decided, mpc_node_id id);
/* What was decided about a node: what it reads (LOW ops) or stores. */
mpc_format mpc_explain_decided(const mpc_graph *decided, mpc_node_id id);
/* Appends the words that give the node its other format: an `@` before the statement of node `at` (MPC_NONE: none), a line of policy, neither of them: what it lacks for one. */
void mpc_explain_words(const mpc_explaining *e, mpc_node_id at, bool named, mpc_str *out);
/* Takes the statement of the node an `@`? */
bool mpc_explain_takes_at_sign(const mpc_session *s, const mpc_graph *g, const mpc_node *n);

/* The model assigned once more (explain_flip.c). Texts are in the arena of `e`, or live as long as the program. */
typedef struct mpc_trial {
    bool turned;       /* the node has its other format then */
    bool possible;     /* of a pin: some plan has it so and keeps the hard rules */
    double price;      /* what the step costs more, seconds; NaN: it couldn't be assigned */
    const char *error; /* why it couldn't be assigned; NULL: it was */
    const char *rule, *at, *what; /* of words: the first hard rule that they break, the value that does, how; NULL: none. Of a pin: the rule that forbids it */
} mpc_trial;
typedef struct mpc_word {
    mpc_node_id node;
    mpc_format format;
} mpc_word;
mpc_trial mpc_explain_try_words(const mpc_explaining *e, const mpc_word *words, uint32_t count);
/* The same with an edit of the model's text; not turned where it is of none of its files. */
mpc_trial mpc_explain_try_edit(const mpc_explaining *e, const mpc_text_edit *edit);
/* The node held in its other format, by a solver that takes pins. */
mpc_trial mpc_explain_try_pin(const mpc_explaining *e);

/* The graph after autocast, casts and masters as Graphviz text (explain_dot.c). */
bool mpc_explain_dot(const mpc_graph *g, mpc_str *out);

#endif
