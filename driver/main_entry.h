/* What main() calls; apart from it so that tests can link the driver. */
#ifndef MPC_DRIVER_MAIN_ENTRY_H
#define MPC_DRIVER_MAIN_ENTRY_H

int mpc_main(int argc, char **argv);

#endif
