/* Shared by the tests of the language: files and diagnostics as text. */
#ifndef MPC_TESTS_LANG_SUPPORT_H
#define MPC_TESTS_LANG_SUPPORT_H

#include <stdio.h>
#include <stdlib.h>

#include "base/diag.h"

/* NUL-terminated, malloc'ed; NULL when it can't be read. */
static inline char *read_whole(const char *path, size_t *length) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = NULL;
    size_t n = 0, capacity = 0, got = 0;
    do {
        capacity = capacity ? capacity * 2 : 4096;
        char *grown = realloc(text, capacity + 1);
        if (!grown) break;
        text = grown;
        got = fread(text + n, 1, capacity - n, f);
        n += got;
    } while (n == capacity);
    fclose(f);
    if (text) text[n] = 0;
    *length = n;
    return text;
}

static inline void show_diagnostics(const mpc_diag_list *list, const mpc_sources *sources) {
    mpc_str out = {0};
    for (size_t i = 0; i < mpc_diag_list_count(list); i++)
        mpc_diag_render(mpc_diag_list_get(list, i), sources, false, false, &out);
    fputs(mpc_str_cstr(&out), stderr);
    mpc_str_free(&out);
}

#endif
