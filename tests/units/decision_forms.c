/* The four formats of a decision and the storage of a value can be told apart and survive their text forms. */
#include "base/str.h"
#include "passes/passes.h"
#include "tests/check.h"

static const char text[] =
    "mpir 1\ngraph @g(%x: f32[4,8], %w: f32[8,8], %ga: f32[8], %be: f32[8]) {\n"
    "  %z = matmul(%x, %w) : f32[4,8] assign(in=bf16 compute=bf16 acc=f32 out=f16)\n"
    "  %n, %mean, %rstd = layer_norm(%z, %ga, %be) : f32[4,8], f32[4], f32[4] assign(compute=f32 acc=f32 out=bf16)\n"
    "  %r = relu(%n) : f32[4,8] assign(compute=f32 out=f32)\n"
    "  return(\"y\": %r)\n}\n";

static mpc_sources *sources;
static mpc_diag_list *diags;

static mpc_graph *parse(mpc_context *ctx, const char *from) {
    return mpc_graph_parse(ctx, mpc_sources_add(sources, "test", from, strlen(from)));
}

static void five_formats_survive_text(mpc_context *ctx) {
    mpc_graph *g = parse(ctx, text);
    CHECK(g != NULL && mpc_graph_verify(g) == MPC_OK);
    if (g == NULL) return;
    const mpc_decision *d = &g->decisions[0];
    CHECK(d->operand == MPC_FMT_bf16 && d->compute == MPC_FMT_bf16 && d->acc == MPC_FMT_f32 &&
          d->result == MPC_FMT_f16);
    CHECK(g->decisions[1].operand == MPC_FMT_none && g->decisions[1].result == MPC_FMT_bf16);
    mpc_str out = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &out);
    mpc_graph *again = parse(ctx, mpc_str_cstr(&out));
    CHECK(again != NULL && mpc_graph_equal(g, again));
    mpc_str_free(&out);
    mpc_graph_destroy(again);
    mpc_graph_destroy(g);
}

/* Each of the four in turn is another one: no two graphs are equal, so none is lost. */
static void none_stands_for_another(mpc_context *ctx) {
    static const char *const forms[] = {"in=f16 compute=f32 acc=f32 out=f32", "in=f32 compute=f16 acc=f32 out=f32",
                                        "in=f32 compute=f32 acc=f16 out=f32", "in=f32 compute=f32 acc=f32 out=f16",
                                        "in=f32 compute=tf32 acc=f32 out=f32"};
    enum { COUNT = sizeof forms / sizeof *forms };
    mpc_graph *g[COUNT];
    for (int i = 0; i < COUNT; i++) {
        mpc_str t = {0};
        mpc_str_printf(&t,
                       "mpir 1\ngraph @g(%%x: f32[4,4]) {\n  %%z = matmul(%%x, %%x) : f32[4,4] assign(%s)\n  "
                       "return(\"y\": %%z)\n}\n",
                       forms[i]);
        g[i] = parse(ctx, mpc_str_cstr(&t));
        mpc_str printed = {0};
        if (g[i]) mpc_graph_print(g[i], MPC_PRINT_ALL, &printed);
        CHECK_MSG(g[i] && strstr(mpc_str_cstr(&printed), forms[i]), "%s", forms[i]);
        mpc_str_free(&printed);
        mpc_str_free(&t);
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < i; k++)
            CHECK_MSG(g[i] && g[k] && !mpc_graph_equal(g[i], g[k]), "%s, %s", forms[i], forms[k]);
    for (int i = 0; i < COUNT; i++) mpc_graph_destroy(g[i]);
}

static void what_cannot_be_stored_is_refused(mpc_context *ctx) {
    mpc_graph *g = parse(ctx, "mpir 1\ngraph @g(%x: f32[4,4]) {\n  %z = matmul(%x, %x) : f32[4,4] assign(in=f32 "
                              "compute=tf32 acc=f32 out=tf32)\n  return(\"y\": %z)\n}\n");
    size_t before = mpc_diag_list_count(diags);
    CHECK(g == NULL || mpc_graph_verify(g) != MPC_OK);
    CHECK(g == NULL || strcmp(mpc_diag_list_get(diags, before)->code, "V12") == 0);
    mpc_graph_destroy(g);
}

static void what_has_no_floats_has_no_decision(mpc_context *ctx) {
    mpc_graph *g = parse(
        ctx,
        "mpir 1\ngraph @g(%i: i32[4]) {\n  %z = add(%i, %i) : i32[4] assign(compute=f32)\n  return(\"z\": %z)\n}\n");
    size_t before = mpc_diag_list_count(diags);
    CHECK(g != NULL && mpc_graph_verify(g) != MPC_OK);
    CHECK(mpc_diag_list_count(diags) == before + 1 && strcmp(mpc_diag_list_get(diags, before)->code, "V12") == 0);
    mpc_graph_destroy(g);
}

static void an_assignment_survives_text(const mpc_sink *sink) {
    static const char lines[] = "mpc assignment 1\n# value\top\treads\tcomputes\taccumulates\tstores\twhy\n"
                                "z\tmatmul\tbf16\ttf32\tf32\tf16\tN01: a\nn\tlayer_norm\t-\tf32\tf32\tbf16\tN30: b\n";
    mpc_assignment *a = mpc_assignment_create();
    mpc_str out = {0};
    CHECK(mpc_assignment_parse(a, lines, sink) == MPC_OK && mpc_assignment_count(a) == 2);
    mpc_assignment_print(a, &out);
    CHECK_STR(mpc_str_cstr(&out), lines);
    mpc_str_free(&out);
    mpc_assignment_destroy(a);
}

int main(void) {
    sources = mpc_sources_create();
    diags = mpc_diag_list_create();
    mpc_sink sink = mpc_diag_list_sink(diags);
    mpc_context *ctx = mpc_context_create(&sink, sources);
    CHECK(ctx != NULL && mpc_passes_register(ctx) == MPC_OK);
    five_formats_survive_text(ctx);
    none_stands_for_another(ctx);
    what_cannot_be_stored_is_refused(ctx);
    what_has_no_floats_has_no_decision(ctx);
    an_assignment_survives_text(&sink);
    mpc_context_destroy(ctx);
    mpc_diag_list_destroy(diags);
    mpc_sources_destroy(sources);
    return check_result();
}
