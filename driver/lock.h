/* train --lock FILE: the precision assignment as a file that is kept with the model. */
#ifndef MPC_DRIVER_LOCK_H
#define MPC_DRIVER_LOCK_H

#include "driver/session.h"

/* Once the session's first step has made its assignment: writes it where there is no FILE, else compares; E366 with the
 * difference. A FILE without a folder lies beside the model. Nothing to do without --lock. */
bool mpc_lock_check(mpc_session *s);

/* What is said, before the difference, of an assignment that isn't the file's. */
typedef struct mpc_assignment_refusal {
    const char *code, *message, *help;
} mpc_assignment_refusal;
/* Compares the session's assignment with a file, by value, op and formats. false after a diagnostic. */
bool mpc_assignment_check_file(const mpc_session *s, const char *path, const mpc_assignment_refusal *how);

#endif
