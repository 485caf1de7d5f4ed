/* Running a program without a shell. */
#ifndef MPC_RUNTIME_CPU_SUBPROCESS_H
#define MPC_RUNTIME_CPU_SUBPROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

enum { MPC_MAX_ARGUMENTS = 48 };

typedef struct mpc_subprocess {
    pid_t pid;
    int output; /* read end of its stdout and stderr */
} mpc_subprocess;

/* `arguments` NULL-terminated; the first is looked up in PATH. Standard input is empty. false: it could not be started.
 */
bool mpc_subprocess_start(mpc_subprocess *process, char *const *arguments);
/* Reads its output to the end (at most 64 KiB are kept), waits. The exit status, or -1 when it was killed. */
int mpc_subprocess_finish(mpc_subprocess *process, mpc_str *output);

#endif
