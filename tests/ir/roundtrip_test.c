/* parse(print(g)) equals g: for random graphs with every kind of decoration, for every op of the registry, and for
 * large graphs in time that grows with their size. */
#include <time.h>

#include "ir/eval/sample.h"
#include "tests/ir/ir_test.h"

static void comes_back(session *s, const mpc_graph *g, const char *what) {
    mpc_str text = {0}, again = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &text);
    mpc_graph *back = parse_n(s, mpc_str_cstr(&text), text.length);
    CHECK_MSG(back && mpc_graph_equal(g, back), "%s", what);
    if (back) {
        mpc_graph_print(back, MPC_PRINT_ALL, &again);
        CHECK_STR(mpc_str_cstr(&again), mpc_str_cstr(&text));
        CHECK_MSG(mpc_graph_verify(back) == MPC_OK, "%s", what);
    } else {
        session_show(s);
        session_clear(s);
    }
    mpc_graph_destroy(back);
    mpc_str_free(&text);
    mpc_str_free(&again);
}

static void random_graphs_come_back(session *s) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        mpc_graph *g = random_graph(s, seed, 40);
        CHECK(g != NULL);
        if (!g) continue;
        comes_back(s, g, "random graph");
        CHECK(add_side_tables(g, seed));
        comes_back(s, g, "random graph with groups and places");
        mpc_graph_destroy(g);
    }
}

static mpc_graph *sample_graph(session *s, mpc_op_id id, const mpc_sample *sample) {
    mpc_builder *b = mpc_builder_create(s->ctx, "sample");
    mpc_value_id operands[12];
    for (uint32_t i = 0; i < sample->operand_count; i++) {
        const mpc_type *type = &sample->operands[i].type;
        operands[i] = mpc_build_input(b, "x", mpc_type_make(s->ctx, type->format, type->rank, type->dims), NULL, 0);
    }
    mpc_value_id y = sample->result_type
                         ? mpc_build_typed(b, id, sample->result_type, sample->attrs, sample->attr_count)
                         : mpc_build(b, id, operands, sample->operand_count, sample->attrs, sample->attr_count);
    mpc_build_output(b, "y", y);
    return mpc_builder_finish(b);
}

static void every_op_comes_back(session *s) {
    for (mpc_op_id id = 0; id < mpc_op_count(s->ctx); id++) {
        const mpc_op *op = mpc_op_get(s->ctx, id);
        for (uint32_t variant = 0; op->sample && variant < 100; variant++) {
            mpc_sample sample = {.ctx = s->ctx, .op = op, .seed = 5, .variant = variant, .arena = mpc_arena_create()};
            bool more = op->sample(&sample);
            mpc_graph *g = more ? sample_graph(s, id, &sample) : NULL;
            CHECK_MSG(!more || g, "%s, variant %u", op->name, variant);
            if (g) comes_back(s, g, op->name);
            mpc_graph_destroy(g);
            mpc_arena_destroy(sample.arena);
            if (!more) break;
        }
    }
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The same name for all, so that making names unique is measured too. */
static double time_of(session *s, uint32_t count) {
    double start = seconds();
    mpc_builder *b = mpc_builder_create(s->ctx, "large");
    mpc_value_id x = mpc_build_input(b, "x", type2(s->ctx, MPC_FMT_f32, 4, 4), NULL, 0);
    mpc_value_id first = mpc_build_state(b, "w", type2(s->ctx, MPC_FMT_f32, 4, 4), NULL, 0);
    for (uint32_t i = 0; i < count; i++) {
        mpc_builder_set_name(b, "h");
        x = mpc_build2(b, i % 2 ? MPC_OP_add : MPC_OP_matmul, x, first);
    }
    mpc_build_output(b, "y", x);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g && g->node_count == count + 1);
    if (g) {
        mpc_str text = {0};
        mpc_graph_print(g, MPC_PRINT_ALL, &text);
        mpc_graph *back = parse_n(s, mpc_str_cstr(&text), text.length);
        CHECK(back && mpc_graph_equal(g, back) && mpc_graph_verify(back) == MPC_OK);
        mpc_graph_destroy(back);
        mpc_str_free(&text);
    }
    mpc_graph_destroy(g);
    return seconds() - start;
}

static void time_grows_with_size_only(session *s) {
    time_of(s, 2000);
    double small = time_of(s, 10000), large = time_of(s, 80000);
    CHECK_MSG(large < 40 * small + 0.5, "%g s for 10000 nodes, %g s for 80000", small, large);
    fprintf(stderr, "80000 nodes built, printed, parsed, compared, verified: %.3f s\n", large);
}

/* Special numbers survive, whatever the sign of a NaN. */
static void odd_constants_come_back(session *s) {
    const double values[] = {copysign((double)NAN, -1.0), (double)NAN, HUGE_VAL, -HUGE_VAL, -0.0, 5e-324, 0.1};
    mpc_builder *b = mpc_builder_create(s->ctx, "g");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) mpc_build_const(b, values[i], MPC_FMT_f32);
    mpc_graph *g = mpc_builder_finish(b);
    CHECK(g);
    if (g) comes_back(s, g, "constants");
    mpc_graph_destroy(g);
}

