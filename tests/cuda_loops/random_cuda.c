/* Random graphs on the cuda device (the stand-in where there is no GPU): fused, shared by teams of threads and placed, every
 * output equals the evaluator's to the bit. Arguments: first seed and number of graphs. */
#include <stdlib.h>

#include "passes/pass.h"
#include "tests/check.h"
#include "tests/ops/device_run.h"
#include "tests/ops/harness.h"
#include "tests/ops/random_graph.h"

enum { BATCH = 16, NODES = 60 }; /* graphs compiled at a time; nodes of each */

static void print_diag(void *user, const mpc_diag *diag) {
    (void)user;
    fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

static void check_program(const ops_program *p, uint64_t seed) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor inputs[8], want[8], got[8];
    ops_random_inputs(p->graph, seed, arena, inputs);
    CHECK(ops_graph_outputs(p->graph, inputs, arena, want));
    const char *why = ops_program_run(p, inputs, arena, got);
    CHECK_MSG(why == NULL, "seed %llu: %s", (unsigned long long)seed, why);
    for (uint32_t i = 0; why == NULL && i < p->graph->output_count; i++) {
        int64_t at = ops_first_difference(&got[i], &want[i]);
        CHECK_MSG(at < 0, "seed %llu: output %u, element %lld is %.9g, must be %.9g", (unsigned long long)seed, i,
                  (long long)at, got[i].data[at], want[i].data[at]);
    }
    mpc_arena_destroy(arena);
}

static void check_batch(mpc_context *ctx, uint64_t first, uint64_t count) {
    mpc_graph *graphs[BATCH];
    ops_program programs[BATCH] = {0};
    for (uint64_t i = 0; i < count; i++) {
        graphs[i] = ops_random_graph(ctx, first + i, NODES);
        const char *why = ops_program_make(&programs[i], OPS_ON_CUDA, graphs[i]);
        CHECK_MSG(why == NULL, "seed %llu: %s", (unsigned long long)(first + i), why);
    }
    const char *why = ops_programs_compile(programs, count);
    CHECK_MSG(why == NULL, "%s", why);
    for (uint64_t i = 0; i < count; i++) {
        if (why == NULL && programs[i].program != NULL) check_program(&programs[i], first + i);
        ops_program_free(&programs[i]);
        mpc_graph_destroy(graphs[i]);
    }
}

int main(int argc, char **argv) {
    mpc_sink sink = {print_diag, NULL};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    for (uint64_t done = 0; done < count; done += BATCH)
        check_batch(ctx, first + done, count - done < BATCH ? count - done : BATCH);
    mpc_context_destroy(ctx);
    return check_result();
}
