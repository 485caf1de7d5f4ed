/* The `cpu` device: loading turns a program into plans with addresses, a step walks them. Everything that can fail or
 * allocate happens in load; in a step only the pool's futex calls the system. The control states are saved before each
 * step (a few hundred bytes), so that a step that found a value that isn't finite can be run again with the same random
 * numbers. */
#include "runtime/cpu/cpu_exec.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "runtime/cpu/onednn.h"
#include "runtime/store_layout.h"

/* ---- step ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `times`, by launch, may be NULL: then no clock is read. */
static mpc_status run_step(mpc_cpu_exec *x, mpc_launch_time *times) {
    uint64_t control_bytes = 0;
    const void *control = mpc_store_control(x->store, &control_bytes);
    memcpy(x->control, control, (size_t)control_bytes);
    int threads_before = mpc_dnn_enter(x->dnn);
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        const mpc_cpu_launch *launch = &x->launches[i];
        double begin = times != NULL ? now() : 0;
        if (!launch->when || *launch->when) mpc_plan_run(launch->plan, x->pool);
        if (times != NULL) times[i].seconds = now() - begin;
    }
    mpc_dnn_leave(x->dnn, threads_before);
    return MPC_OK;
}

static mpc_status cpu_step(mpc_exec *e) { return run_step((mpc_cpu_exec *)e, NULL); }

mpc_status mpc_cpu_profile(mpc_exec *e, mpc_launch_time *times, uint32_t count) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    e->fetched = false;
    return run_step(x, count == x->program->launch_count ? times : NULL);
}

static void *cpu_input(mpc_exec *e, uint32_t index) { return ((mpc_cpu_exec *)e)->buffers[e->inputs[index].buffer]; }
static const void *cpu_output(mpc_exec *e, uint32_t index) {
    return ((mpc_cpu_exec *)e)->buffers[e->outputs[index].buffer];
}

static void cpu_destroy(mpc_exec *e) {
    mpc_cpu_exec *x = (mpc_cpu_exec *)e;
    mpc_pool_destroy(x->pool);
    mpc_dnn_close(x->dnn);
    mpc_jit_destroy(x->jit);
    mpc_block_destroy(&x->own);
    mpc_block_destroy(&x->inputs);
    mpc_arena_destroy(x->arena);
    mpc_free(x);
}

static void cpu_memory(const mpc_exec *e, mpc_memory_report *m) {
    const mpc_cpu_exec *x = (const mpc_cpu_exec *)e;
    for (uint32_t i = 0; i < x->program->buffer_count; i++) {
        const mpc_buffer *b = &x->program->buffers[i];
        m->by_class[b->cls][b->type.format] += b->bytes;
    }
    m->state_bytes = mpc_store_bytes(x->store);
    m->arena_bytes = x->program->arena_bytes;
    m->workspace_bytes = x->memory_bytes - x->program->arena_bytes + x->inputs.bytes;
}

static const mpc_exec_vtable cpu_vtable = {
    .input = cpu_input,
    .output = cpu_output,
    .step = cpu_step,
    .destroy = cpu_destroy,
    .find_nonfinite = mpc_cpu_find_nonfinite,
    .memory = cpu_memory,
};

const char *mpc_cpu_implementation(const mpc_exec *e, uint32_t index) {
    return ((const mpc_cpu_exec *)e)->launches[index].plan->implementation;
}
uint32_t mpc_cpu_compiled(const mpc_exec *e) { return mpc_jit_compiled(((const mpc_cpu_exec *)e)->jit); }

/* ---- load ---- */

static bool describe_ends(mpc_cpu_exec *x) {
    const mpc_program *p = x->program;
    mpc_type *types = mpc_arena_alloc(x->arena, (p->input_count + p->output_count + 1) * sizeof *types);
    if (!types) return false;
    for (uint32_t i = 0; i < p->input_count; i++) types[i] = p->buffers[p->inputs[i].buffer].type;
    for (uint32_t i = 0; i < p->output_count; i++) types[p->input_count + i] = p->buffers[p->outputs[i].buffer].type;
    x->base.ahead = 1;
    x->base.fetched = true;
    x->base.input_count = p->input_count;
    x->base.output_count = p->output_count;
    x->base.inputs = p->inputs;
    x->base.outputs = p->outputs;
    x->base.input_types = types;
    x->base.output_types = types + p->input_count;
    return true;
}

