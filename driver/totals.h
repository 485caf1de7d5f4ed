/* Figures over many batches: every mean is weighted by the number of elements that counted, so a smaller last batch and
 * masked elements weigh what they should. The total is made of the losses' means over all batches, each with its own
 * count: the mean of the batches' totals would depend on which rows came together (N61). */
#ifndef MPC_DRIVER_TOTALS_H
#define MPC_DRIVER_TOTALS_H

#include "driver/session.h"

typedef struct mpc_meter { /* where a step's outputs hold what: indices of executor outputs, MPC_NONE where absent */
    uint32_t *losses, *counts, *weights; /* by loss of the model */
    uint32_t *nums, *dens;               /* by metric */
} mpc_meter;

bool mpc_meter_init(mpc_meter *m, const mpc_step *step);
void mpc_meter_deinit(mpc_meter *m);

typedef struct mpc_totals {
    const mpc_model *model;
    uint32_t loss_count, metric_count;
    double *sums; /* loss sums, weighted loss sums, loss counts, metric nums, metric dens */
} mpc_totals;

bool mpc_totals_init(mpc_totals *t, const mpc_model *model);
void mpc_totals_deinit(mpc_totals *t);
void mpc_totals_clear(mpc_totals *t);
void mpc_totals_add(mpc_totals *t, const mpc_meter *m, mpc_step *step);
size_t mpc_totals_sum_count(const mpc_totals *t); /* of `sums` */
/* Weighted total; a loss of which nothing counted adds nothing. NaN when none counted. */
double mpc_totals_loss(const mpc_totals *t);
double mpc_totals_count(const mpc_totals *t); /* 0: nothing of any loss counted */
double mpc_totals_loss_at(const mpc_totals *t, uint32_t k);
double mpc_totals_metric_at(const mpc_totals *t, uint32_t k);
/* What a figure is the mean of: 0 when nothing counted, and the figure is undefined. */
double mpc_totals_loss_weight(const mpc_totals *t, uint32_t k);
double mpc_totals_metric_weight(const mpc_totals *t, uint32_t k);
/* "loss", "loss.NAME" or a metric's name. false: none of that name. */
bool mpc_totals_find(const mpc_totals *t, const char *name, double *value, bool *higher_is_better);

#endif
