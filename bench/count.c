/* Counts the instructions of one step, by letting a child process take it one instruction at a time. The child is a
 * fork of the prepared session, so two counts start from the same memory at the same addresses and are equal to the
 * last instruction. A count says how much a plan makes the processor do, not how long that takes: one tile instruction
 * multiplies as much as hundreds of others. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/bench.h"

/* Each instruction hands the processor from one process to the other and back, which on one and the same takes a
 * fraction of the time. */
static void stay_here(void) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((unsigned)sched_getcpu(), &here);
    sched_setaffinity(0, sizeof here, &here); /* without it all is just slower */
}

/* Between two stops lies one step. */
_Noreturn static void take_step(mpc_exec *e) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(MPC_BENCH_SKIPPED);
    raise(SIGSTOP);
    bool ok = mpc_exec_step(e) == MPC_OK;
    raise(SIGSTOP);
    _exit(ok ? 0 : 1);
}

static bool is_stopped_by(int status, int signal) { return WIFSTOPPED(status) && WSTOPSIG(status) == signal; }

/* From the first stop to the second; -1: the child ended or the system refused. */
static long long count_to_stop(pid_t child) {
    long long count = 0;
    int status = 0;
    if (waitpid(child, &status, 0) != child || !is_stopped_by(status, SIGSTOP)) return -1;
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0 || waitpid(child, &status, 0) != child) return -1;
        if (is_stopped_by(status, SIGSTOP)) return count;
        if (!is_stopped_by(status, SIGTRAP)) return -1;
        count++;
    }
}

long long bench_count_step(mpc_exec *e) {
    cpu_set_t before;
    bool restore = sched_getaffinity(0, sizeof before, &before) == 0;
    stay_here();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) take_step(e);
    long long count = child > 0 ? count_to_stop(child) : -1;
    if (child > 0) kill(child, SIGKILL);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    if (restore) sched_setaffinity(0, sizeof before, &before);
    return count;
}
