/* Child processes for the compiler: posix_spawn, no shell, so no file name needs quoting. Output is read by whoever
 * waits; a child with much to say blocks until then, which only costs parallelism. */
#include "runtime/cpu/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT_OUTPUT = 1 << 16 };

static bool set_up_files(posix_spawn_file_actions_t *actions, int write_end) {
    return posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
           posix_spawn_file_actions_adddup2(actions, write_end, STDOUT_FILENO) == 0 &&
           posix_spawn_file_actions_adddup2(actions, write_end, STDERR_FILENO) == 0;
}

bool mpc_subprocess_start(mpc_subprocess *process, char *const *arguments) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    posix_spawn_file_actions_t actions;
    bool started = false;
    if (posix_spawn_file_actions_init(&actions) == 0) {
        started = set_up_files(&actions, ends[1]) &&
                  posix_spawnp(&process->pid, arguments[0], &actions, NULL, arguments, environ) == 0;
        posix_spawn_file_actions_destroy(&actions);
    }
    close(ends[1]);
    if (started) process->output = ends[0];
    else close(ends[0]);
    return started;
}

int mpc_subprocess_finish(mpc_subprocess *process, mpc_str *output) {
    char chunk[4096];
    for (;;) {
        ssize_t got = read(process->output, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (output && output->length < KEPT_OUTPUT) mpc_str_append_n(output, chunk, (size_t)got);
    }
    close(process->output);
    int status = 0;
    while (waitpid(process->pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
