/* Looking attributes up, shared by graph accessors, inference, builder, printer, parser and verifier. Internal to ir,
 * apart from comparing them. */
#ifndef MPC_IR_ATTRS_H
#define MPC_IR_ATTRS_H

#include "ir/op.h"

/* The declaration with this key text, or NULL. */
const mpc_attr_spec *mpc_attr_spec_find(const mpc_context *ctx, const mpc_attr_spec *specs, uint32_t spec_count,
                                        const char *key);
/* The stored attribute of a key, or NULL. */
const mpc_attr *mpc_attr_stored(const mpc_attr *attrs, uint32_t count, mpc_sym key);
/* The stored attribute or the declared default; asserts that the key is declared with this kind. */
const mpc_attr *mpc_attr_resolve(const mpc_context *ctx, const mpc_op *op, const mpc_attr *attrs, uint32_t count,
                                 const char *key, mpc_attr_kind kind);
/* Same kind and bits; all NaNs are one, -0 isn't 0. */
bool mpc_attr_same(const mpc_attr *a, const mpc_attr *b);
/* Of two nodes or inputs: as many, and each the same. */
bool mpc_attrs_same(const mpc_attr *a, uint32_t a_count, const mpc_attr *b, uint32_t b_count);
const char *mpc_attr_kind_name(mpc_attr_kind kind);

#endif
