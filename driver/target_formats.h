/* Formats that the target (--cost-target, or the device that runs) lacks. */
#ifndef MPC_DRIVER_TARGET_FORMATS_H
#define MPC_DRIVER_TARGET_FORMATS_H

#include "driver/session.h"

/* Settles `precision = auto`, and a precision that the target lacks: another one is put behind the overrides, with
 * warning W162 or, with --strict, error E378. *again: there is one, so the model must be loaded anew. */
bool mpc_target_settle_precision(mpc_session *s, bool *again);
/* E378 for the first value of a graph whose format the target lacks: what the user wrote in full has no other format to
 * go to. */
bool mpc_target_check(const mpc_session *s, const mpc_graph *g);

#endif
