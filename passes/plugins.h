/* Plugins: shared objects that bring passes, solvers, cost models, ops and formats (include/mpc/plugin.h). */
#ifndef MPC_PASSES_PLUGINS_H
#define MPC_PASSES_PLUGINS_H

#include "ir/context.h"

/* Loads a plugin into a context whose built-in rules are registered (mpc_passes_register), before any graph is made. All of it is
 * registered or, after a diagnostic (E370, E371, E372), nothing. The shared object stays loaded as long as the context. */
mpc_status mpc_plugin_load(mpc_context *ctx, const char *path);

#endif
