/* A step with its meter and the scalars that the log shows; and the evaluation of a whole split. */
#ifndef MPC_DRIVER_RUNNER_H
#define MPC_DRIVER_RUNNER_H

#include "driver/nonfinite_check.h"
#include "driver/totals.h"

typedef struct mpc_runner {
    mpc_step *step;
    mpc_meter meter;
    mpc_nonfinite_check *check;                                  /* NULL: not asked for */
    uint32_t lr, grad_norm, scale, skipped, applied, stop, lost; /* outputs */
} mpc_runner;

/* Runners of a session, made when first asked for: each phase has the nominal batch and smaller last ones. */
typedef struct mpc_runners {
    mpc_session *session;
    mpc_runner *data[8];
    uint32_t count;
    mpc_nonfinite_found found; /* by the checks of all */
} mpc_runners;

mpc_runner *mpc_runners_find(const mpc_runners *r, mpc_phase phase, int64_t batch); /* NULL: not made yet */
mpc_runner *mpc_runners_get(mpc_runners *r, mpc_phase phase, int64_t batch);        /* NULL after diagnostics */
void mpc_runners_deinit(mpc_runners *r);

/* Runs a split through the evaluation graph in the order of its rows. Leaves every state as it was. `d` must be bound.
 */
bool mpc_evaluate_split(mpc_runners *r, const mpc_dataset *d, mpc_totals *out);

#endif
