/* Shared by the fuzz targets: a collector of diagnostics that are rendered too, and bytes as a file. Every target is
 * one LLVMFuzzerTestOneInput that accepts any bytes, frees all it took, and aborts when a promise of the library is
 * broken. */
#ifndef MPC_TESTS_FUZZ_HARNESS_H
#define MPC_TESTS_FUZZ_HARNESS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/diag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Says what was broken, then aborts: that is how libFuzzer and the replay see a finding. */
static inline void fuzz_require(bool holds, const char *promise) {
    if (holds) return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

typedef struct fuzz_diags {
    mpc_sources *sources;
    mpc_diag_list *list;
    mpc_sink sink;
} fuzz_diags;

static inline fuzz_diags fuzz_diags_open(void) {
    fuzz_diags d = {.sources = mpc_sources_create(), .list = mpc_diag_list_create()};
    d.sink = mpc_diag_list_sink(d.list);
    return d;
}

static inline bool fuzz_said_error(const fuzz_diags *d) {
    for (size_t i = 0; i < mpc_diag_list_count(d->list); i++)
        if (mpc_diag_list_get(d->list, i)->severity == MPC_SEV_ERROR) return true;
    return false;
}

static inline void fuzz_diags_close(fuzz_diags *d) {
    mpc_str text = {0};
    for (size_t i = 0; i < mpc_diag_list_count(d->list); i++)
        mpc_diag_render(mpc_diag_list_get(d->list, i), d->sources, false, false, &text);
    mpc_str_free(&text);
    mpc_diag_list_destroy(d->list);
    mpc_sources_destroy(d->sources);
}

typedef struct fuzz_file { /* in memory, but with a path */
    int fd;
    char path[40];
} fuzz_file;

static inline fuzz_file fuzz_file_open(const uint8_t *data, size_t size) {
    fuzz_file f = {.fd = memfd_create("input", MFD_CLOEXEC)};
    if (f.fd < 0 || write(f.fd, data, size) != (ssize_t)size) abort();
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

static inline void fuzz_file_close(fuzz_file *f) { close(f->fd); }

#endif
