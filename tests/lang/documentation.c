/* The code of docs/language.md: whole files (```mpg) and bodies of a model (```mpg model) elaborate for every phase,
 * without a warning but for unused values. A file with a name (```mpg lib/parts.mpg) is there for those that follow. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static const char before[] =
    "model example(x: f32[batch, 8], image: f32[batch, 8, 8, 3], digit: i32[batch], tokens: i32[batch, 16]) {\n";

enum { MOST_FILES = 8 };
static void check_code(unsigned line, const char *code, const other_text *named) {
    session s;
    char name[64];
    snprintf(name, sizeof name, "language.md:%u.mpg", line);
    other_text files[MOST_FILES + 2] = {{name, code, 0}};
    for (int i = 0; named[i].name; i++) files[i + 1] = named[i];
    open_texts(&s, files, NULL, 0);
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

typedef struct named_files {
    other_text named[MOST_FILES + 1];
    mpc_arena *arena;
    int count;
} named_files;

/* `p` stands at the opening fence; returns what follows the closing one. */
static const char *one_block(named_files *page, const char *p, unsigned line, const char *kind) {
    const char *start = strchr(p, '\n') + 1, *end = strstr(start, "\n```");
    mpc_str code = {0};
    if (!end) return p + strlen(p);
    bool body = strcmp(kind, " model") == 0, named = *kind && !body;
    if (body) mpc_str_append(&code, before);
    mpc_str_append_n(&code, start, (size_t)(end - start) + 1);
    if (body) mpc_str_append(&code, "}\n");
    CHECK_MSG(!named || page->count < MOST_FILES, "too many files with names");
    if (named && page->count < MOST_FILES)
        page->named[page->count++] = (other_text){mpc_arena_strdup(page->arena, kind + 1),
                                                  mpc_arena_strdup(page->arena, mpc_str_cstr(&code)), 0};
    check_code(line, mpc_str_cstr(&code), page->named);
    mpc_str_free(&code);
    return end + 4;
}

/* --- the table of mistakes --- */

/* Text up to `end`, with "⏎" as a line end; returns what follows, or NULL. */
static const char *take_cell(const char *p, const char *end, mpc_str *out) {
    static const char line_end[] = " \xe2\x8f\x8e ";
    const char *stop = p ? strstr(p, end) : NULL;
    for (; stop && p < stop; p++) {
        bool ends = strncmp(p, line_end, strlen(line_end)) == 0;
        mpc_str_append_n(out, ends ? "\n" : p, 1);
        if (ends) p += strlen(line_end) - 1;
    }
    return stop ? stop + strlen(end) : NULL;
}

static bool is_section(const char *code) {
    static const char *const words[] = {"params {", "policy {", "train {", "data {"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(code, words[i], strlen(words[i])) == 0) return true;
    return false;
}

static bool is_said(const session *s, const char *said) {
    for (size_t i = 0; i < mpc_diag_list_count(s->diags); i++) {
        const mpc_diag *d = mpc_diag_list_get(s->diags, i);
        size_t n = strlen(d->code);
        if (strncmp(said, d->code, n) == 0 && said[n] == ' ' && strcmp(said + n + 1, d->message) == 0) return true;
    }
    return false;
}

static void check_mistake(const char *code, const char *said) {
    mpc_str text = {0};
    mpc_str_printf(&text, "const hidden = 16\n%s%s\n    loss own = mse(linear(x, 8) as fc, x)\n}\n%s\n", before,
                   is_section(code) ? "" : code, is_section(code) ? code : "");
    session s;
    open_text(&s, "mistake.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_graph_destroy(elaborate(&s, MPC_PHASE_TRAIN, 4));
    bool ok = is_said(&s, said);
    if (!ok) show_diagnostics(s.diags, s.sources);
    CHECK_MSG(ok, "`%s` doesn't say: %s", code, said);
    close_session(&s);
    mpc_str_free(&text);
}

static void check_mistakes(const char *page) {
    const char *row = strstr(page, "\n| written | said | instead |\n");
    unsigned count = 0;
    row = row ? strstr(row, "|---|\n") : NULL;
    for (row = row ? row + strlen("|---|\n") : NULL; row && strncmp(row, "| `", 3) == 0; count++) {
        mpc_str code = {0}, said = {0};
        take_cell(take_cell(row + 3, "` | ", &code), " | ", &said);
        check_mistake(mpc_str_cstr(&code), mpc_str_cstr(&said));
        mpc_str_free(&code);
        mpc_str_free(&said);
        row = strchr(row, '\n');
        if (row) row++;
    }
    CHECK_MSG(count >= 30, "%u mistakes", count);
}

int main(void) {
    size_t length = 0;
    char *text = read_whole("docs/language.md", &length);
    unsigned line = 1, count = 0;
    named_files page = {.arena = mpc_arena_create()};
    CHECK(text != NULL);
    for (const char *p = text; p && *p;) {
        char kind[64] = "";
        bool code = strncmp(p, "```mpg", 6) == 0 && (p[6] == '\n' || sscanf(p + 6, "%63[^\n]", kind) == 1);
        const char *next = code ? one_block(&page, p, line, kind) : NULL;
        if (next) {
            count++;
            for (; p < next; p++) line += *p == '\n';
        }
        const char *end = strchr(p, '\n');
        line++;
        p = end ? end + 1 : NULL;
    }
    CHECK_MSG(count >= 9, "%u pieces of code", count);
    mpc_arena_destroy(page.arena);
    if (text) check_mistakes(text);
    free(text);
    return check_result();
}
