/* A composite's expansion is the composite: in f64 to the last digits, in exact mode (every primitive rounded to f32)
 * within the op's bounds, in every format. */
#include "../check.h"
#include "harness.h"
#include "passes/pass.h"

static bool run_expanded(const ops_device *device, const ops_case *c, mpc_tensor *results, const char **why) {
    mpc_pass_env env = {.ctx = c->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *g = mpc_pipeline_run(c->graph, "expand", &env, &hooks);
    *why = g == NULL ? "expand fails" : "evaluation failed";
    if (g == NULL) return false;
    bool ok = ops_evaluate(c, g, device->user != NULL, results);
    mpc_graph_destroy(g);
    return ok;
}

typedef struct both {
    ops_comparison wide, exact;
} both;

static void visit(const ops_case *c, void *user) {
    both *b = user;
    if (c->op->kind != MPC_KIND_COMPOSITE) return;
    CHECK_MSG(c->op->expand != NULL, "%s has no expansion", c->op->name);
    if (c->op->expand == NULL) return;
    if (!c->widened) ops_compare(c, &b->wide);
    ops_compare(c, &b->exact);
}

int main(int argc, char **argv) {
    static const ops_bound tight = {.ulps = 8, .norm = 1e-11};
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    ops_device wide = {.name = "expansion in f64", .run = run_expanded, .user = ctx};
    ops_device exact = {.name = "expansion", .run = run_expanded};
    both b = {.wide = {.device = &wide, .bound = &tight, .f64 = true}, .exact = {.device = &exact, .bits = true}};
    ops_walk(ctx, argc > 1 ? argv[1] : NULL, visit, &b);
    fprintf(stderr, "f64: %d cases, worst %.2g of the bound: %s\n", b.wide.ran, b.wide.worst, b.wide.worst_label);
    fprintf(stderr, "exact: %d cases, worst %.2g of the bound: %s\n", b.exact.ran, b.exact.worst, b.exact.worst_label);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
