/* Every allocation of context, builder, copy, printer, parser and verifier fails once: nothing crashes or leaks (the
 * sanitizer looks), and what succeeds nevertheless is right. */
#include "tests/ir/ir_test.h"

typedef bool (*scenario)(session *s); /* true: everything succeeded */

static void fails_one_by_one(session *s, scenario run, const char *what) {
    bool done = false;
    uint64_t n = 1;
    for (; !done && n < 100000; n++) {
        if (s) session_clear(s);
        mpc_alloc_fail_after(n);
        done = run(s);
        mpc_alloc_fail_after(0);
    }
    CHECK_MSG(done, "%s", what);
    CHECK_MSG(n > 3, "%s allocates nothing?", what);
    fprintf(stderr, "%s: %llu allocations\n", what, (unsigned long long)n - 2);
}

static bool make_context(session *unused) {
    (void)unused;
    session s;
    bool ok = session_open(&s);
    session_close(&s);
    return ok;
}

static bool build(session *s) {
    mpc_graph *g = random_graph(s, 4, 30);
    mpc_alloc_fail_after(0);
    if (g) CHECK(mpc_graph_verify(g) == MPC_OK);
    mpc_graph_destroy(g);
    return g != NULL;
}

static mpc_graph *given; /* built with memory at hand */

static bool copy(session *s) {
    mpc_builder *b = mpc_builder_create(s->ctx, mpc_sym_text(s->ctx, given->name));
    if (!b) return false;
    mpc_value_id map[500];
    mpc_build_copy_all(b, given, map);
    mpc_graph *g = mpc_builder_finish(b);
    if (g) CHECK(mpc_graph_equal(g, given));
    mpc_graph_destroy(g);
    return g != NULL;
}

static bool print(session *s) {
    (void)s;
    mpc_str text = {0};
    mpc_graph_print(given, MPC_PRINT_ALL, &text);
    bool ok = !text.failed;
    CHECK(!text.data || strlen(text.data) == text.length);
    mpc_str_free(&text);
    return ok;
}

static uint32_t given_file;

static bool parse_given(session *s) {
    mpc_graph *g = mpc_graph_parse(s->ctx, given_file);
    if (g) CHECK(mpc_graph_equal(g, given));
    mpc_graph_destroy(g);
    return g != NULL;
}

static bool verify(session *s) {
    (void)s;
    return mpc_graph_verify(given) == MPC_OK;
}

static bool uses(session *s) {
    (void)s;
    mpc_arena *arena = mpc_arena_create();
    if (!arena) return false;
    mpc_uses u = mpc_graph_uses(given, arena);
    mpc_arena_destroy(arena);
    return u.begin && u.users;
}

/* A fresh context each time, so that interning and growing the tables fail too. */
static bool parse_in_new_context(session *unused) {
    (void)unused;
    session s;
    bool ok = session_open(&s);
    mpc_graph *g =
        ok ? parse(&s,
                   "mpir 1 graph @g(%newname: f32[7,9]) { %other = relu(%newname) : bf16[7,9] group(1) loc(\"l\":1:1)\n"
                   "place %other in %newname return(\"o\": %other) }")
           : NULL;
    mpc_graph_destroy(g);
    session_close(&s);
    return g != NULL;
}

int main(void) {
    session s;
    if (!session_open(&s)) return 1;
    given = random_graph(&s, 5, 40);
    CHECK(given && add_side_tables(given, 5));
    mpc_graph *plain = random_graph(&s, 5, 40);
    mpc_str text = {0};
    mpc_graph_print(given, MPC_PRINT_ALL, &text);
    given_file = mpc_sources_add(s.sources, "given.mpir", mpc_str_cstr(&text), text.length);
    mpc_str_free(&text);
    fails_one_by_one(NULL, make_context, "context");
    fails_one_by_one(&s, build, "builder");
    fails_one_by_one(&s, print, "printer");
    fails_one_by_one(&s, parse_given, "parser");
    fails_one_by_one(NULL, parse_in_new_context, "parser in a new context");
    fails_one_by_one(&s, verify, "verifier");
    fails_one_by_one(&s, uses, "uses");
    mpc_graph_destroy(given);
    given = plain;
    fails_one_by_one(&s, copy, "copy");
    mpc_graph_destroy(given);
    session_close(&s);
    return check_result();
}
