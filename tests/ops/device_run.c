/* See device_run.h. The cpu gets two threads, so that work is split; the bits must not depend on it. Buffers of cuda
 * lie apart, so that a wrong address meets no other buffer. */
#include "device_run.h"

#include <stdlib.h>

#include "codegen/codegen.h"
#include "passes/pass.h"
#include "runtime/device.h"

const char *const ops_on_names[] = {"cpu", "cuda"};
static const char *const pipelines[] = {"@lower", "expand{keep=attention},@clean,fuse,schedule,memory"};
static const mpc_exec_options exec_options = {.threads = 2, .separate_buffers = true};

const char *ops_program_make(ops_program *p, ops_on on, const mpc_graph *g) {
    mpc_pass_env env = {.ctx = g->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_codegen_options options = {.target = on == OPS_ON_CPU ? MPC_TARGET_C : MPC_TARGET_CUDA};
    *p = (ops_program){.on = on, .graph = g};
    p->lowered = mpc_pipeline_run(g, pipelines[on], &env, &hooks);
    if (p->lowered == NULL) return "lowering fails";
    p->program = mpc_codegen(p->lowered, &options);
    return p->program != NULL ? NULL : "code generation fails";
}

void ops_program_free(ops_program *p) {
    mpc_program_destroy(p->program);
    mpc_graph_destroy(p->lowered);
    *p = (ops_program){.on = p->on};
}

const char *ops_programs_compile(const ops_program *programs, size_t count) {
    const mpc_program **list = calloc(count + 1, sizeof *list);
    if (list == NULL) return "no memory";
    uint32_t made = 0;
    for (size_t i = 0; i < count; i++)
        if (programs[i].program != NULL && programs[i].on == OPS_ON_CUDA) list[made++] = programs[i].program;
    mpc_status status = MPC_OK;
    if (made > 0) status = mpc_cuda_compile(list, made, &exec_options, mpc_context_sink(list[0]->ctx));
    free(list);
    return status == MPC_OK ? NULL : "compiling fails";
}

static mpc_exec *load(const ops_program *p, mpc_store *store) {
    const mpc_sink *sink = mpc_context_sink(p->graph->ctx);
    if (p->on == OPS_ON_CPU) return mpc_cpu_load(p->program, store, &exec_options, sink);
    return mpc_cuda_load(p->program, store, &exec_options, sink);
}

static const char *step(const mpc_graph *g, mpc_exec *exec, const mpc_tensor *inputs, mpc_arena *arena,
                        mpc_tensor *outputs) {
    for (uint32_t i = 0; i < g->input_count; i++) mpc_tensor_to_bytes(&inputs[i], exec->vtable->input(exec, i));
    if (mpc_exec_step(exec) != MPC_OK) return "the step fails";
    if (mpc_exec_record(exec, true) != MPC_RECORD_READY) return "the step leaves no record";
    for (uint32_t i = 0; i < g->output_count; i++) {
        outputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->outputs[i].value));
        if (outputs[i].data == NULL) return "no memory";
        mpc_tensor_from_bytes(&outputs[i], exec->vtable->output(exec, i));
    }
    return NULL;
}

static const char *write_states(const ops_program *p, mpc_store *store, mpc_state_reader read, void *user) {
    for (mpc_node_id id = 0; read != NULL && id < p->lowered->node_count; id++) {
        const mpc_node *n = &p->lowered->nodes[id];
        if (n->op != MPC_OP_state) continue;
        mpc_store_entry *entry = mpc_store_find(store, mpc_attr_str(p->lowered, n, "name"), MPC_FMT_none);
        mpc_tensor value = read(user, p->lowered, n);
        if (entry == NULL || value.data == NULL) return "a state has no value";
        mpc_tensor_to_bytes(&value, entry->data);
    }
    return read == NULL || mpc_store_to_device(store) == MPC_OK ? NULL : "states don't reach the device";
}

const char *ops_program_run_from(const ops_program *p, const mpc_tensor *inputs, mpc_state_reader read, void *user,
                                 mpc_arena *arena, mpc_tensor *outputs) {
    mpc_store *store = mpc_store_create(p->lowered, mpc_context_sink(p->graph->ctx));
    mpc_exec *exec = store != NULL ? load(p, store) : NULL;
    const char *why = exec != NULL ? write_states(p, store, read, user) : "loading fails";
    if (why == NULL) why = step(p->graph, exec, inputs, arena, outputs);
    if (exec != NULL) exec->vtable->destroy(exec);
    mpc_store_destroy(store);
    return why;
}

const char *ops_program_run(const ops_program *p, const mpc_tensor *inputs, mpc_arena *arena, mpc_tensor *outputs) {
    return ops_program_run_from(p, inputs, NULL, NULL, arena, outputs);
}

const char *ops_device_run(ops_on on, const mpc_graph *g, const mpc_tensor *inputs, mpc_arena *arena,
                           mpc_tensor *outputs) {
    ops_program p;
    const char *why = ops_program_make(&p, on, g);
    if (why == NULL) why = ops_program_run(&p, inputs, arena, outputs);
    ops_program_free(&p);
    return why;
}
