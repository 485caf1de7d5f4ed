/* Building blocks of gradient rules. Intermediate values are f32 (f64 below an f64 result) and named `d.FORWARD.OP`;
 * the gradient of an operand is named `d.OPERAND` (`d.OPERAND.via.FORWARD` when it is one of several that are added up)
 * and has the operand's format, except that the gradient of a cast parameter stays f32: nothing may be rounded on the
 * way to a master. All functions are no-ops after an error in the builder. */
#ifndef MPC_PASSES_GRAD_BUILD_H
#define MPC_PASSES_GRAD_BUILD_H

#include "passes/grad.h"

enum { MPC_GRAD_MAX_ATTRS = 12 };

/* An op with operands and attributes, without `prec`. */
typedef struct mpc_grad_expr {
    mpc_op_id op;
    const mpc_value_id *operands;
    uint32_t operand_count;
    const mpc_attr_arg *attrs;
    uint32_t attr_count;
} mpc_grad_expr;

mpc_value_id mpc_grad_operand(mpc_grad *g, uint32_t i);
mpc_value_id mpc_grad_result(mpc_grad *g, uint32_t i);
/* By value: building moves the tables. A scalar without format for MPC_NONE. */
mpc_type mpc_grad_type(mpc_grad *g, mpc_value_id value);
/* The format of the gradient of operand i. */
mpc_format mpc_grad_format(mpc_grad *g, uint32_t i);
/* The number that `value` is everywhere, if it is a constant. */
bool mpc_grad_is_const(mpc_grad *g, mpc_value_id value, double *number);

/* Intermediate values. */
mpc_value_id mpc_grad_number(mpc_grad *g, double value);
mpc_value_id mpc_grad_range(mpc_grad *g, int64_t n); /* i32 0 .. n-1 */
mpc_value_id mpc_grad_build(mpc_grad *g, const mpc_grad_expr *expr);
mpc_value_id mpc_grad_build_inferred(mpc_grad *g, const mpc_grad_expr *expr); /* formats as inferred: several results */
mpc_value_id mpc_grad_op1(mpc_grad *g, mpc_op_id op, mpc_value_id a);
mpc_value_id mpc_grad_op2(mpc_grad *g, mpc_op_id op, mpc_value_id a, mpc_value_id c);
mpc_value_id mpc_grad_op3(mpc_grad *g, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d);
mpc_value_id mpc_grad_scale(mpc_grad *g, mpc_value_id a, double factor);
/* Views keep the format. They return `a` where nothing changes. */
mpc_value_id mpc_grad_to_shape(mpc_grad *g, mpc_value_id a, uint32_t rank, const int64_t *dims);
mpc_value_id mpc_grad_permute(mpc_grad *g, mpc_value_id a, const int64_t *perm);
mpc_value_id mpc_grad_broadcast(mpc_grad *g, mpc_value_id a, uint32_t rank, const int64_t *dims);
mpc_value_id mpc_grad_sum_over(mpc_grad *g, mpc_value_id a, const int64_t *axes, uint32_t axis_count);
mpc_value_id mpc_grad_convert(mpc_grad *g, mpc_value_id a, mpc_format to);

/* Gradients of operand i. An elementwise rule emits the shape of the result; the sum over broadcast axes follows by
 * itself. */
void mpc_grad_emit(mpc_grad *g, uint32_t i, const mpc_grad_expr *expr);
void mpc_grad_emit1(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a);
void mpc_grad_emit2(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a, mpc_value_id c);
void mpc_grad_emit3(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d);
/* In the format that inference gives: views, and ops with several results (whose first is taken). */
void mpc_grad_emit_view(mpc_grad *g, uint32_t i, const mpc_grad_expr *expr);
void mpc_grad_put(mpc_grad *g, uint32_t i, mpc_value_id value);
/* Like emit2, but exactly zero where dresults[0] is, whatever the factor: for slopes that are not finite where the
 * value isn't (FC-059). Costs two nodes, and those only below a selection. */
void mpc_grad_emit2_guarded(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a, mpc_value_id c);
/* where(zero, 0, value): one more selection. */
void mpc_grad_emit_unless(mpc_grad *g, uint32_t i, mpc_value_id zero, mpc_value_id value);

/* Names the next node built `d.OPERAND`: for emits that end in one of the view helpers. */
void mpc_grad_name_for(mpc_grad *g, uint32_t i);
/* Operand i's shape and format from whatever the rule gave; what the core does with every doperands entry. */
mpc_value_id mpc_grad_fit(mpc_grad *g, uint32_t i, mpc_value_id gradient);

#endif
