/* The cpu device against the evaluator: exactly rounded ops to the bit, the others within their bounds, in every
 * format. All cases of one op are one program, since compiling is what takes the time. Arguments: names of ops (none:
 * all). */
#include "../check.h"
#include "codegen/codegen.h"
#include "harness.h"
#include "passes/pass.h"
#include "runtime/device.h"

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

typedef struct run { /* owned, in the order of making */
    mpc_graph *graph, *lowered;
    mpc_program *program;
    mpc_store *store;
    mpc_exec *exec;
} run;

static bool prepare(mpc_context *ctx, const ops_list *list, run *r) {
    mpc_pass_env env = {.ctx = ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_codegen_options options = {.target = MPC_TARGET_C, .vector_bytes = 32};
    mpc_exec_options exec_options = {.threads = 2};
    const mpc_sink *sink = mpc_context_sink(ctx);
    r->graph = combine(ctx, list);
    r->lowered = r->graph != NULL ? mpc_pipeline_run(r->graph, "@lower", &env, &hooks) : NULL;
    r->program = r->lowered != NULL ? mpc_codegen(r->lowered, &options) : NULL;
    r->store = r->program != NULL ? mpc_store_create(r->lowered, sink) : NULL;
    r->exec = r->store != NULL ? mpc_cpu_load(r->program, r->store, &exec_options, sink) : NULL;
    return r->exec != NULL;
}

static void release(run *r) {
    if (r->exec != NULL) r->exec->vtable->destroy(r->exec);
    mpc_store_destroy(r->store);
    mpc_program_destroy(r->program);
    mpc_graph_destroy(r->lowered);
    mpc_graph_destroy(r->graph);
}

static void write_inputs(const ops_list *list, mpc_exec *exec) {
    uint32_t next = 0;
    for (size_t i = 0; i < list->count; i++)
        for (uint32_t k = 0; k < list->cases[i].operand_count; k++)
            mpc_tensor_to_bytes(&list->cases[i].operands[k], exec->vtable->input(exec, next++));
}

static void judge_outputs(const ops_list *list, mpc_exec *exec, ops_comparison *cmp) {
    uint32_t next = 0;
    for (size_t i = 0; i < list->count; i++) {
        const ops_case *c = &list->cases[i];
        mpc_tensor results[OPS_MAX_RESULTS];
        for (uint32_t k = 0; k < c->result_count; k++) {
            results[k] = mpc_tensor_make(c->arena, mpc_value_type(c->graph, c->graph->outputs[k].value));
            mpc_tensor_from_bytes(&results[k], exec->vtable->output(exec, next++));
        }
        ops_judge(c, cmp, results);
    }
}

static void check_op(mpc_context *ctx, bool *loud, const char *name, ops_comparison *cmp) {
    ops_list list = ops_collect(ctx, name);
    run r = {0};
    *loud = true;
    bool ok = list.count == 0 || prepare(ctx, &list, &r);
    CHECK_MSG(ok, "%s doesn't compile", name);
    if (ok && list.count > 0) {
        write_inputs(&list, r.exec);
        ok = r.exec->vtable->step(r.exec) == MPC_OK;
        CHECK_MSG(ok, "%s: the step fails", name);
        if (ok) judge_outputs(&list, r.exec, cmp);
    }
    *loud = false;
    release(&r);
    ops_list_free(&list);
}

int main(int argc, char **argv) {
    bool loud = false;
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
