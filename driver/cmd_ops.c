/* mpc ops: the registry as a table. What a device supports follows from the kind: primitives run everywhere, composites
 * expand. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "driver/cli.h"
#include "passes/pass.h"

static const char *const KINDS[] = {"struct", "ewise",  "reduce", "view", "matmul",   "conv",
                                    "pool",   "gather", "random", "norm", "composite"};

static json_t *attributes_json(const mpc_context *ctx, const mpc_op *op) {
    json_t *attributes = json_array();
    for (uint32_t i = 0; i < op->attr_count; i++)
        json_array_append_new(attributes, json_pack("{s:s, s:b}", "name", mpc_sym_text(ctx, op->attrs[i].key),
                                                    "required", op->attrs[i].required));
    return attributes;
}

static void print_op(const mpc_context *ctx, const mpc_op *op, bool json) {
    const char *devices = op->kind == MPC_KIND_COMPOSITE ? "expands" : "ref cpu";
    if (!json) {
        printf("%-20s %-9s %-6s %-9s %s\n", op->name, KINDS[op->kind], mpc_class_name(op->cls), devices, op->doc);
        return;
    }
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:o, s:s}", "name", op->name, "kind", KINDS[op->kind], "class",
                  mpc_class_name(op->cls), "devices", devices, "exact", (op->flags & MPC_OPF_EXACT) != 0, "gradient",
                  op->grad != NULL, "attributes", attributes_json(ctx, op), "doc", op->doc);
    if (line) json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
}

static void print_attributes(const mpc_context *ctx, const mpc_op *op) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        printf("  %s%s\n", mpc_sym_text(ctx, op->attrs[i].key), op->attrs[i].required ? "  (required)" : "");
}

int mpc_cmd_ops(mpc_cli *cli) {
    mpc_context *ctx = mpc_cli_context(cli);
    if (!ctx) return MPC_EXIT_FAILED;
    const char *wanted = cli->options->file;
    uint32_t shown = 0;
    if (!wanted && !cli->options->json) printf("%-20s %-9s %-6s %-9s %s\n", "op", "kind", "class", "devices", "");
    for (uint32_t i = 0; i < mpc_op_count(ctx); i++) {
        const mpc_op *op = mpc_op_get(ctx, i);
        if (wanted && strcmp(op->name, wanted) != 0) continue;
        print_op(ctx, op, cli->options->json);
        if (wanted && !cli->options->json) print_attributes(ctx, op);
        shown++;
    }
    if (!shown) mpc_error(&cli->sink, "E362", "there is no op `%s`", wanted ? wanted : "");
    mpc_context_destroy(ctx);
    return shown ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
