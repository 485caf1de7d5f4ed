/* The ring of steps under way. Records come in the order of steps on each executor, and steps of several executors are
 * done in the order in which they were begun, so the oldest batch of the ring is always the next to ask for. */
#include "driver/flight.h"

#include "driver/progress.h"

bool mpc_flight_has_room(const mpc_flight *f, const mpc_runner *runner) {
    if (f->count == MPC_FLIGHT_MOST) return false;
    uint32_t under_way = 0;
    for (uint32_t i = 0; i < f->count; i++) under_way += f->batches[(f->first + i) % MPC_FLIGHT_MOST].runner == runner;
    return under_way < runner->step->exec->ahead;
}

static bool begin_step(const mpc_runner *r, mpc_launch_time *times) {
    if (times) return mpc_step_profile(r->step, times);
    return r->check ? mpc_nonfinite_check_run(r->check) : mpc_exec_step(r->step->exec) == MPC_OK;
}

bool mpc_flight_begin(mpc_flight *f, const mpc_batch *batch, mpc_launch_time *times) {
    double begin = mpc_now();
    if (!begin_step(batch->runner, times)) return false;
    mpc_batch *slot = &f->batches[(f->first + f->count++) % MPC_FLIGHT_MOST];
    *slot = *batch;
    slot->step_seconds = mpc_now() - begin;
    return true;
}

mpc_record_state mpc_flight_take(mpc_flight *f, bool wait, mpc_batch *out) {
    if (f->count == 0) return MPC_RECORD_NONE;
    mpc_batch *oldest = &f->batches[f->first];
    mpc_exec *exec = oldest->runner->step->exec;
    double begin = exec->ahead > 1 ? mpc_now() : 0;
    mpc_record_state state = mpc_exec_record(exec, wait);
    if (exec->ahead > 1) oldest->step_seconds += mpc_now() - begin;
    if (state == MPC_RECORD_PENDING) return state;
    if (state != MPC_RECORD_READY) return MPC_RECORD_FAILED;
    *out = *oldest;
    f->first = (f->first + 1) % MPC_FLIGHT_MOST;
    f->count--;
    return state;
}

void mpc_flight_drop(mpc_flight *f) {
    mpc_batch batch;
    while (mpc_flight_take(f, true, &batch) == MPC_RECORD_READY) {
    }
    f->first = f->count = 0;
}
