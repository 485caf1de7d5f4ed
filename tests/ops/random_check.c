/* See random_check.h. All programs are compiled together before the first one runs. */
#include "random_check.h"

#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "harness.h"
#include "random_graph.h"

enum { NODES = 60, MOST_ENDS = 8 };

static void run(const ops_program *p, uint64_t seed) {
    mpc_arena *arena = mpc_arena_create();
    const mpc_graph *g = p->graph;
    mpc_tensor inputs[MOST_ENDS], want[MOST_ENDS], got[MOST_ENDS];
    ops_random_inputs(g, seed, arena, inputs);
    CHECK(ops_graph_outputs(g, inputs, arena, want));
    const char *why = ops_program_run(p, inputs, arena, got);
    CHECK_MSG(why == NULL, "seed %llu: %s", (unsigned long long)seed, why);
    for (uint32_t i = 0; why == NULL && i < g->output_count; i++) {
        int64_t at = ops_first_difference(&got[i], &want[i]);
        CHECK_MSG(at < 0, "seed %llu: output %u, element %lld is %.9g, must be %.9g", (unsigned long long)seed, i,
                  (long long)at, got[i].data[at], want[i].data[at]);
    }
    mpc_arena_destroy(arena);
}

int ops_check_random(mpc_context *ctx, ops_on on, uint64_t first, size_t count) {
    ops_program *programs = calloc(count + 1, sizeof *programs);
    if (programs == NULL) return 1;
    for (size_t i = 0; i < count; i++) {
        mpc_graph *g = ops_random_graph(ctx, first + i, NODES);
        const char *why = g != NULL ? ops_program_make(&programs[i], on, g) : "no graph";
        CHECK_MSG(why == NULL, "seed %llu: %s", (unsigned long long)(first + i), why);
    }
    const char *why = ops_programs_compile(programs, count);
    CHECK_MSG(why == NULL, "%s", why);
    for (size_t i = 0; i < count; i++) {
        mpc_graph *g = (mpc_graph *)programs[i].graph;
        if (programs[i].program != NULL) run(&programs[i], first + i);
        ops_program_free(&programs[i]);
        mpc_graph_destroy(g);
    }
    free(programs);
    return check_result();
}
