/* Hands the gradient and expansion rules that ir/ops.def names to the registry of ops. The registry belongs to the
 * context, so nothing here is global; a plugin's ops come with their own rules and are not touched. */
#include <stddef.h>

#include "passes/pass.h"
#include "passes/rules.h"

/* RULE(prefix, name) is mpc_prefix_name, or NULL for the two names that stand for no rule: their macro brings a comma
 * that pushes NULL into second place. */
#define NO_RULE_none ,
#define NO_RULE_via_expand ,
#define SECOND_(first, second, ...) second
#define SECOND(...) SECOND_(__VA_ARGS__)
#define RULE(prefix, name) SECOND(NO_RULE_##name NULL, mpc_##prefix##_##name, 0)

typedef struct rule_row {
    mpc_grad_rule grad;
    mpc_expand_rule expand;
} rule_row;

static const rule_row rule_rows[] = {
#define OP(name, kind, min, max, results, cls, flags, kernel, shape, eval, sample, grad_, expand_, ...) \
    {RULE(grad, grad_), RULE(expand, expand_)},
#include "ir/ops.def"
#undef OP
};

mpc_status mpc_passes_register(mpc_context *ctx) {
    for (mpc_op_id id = 0; id < MPC_OP_builtin_count; id++) {
        mpc_op *op = mpc_op_get_mutable(ctx, id);
        op->grad = rule_rows[id].grad;
        op->expand = rule_rows[id].expand;
    }
    return MPC_OK;
}
