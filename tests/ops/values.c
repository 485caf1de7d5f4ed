/* Every op's evaluation in exact mode is within one rounding (to f32, then to the result's format) of its evaluation in
 * f64, and what an op stores is a value of its format. */
#include "../check.h"
#include "harness.h"

static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16, MPC_FMT_f8e4m3, MPC_FMT_f8e5m2};
enum { FORMATS = sizeof formats / sizeof *formats };

static void check_storable(const ops_case *c, void *user) {
    mpc_tensor results[OPS_MAX_RESULTS];
    (void)user;
    CHECK(ops_evaluate(c, c->graph, false, results));
    for (uint32_t i = 0; i < c->result_count; i++) {
        int64_t count = mpc_type_elements(&results[i].type), k = 0;
        while (k < count && (results[i].data[k] != results[i].data[k] ||
                             results[i].data[k] == mpc_round_to(results[i].type.format, results[i].data[k])))
            k++;
        CHECK_MSG(k == count, "%s: result %u, element %lld is no %s", c->label, i, (long long)k,
                  mpc_format_get(results[i].type.format)->name);
    }
}

static void compare(const ops_case *c, void *user) {
    static const ops_bound one_ulp = {.ulps = 1};
    ops_comparison *cmp = user;
    cmp->bound = ops_bound_has_row(c->op, c->format) ? NULL : &one_ulp;
    ops_compare(c, cmp);
}

int main(int argc, char **argv) {
    mpc_context *ctx = mpc_context_create(NULL, NULL);
    ops_device ref = {.name = "ref", .run = ops_run_ref};
    ops_comparison cmp = {.device = &ref};
    const char *only = argc > 1 ? argv[1] : NULL;
    if (ctx == NULL) return 1;
    ops_walk_formats(ctx, only, formats, FORMATS, compare, &cmp);
    ops_walk_formats(ctx, only, formats, FORMATS, check_storable, NULL);
    fprintf(stderr, "%d cases, worst %.2g of the bound: %s\n", cmp.ran, cmp.worst, cmp.worst_label);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
