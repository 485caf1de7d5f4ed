/* The cpu device against the evaluator: exactly rounded ops to the bit, the others within their bounds, in every
 * format. Arguments: names of ops (none: all). */
#include <stdio.h>

#include "passes/pass.h"
#include "registry.h"

static void print_diag(void *user, const mpc_diag *diag) {
    if (*(const bool *)user && diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

int main(int argc, char **argv) {
    bool errors = false;
    mpc_sink sink = {print_diag, &errors};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    int result = ops_check_registry(ctx, OPS_ON_CPU, argv + 1, argc - 1, &errors);
    mpc_context_destroy(ctx);
    return result;
}
