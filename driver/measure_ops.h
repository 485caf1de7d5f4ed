/* What single products and convolutions take on this machine's cpu device, for `mpc calibrate`. */
#ifndef MPC_DRIVER_MEASURE_OPS_H
#define MPC_DRIVER_MEASURE_OPS_H

#include "driver/session.h"
#include "passes/precision/cost.h"

typedef struct mpc_measured_op {
    mpc_op_size size; /* as the cost model sees it */
    char shape[48];   /* for people: "64x1024x1024" */
    double seconds;   /* of its launch, on as many threads as the session says; 0: it could not be measured */
} mpc_measured_op;

/* A fixed list of shapes, small, odd and large, with operands in each of `count` formats, in turns (results too, but gradients of weights are f32).
 * `ops` has mpc_measured_ops_count() places a format. false after a diagnostic. */
uint32_t mpc_measured_ops_count(void);
bool mpc_measure_ops(mpc_session *s, const mpc_format *formats, int count, mpc_measured_op *ops);

#endif
