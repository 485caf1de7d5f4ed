/* Folding, merging, fusing, ordering and placing change no bit: every op's lowered graph evaluates to what its
 * expansion evaluates to, and no two live values share memory. */
#include "../check.h"
#include "harness.h"
#include "passes/pass.h"

static void check_same(const ops_case *c, const mpc_graph *expanded, const mpc_graph *lowered) {
    mpc_tensor a[OPS_MAX_RESULTS], b[OPS_MAX_RESULTS];
    uint64_t bound;
    CHECK_MSG(mpc_memory_check(lowered, &bound) == MPC_OK, "%s: memory plan is wrong", c->label);
    CHECK(ops_evaluate(c, expanded, false, a) && ops_evaluate(c, lowered, false, b));
    for (uint32_t i = 0; i < c->result_count; i++) {
        int64_t at = ops_first_difference(&b[i], &a[i]);
        CHECK_MSG(at < 0, "%s: lowered, result %u, element %lld is %.9g, not %.9g", c->label, i, (long long)at,
                  b[i].data[at], a[i].data[at]);
    }
}

static void visit(const ops_case *c, void *user) {
    int *cases = user;
    mpc_pass_env env = {.ctx = c->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *expanded = mpc_pipeline_run(c->graph, "expand", &env, &hooks);
    mpc_graph *lowered = mpc_pipeline_run(c->graph, "@lower", &env, &hooks);
    CHECK_MSG(expanded != NULL && lowered != NULL, "%s isn't lowered", c->label);
    if (expanded != NULL && lowered != NULL) check_same(c, expanded, lowered);
    mpc_graph_destroy(lowered);
    mpc_graph_destroy(expanded);
    ++*cases;
}

int main(int argc, char **argv) {
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    int cases = 0;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    ops_walk(ctx, argc > 1 ? argv[1] : NULL, visit, &cases);
    fprintf(stderr, "%d cases\n", cases);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
