/* One batch of every phase of a training, as `mpc check` runs them. */
#ifndef MPC_DRIVER_CHECK_H
#define MPC_DRIVER_CHECK_H

#include <jansson.h>

#include "driver/trainer.h"

typedef struct mpc_check {
    mpc_cli *cli; /* its --out is a temporary folder */
    mpc_session *session;
    mpc_trainer *trainer;
    const char *wanted;    /* the folder that a training would write to: --out; NULL: runs/NAME-001 */
    bool opened, prepared; /* session, trainer: to be closed */
    mpc_str detail;        /* of the phase that runs, for people: "loss 2.303" */
    json_t *facts;         /* the same for programs */
} mpc_check;

typedef struct mpc_check_phase {
    const char *name;
    bool (*run)(mpc_check *c);           /* false after diagnostics */
    bool (*applies)(const mpc_check *c); /* NULL: always */
} mpc_check_phase;
const mpc_check_phase *mpc_check_phase_at(size_t i); /* NULL behind the last one */

#endif
