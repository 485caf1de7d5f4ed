/* Mean and deviation of what the data section standardizes, measured on the training rows before the first step. */
#ifndef MPC_DRIVER_STANDARDIZE_H
#define MPC_DRIVER_STANDARDIZE_H

#include "driver/session.h"

/* Measures and writes the states into `store`; nothing to do when no mapping standardizes. Binds `d` anew: whoever
 * trains binds it afterwards. */
bool mpc_standardize(const mpc_session *s, mpc_store *store, mpc_dataset *d);

#endif
