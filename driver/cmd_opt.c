/* mpc opt: a graph in text form, passes, text form. Needs no model file and no data. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "driver/cli.h"
#include "passes/instrument.h"
#include "runtime/file_sync.h"

static mpc_graph *read_graph(mpc_cli *cli, mpc_context *ctx) {
    const char *name = cli->options->file, *path = strcmp(name, "-") == 0 ? "/dev/stdin" : name;
    uint32_t file = mpc_cli_read_source(cli, path, name);
    return file ? mpc_graph_parse(ctx, file) : NULL;
}

static bool write_graph(const mpc_cli *cli, const mpc_graph *g) {
    mpc_str text = {0};
    const char *out = cli->options->out;
    mpc_graph_print(g, MPC_PRINT_ALL, &text);
    bool ok = !text.failed;
    if (ok && out && strcmp(out, "-") != 0)
        ok = mpc_file_replace(out, mpc_str_cstr(&text), text.length, &cli->sink) == MPC_OK;
    else if (ok) fputs(mpc_str_cstr(&text), stdout);
    mpc_str_free(&text);
    return ok;
}

static bool run_passes(mpc_cli *cli, mpc_context *ctx, const mpc_graph *g) {
    const mpc_options *o = cli->options;
    mpc_instrument_options what = {.print_after = o->print_after     ? o->print_after
                                                  : o->print_changed ? "*"
                                                                     : NULL,
                                   .print_changed = o->print_changed,
                                   .time_passes = o->time_passes,
                                   .stats = o->stats,
                                   .verify_each = o->verify_each,
                                   .dump_dir = o->dump_dir};
    if (o->dump_dir && mkdir(o->dump_dir, 0777) != 0 && errno != EEXIST) {
        mpc_error(&cli->sink, "E420", "can't make %s: %s", o->dump_dir, strerror(errno));
        return false;
    }
    mpc_instrument *instrument = mpc_instrument_create(&what);
    if (!instrument) return false;
    mpc_pipeline_hooks hooks = mpc_instrument_hooks(instrument);
    mpc_pass_env env = {.ctx = ctx};
    mpc_graph *out = mpc_pipeline_run(g, o->passes ? o->passes : "", &env, &hooks);
    fputs(mpc_instrument_text(instrument), stderr);
    bool ok = out && write_graph(cli, out);
    mpc_graph_destroy(out);
    mpc_instrument_destroy(instrument);
    return ok;
}

int mpc_cmd_opt(mpc_cli *cli) {
    mpc_context *ctx = mpc_cli_context(cli);
    mpc_graph *g = ctx ? read_graph(cli, ctx) : NULL;
    bool ok = g && mpc_graph_verify(g) == MPC_OK && (cli->options->passes ? run_passes(cli, ctx, g) : write_graph(cli, g));
    mpc_graph_destroy(g);
    mpc_context_destroy(ctx);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
