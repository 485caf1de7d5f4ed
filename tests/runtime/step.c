/* A loaded program's step: kernels of several instances, conditional launches, copies, states in the store; no
 * allocation by mpc and no system call but futex; the cache of compiled kernels. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/runtime/program_support.h"

static const char scale_text[] =
    "void k_scale(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
    "    const float *x = p[0]; float *y = p[1]; float *s = scratch;\n"
    "    for (int64_t u = begin; u < end; u++)\n"
    "        for (int64_t i = u * n[0]; i < (u + 1) * n[0]; i++) { s[0] = x[i]; y[i] = s[0] * f[0]; }\n"
    "}\n";
static const char count_text[] =
    "void k_count(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
    "    int32_t *c = p[0]; uint8_t *odd = p[1]; *c += 1; *odd = *c & 1;\n"
    "}\n";

typedef struct step_program {
    fixture f;
    mpc_kernel kernels[2];
    mpc_kernel_instance scale[2], count[1];
    mpc_pointer pointers[6];
    int64_t ints[2];
    float floats[2];
    mpc_pointer x, y, y2, copy, odd, counter, a, c;
} step_program;

static mpc_builder *make_states(mpc_context *ctx) {
    mpc_builder *b = mpc_builder_create(ctx, "states");
    mpc_type_id i32 = mpc_type_make(ctx, MPC_FMT_i32, 0, NULL);
    mpc_build_state(b, "step.attempts", i32,
                    (mpc_attr_arg[]){MPC_A_STR("name", "step.attempts"), MPC_A_STR("role", "counter")}, 2);
    return b;
}

static void add_kernels(step_program *s) {
    fixture *f = &s->f;
    s->kernels[0] = (mpc_kernel){.name = "k_scale",
                                 .text = scale_text,
                                 .pointer_count = 2,
                                 .int_count = 1,
                                 .float_count = 1,
                                 .scratch_bytes = 64};
    s->kernels[1] = (mpc_kernel){.name = "k_count", .text = count_text, .pointer_count = 2};
    f->program.kernels = s->kernels;
    f->program.kernel_count = 2;
    mpc_launch *count = add_launch(f, MPC_LAUNCH_KERNEL, "count");
    s->pointers[4] = s->counter;
    s->pointers[5] = s->odd;
    s->count[0] = (mpc_kernel_instance){.pointers = &s->pointers[4], .units = 1};
    count->kernel = 1;
    count->instances = s->count;
    count->instance_count = 1;
    mpc_launch *scale = add_launch(f, MPC_LAUNCH_KERNEL, "scale");
    s->ints[0] = 10;
    s->ints[1] = 5;
    s->floats[0] = 2;
    s->floats[1] = 3;
    s->pointers[0] = s->pointers[2] = s->x;
    s->pointers[1] = s->y;
    s->pointers[3] = s->y2;
    for (int i = 0; i < 2; i++)
        s->scale[i] =
            (mpc_kernel_instance){.pointers = &s->pointers[2 * i], .ints = &s->ints[i], .floats = &s->floats[i]};
    s->scale[0].units = 100;
    s->scale[1].units = 200;
    scale->instances = s->scale;
    scale->instance_count = 2;
}

static void make_program(step_program *s) {
    memset(s, 0, sizeof *s);
    fixture *f = &s->f;
    fixture_create(f, make_states);
    s->x = add_buffer(f, "x", MPC_FMT_f32, 1000);
    s->y = add_buffer(f, "y", MPC_FMT_f32, 1000);
    s->y2 = add_buffer(f, "y2", MPC_FMT_f32, 1000);
    s->copy = add_buffer(f, "copy", MPC_FMT_f32, 1000);
    s->odd = add_buffer(f, "odd", MPC_FMT_bool, 1);
    s->a = add_buffer(f, "a", MPC_FMT_bf16, 256 * 256);
    s->c = add_buffer(f, "c", MPC_FMT_bf16, 256 * 256);
    s->counter = add_state(f, "step.attempts", MPC_FMT_none, MPC_FMT_i32, 1);
    f->inputs[0] = (mpc_program_input){.name = "x", .source = "columns[0]", .buffer = s->x.buffer};
    f->outputs[0] = (mpc_program_output){.name = "y", .buffer = s->y.buffer};
    f->program.input_count = f->program.output_count = 1;
    add_kernels(s);
    mpc_launch *copy = add_launch(f, MPC_LAUNCH_COPY, "copy");
    copy->copy_from = s->y2;
    copy->copy_to = s->copy;
    copy->copy_bytes = 4000;
    copy->has_when = true;
    copy->when = s->odd;
    mpc_launch *mm = add_launch(f, MPC_LAUNCH_MATMUL, "matmul");
    mm->matmul = (mpc_matmul){.a = s->a,
                              .b = s->a,
                              .c = s->c,
                              .fa = MPC_FMT_bf16,
                              .fb = MPC_FMT_bf16,
                              .fc = MPC_FMT_bf16,
                              .acc = MPC_FMT_f32,
                              .m = 256,
                              .n = 256,
                              .k = 256,
                              .a_row = 256,
                              .a_col = 1,
                              .b_row = 256,
                              .b_col = 1,
                              .c_row = 256,
                              .c_col = 1,
                              .batch = {1, 1, 1}};
}

static void check_results(void) {
    step_program s;
    make_program(&s);
    mpc_exec *e = load(&s.f, 2, false);
    CHECK(e && e->input_count == 1 && e->output_count == 1);
    if (!e) return;
    CHECK_STR(e->inputs[0].source, "columns[0]");
    float *x = e->vtable->input(e, 0);
    for (int step = 1; step <= 3; step++) {
        for (int i = 0; i < 1000; i++) x[i] = (float)(i + step);
        CHECK(e->vtable->step(e) == MPC_OK);
        const float *y = e->vtable->output(e, 0), *y2 = buffer_data(e, s.y2), *copy = buffer_data(e, s.copy);
        int kept = step & 1 ? step : step - 1; /* the copy runs on odd steps only */
        CHECK(y[7] == 2 * (float)(7 + step) && y[999] == 2 * (float)(999 + step));
        CHECK(y2[7] == 3 * (float)(7 + step) && y2[999] == 3 * (float)(999 + step));
        CHECK(copy[7] == 3 * (float)(7 + kept) && copy[999] == 3 * (float)(999 + kept));
        CHECK(*(int32_t *)mpc_store_find(s.f.store, "step.attempts", MPC_FMT_none)->data == step);
    }
    mpc_memory_report report;
    mpc_exec_memory(e, &report);
    CHECK(report.by_class[MPC_BUF_ACTIVATION][MPC_FMT_f32] == 16000 &&
          report.by_class[MPC_BUF_CONTROL][MPC_FMT_i32] == 4);
    CHECK(report.arena_bytes == s.f.program.arena_bytes && report.state_bytes == 64);
    e->vtable->destroy(e);
    fixture_destroy(&s.f);
}

