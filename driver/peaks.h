/* What a device could do at most: the yardstick of a profile. */
#ifndef MPC_DRIVER_PEAKS_H
#define MPC_DRIVER_PEAKS_H

#include "driver/session.h"

typedef struct mpc_peaks { /* per second; 0: not known */
    char device[160];      /* "NVIDIA H200", "Intel ..., 2 threads" */
    const char *source;    /* "data sheet", "measured", "unknown" */
    double bytes;
    double flops16, tf32, f32; /* matrix products on bf16 or f16, on tf32, on f32 */
} mpc_peaks;

/* Data sheet figures of the GPU; on `cpu`, what a large product and a large copy were seen to do just now. */
bool mpc_peaks_find(mpc_session *s, mpc_peaks *out);
/* Seconds that a launch takes at least; 0: not known. */
double mpc_peaks_limit(const mpc_peaks *peaks, const mpc_program *program, const mpc_launch *launch, bool *by_memory);

/* Best time of a few steps of a graph in text form on the cpu device; 0 after a failure. */
double mpc_time_graph(mpc_session *s, const char *text);

#endif
