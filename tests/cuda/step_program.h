/* A small program in CUDA text, for tests of the executor: attempts += 1 (one instance by value), y = 2 x and y2 = 3 x
 * (two segments of one launch), w += y2 in odd steps, copy = y2. */
#ifndef MPC_TESTS_CUDA_STEP_PROGRAM_H
#define MPC_TESTS_CUDA_STEP_PROGRAM_H

#include <dlfcn.h>

#include "codegen/cg.h"
#include "runtime/cuda/cuda_exec.h"
#include "tests/runtime/program_support.h"

static const char count_text[] = "MPC_KERNEL(k_count, 32, 2, 1, 1) {\n"
                                 "    MPC_ENTER\n"
                                 "    if (mpc_thread() != 0) return;\n"
                                 "    int32_t *const c = (int32_t *)p[0];\n"
                                 "    *c += 1;\n"
                                 "    *(uint8_t *)p[1] = (uint8_t)(*c & 1);\n"
                                 "}\n";
static const char scale_text[] = "MPC_SEGMENTED(k_scale, 64, 2, 1, 1) {\n"
                                 "    MPC_ENTER_SEGMENT\n"
                                 "    const float *const x = (const float *)p[0];\n"
                                 "    float *const y = (float *)p[1];\n"
                                 "    for (int64_t i = (int64_t)block * 64 + mpc_thread(); i < units; i += "
                                 "(int64_t)blocks * 64) y[i] = x[i] * f[0];\n"
                                 "}\n";
static const char add_text[] = "MPC_KERNEL(k_add, 64, 2, 1, 1) {\n"
                               "    MPC_ENTER\n"
                               "    float *const w = (float *)p[0];\n"
                               "    const float *const y = (const float *)p[1];\n"
                               "    for (int64_t i = (int64_t)block * 64 + mpc_thread(); i < units; i += "
                               "(int64_t)blocks * 64) w[i] = w[i] + y[i];\n"
                               "}\n";

typedef struct step_program {
    fixture f;
    mpc_kernel kernels[3];
    mpc_kernel_instance scale[2], count[1], add[1];
    mpc_pointer pointers[8];
    float floats[2];
    uint32_t results[4][2];
    mpc_pointer x, y, y2, copy, odd, counter, w;
    int64_t n;
} step_program;

static int64_t states_length;

static inline mpc_builder *make_states(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "states");
    mpc_type_id i32 = mpc_type_make(ctx, MPC_FMT_i32, 0, NULL),
                f32 = mpc_type_make(ctx, MPC_FMT_f32, 1, &states_length);
    mpc_build_state(b, "w", f32,
                    (mpc_attr_arg[]){MPC_A_STR("name", "w"), MPC_A_STR("init", "ones"), MPC_A_STR("role", "param")}, 3);
    mpc_build_state(b, "step.attempts", i32,
                    (mpc_attr_arg[]){MPC_A_STR("name", "step.attempts"), MPC_A_STR("role", "counter")}, 2);
    return b;
}

static inline mpc_launch *add_step_launch(step_program *s, const char *name, uint32_t kernel,
                                          mpc_kernel_instance *instances, uint32_t count) {
    mpc_launch *l = add_launch(&s->f, count ? MPC_LAUNCH_KERNEL : MPC_LAUNCH_COPY, name);
    l->kernel = kernel;
    l->instances = instances;
    l->instance_count = count;
    l->results = s->results[s->f.program.launch_count - 1];
    return l;
}

static inline void add_launches(step_program *s) {
    mpc_launch *count = add_step_launch(s, "count", 1, s->count, 1);
    count->results[count->result_count++] = s->counter.buffer;
    mpc_launch *scale = add_step_launch(s, "scale", 0, s->scale, 2);
    scale->results[scale->result_count++] = s->y.buffer;
    scale->results[scale->result_count++] = s->y2.buffer;
    mpc_launch *add = add_step_launch(s, "add", 2, s->add, 1);
    add->results[add->result_count++] = s->w.buffer;
    add->has_when = true;
    add->when = s->odd;
    mpc_launch *copy = add_step_launch(s, "copy", 0, NULL, 0);
    copy->results[copy->result_count++] = s->copy.buffer;
    copy->copy_from = s->y2;
    copy->copy_to = s->copy;
    copy->copy_bytes = 4 * (uint64_t)s->n;
}

