/* Opening the cuda device where something is missing: one line that says what is needed, what is there and what to do.
 * Each case is a process of its own, since the stand-in reads its environment once. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/step_program.h"

typedef struct missing {
    const char *variable, *value;
    const char *code;
    const char *words[3];
} missing;

static const missing cases[] = {
    {"MPC_CUDASIM_NO_DEVICE", "1", "E620", {"shows no GPU", "CUDA_VISIBLE_DEVICES", "--device cpu"}},
    {"MPC_CUDASIM_ARCH", "75", "E622", {"compute capability 7.5", "8.0", "--device cpu"}},
    {"MPC_CUDASIM_FAIL", "cuDriverGetVersion:1", "E624", {"cuDriverGetVersion failed", "", ""}},
    {"MPC_CUDASIM_FAIL", "cuDevicePrimaryCtxRetain:1", "E624", {"cuDevicePrimaryCtxRetain failed", "", ""}},
    {"MPC_CUDASIM_FAIL", "cublasLtCreate:1", "E624", {"cublasLtCreate failed", "", ""}},
};

static void check_case(const missing *m) {
    setenv(m->variable, m->value, 1);
    mpc_diag_list *diags = mpc_diag_list_create();
    const mpc_sink sink = mpc_diag_list_sink(diags);
    mpc_cuda *cuda = mpc_cuda_open(&sink);
    CHECK(cuda == NULL);
    CHECK(mpc_diag_list_count(diags) == 1);
    if (mpc_diag_list_count(diags) == 1) {
        const mpc_diag *d = mpc_diag_list_get(diags, 0);
        CHECK_STR(d->code, m->code);
        for (int i = 0; i < 3; i++) CHECK_MSG(strstr(d->message, m->words[i]), "%s: %s", m->words[i], d->message);
    }
    mpc_cuda_close(cuda);
    mpc_diag_list_destroy(diags);
}

static void too_little_memory_is_told_with_both_figures(void) {
    setenv("MPC_CUDASIM_MEMORY", "37000000", 1);
    step_program s;
    make_program(&s, 1000000); /* 4 MB of states, 16 of values, 32 of workspace */
    CHECK(load_step(&s, false, NULL) == NULL);
    CHECK(mpc_diag_list_count(s.f.diags) == 1);
    const mpc_diag *d = mpc_diag_list_get(s.f.diags, 0);
    CHECK_STR(d->code, "E623");
    CHECK_MSG(strstr(d->message, "need 54.9 MiB") && strstr(d->message, "35.3 MiB free") &&
                  strstr(d->message, "smaller batch"),
              "%s", d->message);
    fixture_destroy(&s.f);
}

static void what_was_found_is_described(void) {
    mpc_str text = {0};
    mpc_cuda_describe(&text);
    CHECK_MSG(strstr(mpc_str_cstr(&text), "compute capability 9.0, 132 SMs, 2 GiB\n") &&
                  strstr(mpc_str_cstr(&text), "NVRTC 13.") && strstr(mpc_str_cstr(&text), "cuBLASLt 13."),
              "%s", mpc_str_cstr(&text));
    mpc_str_free(&text);
}

/* In a child; its checks are counted as one of ours. */
static void apart(const char *name, void (*run)(const missing *), const missing *m) {
    fflush(stderr);
    pid_t pid = fork();
    if (pid == 0) {
        check_failures = 0;
        run(m);
        _exit(check_failures != 0);
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "%s", name);
}

static void run_memory(const missing *m) { (void)m, too_little_memory_is_told_with_both_figures(); }
static void run_describe(const missing *m) { (void)m, what_was_found_is_described(); }

static bool has_stand_in(void) {
    const char *path = getenv("LD_LIBRARY_PATH");
    return path && strstr(path, "cudasim") && access(path, R_OK) == 0;
}

int main(void) {
    if (!has_stand_in()) {
        fprintf(stderr, "skipped: no stand-in of the CUDA libraries\n");
        return 77;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) apart(cases[i].value, check_case, &cases[i]);
    apart("memory", run_memory, NULL);
    apart("describe", run_describe, NULL);
    return check_result();
}
