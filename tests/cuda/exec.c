/* The cuda executor on a small program: values, states on the device, records in order while steps run ahead, the calls
 * of a step, the search for values that aren't finite, profiles. Runs on the stand-in of the CUDA libraries, or on a
 * GPU. */
#include "tests/cuda/step_program.h"

static char trace_path[] = "/tmp/mpc-trace-XXXXXX", cache[] = "/tmp/mpc-test-XXXXXX"; /* one compilation for all */

static float weight(step_program *s, int64_t i) {
    CHECK(mpc_store_to_host(s->f.store) == MPC_OK);
    return ((const float *)mpc_store_find(s->f.store, "w", MPC_FMT_none)->data)[i];
}

static void run_steps(step_program *s, mpc_exec *e, int first, int last) {
    for (int step = first; step <= last; step++) {
        write_input(s, e, step);
        CHECK(mpc_exec_step(e) == MPC_OK);
        CHECK(mpc_exec_record(e, true) == MPC_RECORD_READY);
        check_record(s, e, step);
    }
    CHECK(mpc_exec_record(e, true) == MPC_RECORD_NONE);
}

static void steps_give_values_and_move_states(int64_t n, bool separate) {
    step_program s;
    make_program(&s, n);
    mpc_exec *e = load_step(&s, separate, cache);
    CHECK(e != NULL);
    if (e) {
        run_steps(&s, e, 1, 3);
        CHECK_MSG(weight(&s, 7) == 1 + 3 * 8 + 3 * 10, "%g", (double)weight(&s, 7)); /* steps 1 and 3 */
        e->vtable->destroy(e);
    } else fixture_show_diags(&s.f);
    fixture_destroy(&s.f);
}

static void steps_run_ahead_and_records_come_in_order(void) {
    step_program s;
    make_program(&s, 1000);
    mpc_exec *e = load_step(&s, false, cache);
    CHECK(e && e->ahead >= 8);
    for (int round = 0; e && round < 3; round++) { /* around the ring */
        int before = round * (int)e->ahead;
        for (int i = 1; i <= (int)e->ahead; i++) {
            write_input(&s, e, before + i);
            CHECK(mpc_exec_step(e) == MPC_OK);
        }
        CHECK(mpc_exec_step(e) == MPC_FAILED);
        for (int i = 1; i <= (int)e->ahead; i++) {
            CHECK(mpc_exec_record(e, true) == MPC_RECORD_READY);
            check_record(&s, e, before + i);
        }
        CHECK(mpc_exec_record(e, false) == MPC_RECORD_NONE);
    }
    if (e) e->vtable->destroy(e);
    fixture_destroy(&s.f);
}

static void executors_share_states(void) {
    step_program s;
    make_program(&s, 1000);
    mpc_exec *a = load_step(&s, false, NULL), *b = load_step(&s, false, NULL);
    CHECK(a && b && mpc_cuda_compiled(a) == 4 && mpc_cuda_compiled(b) == 0);
    if (!a || !b) return;
    run_steps(&s, a, 1, 1);
    run_steps(&s, b, 2, 2);
    run_steps(&s, a, 3, 3);
    CHECK(weight(&s, 7) == 1 + 3 * 8 + 3 * 10);
    CHECK(mpc_store_init(s.f.store, 1) == MPC_OK); /* hands over to the device */
    run_steps(&s, b, 1, 1);
    a->vtable->destroy(a);
    fixture_destroy(&s.f); /* an executor may outlive its store */
    b->vtable->destroy(b);
}

/* Calls of the driver since `from`, those that only ask or wait for an event apart. */
static void read_calls(long from, mpc_str *calls) {
    FILE *file = fopen(trace_path, "r");
    char line[256];
    if (!file || fseek(file, from, SEEK_SET) != 0) return;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, " \n")] = 0;
        if (strncmp(line, "cu", 2) != 0 || strcmp(line, "cuEventQuery") == 0 || strcmp(line, "cuEventSynchronize") == 0)
            continue;
        mpc_str_printf(calls, "%s\n", line);
    }
    fclose(file);
}

static long trace_length(void) {
    FILE *file = fopen(trace_path, "r");
    long length = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : 0;
    if (file) fclose(file);
    return length;
}

static void a_step_is_four_calls(void) {
    step_program s;
    make_program(&s, 1000);
    mpc_exec *e = load_step(&s, false, cache);
    CHECK(e != NULL);
    if (!e) return;
    run_steps(&s, e, 1, 1);
    long from = trace_length();
    uint64_t allocations = mpc_alloc_count();
    run_steps(&s, e, 2, 3);
    CHECK(mpc_alloc_count() == allocations);
    mpc_str calls = {0};
    read_calls(from, &calls);
    if (from > 0)
        CHECK_STR(mpc_str_cstr(&calls), "cuMemcpyHtoDAsync_v2\ncuGraphLaunch\ncuMemcpyDtoHAsync_v2\ncuEventRecord\n"
                                        "cuMemcpyHtoDAsync_v2\ncuGraphLaunch\ncuMemcpyDtoHAsync_v2\ncuEventRecord\n");
    mpc_str_free(&calls);
    e->vtable->destroy(e);
    fixture_destroy(&s.f);
}

