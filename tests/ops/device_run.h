/* One step of a graph without states on a device: lowered, compiled, run. */
#ifndef MPC_TESTS_OPS_DEVICE_RUN_H
#define MPC_TESTS_OPS_DEVICE_RUN_H

#include "ir/eval/eval.h"

typedef enum ops_on { OPS_ON_CPU, OPS_ON_CUDA } ops_on;
extern const char *const ops_on_names[];

/* A lowered graph and its program; what it borrows (the graph) must outlive it. */
typedef struct ops_program {
    ops_on on;
    const mpc_graph *graph;
    mpc_graph *lowered;
    struct mpc_program *program;
} ops_program;

/* All return NULL when all went well, else what failed. */
const char *ops_program_make(ops_program *p, ops_on on, const mpc_graph *g);
void ops_program_free(ops_program *p);
/* Compiles many at once, so that each need not be compiled alone when it runs. */
const char *ops_programs_compile(const ops_program *programs, size_t count);
/* outputs[i] in `arena`. */
const char *ops_program_run(const ops_program *p, const mpc_tensor *inputs, mpc_arena *arena, mpc_tensor *outputs);

/* From these values of the states (`read` as mpc_evaluate wants it). */
const char *ops_program_run_from(const ops_program *p, const mpc_tensor *inputs, mpc_state_reader read, void *user,
                                 mpc_arena *arena, mpc_tensor *outputs);

/* All of it for one graph. */
const char *ops_device_run(ops_on on, const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena,
                           mpc_tensor *outputs);

#endif
