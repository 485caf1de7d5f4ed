/* The search for the first value that isn't finite, on both devices: it names value, op, kind and place, and moves no
 * state. */
#include "tests/runtime/program_support.h"

/* y = log(x); z = y * w; count advances. */
static mpc_builder *make_graph(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "step");
    int64_t n = 4;
    mpc_type_id type = mpc_type_make(ctx, MPC_FMT_f32, 1, &n), i32 = mpc_type_make(ctx, MPC_FMT_i32, 0, NULL);
    mpc_value_id x = mpc_build_input(b, "x", type, (mpc_attr_arg[]){MPC_A_STR("source", "columns[0:4]")}, 1);
    mpc_value_id w =
        mpc_build_state(b, "w", type, (mpc_attr_arg[]){MPC_A_STR("name", "w"), MPC_A_STR("init", "ones")}, 2);
    mpc_value_id count =
        mpc_build_state(b, "count", i32, (mpc_attr_arg[]){MPC_A_STR("name", "count"), MPC_A_STR("role", "counter")}, 2);
    mpc_builder_set_name(b, "layer.y");
    mpc_value_id y = mpc_build1(b, MPC_OP_log, x);
    mpc_value_id z = mpc_build2(b, MPC_OP_mul, y, w);
    mpc_value_id one = mpc_build_const(b, 1, MPC_FMT_i32);
    mpc_build_next(b, count, mpc_build2(b, MPC_OP_add, count, one));
    mpc_build_output(b, "z", z);
    return b;
}

static int32_t count_of(fixture *f) { return *(int32_t *)mpc_store_find(f->store, "count", MPC_FMT_none)->data; }

static void check_search(fixture *f, mpc_exec *e, const char *expected) {
    int32_t before = count_of(f);
    mpc_str what = {0};
    mpc_loc loc;
    CHECK(mpc_exec_find_nonfinite(e, &what, &loc) == MPC_OK);
    CHECK_STR(mpc_str_cstr(&what), expected);
    CHECK(count_of(f) == before);
    mpc_str_free(&what);
}

static void set_input(mpc_exec *e, float third) {
    float *x = e->vtable->input(e, 0);
    for (int i = 0; i < 4; i++) x[i] = (float)(i + 1);
    x[2] = third;
    CHECK(e->vtable->step(e) == MPC_OK);
}

static void check_device(fixture *f, mpc_exec *e, const char *infinite, const char *nan_input) {
    CHECK(e);
    if (!e) return;
    set_input(e, 3);
    check_search(f, e, "");
    const float *z = e->vtable->output(e, 0);
    CHECK(fabs((double)z[3] - log(4.0)) < 1e-6);
    set_input(e, 0);
    check_search(f, e, infinite);
    set_input(e, (float)NAN);
    check_search(f, e, nan_input);
    CHECK(count_of(f) == 3);
    e->vtable->destroy(e);
}

static const char log_text[] =
    "float logf(float);\n"
    "void k_log(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
    "    const float *x = p[0]; float *y = p[1]; int32_t *count = p[2];\n"
    "    for (int64_t i = 0; i < 4; i++) y[i] = logf(x[i]);\n"
    "    ++*count;\n"
    "}\n";

static void check_cpu(void) {
    fixture f;
    fixture_create(&f, make_graph);
    mpc_store_init(f.store, 1);
    mpc_pointer pointers[3] = {add_buffer(&f, "x", MPC_FMT_f32, 4), add_buffer(&f, "layer.y", MPC_FMT_f32, 4)};
    pointers[2] = add_state(&f, "count", MPC_FMT_none, MPC_FMT_i32, 1);
    mpc_kernel kernel = {.name = "k_log", .text = log_text, .pointer_count = 3};
    mpc_kernel_instance instance = {.pointers = pointers, .units = 1};
    uint32_t results[2] = {pointers[1].buffer, pointers[2].buffer};
    mpc_launch *l = add_launch(&f, MPC_LAUNCH_KERNEL, "log");
    l->instances = &instance;
    l->instance_count = 1;
    l->results = results;
    l->result_count = 2;
    f.inputs[0] = (mpc_program_input){.name = "x", .buffer = pointers[0].buffer};
    f.outputs[0] = (mpc_program_output){.name = "z", .buffer = pointers[1].buffer};
    f.program.input_count = f.program.output_count = f.program.kernel_count = 1;
    f.program.kernels = &kernel;
    check_device(&f, load(&f, 1, false), "layer.y: log gives -inf at element 2; its inputs reach 4",
                 "input x holds nan at element 2");
    fixture_destroy(&f);
}

int main(void) {
    fixture f;
    fixture_create(&f, make_graph);
    mpc_store_init(f.store, 1);
    check_device(&f, mpc_ref_load(f.graph, f.store, &f.sink),
                 "layer.y: log gives -inf at element 2; its inputs reach 4", "input x holds nan at element 2");
    fixture_show_diags(&f);
    fixture_destroy(&f);
    check_cpu();
    return check_result();
}
