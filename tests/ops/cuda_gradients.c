/* Gradients of every op on the cuda device: the first case of each that carries one, as a loss that the grad pass
 * differentiated, against the f64 evaluation of the same graph. That the graph is right is what gradients.c checks. */
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "device_run.h"
#include "gradient_graph.h"
#include "passes/pass.h"
#include "runtime/device.h"

/* A chain of a few ops, each within its own bound, and sums of terms of both signs. */
static const ops_bound bound = {64, 2e-5};

typedef struct all_cases {
    ops_list list; /* one case of an op */
    mpc_graph **steps;
    ops_program *programs;
    size_t count;
} all_cases;

static void print_diag(void *user, const mpc_diag *diag) {
    if (*(const bool *)user && diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

static void make_programs(mpc_context *ctx, all_cases *a) {
    mpc_op_id last = UINT32_MAX;
    mpc_pass_env env = {.ctx = ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    for (size_t i = 0; i < a->list.count; i++) {
        const ops_case *c = &a->list.cases[i];
        if (c->id == last || !ops_gradient_exists(c)) continue;
        last = c->id;
        mpc_graph *loss = ops_gradient_loss(c);
        a->steps[i] = loss != NULL ? mpc_pipeline_run(loss, "grad", &env, &hooks) : NULL;
        const char *why =
            a->steps[i] != NULL ? ops_program_make(&a->programs[i], OPS_ON_CUDA, a->steps[i]) : "no graph";
        CHECK_MSG(why == NULL, "%s: %s", c->label, why);
        a->count++;
        mpc_graph_destroy(loss);
    }
}

static void judge(const ops_case *c, const mpc_graph *step, const mpc_tensor *got, const mpc_tensor *values) {
    for (uint32_t i = 0; i < step->output_count; i++) {
        int64_t at;
        double error = ops_error(&got[i], &values[step->outputs[i].value], got[i].type.format, bound, &at);
        CHECK_MSG(error <= 1, "%s: %s, element %lld is %.9g, f64 gives %.9g: %.3g times the bound", c->label,
                  mpc_sym_text(step->ctx, step->outputs[i].name), (long long)at, got[i].data[at],
                  values[step->outputs[i].value].data[at], error);
    }
}

static void run(ops_case *c, const mpc_graph *step, const ops_program *program) {
    mpc_tensor inputs[OPS_MAX_OPERANDS + OPS_MAX_RESULTS], got[OPS_MAX_OPERANDS + 4];
    mpc_tensor *values = mpc_arena_alloc(c->arena, (step->value_count + 1) * sizeof *values);
    mpc_eval_options options = {.f64 = c->id != MPC_OP_cast}; /* its rounding is what it is for */
    ops_gradient_inputs(c, c->operands, step, inputs);
    CHECK(mpc_evaluate(step, inputs, ops_gradient_state, c->operands, &options, c->arena, values) == MPC_OK);
    const char *why = ops_program_run_from(program, inputs, ops_gradient_state, c->operands, c->arena, got);
    CHECK_MSG(why == NULL, "%s: %s", c->label, why);
    if (why == NULL) judge(c, step, got, values);
}

int main(int argc, char **argv) {
    bool errors = true;
    mpc_sink sink = {print_diag, &errors};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    if (!mpc_cuda_available(&sink)) {
        fprintf(stderr, "skipped: no GPU and no stand-in\n");
        return 77;
    }
    errors = false; /* while operands are tried */
    all_cases a = {.list = ops_collect(ctx, argc > 1 ? argv[1] : NULL)};
    errors = true;
    a.steps = calloc(a.list.count + 1, sizeof *a.steps);
    a.programs = calloc(a.list.count + 1, sizeof *a.programs);
    if (a.steps == NULL || a.programs == NULL) return 1;
    make_programs(ctx, &a);
    const char *why = ops_programs_compile(a.programs, a.list.count);
    CHECK_MSG(why == NULL, "%s", why);
    for (size_t i = 0; i < a.list.count; i++) {
        if (a.programs[i].program != NULL) run(&a.list.cases[i], a.steps[i], &a.programs[i]);
        ops_program_free(&a.programs[i]);
        mpc_graph_destroy(a.steps[i]);
    }
    fprintf(stderr, "%zu ops\n", a.count);
    free(a.steps);
    free(a.programs);
    ops_list_free(&a.list);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
