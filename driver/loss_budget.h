/* --loss-budget: measures how the loss answers to rounding, finds the assignment that keeps the budget, and checks it
 * by a run. */
#ifndef MPC_DRIVER_LOSS_BUDGET_H
#define MPC_DRIVER_LOSS_BUDGET_H

#include "driver/session.h"
#include "passes/precision/sensitivity.h"

/* Fills the session's assignment, when there is a budget and no assignment yet; `d` is the opened training data, whose
 * facts and length are known. Says what it found to `to`. */
bool mpc_loss_budget_apply(mpc_session *s, mpc_dataset *d, FILE *to);
/* The assignment of the run that --resume or --from names, if that run kept a budget: it is made once. Of a run that is
 * trained again in its formats, with and without a budget. */
bool mpc_loss_budget_recall(mpc_session *s);

/* ---- runs beside the session (loss_probe.c) ---- */
/* Mean over some f32 steps on `ref`. */
bool mpc_loss_measure(const mpc_session *s, mpc_dataset *d, mpc_sensitivity *out);
/* What `batches` batches along a training in f32 show. Rounding may make a choice fall out otherwise (another expert of
 * top_k, a comparison near a tie). If the loss jumps there, derivatives know nothing of it, so the prediction is
 * compared with f32 that was given the same choices. */
typedef struct mpc_loss_check {
    double deviation;         /* root mean square of loss under the assignment less loss in f32 with the same choices */
    double deviation_all;     /* less loss in f32 with its own choices */
    double deviation_choices; /* of f32 with the assignment's choices less f32 with its own: what these alone do */
    double after_update; /* root mean square of what one update under the assignment, gradients and all, changes in the
                            next loss */
    int64_t other_batches;    /* that chose otherwise */
    const char *other_choice; /* the value that most elements fell out otherwise of where it was the first in its batch,
                                 so no choice before it is to blame; in the session's context; NULL: there is none */
    int64_t other_elements;   /* these elements */
    mpc_loc other_place;      /* where it is made */
} mpc_loss_check;
bool mpc_loss_compare(const mpc_session *s, mpc_dataset *d, int64_t batches, mpc_loss_check *out);

#endif