static void value_ids_dont_matter(session *s) {
    mpc_graph *graphs[2];
    for (int late = 0; late < 2; late++) {
        mpc_builder *b = mpc_builder_create(s->ctx, "g");
        mpc_type_id type = type2(s->ctx, MPC_FMT_f32, 2, 2);
        mpc_value_id early = late ? 0 : mpc_build_input(b, "x", type, NULL, 0);
        mpc_value_id w = mpc_build_state(b, "w", type, NULL, 0);
        mpc_value_id x = late ? mpc_build_input(b, "x", type, NULL, 0) : early;
        mpc_build_output(b, "y", mpc_build2(b, MPC_OP_add, x, w));
        graphs[late] = mpc_builder_finish(b);
    }
    CHECK(graphs[0] && graphs[1] && mpc_graph_equal(graphs[0], graphs[1]));
    comes_back(s, graphs[1], "late input");
    mpc_graph_destroy(graphs[0]);
    mpc_graph_destroy(graphs[1]);
}

/* Each text differs from the first in one thing that equality must see. */
static void equality_sees_every_part(session *s) {
    static const char *const texts[] = {
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @h(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[3]) { %y = relu(%x) : f32[3] %z = neg(%y) : f32[3] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2] {lo=0}) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%v: f32[2]) { %y = relu(%v) : f32[2] %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = tanh(%x) : f32[2] %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%x) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : bf16[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) {prec=f16} : f32[2] %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %w = neg(%y) : f32[2] return(\"y\": %w) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] return(\"y\": %y) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] return(\"a\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] return() }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] group(1) %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] assign() %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] assign(in=f16) %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] loc(\"a\":1:2) %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] loc(\"a\":1:3) %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] loc(\"a\":2:3) %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] origin(\"a\") %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] why(\"a\") %z = neg(%y) : f32[2] return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] arena 64 return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] place %y in %x return(\"y\": %z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] place %y at 0 size 8 return(\"y\": "
        "%z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] place %y at 8 size 8 return(\"y\": "
        "%z) }",
        "mpir 1 graph @g(%x: f32[2]) { %y = relu(%x) : f32[2] %z = neg(%y) : f32[2] place %y at 8 size 9 return(\"y\": "
        "%z) }",
    };
    enum { COUNT = sizeof texts / sizeof *texts };
    mpc_graph *graphs[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        graphs[i] = parse(s, texts[i]);
        CHECK_MSG(graphs[i], "%s", texts[i]);
    }
    session_show(s);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < COUNT; j++)
            if (graphs[i] && graphs[j])
                CHECK_MSG(mpc_graph_equal(graphs[i], graphs[j]) == (i == j), "texts %zu and %zu", i, j);
    for (size_t i = 0; i < COUNT; i++) mpc_graph_destroy(graphs[i]);
}

static void the_text_is_canonical(session *s) {
    static const char text[] =
        "mpir 1\n"
        "graph @step(%x: f32[64,784] {source=\"columns[0:784]\" lo=0}, %y: i32[64]) {\n"
        "  %w = state() {name=\"fc1.weight\" trainable=true init=normal b=0.02} : f32[784,128] loc(\"mlp.mpg\":4:3)\n"
        "  %w.bf16 = state() {name=\"fc1.weight\" derived=bf16} : bf16[784,128]\n"
        "  %x.bf16 = cast(%x) {to=bf16 by=autocast} : bf16[64,784] group(1)\n"
        "  %h = matmul(%x.bf16, %w.bf16) : bf16[64,128] assign(in=bf16 compute=bf16 acc=f32 out=bf16) group(2) "
        "origin(\"a\") why(\"N01\")\n"
        "  %\"h r\" = relu(%h) : bf16[64,128] group(3)\n"
        "  %l, %lse = cross_entropy(%\"h r\", %y) : f32[64], f32[64] group(4)\n"
        "  %c = const() {value=inf} : f32[]\n"
        "  %w.new = sub(%w, %c) : f32[784,128]\n"
        "  next %w, %w.new\n"
        "  place %x.bf16 at 0 size 100352\n"
        "  place %w.new in %w\n"
        "  arena 100352\n"
        "  return(\"loss\": %l, \"lse\": %lse)\n"
        "}\n";
    mpc_graph *g = parse(s, text);
    CHECK(g != NULL);
    session_show(s);
    if (!g) return;
    mpc_str out = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &out);
    CHECK_STR(mpc_str_cstr(&out), text);
    mpc_str_clear(&out);
    mpc_graph_print(g, 0, &out);
    CHECK(!strstr(out.data, "loc(") && !strstr(out.data, "origin(") && !strstr(out.data, "why("));
    mpc_str_free(&out);
    mpc_graph_destroy(g);
}

/* The documentation's example is a graph, written canonically. */
static void the_example_of_the_docs_is_true(session *s) {
    static char page[20000];
    FILE *file = fopen("docs/ir.md", "rb");
    CHECK(file);
    if (!file) return;
    page[fread(page, 1, sizeof page - 1, file)] = '\0';
    fclose(file);
    char *begin = strstr(page, "```\nmpir 1\n"), *end = begin ? strstr(begin + 4, "```") : NULL;
    CHECK(begin && end);
    if (!end) return;
    begin += 4;
    *end = '\0';
    mpc_graph *g = parse(s, begin);
    CHECK(g && mpc_graph_verify(g) == MPC_OK);
    mpc_str out = {0};
    if (g) mpc_graph_print(g, MPC_PRINT_ALL, &out);
    CHECK_STR(mpc_str_cstr(&out), begin);
    mpc_str_free(&out);
    mpc_graph_destroy(g);
}

int main(void) {
    session s;
    if (!session_open(&s)) return 1;
    the_text_is_canonical(&s);
    the_example_of_the_docs_is_true(&s);
    value_ids_dont_matter(&s);
    odd_constants_come_back(&s);
    equality_sees_every_part(&s);
    random_graphs_come_back(&s);
    every_op_comes_back(&s);
    time_grows_with_size_only(&s);
    session_show(&s);
    session_close(&s);
    return check_result();
}
