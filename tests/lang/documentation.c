/* The code of docs/language.md: whole files (```mpg) and bodies of a model (```mpg model) elaborate for every phase,
 * without a warning but for unused values. */
#include <stdlib.h>

#include "base/alloc.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static const char before[] =
    "model example(x: f32[batch, 8], image: f32[batch, 8, 8, 3], digit: i32[batch], tokens: i32[batch, 16]) {\n";

static void check_code(unsigned line, const char *code) {
    session s;
    char name[64];
    snprintf(name, sizeof name, "language.md:%u.mpg", line);
    open_text(&s, name, code, NULL, 0);
    bool outputs = strstr(code, "output ") != NULL;
    for (int phase = 0; phase < (outputs ? 3 : 2); phase++) {
        mpc_graph *g = elaborate(&s, (mpc_phase)phase, 4);
        CHECK_MSG(g && mpc_graph_verify(g) == MPC_OK, "docs/language.md:%u, phase %d", line, phase);
        mpc_graph_destroy(g);
    }
    bool said = false;
    for (size_t i = 0; i < mpc_diag_list_count(s.diags); i++)
        said = said || strcmp(mpc_diag_list_get(s.diags, i)->code, "W102") != 0;
    if (said) show_diagnostics(s.diags, s.sources);
    CHECK_MSG(!said, "docs/language.md:%u says something", line);
    close_session(&s);
}

/* `p` stands behind the opening fence; returns what follows the closing one. */
static const char *one_block(const char *p, unsigned *line, bool body) {
    const char *start = strchr(p, '\n') + 1, *end = strstr(start, "\n```");
    mpc_str code = {0};
    if (!end) return p + strlen(p);
    if (body) mpc_str_append(&code, before);
    mpc_str_append_n(&code, start, (size_t)(end - start) + 1);
    if (body) mpc_str_append(&code, "}\n");
    check_code(*line, mpc_str_cstr(&code));
    mpc_str_free(&code);
    return end + 4;
}

int main(void) {
    size_t length = 0;
    char *text = read_whole("docs/language.md", &length);
    unsigned line = 1, count = 0;
    CHECK(text != NULL);
    for (const char *p = text; p && *p;) {
        bool whole = strncmp(p, "```mpg\n", 7) == 0, body = strncmp(p, "```mpg model\n", 13) == 0;
        const char *next = whole || body ? one_block(p, &line, body) : NULL;
        if (next) {
            count++;
            for (; p < next; p++) line += *p == '\n';
        }
        const char *end = strchr(p, '\n');
        line++;
        p = end ? end + 1 : NULL;
    }
    CHECK_MSG(count >= 9, "%u pieces of code", count);
    free(text);
    return check_result();
}
