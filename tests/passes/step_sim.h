/* Runs a whole training step graph, step after step, by the reference evaluator: states live between steps as a store
 * would keep them. For tests of what a run does, not of what a graph looks like. */
#ifndef MPC_TESTS_STEP_SIM_H
#define MPC_TESTS_STEP_SIM_H

#include "passes/pass.h"

typedef struct step_sim step_sim;
/* Parses `text`, runs `pipeline` (verified after each pass). NULL after printing diagnostics. */
step_sim *sim_create(const char *text, const char *pipeline);
void sim_destroy(step_sim *s);
const mpc_graph *sim_graph(const step_sim *s);
/* How many diagnostics of this code were sent. */
unsigned sim_diagnostics(const step_sim *s, const char *code);

void sim_input(step_sim *s, const char *name, const double *values, size_t count);
void sim_input1(step_sim *s, const char *name, double value);
/* Sets a state (all elements) and its derived copies. */
void sim_set_state(step_sim *s, const char *name, double value);
/* Parameters and inputs from small numbers that depend on names and `seed` only; integers in [0, 8), bools true. */
void sim_randomize(step_sim *s, uint64_t seed);
bool sim_step(step_sim *s);
/* An element of an output of the last step; of a state; of its low copy. NaN and a message when there is none. */
double sim_output(const step_sim *s, const char *name);
double sim_state(const step_sim *s, const char *name, size_t index);
double sim_copy(const step_sim *s, const char *name, mpc_format derived, size_t index);
bool sim_has_state(const step_sim *s, const char *name);
/* Copies all states of another simulation of a graph with the same states (a checkpoint). */
void sim_restore(step_sim *s, const step_sim *from);
/* All states equal to the bit. */
bool sim_same_states(const step_sim *a, const step_sim *b);

#endif
