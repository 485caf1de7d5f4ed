/* Random graphs on the cuda device: fused, in packs, placed and split over threads, every output equals the
 * evaluator's to the bit. Arguments: first seed and number of graphs. */
#include <stdio.h>
#include <stdlib.h>

#include "passes/pass.h"
#include "random_check.h"
#include "runtime/device.h"

static void print_diag(void *user, const mpc_diag *diag) {
    (void)user;
    fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

int main(int argc, char **argv) {
    mpc_sink sink = {print_diag, NULL};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    if (!mpc_cuda_available(&sink)) {
        fprintf(stderr, "skipped: no GPU and no stand-in\n");
        return 77;
    }
    int result = ops_check_random(ctx, OPS_ON_CUDA, first, (size_t)count);
    mpc_context_destroy(ctx);
    return result;
}
