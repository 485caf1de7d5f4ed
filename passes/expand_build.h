/* Building blocks of expansion rules. Values are f32 and named `COMPOSITE.OP`; a result that ends in one of the `emit`
 * functions gets the composite's own name and format, so the one rounding happens in the node that makes it. No-ops
 * after an error in the builder. */
#ifndef MPC_PASSES_EXPAND_BUILD_H
#define MPC_PASSES_EXPAND_BUILD_H

#include "passes/expand.h"
#include "passes/rewrite.h"

/* Scalars that an expansion may use again instead of making them anew, as `cse` would have it later: hyperparameters and what
 * follows from them and the step's number are the same for every parameter. Later ones replace earlier ones. Zeroed: empty. */
enum { MPC_EXPAND_MEMO = 256, MPC_EXPAND_KEY = 8 };
typedef struct mpc_expand_memo {
    struct {
        uint32_t key[MPC_EXPAND_KEY]; /* op, format, operands, bits of a constant */
        uint32_t value;               /* + 1; 0: none */
    } made[MPC_EXPAND_MEMO];
} mpc_expand_memo;

typedef struct mpc_expand_how {
    const bool *used;   /* per result; NULL: all are */
    const bool *decays; /* see mpc_expand */
    mpc_expand_memo *memo; /* see mpc_expand */
    bool keep_prec;     /* primitives inherit `prec`, for passes before precision assignment */
} mpc_expand_how;
/* Builds the primitives of composite `n` (of rw->in) and maps its results. */
void mpc_expand_composite(mpc_rewrite *rw, const mpc_node *n, const mpc_expand_how *how);
/* Is `n` an attention, or its gradient, that a fused kernel takes: heads of at most 128, one of f32, bf16, f16 for all
 * that is multiplied? expand{keep=attention} leaves these as they are, code generation counts on it. */
bool mpc_attention_fuses(const mpc_graph *g, const mpc_node *n);
/* Pass expand; keep_attention: those that fuse stay as they are. */
mpc_graph *mpc_expand_graph(const mpc_graph *in, bool keep_attention);
bool mpc_expand_has_prec(const mpc_context *ctx, const mpc_op *op);

enum { MPC_EXPAND_MAX_ATTRS = 8 };
typedef struct mpc_expand_expr { /* an op with operands and attributes, without `prec` */
    mpc_op_id op;
    const mpc_value_id *operands;
    uint32_t operand_count;
    const mpc_attr_arg *attrs;
    uint32_t attr_count;
} mpc_expand_expr;
/* Float results in `format`; none: inferred. */
mpc_value_id mpc_expand_build(mpc_expand *e, const mpc_expand_expr *expr, mpc_format format);

mpc_type mpc_expand_result_type(const mpc_expand *e, uint32_t r);
mpc_type mpc_expand_type(const mpc_expand *e, mpc_value_id value);        /* by value: building moves the tables */
mpc_value_id mpc_expand_as(mpc_expand *e, mpc_value_id a, mpc_format to); /* cast by=expand, or `a` */
mpc_value_id mpc_expand_number(mpc_expand *e, double value);
mpc_value_id mpc_expand_int(mpc_expand *e, int64_t value); /* i32 */

mpc_value_id mpc_expand_op1(mpc_expand *e, mpc_op_id op, mpc_value_id a);
mpc_value_id mpc_expand_op2(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_value_id c);
mpc_value_id mpc_expand_op3(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d);
mpc_value_id mpc_expand_scale(mpc_expand *e, mpc_value_id a, double factor);
/* keep: the axis stays with size 1. */
mpc_value_id mpc_expand_reduce(mpc_expand *e, mpc_op_id op, mpc_value_id a, int64_t axis, bool keep);
/* Over the first `count` axes, which go. */
mpc_value_id mpc_expand_sum_axes(mpc_expand *e, mpc_value_id a, uint32_t count);

/* Views; `a` itself where nothing changes. */
mpc_value_id mpc_expand_to_shape(mpc_expand *e, mpc_value_id a, uint32_t rank, const int64_t *dims);
mpc_value_id mpc_expand_broadcast(mpc_expand *e, mpc_value_id a, uint32_t rank, const int64_t *dims);
mpc_value_id mpc_expand_permute(mpc_expand *e, mpc_value_id a, const int64_t *perm);
mpc_value_id mpc_expand_column(mpc_expand *e, mpc_value_id a); /* [...] as [..., 1] */
/* i32 0 .. n-1 in a shape that broadcasts along `axis` of `rank` axes. */
mpc_value_id mpc_expand_positions(mpc_expand *e, int64_t n, uint32_t rank, uint32_t axis);

/* Result r, if somebody reads it: elementwise. */
void mpc_expand_emit1(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a);
void mpc_expand_emit2(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a, mpc_value_id c);
void mpc_expand_emit3(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d);
/* A value that the rule needs itself and that is result r too, in f32: whoever reads the result sees what was used
 * inside. */
mpc_value_id mpc_expand_keep1(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a);
mpc_value_id mpc_expand_keep2(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a, mpc_value_id c);
/* The next node built gets the name of result r: before a view or cast that makes it. */
void mpc_expand_name_result(mpc_expand *e, uint32_t r);

#endif
