/* Every model of tests/lang/models parses; CRLF, a byte order mark and a missing last newline change nothing. */
#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "frontend/ast.h"
#include "frontend/fe_diag.h"
#include "tests/check.h"
#include "tests/lang/support.h"

static bool parses(const char *name, const char *text, size_t length) {
    mpc_sources *sources = mpc_sources_create();
    mpc_diag_list *list = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(list);
    mpc_context *ctx = mpc_context_create(&sink, sources);
    mpc_arena *arena = mpc_arena_create();
    fe_model_diag diag = {.ctx = ctx, .arena = arena};
    fe_parser *p = calloc(1, sizeof *p);
    *p = (fe_parser){.ctx = ctx, .arena = arena, .diag = &diag, .file = mpc_sources_add(sources, name, text, length)};
    bool ok = fe_parse_file(p);
    if (!ok) show_diagnostics(list, sources);
    free(p);
    fe_diag_deinit(&diag);
    mpc_arena_destroy(arena);
    mpc_context_destroy(ctx);
    mpc_diag_list_destroy(list);
    mpc_sources_destroy(sources);
    return ok;
}

static void check_variants(const char *name, const char *text, size_t length) {
    CHECK_MSG(parses(name, text, length), "%s", name);
    mpc_str s = {0};
    mpc_str_append(&s, "\xef\xbb\xbf");
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n') mpc_str_append(&s, "\r");
        mpc_str_append_n(&s, text + i, 1);
    }
    while (s.length && (s.data[s.length - 1] == '\n' || s.data[s.length - 1] == '\r')) s.length--;
    CHECK_MSG(parses(name, s.data, s.length), "%s with CRLF, byte order mark and no last newline", name);
    mpc_str_free(&s);
}

int main(void) {
    DIR *dir = opendir("tests/lang/models");
    int count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ".mpg")) continue;
        char path[512];
        snprintf(path, sizeof path, "tests/lang/models/%s", e->d_name);
        size_t length = 0;
        char *text = read_whole(path, &length);
        CHECK_MSG(text != NULL, "%s", path);
        if (text) check_variants(path, text, length);
        free(text);
        count++;
    }
    if (dir) closedir(dir);
    CHECK_MSG(count >= 13, "%d models", count);
    return check_result();
}
