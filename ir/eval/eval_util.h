/* What eval rules share. Private to ir/eval. A rule reads operands as doubles, writes unrounded doubles, and returns
 * false only when out of memory. */
#ifndef MPC_IR_EVAL_UTIL_H
#define MPC_IR_EVAL_UTIL_H

#include "ir/eval/eval.h"

enum { MPC_WALK_MAX = 3 };

/* Walks a shape in row-major order and keeps, for up to three tensors that broadcast to it, the offset of the matching
 * element. */
typedef struct mpc_walk {
    int64_t count; /* elements of the shape */
    int64_t at[MPC_WALK_MAX];
    bool flat; /* every tensor is dense over the shape or a single element: offsets move by step */
    int64_t step[MPC_WALK_MAX];
    uint32_t rank;
    int64_t dims[MPC_MAX_RANK], index[MPC_MAX_RANK];
    int64_t strides[MPC_WALK_MAX][MPC_MAX_RANK];
} mpc_walk;

/* Tensors 0..count-1 of rank <= over's, aligned at the last axis, dims equal or 1. */
mpc_walk mpc_walk_begin(const mpc_type *over, const mpc_tensor *tensors, uint32_t count);
/* Over the shape of `over` with the given strides for tensor 0. */
mpc_walk mpc_walk_strided(const mpc_type *over, const int64_t *strides);
void mpc_walk_carry(mpc_walk *w);

static inline void mpc_walk_next(mpc_walk *w) {
    if (!w->flat) {
        mpc_walk_carry(w);
        return;
    }
    for (int k = 0; k < MPC_WALK_MAX; k++) w->at[k] += w->step[k];
}

/* Row-major strides, in elements. */
void mpc_dense_strides(const mpc_type *type, int64_t *strides);

/* A tensor seen as [outer, n, inner] around one axis. */
typedef struct mpc_axis_view {
    int64_t outer, n, inner;
} mpc_axis_view;
mpc_axis_view mpc_axis_view_of(const mpc_type *type, int64_t axis);

/* The larger one; NaN if either is. */
static inline double mpc_max_nan(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }
static inline double mpc_min_nan(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }

/* Index of the first largest of x[0], x[stride], ...; of the first NaN if there is one. n > 0. */
int64_t mpc_eval_first_max(const double *x, int64_t n, int64_t stride);

/* Bias (operand 2, if there) and `act` on the accumulator, results[0] as [rows, n]. */
void mpc_eval_epilogue(const mpc_eval *e, int64_t rows, int64_t n);

/* Where a random op's numbers come from: operands `first` (seed) and `first` + 1 (step), attribute stream. */
typedef struct mpc_draw {
    uint64_t seed, stream;
    uint32_t step;
} mpc_draw;
mpc_draw mpc_eval_draw(const mpc_eval *e, uint32_t first);

/* Zeroed doubles that live as long as the evaluation; NULL when out of memory. */
double *mpc_eval_scratch(mpc_eval *e, int64_t count);

#endif
