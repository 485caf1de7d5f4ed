/* A value as a strided view of stored memory: how transposes, slices, reshapes and expands are read by a matmul without
 * being made. Which of them really share storage is decided by the memory pass (places); this only does the arithmetic. */
#ifndef MPC_IR_STRIDED_H
#define MPC_IR_STRIDED_H

#include "ir/graph.h"

typedef struct mpc_strided {
    int64_t offset; /* elements */
    uint32_t rank;
    int64_t dims[MPC_MAX_RANK], strides[MPC_MAX_RANK]; /* elements */
} mpc_strided;

/* A reshape, transpose or slice that keeps the format: only then can it share its operand's storage. */
bool mpc_strided_is_view(const mpc_graph *g, const mpc_node *n);
/* The same or an expand, whose new axes have stride 0: a matmul may read it where its operand lies. */
bool mpc_strided_may_share(const mpc_graph *g, const mpc_node *n);
mpc_strided mpc_strided_dense(const mpc_type *type);
/* The result of a reshape, transpose, slice or expand of `s`; false: not a strided view (another op, or a reshape that would
 * need a copy). */
bool mpc_strided_apply(const mpc_graph *g, const mpc_node *view, mpc_strided *s);
/* The operand of a transpose whose result has layout `s`. */
void mpc_strided_undo_transpose(const mpc_graph *g, const mpc_node *transpose, mpc_strided *s);
/* Axes [first, last) as one axis of the given stride; false: they don't lie that way. 1 for no elements. */
bool mpc_strided_collapse(const mpc_strided *s, uint32_t first, uint32_t last, int64_t *stride);
/* Can a matmul read or write this as operand `i` of `n` (i = operand count: the result)? Row or column stride 1, neither
 * 0, at most three batch axes. Attention that is kept as one op counts as a matmul; only its last axis must have stride 1. */
bool mpc_strided_fits_matmul(const mpc_graph *g, const mpc_node *n, uint32_t i, const mpc_strided *s);

#endif
