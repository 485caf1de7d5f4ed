/* Names that only a number tells apart, "linear.0.weight" and "linear.1.weight": a checkpoint records how many there
 * were, so that one made with another count isn't loaded under numbers that mean something else. A list has the form
 * "attend.linear=3 body.conv2d=2". */
#ifndef MPC_RUNTIME_NUMBERED_H
#define MPC_RUNTIME_NUMBERED_H

#include "runtime/device.h"

/* The numbered names of all parameters, in order, each once. */
mpc_status mpc_numbered_list(mpc_store *store, mpc_str *out);
/* One entry: a name (not terminated) with its count. */
typedef struct mpc_numbered {
    const char *name;
    size_t length;
    uint64_t count;
} mpc_numbered;
/* The next entry of a list from *at; false at the end or at what can't be read. */
bool mpc_numbered_next(const char **at, mpc_numbered *out);
/* The entry of `here` under whose numbers `name` stands and which has another count in `there`; false: none. */
bool mpc_numbered_differs(const char *here, const char *there, const char *name, mpc_numbered *mine,
                          mpc_numbered *other);
/* Raises *count to one more than the number that `name` has under n->name, if it has one. */
void mpc_numbered_reach(const mpc_numbered *n, const char *name, uint64_t *count);

#endif
