/* Files that are whole or absent: written under PATH.tmp, synced, renamed, and the folder synced. Devices and pipes are
 * written to as they are. */
#ifndef MPC_RUNTIME_FILE_SYNC_H
#define MPC_RUNTIME_FILE_SYNC_H

#include <stddef.h>

#include "base/diag.h"

typedef struct mpc_file_writer {
    const char *path; /* the caller's */
    char *temporary; /* NULL: there is none, `path` is a device or a pipe */
    int fd;
    const mpc_sink *sink;
} mpc_file_writer;

mpc_status mpc_file_create(mpc_file_writer *w, const char *path, const mpc_sink *sink); /* E420 */
mpc_status mpc_file_write(mpc_file_writer *w, const void *data, size_t size); /* E420, with the system's reason */
/* Ends the file: puts it in place when `status` is MPC_OK, else removes what was written. Returns the first failure. */
mpc_status mpc_file_commit(mpc_file_writer *w, mpc_status status);

/* Writes until all is written or the system refuses (errno): bytes that were. */
size_t mpc_write_whole(int fd, const void *data, size_t size);

/* A small text file in one call. */
mpc_status mpc_file_replace(const char *path, const char *text, size_t size, const mpc_sink *sink);
/* Makes renames in a folder durable. */
mpc_status mpc_folder_sync(const char *path, const mpc_sink *sink);
/* Removes a folder and the files in it (one level); what isn't there is fine. */
mpc_status mpc_folder_remove(const char *path, const mpc_sink *sink);

#endif
