/* Scheduled, placed graph -> program. Fusion groups become kernel descriptions, those become C text. */
#ifndef MPC_CODEGEN_CODEGEN_H
#define MPC_CODEGEN_CODEGEN_H

#include "ir/program.h"

typedef enum mpc_target { MPC_TARGET_C, MPC_TARGET_CUDA } mpc_target;

typedef struct mpc_codegen_options {
    mpc_target target;
    unsigned vector_bytes; /* C: 64, 32 or 16 */
} mpc_codegen_options;

/* `g` has groups, order and places (pipeline @lower). NULL on failure. */
mpc_program *mpc_codegen(const mpc_graph *g, const mpc_codegen_options *options);
/* The whole translation unit of a program: prelude and kernels (what `mpc compile --emit c` writes). */
void mpc_program_source(const mpc_program *program, mpc_str *out);

#endif
