/* A step that somebody looks at while it runs, launch by launch (`--check-nonfinite`). Its results are those of a step
 * at one go. On `ref` the same is done by mpc_ref_observe. */
#ifndef MPC_RUNTIME_WATCH_H
#define MPC_RUNTIME_WATCH_H

#include "runtime/device.h"
#include "runtime/nonfinite_report.h"

/* Around each launch that runs. false: the step ends here; it leaves no record, and nothing may run on its states. */
typedef struct mpc_watch {
    bool (*before)(void *user, const mpc_nonfinite_reader *r, uint32_t launch);
    bool (*after)(void *user, const mpc_nonfinite_reader *r, uint32_t launch);
    void *user;
} mpc_watch;

/* One step on the inputs of the next one; its record comes with mpc_exec_record. */
mpc_status mpc_cpu_step_watched(mpc_exec *e, const mpc_watch *watch);
mpc_status mpc_cuda_step_watched(mpc_exec *e, const mpc_watch *watch);

#endif
