/* Look-ups by position that several expansions share (passes/expand_basic.c). */
#ifndef MPC_PASSES_EXPAND_LOOKUP_H
#define MPC_PASSES_EXPAND_LOOKUP_H

#include "passes/expand_build.h"

/* i32 position of the first maximum (or NaN) of f32 `x` along an axis, which goes. */
mpc_value_id mpc_expand_first_max(mpc_expand *e, mpc_value_id x, uint32_t axis);
/* True where the position 0 .. n-1 along `axis` is the index; `index` is any integer tensor without that axis. */
mpc_value_id mpc_expand_hit(mpc_expand *e, mpc_value_id index, int64_t n, uint32_t axis);
/* f32 `value` where 0 <= index < n, NaN elsewhere. */
mpc_value_id mpc_expand_nan_unless(mpc_expand *e, mpc_value_id index, int64_t n, mpc_value_id value);

#endif