/* Counts the library's allocations: all of the process but mpc's own. */
static _Atomic int all_allocations;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
extern void *__libc_malloc(size_t size);
void *malloc(size_t size) {
    atomic_fetch_add(&all_allocations, 1);
    return __libc_malloc(size);
}
#endif

static void check_no_allocation(void) {
    step_program s;
    make_program(&s);
    mpc_exec *e = load(&s.f, 2, false);
    if (e) {
        e->vtable->step(e);
        uint64_t before = mpc_alloc_count();
        atomic_store(&all_allocations, 0);
        for (int i = 0; i < 5; i++) e->vtable->step(e);
        CHECK(mpc_alloc_count() == before);
        fprintf(stderr, "oneDNN: %d allocations in 5 steps of one matmul\n", atomic_load(&all_allocations));
        CHECK(atomic_load(&all_allocations) <= 5 * 16);
        e->vtable->destroy(e);
    }
    fixture_destroy(&s.f);
}

/* Every call but futex and what ends the process kills it. */
static bool forbid_system_calls(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof filter[0], .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static void step_confined(void) {
    step_program s;
    make_program(&s);
    mpc_exec *e = load(&s.f, 2, false);
    if (!e) _exit(3);
    e->vtable->step(e); /* a library may allocate on its first run */
    if (!forbid_system_calls()) _exit(77);
    for (int i = 0; i < 20; i++) e->vtable->step(e);
    _exit(0);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
enum { IS_SANITIZED = 1 }; /* a sanitizer makes system calls of its own */
#else
enum { IS_SANITIZED = 0 };
#endif

static void check_no_system_call(void) {
    if (IS_SANITIZED) return;
    pid_t child = fork();
    if (child == 0) step_confined();
    int status = 0;
    waitpid(child, &status, 0);
    bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == 77;
    if (skipped) fprintf(stderr, "seccomp isn't allowed here: system calls are not checked\n");
    CHECK_MSG(skipped || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "status %x", (unsigned)status);
}

/* ---- the cache ---- */

static int each_object(const char *folder, void (*visit)(const char *path), const char *suffix) {
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name), end = strlen(suffix);
        if (length < end || strcmp(entry->d_name + length - end, suffix) != 0) continue;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (visit) visit(path);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

static void truncate_file(const char *path) { CHECK(truncate(path, 4097) == 0); }

static void flip_byte(const char *path) {
    int fd = open(path, O_RDWR);
    uint8_t byte = 0;
    CHECK(fd >= 0 && pread(fd, &byte, 1, 5000) == 1);
    byte ^= 0xff;
    CHECK(pwrite(fd, &byte, 1, 5000) == 1);
    close(fd);
}

static uint32_t compiled_by_load(step_program *s) {
    mpc_exec *e = load(&s->f, 1, false);
    CHECK(e);
    if (!e) return 99;
    uint32_t compiled = mpc_cpu_compiled(e);
    CHECK(e->vtable->step(e) == MPC_OK);
    e->vtable->destroy(e);
    return compiled;
}

static void check_cache(void) {
    step_program s;
    make_program(&s);
    CHECK(compiled_by_load(&s) == 1);
    CHECK(compiled_by_load(&s) == 0);
    each_object(s.f.cache, truncate_file, ".so");
    CHECK(compiled_by_load(&s) == 1);
    each_object(s.f.cache, flip_byte, ".so");
    CHECK(compiled_by_load(&s) == 1);
    CHECK(each_object(s.f.cache, NULL, ".so") == 1);
    CHECK(each_object(s.f.cache, NULL, ".c") == 0);
    fixture_destroy(&s.f);
}

static void load_in_child(step_program *s) {
    mpc_exec *e = load(&s->f, 1, false);
    bool good = e && e->vtable->step(e) == MPC_OK;
    _exit(good ? 0 : 1);
}

static void check_cache_race(void) {
    step_program s;
    make_program(&s);
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) load_in_child(&s);
    }
    for (int i = 0; i < 4; i++) {
        int status = 1;
        waitpid(children[i], &status, 0);
        CHECK(status == 0);
    }
    CHECK(each_object(s.f.cache, NULL, ".so") == 1);
    fixture_destroy(&s.f);
}

