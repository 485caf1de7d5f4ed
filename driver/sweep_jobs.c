/* Runs as processes of this same program, some at a time. Each is its own process group, so that Ctrl-C reaches the
 * sweep alone, which hands the signal on once: a training that gets two leaves without its checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "driver/interrupt.h"
#include "driver/progress.h"
#include "driver/sweep.h"

/* ---- one process ---- */

static int spawn(const char *say, char *const *words, pid_t *pid) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&files);
    if (error) return error;
    error = posix_spawnattr_init(&how);
    if (!error) {
        error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (!error)
            error = posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, say, O_WRONLY | O_CREAT | O_APPEND, 0666);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
        if (!error) error = posix_spawnattr_setpgroup(&how, 0);
        if (!error) error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
        if (!error) error = posix_spawn(pid, "/proc/self/exe", &files, &how, words, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static bool start(mpc_sweep *s, mpc_sweep_run *run) {
    mpc_text_list words = {0};
    const char *say = mpc_arena_printf(s->arena, "%s/%s.txt", s->folder.data, run->name);
    bool ok = say && mpc_text_list_push(&words, "mpc") && mpc_sweep_words(s, run, &words);
    if (!ok) mpc_error(&s->cli->sink, "E901", "out of memory");
    int error = ok ? spawn(say, (char *const *)(uintptr_t)words.data, &run->pid) : 0;
    if (error) mpc_error(&s->cli->sink, "E385", "run %s can't be started: %s", run->name, strerror(error));
    if (!ok || error) run->pid = 0;
    run->began = mpc_now();
    mpc_array_free(&words);
    return ok && !error;
}

/* ---- their ends ---- */

static void tell(const mpc_sweep *s, const mpc_sweep_run *run, uint32_t done) {
    mpc_str text = {0};
    mpc_sweep_append_choice(s, run, &text);
    const char *reason = json_string_value(json_object_get(run->record, "reason"));
    const json_t *best = json_object_get(run->record, "best");
    fprintf(stderr, "[%u/%u] %s  %s  %s", done, s->run_count, run->name, mpc_str_cstr(&text), reason ? reason : "");
    if (json_is_number(best))
        fprintf(stderr, "  %s %.4g", json_string_value(json_object_get(run->record, "monitor")),
                json_number_value(best));
    fprintf(stderr, "  %.1f s\n", json_number_value(json_object_get(run->record, "seconds")));
    mpc_str_free(&text);
}

static uint32_t count_done(const mpc_sweep *s) {
    uint32_t done = 0;
    for (uint32_t i = 0; i < s->run_count; i++) done += s->runs[i].record != NULL;
    return done;
}

/* A run that a signal of ours ended isn't finished: it has no line. */
static bool end_run(mpc_sweep *s, mpc_sweep_run *run, int how) {
    int status = WIFEXITED(how) ? WEXITSTATUS(how) : MPC_EXIT_SIGNAL + WTERMSIG(how);
    run->pid = 0;
    if (mpc_interrupt_signal() && status != MPC_EXIT_DONE && status != MPC_EXIT_DIVERGED) return true;
    run->record = mpc_sweep_record(s, run, status, mpc_now() - run->began);
    if (!run->record) {
        mpc_error(&s->cli->sink, "E901", "out of memory");
        return false;
    }
    if (!mpc_sweep_append(s, run)) return false;
    tell(s, run, count_done(s));
    return true;
}

/* Runs that still go; those that ended are recorded. */
static uint32_t reap(mpc_sweep *s, bool *ok) {
    uint32_t running = 0;
    for (uint32_t i = 0; i < s->run_count; i++) {
        int how = 0;
        if (!s->runs[i].pid) continue;
        pid_t got = waitpid(s->runs[i].pid, &how, WNOHANG);
        if (got == 0 || (got < 0 && errno == EINTR)) running++;
        else if (!end_run(s, &s->runs[i], how)) *ok = false;
    }
    return running;
}

static void hand_on(mpc_sweep *s, int signal_number) {
    for (uint32_t i = 0; i < s->run_count; i++)
        if (s->runs[i].pid) kill(s->runs[i].pid, signal_number);
}

static mpc_sweep_run *next_run(mpc_sweep *s, uint32_t *at) {
    while (*at < s->run_count && s->runs[*at].record) ++*at;
    return *at < s->run_count ? &s->runs[(*at)++] : NULL;
}

bool mpc_sweep_run_all(mpc_sweep *s) {
    static const struct timespec pause = {.tv_nsec = 20000000}; /* a signal ends it early */
    uint32_t at = 0, jobs = (uint32_t)s->cli->options->jobs;
    bool ok = true, told = false;
    char self[24];
    snprintf(self, sizeof self, "%ld", (long)getpid());
    if (setenv(MPC_SWEEP_PROCESS, self, 1) != 0) return mpc_error(&s->cli->sink, "E901", "out of memory") == MPC_OK;
    mpc_interrupt_install();
    while (true) {
        uint32_t running = reap(s, &ok);
        bool stops = !ok || mpc_interrupt_signal();
        for (mpc_sweep_run *run; !stops && running < jobs && (run = next_run(s, &at)) != NULL; running++)
            if (!start(s, run)) ok = false, stops = true;
        if (running == 0 && (stops || at == s->run_count)) return ok;
        if (stops && !told) hand_on(s, mpc_interrupt_signal() ? mpc_interrupt_signal() : SIGTERM);
        told = told || stops;
        nanosleep(&pause, NULL);
    }
}