static mpc_plan *plan_launch(mpc_cpu_exec *x, const mpc_plan_env *env, const mpc_launch *launch) {
    if (launch->kind == MPC_LAUNCH_KERNEL)
        return mpc_kernel_plan(env, launch, &x->program->kernels[launch->kernel], x->functions[launch->kernel]);
    if (launch->kind == MPC_LAUNCH_MATMUL) return mpc_matmul_plan(env, launch);
    if (launch->kind == MPC_LAUNCH_CONV) return mpc_conv_plan(env, launch);
    return mpc_copy_plan(env, launch);
}

typedef struct listener { /* passes diagnostics on and knows whether there was one */
    const mpc_sink *sink;
    bool heard;
} listener;

static void hear(void *user, const mpc_diag *diag) {
    listener *l = user;
    l->heard = true;
    if (l->sink) l->sink->emit(l->sink->user, diag);
}

/* A plan that can't be made sent a diagnostic, or memory ran out. */
static mpc_status make_plans(mpc_cpu_exec *x) {
    listener l = {.sink = x->sink};
    const mpc_sink sink = {.emit = hear, .user = &l};
    mpc_plan_env env = {.arena = x->arena,
                        .isa = mpc_gemm_isa_best(),
                        .dnn = x->dnn,
                        .buffers = x->program->buffers,
                        .threads = mpc_pool_threads(x->pool),
                        .sink = &sink};
    double seconds = 0;
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        mpc_plan *plan = plan_launch(x, &env, &x->program->launches[i]);
        if (!plan) return l.heard ? MPC_FAILED : MPC_NO_MEMORY;
        seconds += mpc_plan_seconds(plan);
        x->launches[i].plan = plan;
        if (plan->shared_bytes > x->shared_bytes) x->shared_bytes = plan->shared_bytes;
        if (plan->scratch_bytes > x->scratch_stride) x->scratch_stride = plan->scratch_bytes;
    }
    for (uint32_t i = 0; i < x->program->launch_count && mpc_step_is_short(seconds); i++)
        mpc_plan_make_serial(x->launches[i].plan);
    return MPC_OK;
}

static bool make_memory(mpc_cpu_exec *x) {
    uint64_t control_bytes = 0;
    const void *control = mpc_store_control(x->store, &control_bytes);
    x->control = mpc_arena_alloc(x->arena, (size_t)control_bytes + 1);
    if (!x->control) return false;
    memcpy(x->control, control, (size_t)control_bytes);
    x->shared_offset = mpc_align64(x->program->arena_bytes);
    x->scratch_offset = x->shared_offset + mpc_align64(x->shared_bytes);
    x->scratch_stride = mpc_align64(x->scratch_stride) + 64; /* apart: no cache line of two threads */
    x->memory_bytes = x->scratch_offset + x->scratch_stride * mpc_pool_threads(x->pool);
    x->memory = mpc_store_workspace(x->store, x->memory_bytes);
    if (!x->memory && mpc_block_create(&x->own, x->memory_bytes)) x->memory = x->own.data;
    return x->memory != NULL;
}

/* The planner keeps inputs to the end of the step, so what lies inside an input's range is a view of it. */
static uint8_t *place_value(const mpc_cpu_exec *x, const mpc_buffer *b) {
    uint64_t offset = 0;
    for (uint32_t i = 0; i < x->program->input_count; i++) {
        const mpc_buffer *in = &x->program->buffers[x->program->inputs[i].buffer];
        if (b->offset >= in->offset && b->offset + b->bytes <= in->offset + in->bytes)
            return x->inputs.data + offset + (b->offset - in->offset);
        offset += mpc_align64(in->bytes);
    }
    return x->memory + b->offset;
}

static bool make_input_memory(mpc_cpu_exec *x) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < x->program->input_count; i++)
        bytes += mpc_align64(x->program->buffers[x->program->inputs[i].buffer].bytes);
    return mpc_block_create(&x->inputs, bytes);
}

