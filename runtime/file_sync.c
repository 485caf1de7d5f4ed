/* Durable files. rename() alone is not enough: without the sync before it a crash of the machine may leave an empty
 * file under the final name, without the folder's sync after it the old name. */
#include "runtime/file_sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"

enum { MOST_AT_ONCE = 1 << 30 }; /* of bytes that one write takes */

static mpc_status cant(const mpc_sink *sink, const char *what, const char *path) {
    int code = errno;
    return mpc_error(sink, "E420", "can't %s %s: %s", what, path, strerror(code));
}

/* A device or a pipe, which a rename would put a file in the place of. */
static bool is_special(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

mpc_status mpc_file_create(mpc_file_writer *w, const char *path, const mpc_sink *sink) {
    *w = (mpc_file_writer){.path = path, .sink = sink, .fd = -1};
    if (is_special(path)) {
        w->fd = open(path, O_WRONLY | O_CLOEXEC);
        return w->fd >= 0 ? MPC_OK : cant(sink, "write", path);
    }
    mpc_str name = {0};
    mpc_str_printf(&name, "%s.tmp", path);
    if (name.failed) {
        mpc_str_free(&name);
        return mpc_error(sink, "E901", "not enough memory to write %s", path);
    }
    w->temporary = name.data;
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd >= 0) return MPC_OK;
    cant(sink, "write", w->temporary);
    mpc_free(w->temporary);
    w->temporary = NULL;
    return MPC_FAILED;
}

size_t mpc_write_whole(int fd, const void *data, size_t size) {
    const char *p = data;
    size_t done = 0;
    while (done < size) {
        ssize_t n = write(fd, p + done, size - done < MOST_AT_ONCE ? size - done : MOST_AT_ONCE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        done += (size_t)n;
    }
    return done;
}

mpc_status mpc_file_write(mpc_file_writer *w, const void *data, size_t size) {
    return mpc_write_whole(w->fd, data, size) == size ? MPC_OK : cant(w->sink, "write", w->path);
}

static mpc_status sync_parent(const char *path, const mpc_sink *sink) {
    mpc_str folder = {0};
    const char *slash = strrchr(path, '/');
    if (slash) mpc_str_append_n(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    else mpc_str_append(&folder, ".");
    mpc_status status = folder.failed ? mpc_error(sink, "E901", "not enough memory to write %s", path)
                                      : mpc_folder_sync(folder.data, sink);
    mpc_str_free(&folder);
    return status;
}

mpc_status mpc_file_commit(mpc_file_writer *w, mpc_status status) {
    if (!w->temporary) return close(w->fd) != 0 && status == MPC_OK ? cant(w->sink, "write", w->path) : status;
    if (status == MPC_OK && fsync(w->fd) != 0) status = cant(w->sink, "write", w->path);
    if (close(w->fd) != 0 && status == MPC_OK) status = cant(w->sink, "write", w->path);
    if (status == MPC_OK && rename(w->temporary, w->path) != 0) status = cant(w->sink, "write", w->path);
    if (status == MPC_OK) status = sync_parent(w->path, w->sink);
    else unlink(w->temporary);
    mpc_free(w->temporary);
    w->temporary = NULL;
    return status;
}

mpc_status mpc_file_replace(const char *path, const char *text, size_t size, const mpc_sink *sink) {
    mpc_file_writer w;
    if (mpc_file_create(&w, path, sink) != MPC_OK) return MPC_FAILED;
    return mpc_file_commit(&w, mpc_file_write(&w, text, size));
}

mpc_status mpc_folder_sync(const char *path, const mpc_sink *sink) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return cant(sink, "open", path);
    mpc_status status = MPC_OK;
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP) status = cant(sink, "write", path);
    close(fd);
    return status;
}

mpc_status mpc_folder_remove(const char *path, const mpc_sink *sink) {
    DIR *dir = opendir(path);
    if (!dir) return errno == ENOENT ? MPC_OK : cant(sink, "open", path);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    if (rmdir(path) != 0 && errno != ENOENT) return cant(sink, "remove", path);
    return MPC_OK;
}
