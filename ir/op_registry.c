/* The op registry: the rows of ir/ops.def as descriptors, plus what plugins add. Attribute declarations are parsed from
 * the row's text once, when the context is made. Rules of `passes` (gradient, expansion) are filled in later by that
 * layer, so `ir` knows nothing of it; a descriptor's address never changes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "ir/context_internal.h"
#include "ir/rules.h"

/* The rule name `none` becomes NULL. */
#define mpc_shape_none NULL
#define mpc_eval_none NULL
#define mpc_sample_none NULL

typedef struct op_row {
    mpc_op op;
    const char *attrs;
} op_row;

enum {
    X = MPC_OPF_EXACT,
    C = MPC_OPF_COMMUTES,
    R = MPC_OPF_RANDOM,
    N = MPC_OPF_NO_GRAD,
    K = MPC_OPF_KEEPS_FORMAT,
};
#define ANY UINT32_MAX

static const op_row op_rows[] = {
#define OP(name_, KIND, min_, max_, results_, CLASS, flags_, kernel_, shape_, eval_, sample_, grad_, expand_, attrs_, \
           doc_) \
    {{.name = #name_, \
      .doc = doc_, \
      .kind = MPC_KIND_##KIND, \
      .min_operands = min_, \
      .max_operands = max_, \
      .result_count = results_, \
      .cls = MPC_CLASS_##CLASS, \
      .flags = flags_, \
      .kernel = kernel_, \
      .shape = mpc_shape_##shape_, \
      .eval = mpc_eval_##eval_, \
      .sample = mpc_sample_##sample_}, \
     attrs_},
#include "ir/ops.def"
#undef OP
};

mpc_status mpc_op_registry_init(mpc_context *ctx) {
    mpc_attr_spec *specs = NULL;
    mpc_status status = mpc_attr_specs_parse(ctx, MPC_INPUT_ATTRS, &specs, &ctx->input_attr_count);
    ctx->input_attrs = specs;
    for (uint32_t i = 0; status == MPC_OK && i < MPC_OP_builtin_count; i++)
        status = mpc_op_register(ctx, &op_rows[i].op, op_rows[i].attrs, NULL);
    return status;
}

const mpc_attr_spec *mpc_input_attr_specs(const mpc_context *ctx, uint32_t *count) {
    *count = ctx->input_attr_count;
    return ctx->input_attrs;
}

uint32_t mpc_op_count(const mpc_context *ctx) { return (uint32_t)ctx->ops.count; }
const mpc_op *mpc_op_get(const mpc_context *ctx, mpc_op_id id) {
    return id < ctx->ops.count ? ctx->ops.data[id] : NULL;
}
mpc_op *mpc_op_get_mutable(mpc_context *ctx, mpc_op_id id) { return id < ctx->ops.count ? ctx->ops.data[id] : NULL; }

static bool op_is(const void *owner, uint32_t item, const void *key) {
    const mpc_context *ctx = owner;
    return strcmp(ctx->ops.data[item]->name, key) == 0;
}

bool mpc_op_find(const mpc_context *ctx, const char *name, mpc_op_id *id) {
    uint32_t found = mpc_hash_index_find(&ctx->op_index, mpc_hash_str(name), op_is, ctx, name);
    if (found != UINT32_MAX && id) *id = found;
    return found != UINT32_MAX;
}

mpc_status mpc_op_register(mpc_context *ctx, const mpc_op *op, const char *attrs, mpc_op_id *id) {
    if (mpc_op_find(ctx, op->name, NULL)) return mpc_error(ctx->sink, "E900", "there is already an op `%s`", op->name);
    mpc_op *copy = mpc_arena_alloc(ctx->arena, sizeof *copy);
    if (!copy || !mpc_array_reserve(&ctx->ops, 1)) return MPC_NO_MEMORY;
    *copy = *op;
    copy->name = mpc_arena_strdup(ctx->arena, op->name);
    copy->doc = mpc_arena_strdup(ctx->arena, op->doc ? op->doc : "");
    copy->kernel = mpc_arena_strdup(ctx->arena, op->kernel ? op->kernel : "");
    if (!copy->name || !copy->doc || !copy->kernel) return MPC_NO_MEMORY;
    mpc_attr_spec *specs = NULL;
    mpc_status status = mpc_attr_specs_parse(ctx, attrs ? attrs : "", &specs, &copy->attr_count);
    if (status != MPC_OK) return status;
    copy->attrs = specs;
    if (!mpc_hash_index_add(&ctx->op_index, mpc_hash_str(copy->name), (uint32_t)ctx->ops.count)) return MPC_NO_MEMORY;
    (void)mpc_array_push(&ctx->ops, copy);
    if (id) *id = (mpc_op_id)(ctx->ops.count - 1);
    return MPC_OK;
}

const char *mpc_class_name(mpc_class cls) {
    static const char *const names[] = {"NONE", "LOW", "HIGH", "FOLLOW", "CLEAR"};
    return names[cls];
}
