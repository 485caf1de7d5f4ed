/* The cpu device against the evaluator: exactly rounded ops to the bit, the others within their bounds, in every
 * format. All cases of one op are one program, since compiling is what takes the time. Arguments: names of ops (none:
 * all). */
#include "../check.h"
#include "cpu_run.h"
#include "harness.h"
#include "passes/pass.h"

static void print_diag(void *user, const mpc_diag *diag) {
    if (*(const bool *)user && diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

static void add_case(mpc_builder *b, const ops_case *c, size_t index) {
    mpc_value_id operands[OPS_MAX_OPERANDS];
    char name[48];
    for (uint32_t i = 0; i < c->operand_count; i++) {
        snprintf(name, sizeof name, "c%zu.%c", index, (char)('a' + i));
        operands[i] = mpc_build_input(b, name, c->graph->values[c->graph->inputs[i].value].type, NULL, 0);
    }
    mpc_value_id first = mpc_build_copy(b, c->graph, 0, operands);
    for (uint32_t i = 0; first != MPC_NONE && i < c->result_count; i++) {
        snprintf(name, sizeof name, "c%zu.r%u", index, i);
        mpc_build_output(b, name, first + i);
    }
}

/* All cases as one graph: their inputs and outputs in order. */
static mpc_graph *combine(mpc_context *ctx, const ops_list *list) {
    mpc_builder *b = mpc_builder_create(ctx, "ops");
    for (size_t i = 0; b != NULL && i < list->count; i++) add_case(b, &list->cases[i], i);
    return b != NULL ? mpc_builder_finish(b) : NULL;
}

static const char *run_list(mpc_context *ctx, const ops_list *list, mpc_tensor **outputs) {
    mpc_graph *g = combine(ctx, list);
    if (g == NULL) return "no graph";
    mpc_tensor *inputs = mpc_arena_alloc(list->arena, (g->input_count + 1) * sizeof *inputs);
    uint32_t next = 0;
    for (size_t i = 0; i < list->count; i++)
        for (uint32_t k = 0; k < list->cases[i].operand_count; k++) inputs[next++] = list->cases[i].operands[k];
    *outputs = mpc_arena_alloc(list->arena, (g->output_count + 1) * sizeof **outputs);
    const char *why = ops_cpu_run(g, inputs, list->arena, *outputs);
    mpc_graph_destroy(g);
    return why;
}

static void check_op(mpc_context *ctx, bool *loud, const char *name, ops_comparison *cmp) {
    ops_list list = ops_collect(ctx, name);
    mpc_tensor *outputs = NULL;
    *loud = true;
    const char *why = list.count > 0 ? run_list(ctx, &list, &outputs) : NULL;
    CHECK_MSG(why == NULL, "%s: %s", name, why);
    for (size_t i = 0; why == NULL && i < list.count; i++) {
        ops_judge(&list.cases[i], cmp, outputs);
        outputs += list.cases[i].result_count;
    }
    *loud = false;
    ops_list_free(&list);
}

int main(int argc, char **argv) {
    bool loud = false; /* not while operands are tried */
    mpc_sink sink = {print_diag, &loud};
    mpc_context *ctx = mpc_context_create(&sink, NULL);
    ops_device cpu = {.name = "cpu"};
    ops_comparison cmp = {.device = &cpu, .bits = true};
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    for (int i = 1; i < argc; i++) check_op(ctx, &loud, argv[i], &cmp);
    for (mpc_op_id id = 0; argc == 1 && id < mpc_op_count(ctx); id++)
        check_op(ctx, &loud, mpc_op_get(ctx, id)->name, &cmp);
    fprintf(stderr, "%d cases, worst %.2g of the bound: %s\n", cmp.ran, cmp.worst, cmp.worst_label);
    mpc_context_destroy(ctx);
    return ops_result() | check_result();
}
