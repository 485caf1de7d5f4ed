/* Status values. Library code returns one of these; when it is MPC_FAILED, at least one diagnostic
 * has been sent to the sink, so callers only pass it on. */
#ifndef MPC_BASE_STATUS_H
#define MPC_BASE_STATUS_H

typedef enum mpc_status {
    MPC_OK = 0,
    MPC_FAILED, /* a diagnostic has been sent */
    MPC_NO_MEMORY,
} mpc_status;

#endif
