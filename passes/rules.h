/* Declares every gradient and expansion rule that a row of ir/ops.def names: mpc_grad_NAME (passes/grad_*.c) and
 * mpc_expand_NAME (passes/expand_*.c). `none` and `via_expand` stand for no rule (NULL in the registry) and have no
 * definition: a composite without gradient rule and without flag N is expanded before it is differentiated. */
#ifndef MPC_PASSES_RULES_H
#define MPC_PASSES_RULES_H

struct mpc_grad;
struct mpc_expand;

#define OP(name, kind, min, max, results, cls, flags, kernel, shape, eval, sample, grad_, expand_, ...) \
    void mpc_grad_##grad_(struct mpc_grad *grad); \
    void mpc_expand_##expand_(struct mpc_expand *expand);
#include "ir/ops.def"
#undef OP

#endif
