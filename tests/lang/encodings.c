/* Line ends, a byte order mark and a missing last newline change nothing in the graph; names are bytes checked as
 * UTF-8: two spellings of one letter are two names, a wrong byte is an error that gives its offset. The examples
 * elaborate for every phase. */
#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static const char *const lines[] = {"# a comment",
                                    "model m(x: f32[batch, 4], y: f32[batch, 4]) {",
                                    "    h = relu(linear(x,",
                                    "        8) as first)",
                                    "    loss fit = mse(linear(h, 4) as last, y)",
                                    "}",
                                    "train {",
                                    "    batch = 4",
                                    "}"};

static void graph_text(const char *start, const char *end_of_line, bool last, mpc_str *out) {
    mpc_str text = {0};
    size_t n = sizeof lines / sizeof *lines;
    mpc_str_append(&text, start);
    for (size_t i = 0; i < n; i++) mpc_str_printf(&text, "%s%s", lines[i], i + 1 < n || last ? end_of_line : "");
    session s;
    open_text(&s, "m.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 4);
    if (g) mpc_graph_print(g, MPC_PRINT_ALL, out);
    else show_diagnostics(s.diags, s.sources);
    mpc_graph_destroy(g);
    close_session(&s);
    mpc_str_free(&text);
}

static void line_ends(void) {
    mpc_str plain = {0}, other = {0};
    graph_text("", "\n", true, &plain);
    CHECK(strstr(mpc_str_cstr(&plain), "first.weight") != NULL);
    static const struct {
        const char *start, *end;
        bool last;
    } forms[] = {{"", "\r\n", true}, {"\xef\xbb\xbf", "\n", true}, {"", "\n", false}, {"\xef\xbb\xbf", "\r\n", false}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        mpc_str_clear(&other);
        graph_text(forms[i].start, forms[i].end, forms[i].last, &other);
        CHECK_STR(mpc_str_cstr(&other), mpc_str_cstr(&plain));
    }
    mpc_str_free(&plain);
    mpc_str_free(&other);
}

static void refused(const char *text, const char *code, const char *words) {
    session s;
    open_text(&s, "m.mpg", text, NULL, 0);
    CHECK_MSG(s.model == NULL && mpc_diag_list_count(s.diags) == 1, "%s", words);
    if (mpc_diag_list_count(s.diags)) {
        const mpc_diag *d = mpc_diag_list_get(s.diags, 0);
        CHECK_STR(d->code, code);
        CHECK_MSG(strstr(d->message, words) != NULL, "%s", d->message);
    }
    close_session(&s);
}

static void letters(void) {
    session s; /* one letter composed, and decomposed: two variables */
    open_text(
        &s, "m.mpg",
        "model m(x: f32[batch, 4]) {\n \xc3\xa9 = linear(x, 4, bias = false)\n e\xcc\x81 = linear(x, 4, bias = false)\n"
        " loss l = mse(\xc3\xa9, e\xcc\x81)\n}\n",
        NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 2);
    mpc_str names = {0};
    state_names(g, &names);
    CHECK_STR(mpc_str_cstr(&names), "\xc3\xa9.weight! e\xcc\x81.weight!");
    mpc_str_free(&names);
    mpc_graph_destroy(g);
    close_session(&s);
    refused("# \xc3\nmodel m(x: f32[batch, 4]) { }\n", "E003", "byte 0xc3 at offset 2");
    refused("# \xed\xa0\x80 half of a pair\n", "E003", "offset 2");
    refused("# \xc0\xaf overlong\n", "E003", "offset 2");
}

static void examples(void) {
    DIR *dir = opendir("examples");
    int count = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ".mpg")) continue;
        char path[512];
        snprintf(path, sizeof path, "examples/%s", e->d_name);
        size_t length = 0;
        char *text = read_whole(path, &length);
        session s;
        open_text(&s, path, text ? text : "", NULL, 0);
        for (int phase = 0; phase < 3; phase++) {
            mpc_graph *g = elaborate(&s, (mpc_phase)phase, phase + 3);
            CHECK_MSG(g && mpc_graph_verify(g) == MPC_OK, "%s, phase %d", path, phase);
            mpc_graph_destroy(g);
        }
        if (mpc_diag_list_count(s.diags)) show_diagnostics(s.diags, s.sources);
        CHECK_MSG(mpc_diag_list_count(s.diags) == 0, "%s says something", path);
        close_session(&s);
        free(text);
        count++;
    }
    if (dir) closedir(dir);
    CHECK_MSG(count >= 4, "%d examples", count);
}

int main(void) {
    line_ends();
    letters();
    examples();
    return check_result();
}
