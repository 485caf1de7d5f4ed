/* Declares every rule that a row of ir/ops.def names: mpc_shape_NAME (ir/shape_*.c), mpc_eval_NAME (ir/eval/eval_*.c)
 * and mpc_sample_NAME (ir/eval/sample_*.c). The name `none` stands for no rule (NULL in the registry) and has no
 * definition. */
#ifndef MPC_IR_RULES_H
#define MPC_IR_RULES_H

#include <stdbool.h>

struct mpc_infer;
struct mpc_eval;
struct mpc_sample;

#define OP(name, kind, min, max, results, cls, flags, kernel, shape_, eval_, sample_, ...) \
    bool mpc_shape_##shape_(struct mpc_infer *infer); \
    bool mpc_eval_##eval_(struct mpc_eval *eval); \
    bool mpc_sample_##sample_(struct mpc_sample *sample);
#include "ir/ops.def"
#undef OP

#endif
