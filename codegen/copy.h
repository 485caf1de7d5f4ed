/* Copies and fills as both targets make them: a node is a few moves between strided sides, each a launch or an instance
 * of one. */
#ifndef MPC_CODEGEN_COPY_H
#define MPC_CODEGEN_COPY_H

#include "codegen/cg.h"

typedef struct mpc_copy_side {
    mpc_pointer at;
    mpc_format format;
    mpc_strided layout;
} mpc_copy_side;

/* Axes of a move, outermost first, those that lie together on both sides joined, those of extent 1 left out; strides in
 * elements. */
typedef struct mpc_copy_axes {
    uint32_t count;
    int64_t dims[MPC_MAX_RANK], from[MPC_MAX_RANK], to[MPC_MAX_RANK];
} mpc_copy_axes;
mpc_copy_axes mpc_copy_merge_axes(const mpc_strided *from, const mpc_strided *to);

typedef struct mpc_copy_emitter {
    /* One move; joins the launch `*launch` if that one runs the same kernel. */
    void (*move)(mpc_cg *cg, const mpc_node *n, const mpc_copy_side *from, const mpc_copy_side *to,
                 mpc_launch **launch);
    /* All of the result: `value`, or with `range` 0, 1, 2, ... */
    void (*fill)(mpc_cg *cg, const mpc_node *n, double value, bool range);
} mpc_copy_emitter;
/* The moves of a view node; the fill of a const or range node. */
void mpc_copy_emit_view(mpc_cg *cg, const mpc_node *n, const mpc_copy_emitter *emitter);
void mpc_copy_emit_fill(mpc_cg *cg, const mpc_node *n, const mpc_copy_emitter *emitter);
/* Arguments of a fill: `value` as n[2] and, rounded to the format, f[0], after the two ints that are there already. */
void mpc_copy_add_value(mpc_cg_args *args, mpc_format format, double value);

#endif
