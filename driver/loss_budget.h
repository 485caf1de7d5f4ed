/* --loss-budget: measures how the loss answers to rounding, finds the assignment that keeps the budget, and checks it by a run. */
#ifndef MPC_DRIVER_LOSS_BUDGET_H
#define MPC_DRIVER_LOSS_BUDGET_H

#include "driver/session.h"
#include "passes/precision/sensitivity.h"

/* Fills the session's assignment, when there is a budget and no assignment yet; `d` is the opened training data, whose facts and length are known. Says
 * what it found to `to`. */
bool mpc_loss_budget_apply(mpc_session *s, mpc_dataset *d, FILE *to);
/* The assignment of the run that --resume or --from names, if that run kept a budget: it is made once. */
bool mpc_loss_budget_recall(mpc_session *s);

/* ---- runs beside the session (loss_probe.c) ---- */
/* Mean over some f32 steps on `ref`. */
bool mpc_loss_measure(const mpc_session *s, mpc_dataset *d, mpc_sensitivity *out);
/* What `batches` batches along a training in f32 show. */
typedef struct mpc_loss_check {
    double deviation; /* root mean square of loss under the assignment less loss in f32 */
    double typical; /* the same from the median, so without the few batches where rounding made a choice (top_k, argmax)
                       fall out otherwise */
    double after_update; /* root mean square of what one update under the assignment, gradients and all, changes in the
                            next loss */
} mpc_loss_check;
bool mpc_loss_compare(const mpc_session *s, mpc_dataset *d, int64_t batches, mpc_loss_check *out);

#endif
