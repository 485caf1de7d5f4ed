/* Steps that were begun and whose records weren't read yet, in the order in which they were begun, over all executors
 * of a session. Training and evaluation account for a step when its record comes out here; on devices that finish a
 * step before they return, that is at once. */
#ifndef MPC_DRIVER_FLIGHT_H
#define MPC_DRIVER_FLIGHT_H

#include "driver/runner.h"

typedef struct mpc_position { /* windows that ended; next row of the epoch's order */
    uint64_t step, epoch, row;
} mpc_position;

typedef struct mpc_batch { /* one micro-batch, and what accounting for it needs */
    mpc_runner *runner;
    int64_t rows;
    bool first, last;   /* of its window */
    mpc_position after; /* where training stands when it is done; matters where `last` */
    double feed_seconds, step_seconds;
} mpc_batch;

enum { MPC_FLIGHT_MOST = 64 };
typedef struct mpc_flight {
    mpc_batch batches[MPC_FLIGHT_MOST]; /* a ring */
    uint32_t first, count;
} mpc_flight;

/* Can this runner's step be fed and begun before a record is read? */
bool mpc_flight_has_room(const mpc_flight *f, const mpc_runner *runner);
/* Begins the step of a batch that was fed. With a check in its runner the step is done when it returns, false when it
 * found something. With `times`, by launch: waits for it and says where its time went. */
bool mpc_flight_begin(mpc_flight *f, const mpc_batch *batch, mpc_launch_time *times);
/* Makes the oldest step's record current and takes its batch out: READY. NONE: nothing was begun. */
mpc_record_state mpc_flight_take(mpc_flight *f, bool wait, mpc_batch *out);
/* Waits for all steps and forgets their records. */
void mpc_flight_drop(mpc_flight *f);

#endif
