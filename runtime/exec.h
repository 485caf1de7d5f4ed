/* Shared by the executors: looking for values that are not finite. */
#ifndef MPC_RUNTIME_EXEC_H
#define MPC_RUNTIME_EXEC_H

#include "runtime/device.h"

/* The first element that is infinite or NaN; integers and bools hold none. */
bool mpc_find_nonfinite(const mpc_type *type, const void *data, int64_t *at);
/* Of the finite elements; 0 for integers. */
double mpc_largest_magnitude(const mpc_type *type, const void *data);
const char *mpc_nonfinite_word(double value); /* "nan", "inf", "-inf" */

#endif
