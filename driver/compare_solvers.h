/* mpc explain FILE --compare-solvers: every solver's assignment of the training step, priced and held against the hard rules. */
#ifndef MPC_DRIVER_COMPARE_SOLVERS_H
#define MPC_DRIVER_COMPARE_SOLVERS_H

#include "driver/session.h"

/* Prints a row per solver, or with --json one object. false after diagnostics. */
bool mpc_compare_solvers(mpc_session *s);

#endif
