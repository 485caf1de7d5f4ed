/* A launch may write its result where an operand lay: the check still tells what the operand held before. */
#define mpc_phase mpc_plan_phase /* runtime/cpu/plan.h has another one of this name */
#include "tests/runtime/program_support.h"
#undef mpc_phase

#include "driver/nonfinite_check.h"

static const char abs_text[] =
    "float fabsf(float);\n"
    "void k_abs(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
    "    const float *x = p[0]; float *a = p[1];\n"
    "    for (int64_t i = 0; i < 4; i++) a[i] = fabsf(x[i]);\n"
    "}\n";
static const char log_text[] =
    "float logf(float);\n"
    "void k_log(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
    "    const float *a = p[0]; float *y = p[1];\n"
    "    for (int64_t i = 0; i < 4; i++) y[i] = logf(a[i]);\n"
    "}\n";

/* a = abs(x); y = log(a) */
static mpc_builder *make_graph(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "step");
    int64_t n = 4;
    mpc_type_id type = mpc_type_make(ctx, MPC_FMT_f32, 1, &n);
    mpc_value_id x = mpc_build_input(b, "x", type, (mpc_attr_arg[]){MPC_A_STR("source", "columns[0:4]")}, 1);
    mpc_builder_set_name(b, "a");
    mpc_value_id a = mpc_build1(b, MPC_OP_abs, x);
    mpc_builder_set_name(b, "y");
    mpc_build_output(b, "y", mpc_build1(b, MPC_OP_log, a));
    return b;
}

static void add_kernel_launch(fixture *f, const char *name, const char *op, uint32_t kernel,
                              mpc_kernel_instance *instance, uint32_t *result) {
    mpc_launch *l = add_launch(f, MPC_LAUNCH_KERNEL, op);
    l->name = name;
    l->kernel = kernel;
    l->instances = instance;
    l->instance_count = l->result_count = 1;
    l->results = result;
}

static void check_found(fixture *f, mpc_exec *e) {
    mpc_train_config train = {0};
    mpc_session session = {.device = MPC_DEVICE_CPU, .train = &train, .sink = &f->sink};
    mpc_step step = {
        .session = &session, .phase = MPC_PHASE_TRAIN, .graph = f->graph, .program = &f->program, .exec = e};
    mpc_nonfinite_found found = {.step = 7};
    mpc_nonfinite_check *c = mpc_nonfinite_check_create(&step, &found);
    float *x = e->vtable->input(e, 0);
    for (int i = 0; i < 4; i++) x[i] = (float)(-1 - i);
    CHECK(c && mpc_nonfinite_check_run(c) && !found.is);
    x[2] = 0;
    CHECK(!mpc_nonfinite_check_run(c) && found.is);
    CHECK_STR(mpc_str_cstr(&found.message), "step 7: `y` is not finite: log gives 1 infinite of 4");
    CHECK(found.note_count == 2);
    CHECK_STR(mpc_str_cstr(&found.notes[1]), "it reads `a`: f32[4], from 0 to 4, mean size 1.75; not finite: none");
    mpc_nonfinite_check_destroy(c);
    mpc_nonfinite_deinit(&found);
}

int main(void) {
    fixture f;
    fixture_create(&f, make_graph);
    mpc_store_init(f.store, 1);
    mpc_pointer x = add_buffer(&f, "x", MPC_FMT_f32, 4), a = add_buffer(&f, "a", MPC_FMT_f32, 4);
    mpc_pointer y = add_buffer(&f, "y", MPC_FMT_f32, 4);
    f.buffers[y.buffer].offset = f.buffers[a.buffer].offset;
    mpc_kernel kernels[2] = {{.name = "k_abs", .text = abs_text, .pointer_count = 2},
                             {.name = "k_log", .text = log_text, .pointer_count = 2}};
    mpc_pointer first[2] = {x, a}, second[2] = {a, y};
    mpc_kernel_instance instances[2] = {{.pointers = first, .units = 1}, {.pointers = second, .units = 1}};
    uint32_t results[2] = {a.buffer, y.buffer};
    add_kernel_launch(&f, "a", "abs", 0, &instances[0], &results[0]);
    add_kernel_launch(&f, "y", "log", 1, &instances[1], &results[1]);
    f.inputs[0] = (mpc_program_input){.name = "x", .buffer = x.buffer};
    f.outputs[0] = (mpc_program_output){.name = "y", .buffer = y.buffer};
    f.program.input_count = f.program.output_count = 1;
    f.program.kernel_count = 2;
    f.program.kernels = kernels;
    mpc_exec *e = load(&f, 1, false);
    CHECK(e);
    if (e) {
        check_found(&f, e);
        e->vtable->destroy(e);
    }
    fixture_show_diags(&f);
    fixture_destroy(&f);
    return check_result();
}
