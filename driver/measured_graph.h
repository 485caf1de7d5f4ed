/* A graph in text form, ready to run on the cpu device, for those who time it. */
#ifndef MPC_DRIVER_MEASURED_GRAPH_H
#define MPC_DRIVER_MEASURED_GRAPH_H

#include "driver/session.h"

typedef struct mpc_measured_graph {
    mpc_graph *parsed, *low;
    mpc_program *program;
    mpc_store *store;
    mpc_exec *exec;
} mpc_measured_graph;

/* With the session's execution options; states have their initial values. false after a diagnostic; close it all the same. */
bool mpc_measured_graph_open(mpc_session *s, const char *text, mpc_measured_graph *out);
void mpc_measured_graph_close(mpc_measured_graph *m);

#endif
