/* One step of a graph without states on the cpu device: lowered, compiled, run. */
#ifndef MPC_TESTS_OPS_CPU_RUN_H
#define MPC_TESTS_OPS_CPU_RUN_H

#include "ir/eval/eval.h"

/* outputs[i] in `arena`. NULL when all went well, else what failed. */
const char *ops_cpu_run(const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena, mpc_tensor *outputs);

#endif
