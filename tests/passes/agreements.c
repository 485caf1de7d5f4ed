/* Values that the user wants in one format have one, under every solver: on random graphs with random groups, with and
 * without words of the user in them; and words that can't be had are refused with both places. */
#include <math.h>

#include "base/alloc.h"
#include "base/str.h"
#include "passes/passes.h"
#include "passes/precision/precision.h"
#include "tests/check.h"

typedef struct session {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
} session;

static bool open_session(session *s) {
    *s = (session){.sources = mpc_sources_create(), .diags = mpc_diag_list_create()};
    s->sink = mpc_diag_list_sink(s->diags);
    s->ctx = mpc_context_create(&s->sink, s->sources);
    return s->ctx != NULL && mpc_passes_register(s->ctx) == MPC_OK;
}

static void close_session(session *s) {
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->diags);
    mpc_sources_destroy(s->sources);
}

static mpc_graph *parse(session *s, const char *text) {
    return mpc_graph_parse(s->ctx, mpc_sources_add(s->sources, "test", text, strlen(text)));
}

static mpc_graph *run(session *s, const mpc_graph *g, const char *pipeline) {
    mpc_pass_env env = {.ctx = s->ctx};
    return mpc_pipeline_run(g, pipeline, &env, NULL);
}

static mpc_format stored(const mpc_graph *g, const char *name) {
    mpc_value_id v = mpc_graph_find_value(g, name);
    if (v == MPC_NONE) return MPC_FMT_none;
    mpc_node_id id = g->values[v].producer;
    if (id == MPC_NONE || !g->decisions[id].present || g->decisions[id].result == MPC_FMT_none)
        return mpc_value_format(g, v);
    return g->decisions[id].result;
}

/* ---- random graphs ---- */

enum { MOST = 24 };

