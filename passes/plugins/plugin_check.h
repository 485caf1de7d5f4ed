/* What a plugin says of itself, checked before any of it is taken. Private to passes/plugins. */
#ifndef MPC_PASSES_PLUGIN_CHECK_H
#define MPC_PASSES_PLUGIN_CHECK_H

#include "passes/plugins/plugin_call.h"

/* E371 or E372 with `path` and the row at fault. */
mpc_status mpc_plugin_check(mpc_context *ctx, const char *path, const mpc_plugin *plugin);

/* Words of properties ("grad casts") as bits MPC_HAS_xxx; false: an unknown word. */
bool mpc_plugin_properties(const char *words, unsigned *bits);
/* A checked op as a row for mpc_op_register. */
void mpc_plugin_describe_op(mpc_context *ctx, const mpc_plugin_op *theirs, mpc_op *out);
mpc_numfmt mpc_plugin_numbers(const mpc_plugin_format *theirs);

/* plugin_costs.c */
mpc_status mpc_plugin_check_costs(mpc_context *ctx, const char *path, const mpc_plugin_costs *theirs);
mpc_status mpc_plugin_add_costs(mpc_context *ctx, const mpc_plugin_costs *theirs);

#endif