static void check_search(step_program *s, mpc_exec *e, const char *expected, int attempts) {
    mpc_str what = {0};
    mpc_loc loc;
    CHECK(mpc_exec_find_nonfinite(e, &what, &loc) == MPC_OK);
    CHECK_STR(mpc_str_cstr(&what), expected);
    mpc_str_free(&what);
    CHECK(mpc_store_to_host(s->f.store) == MPC_OK);
    int now = *(const int32_t *)mpc_store_find(s->f.store, "step.attempts", MPC_FMT_none)->data;
    CHECK_MSG(now == attempts, "%d", now);
}

/* The odd step is looked into with the counter as it was before it: in an even step nothing is added to w. */
static void the_first_value_that_is_not_finite_is_named(bool separate) {
    step_program s;
    make_program(&s, 1000);
    mpc_exec *e = load_step(&s, separate, cache);
    CHECK(e != NULL);
    if (!e) return;
    float *x = NULL;
    run_steps(&s, e, 1, 1);
    for (int step = 2; step <= 5; step++) { /* runs ahead of the record that is looked into */
        write_input(&s, e, step);
        x = e->vtable->input(e, 0);
        if (step == 2) x[12] = 1.5e38f; /* 3 x overflows */
        if (step == 3) x[13] = NAN;
        CHECK(mpc_exec_step(e) == MPC_OK);
    }
    CHECK(mpc_exec_record(e, true) == MPC_RECORD_READY);
    check_search(&s, e, "y2: scale gives inf at element 12; its inputs reach 1.5e+38", 5);
    CHECK(mpc_exec_record(e, true) == MPC_RECORD_READY);
    check_search(&s, e, "input x holds nan at element 13", 5);
    CHECK(mpc_exec_record(e, true) == MPC_RECORD_READY);
    check_record(&s, e, 4); /* untouched by the replays */
    e->vtable->destroy(e);
    fixture_destroy(&s.f);
}

static void a_profile_counts_as_a_step(void) {
    step_program s;
    make_program(&s, 1000);
    mpc_exec *e = load_step(&s, false, cache);
    CHECK(e != NULL);
    if (!e) return;
    mpc_launch_time times[4] = {{-1}, {-1}, {-1}, {-1}};
    run_steps(&s, e, 1, 1);
    write_input(&s, e, 2);
    CHECK(mpc_cuda_profile(e, times, 4) == MPC_OK);
    CHECK(mpc_exec_record(e, true) == MPC_RECORD_READY);
    check_record(&s, e, 2);
    for (int i = 0; i < 4; i++) CHECK_MSG(times[i].seconds >= 0 && times[i].seconds < 10, "%g", times[i].seconds);
    run_steps(&s, e, 3, 3);
    e->vtable->destroy(e);
    fixture_destroy(&s.f);
}

static void memory_is_reported(void) {
    step_program s;
    make_program(&s, 1000);
    mpc_exec *e = load_step(&s, false, cache);
    mpc_memory_report report;
    CHECK(e != NULL);
    if (!e) return;
    mpc_exec_memory(e, &report);
    CHECK(report.state_bytes >= 4004 && report.arena_bytes == s.f.program.arena_bytes &&
          report.workspace_bytes > MPC_CUDA_WORKSPACE);
    CHECK(report.by_class[MPC_BUF_ACTIVATION][MPC_FMT_f32] == 4 * 4000);
    e->vtable->destroy(e);
    fixture_destroy(&s.f);
}

int main(void) {
    int trace = mkstemp(trace_path);
    char command[64];
    if (trace < 0 || !mkdtemp(cache) || setenv("MPC_CUDASIM_TRACE", trace_path, 1) != 0) return 1;
    close(trace);
    mpc_str info = {0};
    keep_libraries();
    if (!mpc_cuda_available(NULL)) {
        mpc_cuda_describe(&info);
        fprintf(stderr, "skipped: %s", mpc_str_cstr(&info));
        mpc_str_free(&info);
        return 77;
    }
    steps_give_values_and_move_states(1000, false);
    steps_give_values_and_move_states(1003, true);
    steps_give_values_and_move_states(300001, false); /* outputs too large to be gathered */
    steps_run_ahead_and_records_come_in_order();
    executors_share_states();
    a_step_is_four_calls();
    the_first_value_that_is_not_finite_is_named(false);
    the_first_value_that_is_not_finite_is_named(true);
    a_profile_counts_as_a_step();
    memory_is_reported();
    unlink(trace_path);
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    if (system(command) != 0) fprintf(stderr, "left %s\n", cache);
    return check_result();
}
