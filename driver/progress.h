/* What a person sees while a model trains, on stderr: a bar on a terminal, plain lines elsewhere. */
#ifndef MPC_DRIVER_PROGRESS_H
#define MPC_DRIVER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mpc_progress {
    bool terminal, color, shown; /* shown: a bar stands on the current line */
    double total;                /* steps; 0: not known */
    double started, last;        /* seconds; last: of a drawing or line */
    uint64_t first_step;         /* of this process */
    double rows;                 /* since start */
    double smooth;               /* loss */
    bool has_smooth;
} mpc_progress;

typedef struct mpc_progress_step {
    uint64_t step;
    double loss, rows, scale, skipped;
    bool has_scale;
} mpc_progress_step;

void mpc_progress_start(mpc_progress *p, double total, uint64_t first_step);
void mpc_progress_update(mpc_progress *p, const mpc_progress_step *s, double now);
/* A line above the bar. */
void mpc_progress_line(mpc_progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mpc_progress_end(mpc_progress *p);
double mpc_now(void); /* monotonic seconds */

#endif
