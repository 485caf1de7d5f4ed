/* log.jsonl: one JSON object a line, appended in whole lines, so that a crash loses lines but never cuts one. */
#ifndef MPC_DRIVER_RUN_LOG_H
#define MPC_DRIVER_RUN_LOG_H

#include "base/diag.h"
#include "base/str.h"
#include "driver/event_file.h"

typedef struct mpc_log {
    int fd; /* -1: closed */
    const char *path;
    const mpc_sink *sink;
    mpc_str buffer;    /* whole lines, and the one being written */
    mpc_str nonfinite; /* keys of this line that are null because JSON has no NaN */
    mpc_events events; /* fd -1: no event file */
    const char *group; /* of the points that this line's numbers are; NULL: they are none */
} mpc_log;

/* `resume_step` >= 0: keeps what belongs to steps up to it. -1: a new file. */
mpc_status mpc_log_open(mpc_log *log, const char *path, int64_t resume_step, const mpc_sink *sink);
/* An event file beside it, in `folder`. */
mpc_status mpc_log_open_events(mpc_log *log, const char *folder, int64_t resume_step);
void mpc_log_begin(mpc_log *log, const char *type);
void mpc_log_number(mpc_log *log, const char *key, double value);            /* 7 digits */
void mpc_log_fixed(mpc_log *log, const char *key, double value, int digits); /* times and rates */
void mpc_log_int(mpc_log *log, const char *key, int64_t value);
void mpc_log_text(mpc_log *log, const char *key, const char *value);
void mpc_log_bool(mpc_log *log, const char *key, bool value);
/* Numbers of this line, from here on, also go to the event file: points of curves "group/key" at `step`. */
void mpc_log_chart(mpc_log *log, const char *group, int64_t step);
/* Ends the line; writes the buffer out when it is large. */
mpc_status mpc_log_end(mpc_log *log);
mpc_status mpc_log_flush(mpc_log *log);
void mpc_log_close(mpc_log *log);

/* A JSON string literal with quotes. */
void mpc_json_append_string(mpc_str *out, const char *text);

#endif
