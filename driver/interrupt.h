/* SIGINT, SIGTERM, SIGHUP: the first asks the training loop to finish its step, a second one ends the process at once.
 */
#ifndef MPC_DRIVER_INTERRUPT_H
#define MPC_DRIVER_INTERRUPT_H

void mpc_interrupt_install(void);
int mpc_interrupt_signal(void); /* number of the signal that came, 0: none */

/* Environment variable with the process id of the sweep that began a training. */
#define MPC_SWEEP_PROCESS "MPC_SWEEP_PROCESS"
/* Ends a sweep's training as SIGTERM does when the sweep is gone, even if that was killed. */
void mpc_interrupt_follow_sweep(void);

#endif
