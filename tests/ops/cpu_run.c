/* See cpu_run.h. Two threads, so that work is split; the bits must not depend on it. */
#include "cpu_run.h"

#include "codegen/codegen.h"
#include "passes/pass.h"
#include "runtime/device.h"

typedef struct run { /* owned, in the order of making */
    mpc_graph *lowered;
    mpc_program *program;
    mpc_store *store;
    mpc_exec *exec;
} run;

static const char *prepare(const mpc_graph *g, run *r) {
    mpc_pass_env env = {.ctx = g->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_codegen_options options = {.target = MPC_TARGET_C};
    mpc_exec_options exec_options = {.threads = 2};
    const mpc_sink *sink = mpc_context_sink(g->ctx);
    r->lowered = mpc_pipeline_run(g, "@lower", &env, &hooks);
    if (r->lowered == NULL) return "lowering fails";
    r->program = mpc_codegen(r->lowered, &options);
    if (r->program == NULL) return "code generation fails";
    r->store = mpc_store_create(r->lowered, sink);
    r->exec = r->store != NULL ? mpc_cpu_load(r->program, r->store, &exec_options, sink) : NULL;
    return r->exec != NULL ? NULL : "loading fails";
}

static void release(run *r) {
    if (r->exec != NULL) r->exec->vtable->destroy(r->exec);
    mpc_store_destroy(r->store);
    mpc_program_destroy(r->program);
    mpc_graph_destroy(r->lowered);
}

static const char *step(const mpc_graph *g, mpc_exec *exec, const mpc_tensor *inputs, mpc_arena *arena,
                        mpc_tensor *outputs) {
    for (uint32_t i = 0; i < g->input_count; i++) mpc_tensor_to_bytes(&inputs[i], exec->vtable->input(exec, i));
    if (exec->vtable->step(exec) != MPC_OK) return "the step fails";
    for (uint32_t i = 0; i < g->output_count; i++) {
        outputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->outputs[i].value));
        if (outputs[i].data == NULL) return "no memory";
        mpc_tensor_from_bytes(&outputs[i], exec->vtable->output(exec, i));
    }
    return NULL;
}

const char *ops_cpu_run(const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena, mpc_tensor *outputs) {
    run r = {0};
    const char *why = prepare(g, &r);
    if (why == NULL) why = step(g, r.exec, inputs, arena, outputs);
    release(&r);
    return why;
}
