/* What compiled kernels look like: for people who ask whether a kernel spills, loads in 16-byte pieces, or uses tensor
 * cores. */
#ifndef MPC_DRIVER_COMPILE_REPORT_H
#define MPC_DRIVER_COMPILE_REPORT_H

#include "driver/session.h"

typedef struct mpc_compiled { /* one program for one kind of GPU */
    const char *name;         /* "train" */
    const mpc_program *program;
    int capability; /* 80; 0: not compiled, so nothing is known but the text */
} mpc_compiled;

/* Prints a row per kernel to stdout, or with --json an object a line. */
bool mpc_compile_report(const mpc_session *s, const mpc_compiled *c);

#endif
