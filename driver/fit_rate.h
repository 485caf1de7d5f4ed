/* From the times of many shapes to the rate of their kind of op, for `mpc calibrate`. */
#ifndef MPC_DRIVER_FIT_RATE_H
#define MPC_DRIVER_FIT_RATE_H

#include "driver/measure_ops.h"

typedef enum mpc_fit_outcome {
    MPC_FIT_MEASURED,   /* all figures are of the times */
    MPC_FIT_BEST_SHAPE, /* multiplying takes no time that could be told from the rest: flops are those of the shape that
                           had most, the rest is fitted */
    MPC_FIT_BUILT_IN,   /* too few shapes: the rate is as it was */
} mpc_fit_outcome;

/* `rate` comes with the tiles, the alignment and the figures of a built-in profile. Shapes of other kinds and without a
 * time are passed over. No figure is infinite, nor the end of a range: what the times don't tell is replaced and told.
 */
mpc_fit_outcome mpc_fit_rate(mpc_rate *rate, mpc_cost_kind kind, const mpc_measured_op *ops, uint32_t count);

#endif
