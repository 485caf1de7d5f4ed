/* Stacks of their own for the threads of a block. A fiber starts in `entry` and never returns from it; a switch is a
 * dozen instructions on x86-64 and ucontext elsewhere. */
#ifndef MPC_TESTS_CUDASIM_SIM_FIBER_H
#define MPC_TESTS_CUDASIM_SIM_FIBER_H

#include <stddef.h>

typedef struct sim_fiber {
    void *sp; /* where it stopped */
    char *stack;
    size_t size; /* 0: the stack of whoever called */
    void *fake;  /* AddressSanitizer's */
} sim_fiber;

sim_fiber *sim_fiber_new(void (*entry)(void)); /* NULL: no memory. It is kept until the process ends. */
void sim_fiber_reset(sim_fiber *fiber, void (*entry)(void));
void sim_fiber_switch(sim_fiber *from, sim_fiber *to);
/* To be called at the very start of `entry`. */
void sim_fiber_started(void);

#endif