static void expect_failure(step_program *s, const char *compiler, const char *code) {
    mpc_exec_options options = {.threads = 1, .cache_dir = s->f.cache, .compiler = compiler};
    CHECK(!mpc_cpu_load(&s->f.program, s->f.store, &options, &s->f.sink));
    size_t count = mpc_diag_list_count(s->f.diags);
    CHECK(count > 0);
    if (count > 0) CHECK_STR(mpc_diag_list_get(s->f.diags, count - 1)->code, code);
}

static void check_load_failures(void) {
    step_program s;
    make_program(&s);
    expect_failure(&s, "no-such-compiler-here", "E660");
    s.kernels[0].text = "void k_scale(int) { this is no C }\n";
    expect_failure(&s, NULL, "E661");
    s.kernels[0].text = "int other;\n";
    expect_failure(&s, NULL, "E661");
    s.kernels[0].text = scale_text;
    s.f.program.arena_bytes = UINT64_C(1) << 60; /* refused, not promised */
    expect_failure(&s, NULL, "E901");
    s.f.program.arena_bytes = 1 << 20;
    s.f.buffers[s.counter.buffer].state = "no.such.state";
    expect_failure(&s, NULL, "E651");
    CHECK(each_object(s.f.cache, NULL, ".c") == 0);
    fixture_destroy(&s.f);
}