static mpc_status place_buffers(mpc_cpu_exec *x) {
    if (!make_input_memory(x)) return MPC_NO_MEMORY;
    for (uint32_t i = 0; i < x->program->buffer_count; i++) {
        const mpc_buffer *b = &x->program->buffers[i];
        if (!b->is_state) {
            x->buffers[i] = place_value(x, b);
            continue;
        }
        const mpc_store_entry *entry = mpc_store_find(x->store, b->state, b->derived);
        if (!entry || entry->bytes != b->bytes || entry->type.format != b->type.format)
            return mpc_error(
                x->sink, "E651",
                "state `%s` of this program is not among the states of the session, or has another shape there",
                b->state);
        x->buffers[i] = entry->data;
    }
    return MPC_OK;
}

static mpc_status bind_plans(mpc_cpu_exec *x) {
    mpc_binding binding = {.buffers = x->buffers,
                           .shared = x->memory + x->shared_offset,
                           .scratch = x->memory + x->scratch_offset,
                           .scratch_stride = x->scratch_stride,
                           .threads = mpc_pool_threads(x->pool)};
    for (uint32_t i = 0; i < x->program->launch_count; i++) {
        const mpc_launch *launch = &x->program->launches[i];
        if (!x->launches[i].plan->bind(x->launches[i].plan, &binding)) return MPC_NO_MEMORY;
        if (launch->has_when) x->launches[i].when = mpc_resolve(&binding, launch->when);
    }
    return MPC_OK;
}

static void enter_worker(void *user) { (void)mpc_dnn_enter(user); }

static bool make_tables(mpc_cpu_exec *x, const mpc_exec_options *options) {
    const mpc_program *p = x->program;
    x->arena = mpc_arena_create();
    if (!x->arena) return false;
    x->functions = mpc_arena_alloc(x->arena, (p->kernel_count + 1) * sizeof *x->functions);
    x->launches = mpc_arena_alloc(x->arena, (p->launch_count + 1) * sizeof *x->launches);
    x->buffers = mpc_arena_alloc(x->arena, (p->buffer_count + 1) * sizeof *x->buffers);
    if (!x->functions || !x->launches || !x->buffers || !describe_ends(x)) return false;
    if (!options->no_onednn) x->dnn = mpc_dnn_open(NULL, 0);
    x->pool = mpc_pool_create(options->threads, x->dnn ? enter_worker : NULL, x->dnn);
    return x->pool && mpc_dnn_make_streams(x->dnn, mpc_pool_threads(x->pool));
}

static bool needs_onednn(const mpc_program *p) {
    for (uint32_t i = 0; i < p->launch_count; i++)
        if (p->launches[i].kind == MPC_LAUNCH_CONV ||
            (p->launches[i].kind == MPC_LAUNCH_MATMUL && p->launches[i].flops > 1e6))
            return true;
    return false;
}

static mpc_status load(mpc_cpu_exec *x, const mpc_exec_options *options) {
    if (!make_tables(x, options)) return MPC_NO_MEMORY;
    if (!x->dnn && !options->no_onednn && needs_onednn(x->program) && mpc_store_first_time(x->store))
        mpc_warn(x->sink, "W160", (mpc_span){0},
                 "oneDNN wasn't found (libdnnl): matmul and convolution use mpc's own, slower kernels");
    mpc_jit_options jit = {.compiler = options->compiler, .cache_dir = options->cache_dir};
    const mpc_program *p = x->program;
    x->jit = mpc_jit_load(p->prelude ? p->prelude : "", p->kernels, p->kernel_count, &jit, x->functions, x->sink);
    if (!x->jit) return MPC_FAILED;
    int threads_before = mpc_dnn_enter(x->dnn);
    mpc_status status = make_plans(x);
    if (status == MPC_OK && !make_memory(x)) status = MPC_NO_MEMORY;
    if (status == MPC_OK) status = place_buffers(x);
    if (status == MPC_OK) status = bind_plans(x);
    mpc_dnn_leave(x->dnn, threads_before);
    return status;
}

mpc_exec *mpc_cpu_load(const mpc_program *program, mpc_store *store, const mpc_exec_options *options,
                       const mpc_sink *sink) {
    static const mpc_exec_options defaults = {0};
    mpc_status status = MPC_NO_MEMORY;
    mpc_cpu_exec *x = mpc_alloc(sizeof *x);
    if (x) {
        *x = (mpc_cpu_exec){.base.vtable = &cpu_vtable, .program = program, .store = store, .sink = sink};
        status = load(x, options ? options : &defaults);
        if (status == MPC_OK) return &x->base;
        cpu_destroy(&x->base);
    }
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "there isn't enough memory to load the program");
    return NULL;
}
