/* mpc passes: passes with their options, and the named pipelines. */
#include <jansson.h>
#include <string.h>

#include "driver/cli.h"
#include "passes/pass.h"

static void print_pass(const mpc_pass *pass, bool json) {
    if (!json) {
        printf("%-16s %s\n", pass->name, pass->doc);
        if (pass->options[0]) printf("%-16s {%s}\n", "", pass->options);
        return;
    }
    json_t *line = json_pack("{s:s, s:s, s:s}", "name", pass->name, "options", pass->options, "doc", pass->doc);
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

static void print_pipeline(uint32_t index, bool json) {
    if (!json) {
        printf("@%-15s %s\n", mpc_pipeline_name(index), mpc_pipeline_text(index));
        return;
    }
    json_t *line = json_pack("{s:s, s:s}", "pipeline", mpc_pipeline_name(index), "passes", mpc_pipeline_text(index));
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

int mpc_cmd_passes(mpc_cli *cli) {
    const char *wanted = cli->options->file;
    uint32_t shown = 0;
    mpc_context *ctx = mpc_cli_context(cli);
    if (!ctx) return MPC_EXIT_FAILED;
    for (uint32_t i = 0; mpc_pass_of(ctx, i); i++) {
        const mpc_pass *pass = mpc_pass_of(ctx, i);
        if (wanted && strcmp(pass->name, wanted) != 0) continue;
        print_pass(pass, cli->options->json);
        shown++;
    }
    for (uint32_t i = 0; i < mpc_pipeline_count(); i++) {
        if (wanted && (wanted[0] != '@' || strcmp(mpc_pipeline_name(i), wanted + 1) != 0)) continue;
        print_pipeline(i, cli->options->json);
        shown++;
    }
    if (!shown) mpc_error(&cli->sink, "E362", "there is no pass or pipeline `%s`", wanted ? wanted : "");
    mpc_context_destroy(ctx);
    return shown ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
