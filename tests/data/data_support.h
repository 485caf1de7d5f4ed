/* Files and sinks for the data tests. */
#ifndef MPC_TESTS_DATA_SUPPORT_H
#define MPC_TESTS_DATA_SUPPORT_H

#include <stdlib.h>
#include <unistd.h>

#include "runtime/data.h"
#include "tests/check.h"

static char support_folder[] = "/tmp/mpc-data-XXXXXX";

static inline const char *write_file(const char *name, const char *bytes, size_t size) {
    static char path[256];
    if (strstr(support_folder, "XXXXXX") && !mkdtemp(support_folder)) abort();
    snprintf(path, sizeof path, "%s/%s", support_folder, name);
    remove(path); /* writing over a file is flushed to disk when it is closed */
    FILE *f = fopen(path, "wb");
    if (!f) abort();
    fwrite(bytes, 1, size, f);
    fclose(f);
    return path;
}

static inline void remove_files(void) {
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", support_folder);
    if (!strstr(support_folder, "XXXXXX") && system(command) != 0) abort();
}

/* Code of the only diagnostic, "" for none. */
static inline const char *first_code(mpc_diag_list *list) {
    return mpc_diag_list_count(list) ? mpc_diag_list_get(list, 0)->code : "";
}

#endif
