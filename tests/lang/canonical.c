/* `mpc fmt` over everything that there is: examples, std/, benchmarks, models and broken files of the tests, and the
 * code of docs/language.md. Tokens and comments stay, a second time changes nothing, and the graphs are equal. */
#include <glob.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/lang/elaborate.h"
#include "tests/lang/layout.h"

static unsigned formatted, elaborated;

/* The graph without places in the text; "" when there is none. Nothing is said: the file may be broken on purpose. */
static void print_graph(const char *path, const char *text, mpc_str *out) {
    session s;
    open_text(&s, path, text, NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 4);
    if (g) mpc_graph_print(g, 0, out);
    mpc_graph_destroy(g);
    close_session(&s);
}

static void check_text(const char *name, const char *text, bool graphs) {
    mpc_str out = {0}, before = {0}, after = {0};
    mpc_diag_list *diags = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(diags);
    const char *broken = layout_broken(&sink, text, strlen(text), &out);
    CHECK_MSG(!broken, "%s: %s", name, broken ? broken : "");
    formatted += out.length > 0;
    if (graphs && out.length) {
        print_graph(name, text, &before);
        print_graph(name, mpc_str_cstr(&out), &after);
        CHECK_MSG(strcmp(mpc_str_cstr(&before), mpc_str_cstr(&after)) == 0, "%s: the graph has changed", name);
        elaborated += before.length > 0;
    }
    mpc_diag_list_destroy(diags);
    mpc_str_free(&out);
    mpc_str_free(&before);
    mpc_str_free(&after);
}

static void check_files(const char *pattern, bool graphs) {
    glob_t found;
    if (glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t length = 0;
        char *text = read_whole(found.gl_pathv[i], &length);
        if (text && !memchr(text, 0, length)) check_text(found.gl_pathv[i], text, graphs);
        free(text);
    }
    globfree(&found);
}

static void check_page(const char *page) {
    size_t length = 0;
    char *text = read_whole(page, &length), *at = text;
    while (at && (at = strstr(at, "\n```mpg")) != NULL) {
        bool body = strncmp(at + 7, " model", 6) == 0;
        char *code = strchr(at + 1, '\n') + 1, *end = strstr(code, "\n```");
        if (!end) break;
        mpc_str file = {0};
        if (body) mpc_str_append(&file, "model example(x: f32[batch, 8]) {\n");
        mpc_str_append_n(&file, code, (size_t)(end - code) + 1);
        if (body) mpc_str_append(&file, "}\n");
        check_text(page, mpc_str_cstr(&file), !body);
        mpc_str_free(&file);
        at = end + 4;
    }
    free(text);
}

/* Long files take time in proportion. */
static void check_long(void) {
    mpc_str text = {0};
    for (int i = 0; i < 20000; i++) mpc_str_printf(&text, "const  a%d = [%d,%d] # c\n", i, i, i);
    mpc_str_append(&text, "const  list=[");
    for (int i = 0; i < 20000; i++) mpc_str_printf(&text, "%d,", i);
    mpc_str_append(&text, "1]\n");
    check_text("long", mpc_str_cstr(&text), false);
    mpc_str_free(&text);
}

int main(void) {
    check_files("examples/*.mpg", true);
    check_files("std/*.mpg", true);
    check_files("bench/*.mpg", true);
    check_files("tests/lang/models/*.mpg", true);
    check_files("tests/lang/errors/*.mpg", false);
    check_files("tests/lang/messages/*.mpg", false);
    check_files("tests/robust/corpus/*.mpg", false);
    check_files("tests/fuzz/corpus/mpg/*", false);
    check_files("tests/fuzz/corpus/fmt/*", false);
    check_page("docs/language.md");
    check_long();
    CHECK_MSG(formatted >= 60 && elaborated >= 35, "%u files formatted, %u of them with a graph", formatted,
              elaborated);
    return check_result();
}
