/* Only one process writes in a run's folder: a training holds a lock on it until it ends, however it ends. The lock is
 * the kernel's (flock on the folder itself), so nothing is left behind that somebody would have to remove. One that was
 * told to stop may be writing its last checkpoint: the next one waits a little. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "driver/run_folder.h"

enum { TRIES = 60 }; /* of 50 ms */

static bool is_busy(int fd) { return flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; }

/* A file system without locks can't refuse anything. */
bool mpc_folder_take(mpc_folder_hold *h, const char *path, const mpc_sink *sink) {
    static const struct timespec pause = {.tv_nsec = 50000000};
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return true;
    bool busy = is_busy(fd);
    for (int i = 0; busy && i < TRIES; i++) {
        nanosleep(&pause, NULL);
        busy = is_busy(fd);
    }
    if (busy) {
        close(fd);
        return mpc_error(sink, "E386", "another training or sweep writes in %s", path) == MPC_OK;
    }
    *h = (mpc_folder_hold){.fd = fd, .held = true};
    return true;
}

void mpc_folder_release(mpc_folder_hold *h) {
    if (h->held) close(h->fd);
    h->held = false;
}
