/* Files of tests/lang/errors: the code (and column) of every error and warning stands at the end of its line, `#! E020
 * col 17`. Nothing may be missing and nothing may be too much. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>

#include "frontend/frontend.h"
#include "tests/check.h"
#include "tests/lang/support.h"

typedef struct expected {
    unsigned line, column; /* column 0: any */
    char code[8];
    bool seen;
} expected;

static size_t read_expected(const char *text, expected *out, size_t max) {
    size_t n = 0;
    unsigned line = 1;
    for (const char *p = text; *p; p++) {
        if (*p == '\n') line++;
        if (strncmp(p, "#! ", 3) != 0 || n == max) continue;
        expected e = {.line = line};
        if (sscanf(p + 3, "%7[A-Z0-9] col %u", e.code, &e.column) >= 1) out[n++] = e;
    }
    return n;
}

static void match(const char *name, const mpc_diag *d, const mpc_sources *sources, expected *list, size_t n) {
    uint32_t line = 0, column = 0;
    if (d->label_count) mpc_sources_locate(sources, d->labels[0].span.file, d->labels[0].span.begin, &line, &column);
    for (size_t i = 0; i < n; i++) {
        if (list[i].seen || list[i].line != line || strcmp(list[i].code, d->code) != 0) continue;
        if (list[i].column && list[i].column != column) continue;
        list[i].seen = true;
        return;
    }
    CHECK_MSG(false, "%s:%u:%u: %s not expected: %s", name, line, column, d->code, d->message);
}

static void check_file(const char *name) {
    size_t length = 0;
    char *text = read_whole(name, &length);
    CHECK_MSG(text != NULL, "%s", name);
    if (!text) return;
    expected list[32];
    size_t n = read_expected(text, list, 32);
    mpc_sources *sources = mpc_sources_create();
    mpc_diag_list *diags = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(diags);
    mpc_context *ctx = mpc_context_create(&sink, sources);
    mpc_model *m = mpc_model_load(ctx, mpc_sources_add(sources, name, text, length), NULL, 0);
    mpc_graph *g = m ? mpc_model_elaborate(m, MPC_PHASE_TRAIN, 4, NULL) : NULL;
    bool errors = false;
    for (size_t i = 0; i < mpc_diag_list_count(diags); i++) {
        const mpc_diag *d = mpc_diag_list_get(diags, i);
        errors = errors || d->severity == MPC_SEV_ERROR;
        match(name, d, sources, list, n);
    }
    for (size_t i = 0; i < n; i++) CHECK_MSG(list[i].seen, "%s:%u: %s was expected", name, list[i].line, list[i].code);
    CHECK_MSG(errors == (g == NULL), "%s: a graph if and only if there is no error", name);
    mpc_graph_destroy(g);
    mpc_model_destroy(m);
    mpc_context_destroy(ctx);
    mpc_diag_list_destroy(diags);
    mpc_sources_destroy(sources);
    free(text);
}

int main(void) {
    DIR *dir = opendir("tests/lang/errors");
    int count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ".mpg")) continue;
        char path[512];
        snprintf(path, sizeof path, "tests/lang/errors/%s", e->d_name);
        check_file(path);
        count++;
    }
    if (dir) closedir(dir);
    CHECK_MSG(count > 20, "%d files", count);
    return check_result();
}
