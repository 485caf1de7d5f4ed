/* Numbers for people. */
#ifndef MPC_DRIVER_NUMBER_TEXT_H
#define MPC_DRIVER_NUMBER_TEXT_H

#include <stdint.h>

/* "1,234,567" */
void mpc_grouped_text(uint64_t n, char out[32]);
/* "512 B", "3.4 kB", "12.0 MB" */
void mpc_bytes_text(double bytes, char out[32]);

#endif
