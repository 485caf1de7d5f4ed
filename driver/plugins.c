/* --load-plugin of commands without a model: every plugin of the command line, in order, into the context that a
 * command has just made. Before anything is read: an op or a format of a plugin must be known when a text names it. */
#include "driver/cli.h"
#include "passes/pass.h"
#include "passes/plugins.h"

static bool load_plugins(const mpc_cli *cli, mpc_context *ctx) {
    const mpc_text_list *plugins = &cli->options->plugins;
    for (size_t i = 0; i < plugins->count; i++)
        if (mpc_plugin_load(ctx, plugins->data[i]) != MPC_OK) return false;
    return true;
}

mpc_context *mpc_cli_context(mpc_cli *cli) {
    mpc_context *ctx = mpc_context_create(&cli->sink, cli->sources);
    if (ctx == NULL) {
        mpc_error(&cli->sink, "E901", "out of memory");
        return NULL;
    }
    if (mpc_passes_register(ctx) == MPC_OK && load_plugins(cli, ctx)) return ctx;
    mpc_context_destroy(ctx);
    return NULL;
}
