/* The one mutable object of the process that isn't in a struct: a signal handler has no other way to say something. */
#include "driver/interrupt.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile sig_atomic_t received;

static void on_signal(int number) {
    if (received) _exit(128 + number);
    received = number;
}

void mpc_interrupt_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

void mpc_interrupt_follow_sweep(void) {
    const char *process = getenv(MPC_SWEEP_PROCESS);
    if (!process || strtol(process, NULL, 10) != (long)getppid()) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (strtol(process, NULL, 10) != (long)getppid()) raise(SIGTERM); /* it ended just now */
}

int mpc_interrupt_signal(void) { return (int)received; }