static inline void fill_instances(step_program *s) {
    const mpc_pointer pointers[] = {s->x, s->y, s->x, s->y2, s->counter, s->odd, s->w, s->y2};
    memcpy(s->pointers, pointers, sizeof pointers);
    s->floats[0] = 2;
    s->floats[1] = 3;
    for (int i = 0; i < 2; i++)
        s->scale[i] = (mpc_kernel_instance){
            .pointers = &s->pointers[2 * i], .floats = &s->floats[i], .units = s->n, .blocks = (uint32_t)(3 - i)};
    s->count[0] = (mpc_kernel_instance){.pointers = &s->pointers[4], .units = 1, .blocks = 1};
    s->add[0] = (mpc_kernel_instance){.pointers = &s->pointers[6], .units = s->n, .blocks = 2};
}

/* x has n numbers. */
static inline void make_program(step_program *s, int64_t n) {
    memset(s, 0, sizeof *s);
    fixture *f = &s->f;
    s->n = states_length = n;
    fixture_create(f, make_states);
    f->program.prelude = mpc_text_cuda_prelude_h;
    f->program.device_header = mpc_text_cuda_device_h;
    s->x = add_buffer(f, "x", MPC_FMT_f32, n);
    s->y = add_buffer(f, "y", MPC_FMT_f32, n);
    s->y2 = add_buffer(f, "y2", MPC_FMT_f32, n);
    s->copy = add_buffer(f, "copy", MPC_FMT_f32, n);
    s->odd = add_buffer(f, "odd", MPC_FMT_bool, 1);
    s->counter = add_state(f, "step.attempts", MPC_FMT_none, MPC_FMT_i32, 1);
    s->w = add_state(f, "w", MPC_FMT_none, MPC_FMT_f32, n);
    s->kernels[0] = (mpc_kernel){
        .name = "k_scale", .text = scale_text, .pointer_count = 2, .float_count = 1, .threads = 64, .segmented = true};
    s->kernels[1] = (mpc_kernel){.name = "k_count", .text = count_text, .pointer_count = 2, .threads = 32};
    s->kernels[2] = (mpc_kernel){.name = "k_add", .text = add_text, .pointer_count = 2, .threads = 64};
    f->program.kernels = s->kernels;
    f->program.kernel_count = 3;
    fill_instances(s);
    add_launches(s);
    f->inputs[0] = (mpc_program_input){.name = "x", .source = "columns[0]", .buffer = s->x.buffer};
    f->outputs[0] = (mpc_program_output){.name = "y", .buffer = s->y.buffer};
    f->outputs[1] = (mpc_program_output){.name = "attempts", .buffer = s->counter.buffer};
    f->outputs[2] = (mpc_program_output){.name = "copy", .buffer = s->copy.buffer};
    f->program.input_count = 1;
    f->program.output_count = 3;
    CHECK(mpc_store_init(f->store, 1) == MPC_OK);
}

/* The stand-in keeps the stacks of its threads as long as it is loaded: to a leak checker they are lost when it is
 * closed. */
static inline void keep_libraries(void) { (void)dlopen("libcuda.so.1", RTLD_NOW | RTLD_NODELETE); }

/* `cache`: NULL: the fixture's, which is empty. */
static inline mpc_exec *load_step(step_program *s, bool separate, const char *cache) {
    mpc_exec_options options = {.cache_dir = cache ? cache : s->f.cache, .separate_buffers = separate};
    return mpc_cuda_load(&s->f.program, s->f.store, &options, &s->f.sink);
}

static inline void write_input(const step_program *s, mpc_exec *e, int step) {
    float *x = e->vtable->input(e, 0);
    for (int64_t i = 0; i < s->n; i++) x[i] = (float)(i % 1000 + step);
}

static inline void check_record(const step_program *s, mpc_exec *e, int step) {
    const float *y = e->vtable->output(e, 0), *copy = e->vtable->output(e, 2);
    const int32_t *attempts = e->vtable->output(e, 1);
    const int64_t last = s->n - 1;
    CHECK_MSG(*attempts == step, "%d", *attempts);
    CHECK_MSG(y[7] == 2 * (float)(7 + step), "%g", (double)y[7]);
    CHECK(y[last] == 2 * (float)(last % 1000 + step));
    CHECK(copy[7] == 3 * (float)(7 + step) && copy[last] == 3 * (float)(last % 1000 + step));
}

#endif
