/* Every call of the CUDA libraries fails in turn, through loading, steps, a replay and a profile: each time a clear
 * message or a right result, never a crash or a leak. Each round is a process of its own, since the stand-in reads its
 * environment once. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/step_program.h"

enum { MOST_NAMES = 100, SUCCEEDED = 0, TOLD = 10, SILENT = 11 };

static char cache[] = "/tmp/mpc-test-XXXXXX";

static mpc_status search(mpc_exec *e) {
    mpc_str what = {0};
    mpc_loc loc;
    mpc_status status = mpc_exec_find_nonfinite(e, &what, &loc);
    mpc_str_free(&what);
    return status;
}

static bool use(step_program *s, mpc_exec *e) {
    mpc_launch_time times[4];
    for (int step = 1; step <= 3; step++) {
        write_input(s, e, step);
        if (mpc_exec_step(e) != MPC_OK) return false;
    }
    for (int step = 1; step <= 3; step++)
        if (mpc_exec_record(e, true) != MPC_RECORD_READY) return false;
    if (search(e) != MPC_OK || mpc_cuda_profile(e, times, 4) != MPC_OK) return false;
    return mpc_exec_record(e, true) == MPC_RECORD_READY && mpc_store_to_host(s->f.store) == MPC_OK;
}

static int run_round(const char *faults, const char *round_cache) {
    setenv("MPC_CUDASIM_FAIL", faults, 1);
    keep_libraries();
    step_program s;
    make_program(&s, 100);
    mpc_exec *e = load_step(&s, false, round_cache);
    bool ok = e && use(&s, e);
    size_t told = mpc_diag_list_count(s.f.diags);
    if (told > 0 && getenv("MPC_TEST_VERBOSE")) fixture_show_diags(&s.f);
    if (e) e->vtable->destroy(e);
    fixture_destroy(&s.f);
    return ok ? SUCCEEDED : told > 0 ? TOLD : SILENT;
}

/* What a call that fails was to release is lost. */
static bool loses_memory(const char *faults) {
    return strstr(faults, "Destroy") || strstr(faults, "Free") || strstr(faults, "Unload") || strstr(faults, "Release");
}

/* exit, not _exit: leaks are looked for then. */
static int in_a_child(const char *faults, const char *round_cache) {
    int status = -1;
    fflush(stderr);
    pid_t pid = fork();
    if (pid == 0) {
        int code = run_round(faults, round_cache);
        if (loses_memory(faults)) _exit(code);
        exit(code);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_round(const char *faults) {
    int code = in_a_child(faults, cache);
    CHECK_MSG(code == SUCCEEDED || code == TOLD, "%s: code %d", faults, code);
}

typedef struct call_count {
    char name[64];
    int count;
} call_count;

/* How often each function is called in a run that succeeds. */
static int count_calls(call_count *calls) {
    char path[] = "/tmp/mpc-trace-XXXXXX", line[256];
    int count = 0, fd = mkstemp(path);
    setenv("MPC_CUDASIM_TRACE", path, 1);
    CHECK(in_a_child("", cache) == SUCCEEDED);
    unsetenv("MPC_CUDASIM_TRACE");
    FILE *file = fdopen(fd, "r");
    while (file && fgets(line, sizeof line, file)) {
        int i = 0;
        if (strchr(line, ' ')) continue; /* what a graph runs */
        line[strcspn(line, "\n")] = 0;
        while (i < count && strcmp(calls[i].name, line) != 0) i++;
        if (i == count && count < MOST_NAMES) snprintf(calls[count++].name, sizeof calls->name, "%.63s", line);
        if (i < MOST_NAMES) calls[i].count++;
    }
    if (file) fclose(file);
    unlink(path);
    return count;
}

/* The first call and the last one of each function. */
static void each_function_fails(void) {
    static call_count calls[MOST_NAMES];
    int count = count_calls(calls);
    char faults[96];
    CHECK_MSG(count > 25 && count < MOST_NAMES, "%d", count);
    for (int i = 0; i < count; i++) {
        snprintf(faults, sizeof faults, "%.63s:1", calls[i].name);
        check_round(faults);
        if (calls[i].count == 1) continue;
        snprintf(faults, sizeof faults, "%.63s:%d", calls[i].name, calls[i].count);
        check_round(faults);
    }
}

/* By hand: `test_cuda_faults all` takes minutes. */
static void each_call_fails(void) {
    static call_count calls[MOST_NAMES];
    int count = count_calls(calls), all = 0;
    char faults[32];
    for (int i = 0; i < count; i++) all += calls[i].count;
    for (int n = 1; n <= all; n++) {
        snprintf(faults, sizeof faults, "any:%d", n);
        check_round(faults);
    }
}

int main(int argc, char **argv) {
    const char *path = getenv("LD_LIBRARY_PATH");
    if (!path || !strstr(path, "cudasim") || access(path, R_OK) != 0 || !mkdtemp(cache)) {
        fprintf(stderr, "skipped: no stand-in of the CUDA libraries\n");
        return 77;
    }
    CHECK(in_a_child("", cache) == SUCCEEDED);
    if (argc > 1 && strcmp(argv[1], "all") == 0) each_call_fails();
    else each_function_fails();
    /* a compiler that fails, and one whose result can't be loaded */
    CHECK(in_a_child("nvrtcCreateProgram:1", NULL) == TOLD);
    CHECK(in_a_child("nvrtcCompileProgram:1", NULL) == TOLD);
    CHECK(in_a_child("nvrtcGetCUBIN:1", NULL) == TOLD);
    CHECK(in_a_child("cuModuleGetFunction:1", NULL) == SUCCEEDED); /* it is made once more */
    CHECK(in_a_child("cuModuleLoadData:1+", NULL) == TOLD);
    CHECK(in_a_child("cuGraphLaunch:2+", cache) == TOLD);
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    if (system(command) != 0) fprintf(stderr, "left %s\n", cache);
    return check_result();
}