static unsigned next_random(unsigned *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

/* Values v0 ... of one shape; `word` is the node that carries @f32, -1: none. */
static void random_text(unsigned *r, unsigned count, int word, mpc_str *out) {
    static const char *const ops[] = {"matmul(%%%s, %%w)", "relu(%%%s)",      "softmax(%%%s)", "exp(%%%s)",
                                      "add(%%%s, %%%s)",   "mul(%%%s, %%%s)", "tanh(%%%s)",    "matmul(%%%s, %%w)"};
    mpc_str_append(
        out, "mpir 1\ngraph @g(%x: f32[64,64]) {\n  %w = state() {name=w skip=keep trainable=true} : f32[64,64]\n");
    for (unsigned i = 0; i < count; i++) {
        char a[16] = "x", b[16] = "x";
        unsigned op = next_random(r) % (sizeof ops / sizeof *ops);
        if (i) snprintf(a, sizeof a, "v%u", next_random(r) % i);
        if (i) snprintf(b, sizeof b, "v%u", next_random(r) % i);
        mpc_str_printf(out, "  %%v%u = ", i);
        mpc_str_printf(out, ops[op], a, b);
        mpc_str_printf(out, "%s%s : f32[64,64]\n",
                       op == 2          ? " {axis=1"
                       : (int)i == word ? " {"
                                        : "",
                       (int)i == word ? op == 2 ? " prec=f32}" : "prec=f32}"
                       : op == 2      ? "}"
                                      : "");
    }
    mpc_str_printf(out, "  return(\"y\": %%v%u)\n}\n", count - 1);
}

static void check_groups(session *s, const mpc_graph *g, const char *solver, const unsigned *group, unsigned count,
                         unsigned seed) {
    mpc_str pipeline = {0};
    mpc_str_printf(&pipeline, "autocast{format=bf16 solver=%s target=h200 agree=\"", solver);
    for (unsigned k = 0; k < count; k++) mpc_str_printf(&pipeline, "%sv%u", k ? "|" : "", group[k]);
    mpc_str_append(&pipeline, "\"}");
    mpc_graph *out = run(s, g, mpc_str_cstr(&pipeline));
    CHECK_MSG(out != NULL, "seed %u: %s", seed, mpc_str_cstr(&pipeline));
    char first[16], name[16];
    snprintf(first, sizeof first, "v%u", group[0]);
    for (unsigned k = 1; out != NULL && k < count; k++) {
        snprintf(name, sizeof name, "v%u", group[k]);
        CHECK_MSG(stored(out, first) == stored(out, name), "seed %u, %s: %s and %s", seed, mpc_str_cstr(&pipeline),
                  first, name);
    }
    mpc_graph *casts = out ? run(s, out, "insert-casts") : NULL;
    CHECK_MSG(casts != NULL && mpc_graph_verify(casts) == MPC_OK, "seed %u: casts of %s", seed,
              mpc_str_cstr(&pipeline));
    mpc_graph_destroy(casts);
    mpc_graph_destroy(out);
    mpc_str_free(&pipeline);
}

static void random_groups(session *s) {
    unsigned mixed = 0;
    for (unsigned seed = 1; seed <= 60; seed++) {
        unsigned r = seed * 7919, count = 4 + next_random(&r) % (MOST - 4), group[3];
        mpc_str text = {0};
        random_text(&r, count, seed % 3 ? -1 : (int)(next_random(&r) % count), &text);
        mpc_graph *g = parse(s, mpc_str_cstr(&text));
        CHECK_MSG(g != NULL, "%s", mpc_str_cstr(&text));
        for (unsigned k = 0; k < 3; k++) group[k] = (next_random(&r) % (count / 3)) * 3 + k;
        mpc_graph *free_plan = g ? run(s, g, "autocast{format=bf16 solver=list}") : NULL;
        char a[16], b[16];
        snprintf(a, sizeof a, "v%u", group[0]);
        snprintf(b, sizeof b, "v%u", group[1]);
        mixed += free_plan && stored(free_plan, a) != stored(free_plan, b);
        for (uint32_t i = 0; g && i < mpc_solver_count(); i++)
            check_groups(s, g, mpc_solver_at(i)->name, group, 3, seed);
        mpc_graph_destroy(free_plan);
        mpc_graph_destroy(g);
        mpc_str_free(&text);
    }
    CHECK_MSG(mixed >= 10, "only %u groups would differ by themselves", mixed);
}

/* ---- words ---- */

static const char words[] =
    "mpir 1\ngraph @g(%x: f32[8,8], %y: i32[8]) {\n"
    "  %w = state() {name=w skip=keep trainable=true} : f32[8,8]\n"
    "  %a = matmul(%x, %w) {prec=f32} : f32[8,8] loc(\"m.mpg\":3:1) why(\"user: @f32 m.mpg:3\")\n"
    "  %b = relu(%a) {prec=bf16} : f32[8,8] loc(\"m.mpg\":4:1) why(\"policy m.mpg:9\")\n"
    "  %c = tanh(%a) : f32[8,8]\n  %d = matmul(%c, %w) : f32[8,8]\n"
    "  %ce, %lse = cross_entropy(%d, %y) : f32[8], f32[8] loc(\"m.mpg\":7:1)\n"
    "  %loss, %n = loss_mean(%ce) : f32[], f32[]\n  return(\"loss\": %loss, \"b\": %b)\n}\n";

static void refuses(session *s, const char *text, const char *options, const char *code, const char *one,
                    const char *two) {
    mpc_graph *g = parse(s, text);
    mpc_str pipeline = {0};
    mpc_str_printf(&pipeline, "autocast{format=bf16 solver=list %s}", options);
    size_t before = mpc_diag_list_count(s->diags);
    mpc_graph *out = g ? run(s, g, mpc_str_cstr(&pipeline)) : NULL;
    CHECK_MSG(g != NULL && out == NULL && mpc_diag_list_count(s->diags) == before + 1, "%s", options);
    const mpc_diag *d = mpc_diag_list_count(s->diags) > before ? mpc_diag_list_get(s->diags, before) : NULL;
    if (d) CHECK_STR(d->code, code);
    CHECK_MSG(d && strstr(d->message, one) && strstr(d->message, two), "%s: %s", options, d ? d->message : "");
    mpc_graph_destroy(out);
    mpc_graph_destroy(g);
    mpc_str_free(&pipeline);
}

static void gives(session *s, const char *options, const char *value, mpc_format format) {
    mpc_graph *g = parse(s, words);
    mpc_str pipeline = {0};
    mpc_str_printf(&pipeline, "autocast{format=bf16 solver=list %s}", options);
    mpc_graph *out = g ? run(s, g, mpc_str_cstr(&pipeline)) : NULL;
    CHECK_MSG(out != NULL && stored(out, value) == format, "%s: %s", options, value);
    mpc_graph_destroy(out);
    mpc_graph_destroy(g);
    mpc_str_free(&pipeline);
}

/* The n-th allocation fails, for every n: a clean failure, never a crash. */
static void survives_failing_memory(void) {
    bool done = false;
    for (uint64_t n = 1; n < 4000 && !done; n++) {
        session s;
        CHECK(open_session(&s));
        mpc_graph *g = parse(&s, words);
        CHECK(g != NULL);
        mpc_alloc_fail_after(n);
        mpc_graph *out = g ? run(&s, g, "autocast{format=bf16 solver=list agree=\"a|d;c|loss\"}") : NULL;
        mpc_alloc_fail_after(0);
        done = out != NULL;
        mpc_graph_destroy(out);
        mpc_graph_destroy(g);
        close_session(&s);
    }
    CHECK(done);
}

int main(void) {
    session s;
    CHECK(open_session(&s));
    random_groups(&s);
    gives(&s, "", "d", MPC_FMT_bf16);
    gives(&s, "agree=\"a|d\"", "d", MPC_FMT_f32);
    gives(&s, "agree=\"b|c@m.mpg:12\"", "c", MPC_FMT_bf16);
    gives(&s, "agree=\"d|loss\"", "d", MPC_FMT_f32);
    refuses(&s, words, "agree=\"a|b@m.mpg:12\"", "E112", "m.mpg:12", "m.mpg:9");
    refuses(&s, words, "agree=\"b|loss\"", "E112", "`b` (m.mpg:4)", "by its type");
    refuses(&s, words, "agree=\"a|c;b|c\"", "E112", "`a`", "`b`");
    refuses(&s, words, "agree=\"a\"", "E113", "`a`", "one value only");
    refuses(&s, words, "agree=\"a|b;q*\"", "E113", "`q*`", "no value");
    mpc_str text = {0};
    const char *at = strstr(words, " : f32[8], f32[8]");
    mpc_str_append_n(&text, words, (size_t)(at - words));
    mpc_str_printf(&text, " {prec=bf16}%s", at);
    refuses(&s, mpc_str_cstr(&text), "", "E111", "bf16", "`ce` (cross_entropy, m.mpg:7)");
    mpc_str_free(&text);
    close_session(&s);
    survives_failing_memory();
    return check_result();
}
