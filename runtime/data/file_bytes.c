/* Reads a data file as a whole; zlib makes gzip files and plain ones look the same. A truncated or damaged gzip file is
 * an error, never a shorter data set: zlib reports that only at the end, so the last call's status counts. */
#include "runtime/data/dataset_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/alloc.h"

enum { CHUNK = 1 << 20 };

static mpc_status grow(char **data, size_t *capacity, size_t needed) {
    if (needed <= *capacity) return MPC_OK;
    size_t size = *capacity ? *capacity * 2 : CHUNK;
    if (size < needed) size = needed;
    char *larger = mpc_realloc(*data, size);
    if (!larger) return MPC_NO_MEMORY;
    *data = larger;
    *capacity = size;
    return MPC_OK;
}

static mpc_status read_all(gzFile file, const char *path, const mpc_sink *sink, char **data, size_t *size,
                           size_t capacity) {
    for (uint64_t most = mpc_data_memory_limit();;) {
        if (*size > most)
            return mpc_error(sink, "E210", "%s holds more than %llu bytes, which is this machine's memory", path,
                             (unsigned long long)most);
        if (grow(data, &capacity, *size + CHUNK / 4 + 1) != MPC_OK) return MPC_NO_MEMORY;
        size_t room = capacity - *size - 1;
        if (room > (1u << 30)) room = 1u << 30;
        int got = gzread(file, *data + *size, (unsigned)room);
        if (got > 0) {
            *size += (size_t)got;
            continue;
        }
        int code = Z_OK;
        const char *reason = gzerror(file, &code);
        if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            if (code == Z_ERRNO) reason = strerror(errno);
            if (code == Z_BUF_ERROR) reason = "the gzip data end too early";
            return mpc_error(sink, "E210", "can't read %s after byte %zu: %s", path, *size, reason);
        }
        (*data)[*size] = '\0';
        return MPC_OK;
    }
}

mpc_status mpc_data_read_file(const char *path, const mpc_sink *sink, char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    struct stat info;
    if (stat(path, &info) != 0) return mpc_error(sink, "E210", "can't open %s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return mpc_error(sink, "E210", "%s is a folder, not a file", path);
    bool given = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0; /* standard input, <(command) */
    if (!S_ISREG(info.st_mode) && !given)
        return mpc_error(sink, "E210", "%s is a pipe or a device, not a file; /dev/stdin reads what is piped in", path);
    gzFile file = gzopen(path, "rb");
    if (!file) return mpc_error(sink, "E210", "can't open %s: %s", path, strerror(errno));
    gzbuffer(file, info.st_size < (1 << 16) ? 1 << 13 : 1 << 18);
    size_t capacity = 0;
    mpc_status status = grow(data, &capacity, (size_t)info.st_size + CHUNK);
    if (status == MPC_OK) status = read_all(file, path, sink, data, size, capacity);
    gzclose_r(file);
    if (status == MPC_OK) return MPC_OK;
    mpc_free(*data);
    *data = NULL;
    if (status == MPC_NO_MEMORY) mpc_error(sink, "E901", "not enough memory to read %s", path);
    return MPC_FAILED;
}
