/* Whatever bytes come in, a model is loaded or at least one error is sent: truncations and byte changes of every
 * example and of every model of the tests, and of texts that nest too deep. Nothing crashes, nothing hangs. */
#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "frontend/frontend.h"
#include "tests/check.h"
#include "tests/lang/support.h"

typedef struct counter {
    unsigned errors;
} counter;

static void count_errors(void *user, const mpc_diag *d) {
    if (d->severity == MPC_SEV_ERROR) ((counter *)user)->errors++;
}

static void try_text(const char *what, const char *text, size_t length) {
    counter c = {0};
    mpc_sink sink = {count_errors, &c};
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = mpc_context_create(&sink, sources);
    mpc_model *m = mpc_model_load(ctx, mpc_sources_add(sources, "fuzz.mpg", text, length), NULL, 0);
    mpc_graph *g = m ? mpc_model_elaborate(m, MPC_PHASE_TRAIN, 2, NULL) : NULL;
    CHECK_MSG((g != NULL) == (c.errors == 0), "%s: %s with %u errors", what, g ? "a graph" : "no graph", c.errors);
    CHECK_MSG(c.errors <= 10, "%s: %u errors", what, c.errors);
    mpc_graph_destroy(g);
    mpc_model_destroy(m);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
}

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static bool word_byte(char c) { return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z'); }

/* The word around position `at`: [*begin, *end). */
static void word_at(const char *text, size_t length, size_t at, size_t *begin, size_t *end) {
    while (at < length && !word_byte(text[at])) at++;
    for (*begin = at; *begin > 0 && word_byte(text[*begin - 1]);) --*begin;
    for (*end = at; *end < length && word_byte(text[*end]);) ++*end;
}

/* One word takes the place of another: mostly well-formed texts that mean something odd. */
static void swap_word(const char *name, const char *text, size_t length, unsigned *state) {
    size_t a, b, c, d;
    word_at(text, length, next_random(state) % length, &a, &b);
    word_at(text, length, next_random(state) % length, &c, &d);
    mpc_str s = {0};
    mpc_str_append_n(&s, text, a);
    mpc_str_append_n(&s, text + c, d - c);
    mpc_str_append_n(&s, text + b, length - b);
    try_text(name, mpc_str_cstr(&s), s.length);
    mpc_str_free(&s);
}

static void damage(const char *name, const char *text, size_t length, int rounds) {
    static const char bytes[] = "\0\n\r\"(){}[]=,.:@+-*/%<>#_ax019 \xff\xc3";
    unsigned state = 7;
    char *copy = malloc(length + 1);
    for (int i = 0; copy && i < rounds; i++) {
        size_t cut = next_random(&state) % (length + 1);
        try_text(name, text, cut);
        memcpy(copy, text, length);
        for (unsigned k = 0; k <= next_random(&state) % 3; k++)
            copy[next_random(&state) % length] = bytes[next_random(&state) % (sizeof bytes - 1)];
        try_text(name, copy, length);
        for (int k = 0; k < 3; k++) swap_word(name, text, length, &state);
        /* a piece moved elsewhere */
        size_t from = next_random(&state) % length, n = next_random(&state) % 40;
        if (from + n > length) n = length - from;
        memcpy(copy, text, length);
        memmove(copy + next_random(&state) % (length - n + 1), text + from, n);
        try_text(name, copy, length);
    }
    free(copy);
}

static void damage_folder(const char *folder, int rounds) {
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!strstr(e->d_name, ".mpg") || strcmp(e->d_name, "work.mpg") == 0) continue; /* a second each */
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        size_t length = 0;
        char *text = read_whole(path, &length);
        if (text && length) damage(path, text, length, rounds);
        free(text);
    }
    if (dir) closedir(dir);
}

static void repeat_text(const char *what, const char *head, const char *piece, unsigned n, const char *tail) {
    mpc_str s = {0};
    mpc_str_append(&s, head);
    for (unsigned i = 0; i < n; i++) mpc_str_append(&s, piece);
    mpc_str_append(&s, tail);
    try_text(what, mpc_str_cstr(&s), s.length);
    mpc_str_free(&s);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20; /* more by hand: a long search */
    static const char head[] = "model m(x: f32[batch, 4], y: f32[batch, 4]) {\n z = ",
                      tail[] = "\n loss l = mse(x, y)\n}\n";
    static const char *const pieces[] = {"(",   "[",    "-",          "not ",  "f(",          "x+",
                                         "x**", "x.",   "x[",         "2**",   "1 or ",       "{",
                                         "\"",  "x = ", "if true { ", "@f32 ", "repeat 2 { ", "x as "};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        repeat_text(pieces[i], head, pieces[i], 50000, tail);
        repeat_text(pieces[i], head, pieces[i], 200, "x");
        repeat_text(pieces[i], "", pieces[i], 3000, "");
    }
    repeat_text("else if", "model m(x: f32[batch, 4]) {\n if true { z = 1 }", " else if true { z = 1 }", 20000,
                "\n}\n");
    repeat_text("long sum", head, "1 + ", 200, "1\n loss l = mse(linear(x, 4) as fc, y)\n u = z\n}\n");
    try_text("nothing", "", 0);
    try_text("a zero byte", "\0", 1);
    try_text("half a character", "model m\xc3", 8);
    try_text("not UTF-8", "# \xff\nmodel m() {}\n", 16);
    damage_folder("tests/lang/models", rounds);
    damage_folder("tests/lang/errors", rounds);
    damage_folder("examples", rounds);
    return check_result();
}
