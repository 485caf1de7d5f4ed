/* The registry of solvers: rows of solvers.def. Nothing else knows their names. */
#include <string.h>

#include "passes/precision/precision.h"

static const mpc_solver solvers[] = {
#define SOLVER(id, label, costs, also, text) \
    {.name = label, .doc = text, .solve = mpc_solver_##id, .needs_costs = costs, .takes_also = also},
#include "passes/precision/solvers.def"
#undef SOLVER
};

uint32_t mpc_solver_count(void) { return sizeof solvers / sizeof *solvers; }

const mpc_solver *mpc_solver_at(uint32_t index) { return &solvers[index]; }

const mpc_solver *mpc_solver_of(const mpc_context *ctx, uint32_t index) {
    if (index < mpc_solver_count()) return &solvers[index];
    return mpc_context_extension_at(ctx, MPC_EXT_SOLVER, index - mpc_solver_count());
}

static const mpc_solver *find_built_in(const char *name) {
    for (uint32_t i = 0; i < mpc_solver_count(); i++)
        if (strcmp(solvers[i].name, name) == 0) return &solvers[i];
    return NULL;
}

const mpc_solver *mpc_solver_named(const mpc_context *ctx, const char *name) {
    const mpc_solver *solver = find_built_in(name);
    return solver != NULL ? solver : mpc_context_find_extension(ctx, MPC_EXT_SOLVER, name);
}
