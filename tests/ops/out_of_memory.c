/* Whatever allocation fails, evaluation says so and touches nothing it doesn't have. Each op's first sample, the n-th
 * allocation failing for every n until it passes. */
#include "../check.h"
#include "base/alloc.h"
#include "harness.h"

static void visit(const ops_case *c, void *user) {
    int *reached = user;
    bool done = false;
    if (c->sample.variant > 0 || c->format != MPC_FMT_f32) return;
    for (uint64_t n = 1; n < 100 && !done; n++) {
        mpc_tensor results[OPS_MAX_RESULTS];
        mpc_arena *arena = mpc_arena_create();
        mpc_alloc_fail_after(n);
        mpc_status status = mpc_evaluate_node(c->graph, 0, c->operands, false, arena, results);
        mpc_alloc_fail_after(0);
        CHECK_MSG(status == MPC_OK || status == MPC_NO_MEMORY, "%s: status %d", c->label, (int)status);
        if (status == MPC_NO_MEMORY) ++*reached;
        done = status == MPC_OK;
        mpc_arena_destroy(arena);
    }
    CHECK_MSG(done, "%s never succeeds", c->label);
}

static void check_sample(mpc_context *ctx, const mpc_op *op) {
    bool done = false;
    for (uint64_t n = 1; n < 300 && !done; n++) {
        mpc_sample s = {.ctx = ctx, .op = op, .seed = n, .arena = mpc_arena_create()};
        mpc_alloc_fail_after(n);
        done = op->sample(&s);
        mpc_alloc_fail_after(0);
        mpc_arena_destroy(s.arena);
    }
    CHECK_MSG(done, "%s never has a sample", op->name);
}

int main(void) {
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    int reached = 0;
    if (ctx == NULL) return 1;
    ops_walk(ctx, NULL, visit, &reached);
    for (mpc_op_id id = 0; id < mpc_op_count(ctx); id++)
        if (mpc_op_get(ctx, id)->sample != NULL) check_sample(ctx, mpc_op_get(ctx, id));
    CHECK_MSG(reached > 50, "only %d failures", reached);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
