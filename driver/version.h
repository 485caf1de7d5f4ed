/* The version of mpc, as it stands in run.json and `mpc info`. */
#ifndef MPC_DRIVER_VERSION_H
#define MPC_DRIVER_VERSION_H

#define MPC_VERSION "0.1.0"

#endif
