/* Random square-matrix models as text, and their plans, for tests of solvers that know costs. */
#ifndef MPC_TESTS_MINCUT_GRAPH_H
#define MPC_TESTS_MINCUT_GRAPH_H

#include "base/rng.h"
#include "passes/precision/labels.h"

typedef struct dice {
    uint64_t seed;
    uint32_t drawn;
} dice;
uint32_t roll(dice *d, uint32_t below);
double roll_log(dice *d, double lo, double hi); /* log-uniform */

/* `ops` ops on [size,size] matrices; the loss is a sum. */
mpc_graph *random_model(mpc_context *ctx, dice *d, uint32_t ops, int size);
mpc_device_profile random_device(dice *d);
/* As pass autocast prepares a plan: readers known, the user's words given. */
mpc_plan prepare_plan(const mpc_graph *g, mpc_format low, mpc_arena *arena);
/* Forgets what a solver decided. */
void reopen_plan(mpc_plan *p);

#endif
