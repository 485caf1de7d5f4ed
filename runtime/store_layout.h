/* What executors need of a store beyond runtime/device.h: the control states (counters, scale, rng) form one range,
 * which is saved before a step so that the step can be run again, and derived copies are converted by one function. */
#ifndef MPC_RUNTIME_STORE_LAYOUT_H
#define MPC_RUNTIME_STORE_LAYOUT_H

#include "runtime/device.h"

mpc_buffer_class mpc_state_class(const char *role, mpc_format derived);

/* The bytes of all states of class CONTROL. */
void *mpc_store_control(mpc_store *store, uint64_t *bytes);
uint64_t mpc_store_bytes(const mpc_store *store);
void *mpc_store_base(mpc_store *store); /* entries' data lie in [base, base + bytes) */
/* Memory that all executors of the store use in turn, at least `bytes`, touched; its address never changes. NULL: there
 * isn't so much. */
uint8_t *mpc_store_workspace(mpc_store *store, uint64_t bytes);
/* true on the first call only: a session's executors tell what is missing once. */
bool mpc_store_first_time(mpc_store *store);

/* One element, as its format holds it. Integers truncate; f64 comes through exactly. */
double mpc_element_get(mpc_format format, const void *data, int64_t i);
void mpc_element_set(mpc_format format, void *data, int64_t i, double value);

#endif
