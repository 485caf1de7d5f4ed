/* Random graphs: whatever the clean-up and lowering passes do, in any of these orders, every output keeps its bits.
 * Arguments: first seed and number of graphs. */
#include <stdlib.h>

#include "../check.h"
#include "harness.h"
#include "passes/pass.h"
#include "random_graph.h"

static void check_pipeline(const mpc_graph *g, const char *pipeline, uint64_t seed, const mpc_tensor *inputs,
                           const mpc_tensor *want, mpc_arena *arena) {
    mpc_pass_env env = {.ctx = g->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *out = mpc_pipeline_run(g, pipeline, &env, &hooks);
    mpc_tensor got[8];
    CHECK_MSG(out != NULL, "seed %llu: %s fails", (unsigned long long)seed, pipeline);
    if (out == NULL) return;
    CHECK(ops_graph_outputs(out, inputs, arena, got));
    for (uint32_t i = 0; i < g->output_count; i++) {
        int64_t at = ops_first_difference(&got[i], &want[i]);
        CHECK_MSG(at < 0, "seed %llu, %s: output %u, element %lld is %.9g, not %.9g", (unsigned long long)seed,
                  pipeline, i, (long long)at, got[i].data[at], want[i].data[at]);
    }
    mpc_graph_destroy(out);
}

static void check_seed(mpc_context *ctx, uint64_t seed) {
    static const char *const pipelines[] = {"@lower", "fold", "cse,fold,dce", "fold-casts,fold,cse,dce,fold-casts",
                                            "@clean,@lower"};
    mpc_arena *arena = mpc_arena_create();
    mpc_graph *g = ops_random_graph(ctx, seed, 10 + (uint32_t)(seed % 40));
    mpc_tensor inputs[8], want[8];
    CHECK_MSG(g != NULL && mpc_graph_verify(g) == MPC_OK, "seed %llu: no graph", (unsigned long long)seed);
    if (g != NULL) {
        ops_random_inputs(g, seed, arena, inputs);
        CHECK(ops_graph_outputs(g, inputs, arena, want));
        for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++)
            check_pipeline(g, pipelines[i], seed, inputs, want, arena);
    }
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
}

int main(int argc, char **argv) {
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 150;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    for (uint64_t seed = first; seed < first + count; seed++) check_seed(ctx, seed);
    mpc_context_destroy(ctx);
    return check_result();
}
