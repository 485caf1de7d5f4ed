/* The insides of a context, for context.c, types.c, op_registry.c. */
#ifndef MPC_IR_CONTEXT_INTERNAL_H
#define MPC_IR_CONTEXT_INTERNAL_H

#include "base/array.h"
#include "base/hash_index.h"
#include "ir/op.h"

typedef struct mpc_symbol {
    const char *text;
    size_t length;
} mpc_symbol;

typedef struct mpc_extension {
    const char *name;
    const void *row;
} mpc_extension;

typedef struct mpc_owned {
    void (*release)(void *owned);
    void *object;
} mpc_owned;

struct mpc_context {
    mpc_arena *arena;
    const mpc_sink *sink;
    mpc_sources *sources;
    MPC_ARRAY(mpc_symbol) symbols; /* entry 0: "" */
    mpc_hash_index symbol_index;
    MPC_ARRAY(const mpc_type *) types; /* in the arena, so they stay where they are; entry 0: no type; dims past the rank are 0 */
    mpc_hash_index type_index;
    MPC_ARRAY(mpc_op *) ops;
    mpc_hash_index op_index;
    const mpc_attr_spec *input_attrs; /* MPC_INPUT_ATTRS */
    uint32_t input_attr_count;
    MPC_ARRAY(mpc_extension) extensions[MPC_EXT_KINDS];
    MPC_ARRAY(mpc_owned) owned; /* released in reverse order */
};

/* Registers the rows of ir/ops.def and the attributes of inputs. */
mpc_status mpc_op_registry_init(mpc_context *ctx);
/* The declaration of an input's attribute. */
const mpc_attr_spec *mpc_input_attr_specs(const mpc_context *ctx, uint32_t *count);

#endif
