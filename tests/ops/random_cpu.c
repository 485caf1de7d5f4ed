/* Random graphs on the cpu device: fused, vectorised, placed and split over threads, every output equals the
 * evaluator's to the bit. Arguments: first seed and number of graphs. */
#include <stdlib.h>

#include "../check.h"
#include "device_run.h"
#include "harness.h"
#include "passes/pass.h"
#include "random_graph.h"

static void print_diag(void *user, const mpc_diag *diag) {
    (void)user;
    fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

static void check_seed(mpc_context *ctx, uint64_t seed) {
    mpc_arena *arena = mpc_arena_create();
    mpc_graph *g = ops_random_graph(ctx, seed, 60);
    mpc_tensor inputs[8], want[8], got[8];
    CHECK(g != NULL);
    ops_random_inputs(g, seed, arena, inputs);
    CHECK(ops_graph_outputs(g, inputs, arena, want));
    const char *why = ops_device_run(OPS_ON_CPU, g, inputs, arena, got);
    CHECK_MSG(why == NULL, "seed %llu: %s", (unsigned long long)seed, why);
    for (uint32_t i = 0; why == NULL && i < g->output_count; i++) {
        int64_t at = ops_first_difference(&got[i], &want[i]);
        CHECK_MSG(at < 0, "seed %llu: output %u, element %lld is %.9g, must be %.9g", (unsigned long long)seed, i,
                  (long long)at, got[i].data[at], want[i].data[at]);
    }
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
}

int main(int argc, char **argv) {
    mpc_sink sink = {print_diag, NULL};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 12;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    for (uint64_t seed = first; seed < first + count; seed++) check_seed(ctx, seed);
    mpc_context_destroy(ctx);
    return check_result();
}
