/* One step of a small graph given as text, on `ref` and on `cpu`: inputs in, named outputs of both devices out. */
#ifndef MPC_TESTS_NUMERICS_GRAPH_RUN_H
#define MPC_TESTS_NUMERICS_GRAPH_RUN_H

#include "ir/eval/eval.h"

enum { GRAPH_DEVICES = 2 }; /* 0: ref, 1: cpu */

typedef struct graph_run graph_run;
/* Parses `text` ("mpir 1 graph ..." without states) and runs `pipeline` ("" for none) on it. NULL after printing why.
 */
graph_run *graph_open(const char *text, const char *pipeline);
void graph_close(graph_run *r);
/* Elements to fill before the step, rounded to the input's format by graph_step. */
double *graph_input(graph_run *r, const char *name);
/* Both devices. */
bool graph_step(graph_run *r);
/* NULL data when there is no such output. */
mpc_tensor graph_output(const graph_run *r, int device, const char *name);

#endif