/* Text enough for several translation units, which are compiled a few at a time. */
static void check_many_units(void) {
    enum { COUNT = 6 };
    step_program s;
    make_program(&s);
    mpc_str texts[COUNT] = {0};
    char names[COUNT][16];
    mpc_kernel kernels[COUNT];
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "k_%d", i);
        mpc_str_printf(
            &texts[i],
            "void k_%d(void *const *p, const int64_t *n, const float *f, int64_t begin, int64_t end, void *scratch) {\n"
            "    ((float *)p[0])[%d] = %d;\n}\n",
            i, i, i + 1);
        for (int k = 0; k < 1000; k++) mpc_str_append(&texts[i], "/* this line makes the text long */\n");
        kernels[i] = (mpc_kernel){.name = names[i], .text = mpc_str_cstr(&texts[i]), .pointer_count = 1};
    }
    s.f.program.kernels = kernels;
    s.f.program.kernel_count = COUNT;
    s.f.program.launch_count = 0;
    mpc_pointer y = s.y;
    mpc_kernel_instance instance = {.pointers = &y, .units = 1};
    for (uint32_t i = 0; i < COUNT; i++) {
        mpc_launch *l = add_launch(&s.f, MPC_LAUNCH_KERNEL, names[i]);
        *l = (mpc_launch){.kind = MPC_LAUNCH_KERNEL,
                          .name = names[i],
                          .op = "set",
                          .kernel = i,
                          .instances = &instance,
                          .instance_count = 1};
    }
    mpc_exec *e = load(&s.f, 1, false);
    CHECK(e && e->vtable->step(e) == MPC_OK && mpc_cpu_compiled(e) >= 5);
    for (int i = 0; e && i < COUNT; i++) CHECK(((float *)buffer_data(e, s.y))[i] == (float)(i + 1));
    if (e) e->vtable->destroy(e);
    for (int i = 0; i < COUNT; i++) mpc_str_free(&texts[i]);
    fixture_destroy(&s.f);
}

static void count_diag(void *user, const mpc_diag *diag) {
    (void)diag;
    ++*(int *)user;
}

/* Every allocation fails once: no executor, and somebody was told. */
static void check_out_of_memory(void) {
    step_program s;
    make_program(&s);
    mpc_exec *e = load(&s.f, 2, false); /* the kernels are in the cache now */
    if (e) e->vtable->destroy(e);
    int failures = 0, told = 0;
    mpc_sink sink = {.emit = count_diag, .user = &told};
    for (uint64_t n = 1; n < 400; n++) {
        mpc_exec_options options = {.threads = 2, .cache_dir = s.f.cache};
        int before = told;
        mpc_alloc_fail_after(n);
        e = mpc_cpu_load(&s.f.program, s.f.store, &options, &sink);
        mpc_alloc_fail_after(0);
        if (e) break;
        CHECK(told > before);
        failures++;
    }
    CHECK_MSG(e && failures > 10, "%d", failures);
    if (e) {
        CHECK(e->vtable->step(e) == MPC_OK);
        e->vtable->destroy(e);
    }
    fixture_destroy(&s.f);
}

int main(void) {
    check_results();
    check_many_units();
    check_out_of_memory();
    check_no_allocation();
    check_no_system_call();
    check_cache();
    check_cache_race();
    check_load_failures();
    return check_result();
}
