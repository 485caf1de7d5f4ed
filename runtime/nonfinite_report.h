/* What executors say about values that are not finite, when they run a stopped step once more. */
#ifndef MPC_RUNTIME_NONFINITE_REPORT_H
#define MPC_RUNTIME_NONFINITE_REPORT_H

#include "ir/program.h"

typedef struct mpc_nonfinite_reader {
    const mpc_program *program;
    const void *(*data)(void *user, uint32_t buffer); /* content now, good until the next call; NULL: it can't be had */
    void *user;
} mpc_nonfinite_reader;

/* The first input that holds such a value: "input x holds nan at element 12". */
bool mpc_nonfinite_in_inputs(const mpc_nonfinite_reader *r, mpc_str *what);
/* The first result of a launch that just ran: "h: linear gives inf at element 12; its inputs reach 3.1e38". */
bool mpc_nonfinite_in_results(const mpc_nonfinite_reader *r, const mpc_launch *launch, mpc_str *what);

#endif
