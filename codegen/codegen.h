/* Scheduled, placed graph -> program. Fusion groups become kernel descriptions, those become C text. */
#ifndef MPC_CODEGEN_CODEGEN_H
#define MPC_CODEGEN_CODEGEN_H

#include "ir/program.h"

typedef enum mpc_target { MPC_TARGET_C, MPC_TARGET_CUDA } mpc_target;

/* Text for C is the same for every machine: vectors have 16 lanes, and who compiles it chooses the registers they take. */
typedef struct mpc_codegen_options {
    mpc_target target;
} mpc_codegen_options;

/* `g` has groups, order and places (pipeline @lower). Options NULL: C. NULL on failure, with a diagnostic. */
mpc_program *mpc_codegen(const mpc_graph *g, const mpc_codegen_options *options);
/* The whole translation unit of a program: prelude and kernels (what `mpc compile --emit c` writes). */
void mpc_program_source(const mpc_program *program, mpc_str *out);

#endif
