/* Event files for TensorBoard: framed records of protocol buffers (`Event` and `Summary` of TensorFlow), encoded by
 * hand. A run's folder gets one per process; a resumed run's begins with a session start at the first step that comes
 * again, at which readers forget what older files say of that step and later ones. */
#ifndef MPC_DRIVER_EVENT_FILE_H
#define MPC_DRIVER_EVENT_FILE_H

#include "base/diag.h"
#include "base/str.h"

typedef struct mpc_events {
    int fd; /* -1: closed */
    mpc_str path;
    const mpc_sink *sink;
    mpc_str buffer; /* whole records */
    mpc_str event;  /* the one being written */
    mpc_str points; /* its Summary's fields */
    double wall_time;
    int64_t step;
} mpc_events;

/* A new file in `folder`. `resume_step` >= 0: what other files say of later steps doesn't count any more. */
mpc_status mpc_events_open(mpc_events *e, const char *folder, int64_t resume_step, const mpc_sink *sink);
/* Points at one step: begin, add, end. `wall_time`: seconds since 1970. */
void mpc_events_begin(mpc_events *e, double wall_time, int64_t step);
void mpc_events_add(mpc_events *e, const char *group, const char *name, double value); /* tag "group/name" */
void mpc_events_end(mpc_events *e);
mpc_status mpc_events_flush(mpc_events *e);
void mpc_events_close(mpc_events *e);

/* Removes the event files of a folder: those of a run that is overwritten. */
void mpc_events_remove(const char *folder);

/* CRC-32C (Castagnoli), as RFC 3720 has it. */
uint32_t mpc_crc32c(const void *data, size_t size);

#endif
