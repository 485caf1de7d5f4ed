/* A sink for what reads a file that a line of the model names: errors about the file then show that line. */
#ifndef MPC_DRIVER_PLACED_SINK_H
#define MPC_DRIVER_PLACED_SINK_H

#include "base/diag.h"

typedef struct mpc_placed {
    const mpc_sink *to;
    mpc_span span; /* file 0: none, and nothing is added */
} mpc_placed;
/* Diagnostics that have no place of their own get the span. `p` lives as long as the sink and its copies. */
mpc_sink mpc_placed_sink(mpc_placed *p);

#endif
