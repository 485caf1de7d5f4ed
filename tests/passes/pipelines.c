/* The manager: what it refuses before anything runs, options through macros, hooks, the reproducer, and failing
 * allocations. */
#include <stdlib.h>
#include <unistd.h>

#include "../check.h"
#include "base/alloc.h"
#include "passes/instrument.h"
#include "passes/passes.h"

typedef struct session {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
} session;

static bool open_session(session *s) {
    *s = (session){.sources = mpc_sources_create(), .diags = mpc_diag_list_create()};
    if (s->sources == NULL || s->diags == NULL) return false;
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

static const char model[] =
    "mpir 1\ngraph @step(%x: f32[4,8], %y: i32[4]) {\n"
    "  %w = state() {name=w skip=keep trainable=true} : f32[8,8]\n  %b = state() {name=b skip=keep trainable=true} : "
    "f32[8]\n"
    "  %z = linear(%x, %w, %b) : f32[4,8]\n  %h = relu(%z) : f32[4,8]\n  %l = linear(%h, %w) : f32[4,8]\n"
    "  %ce, %lse = cross_entropy(%l, %y) : f32[4], f32[4]\n  %loss, %count = loss_mean(%ce) : f32[], f32[]\n"
    "  return(\"loss\": %loss, \"count\": %count)\n}\n";

static const mpc_diag *last(const session *s) {
    size_t count = mpc_diag_list_count(s->diags);
    return count == 0 ? NULL : mpc_diag_list_get(s->diags, count - 1);
}

static void refuses(session *s, const mpc_graph *g, const char *pipeline, const char *code, const char *part) {
    mpc_pass_env env = {.ctx = s->ctx};
    size_t before = mpc_diag_list_count(s->diags);
    mpc_graph *out = mpc_pipeline_run(g, pipeline, &env, NULL);
    CHECK_MSG(out == NULL, "%s", pipeline);
    mpc_graph_destroy(out);
    CHECK_MSG(mpc_diag_list_count(s->diags) == before + 1, "%s", pipeline);
    const mpc_diag *d = last(s);
    if (d == NULL) return;
    CHECK_MSG(strcmp(d->code, code) == 0, "%s gives %s", pipeline, d->code);
    CHECK_MSG(strstr(d->message, part) != NULL, "%s: %s", pipeline, d->message);
}

static void bad_pipelines(session *s, const mpc_graph *g) {
    refuses(s, g, "fold,,cse", "E101", "expected a pass, found `,cse`");
    refuses(s, g, "fold{", "E101", "expected `}`, found `the end`");
    refuses(s, g, "autocast{format}", "E101", "expected key=value");
    refuses(s, g, "fold cse", "E101", "expected `,`");
    refuses(s, g, "autocats", "E102", "did you mean `autocast`?");
    refuses(s, g, "something-else", "E102", "`mpc passes` lists them");
    refuses(s, g, "@trian", "E103", "no pipeline `@trian`");
    refuses(s, g, "autocast{fromat=bf16}", "E104", "did you mean `format`?");
    refuses(s, g, "fold{x=1}", "E104", "its options: none");
    refuses(s, g, "@train{autocast.foo=1}", "E104", "`foo`");
    refuses(s, g, "@eval{optimizer.lr=1}", "E104", "no pass of `@eval` takes `optimizer.lr`");
    refuses(s, g, "grad,optimizer{lr=fast}", "E105", "option `lr` must be float, it is `fast`");
    refuses(s, g, "grad,optimizer{accumulate=2.5}", "E105", "must be int");
    refuses(s, g, "grad,optimizer{kind=rprop}", "E105", "must be adamw, adam, sgd, nesterov or lion");
    refuses(s, g, "grad,optimizer{accumulate=0}", "E105", "at least 1");
    refuses(s, g, "autocast{format=i32}", "E105", "must be f32, tf32, bf16 or f16");
    refuses(s, g, "autocast{solver=magic}", "E105", "there is no solver `magic`");
    refuses(s, g, "grad,loss-scale{mode=maybe}", "E105", "none, static or dynamic");
    refuses(s, g, "grad,loss-scale{mode=static init=3}", "E109", "power of two");
    refuses(s, g, "grad,loss-scale{mode=dynamic backoff=1}", "E105", "below 1");
    refuses(s, g, "grad,optimizer,guard{on_nonfinite=ask}", "E105", "stop or skip");
    refuses(s, g, "optimizer", "E106", "needs gradients: run `grad` before it");
    refuses(s, g, "grad,optimizer,loss-scale", "E106", "needs gradients");
    refuses(s, g, "grad,guard", "E106", "needs an optimizer's update");
    refuses(s, g, "insert-casts", "E106", "needs decisions: run `autocast`");
    refuses(s, g, "autocast,fold,insert-casts", "E106", "needs decisions");
    refuses(s, g, "expand,fuse,dce,schedule", "E106", "needs fusion groups");
}

/* Graphs that lack what a pass relies on by name. */
static void bad_graphs(session *s) {
    static const char low[] =
        "mpir 1\ngraph @g(%x: f32[4]) {\n  %w = state() {name=w skip=keep trainable=true} : bf16[4]\n  %c = cast(%w) "
        "{to=f32} : f32[4]\n"
        "  %p = mul(%c, %x) : f32[4]\n  %loss = sum(%p) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
    static const char ghost[] = "mpir 1\ngraph @g(%x: f32[4]) {\n  return(\"grad:w\": %x, \"count\": %x)\n}\n";
    static const char lost[] = "mpir 1\ngraph @g(%x: f32[4]) {\n  return(\"grad:w\": %x)\n}\n";
    static const char half[] = "mpir 1\ngraph @g(%x: f32[4]) {\n  %n = state() {name=\"step.applied\" skip=keep} : "
                               "i32[]\n  return(\"loss\": %x)\n}\n";
    mpc_graph *g[4] = {parse(s, low), parse(s, ghost), parse(s, lost), parse(s, half)};
    refuses(s, g[0], "grad,optimizer", "E108", "parameter `w` is bf16, but masters are f32 (N70)");
    refuses(s, g[1], "optimizer", "E108", "output `count` must be a scalar");
    refuses(s, g[2], "optimizer", "E108", "no state `w`");
    refuses(s, g[2], "loss-scale{mode=static}", "E108", "no value `loss.seed`");
    refuses(s, g[3], "guard", "E108", "output `loss` must be a scalar");
    for (int i = 0; i < 4; i++) mpc_graph_destroy(g[i]);
}

/* An option through a macro inside a macro, quoted values, blanks. */
static void options_reach_passes(session *s, const mpc_graph *g) {
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_graph *a = mpc_pipeline_run(
        g, " @train{ autocast.format=\"f16\", loss-scale.mode=static optimizer.lr=0.5 } , @clean ", &env, NULL);
    mpc_graph *b = mpc_pipeline_run(g,
                                    "grad,loss-scale{mode=static},optimizer{lr=0.5},guard,autocast{format=f16},insert-"
                                    "casts,master-weights,fold,cse,dce,"
                                    "fold-casts,fold,cse,dce",
                                    &env, NULL);
    CHECK(a != NULL && b != NULL && mpc_graph_equal(a, b));
    mpc_graph *same = mpc_pipeline_run(g, "", &env, NULL);
    CHECK(same != NULL && mpc_graph_equal(same, g));
    mpc_graph_destroy(a);
    mpc_graph_destroy(b);
    mpc_graph_destroy(same);
}

static void hooks_watch(session *s, const mpc_graph *g) {
    mpc_pass_env env = {.ctx = s->ctx};
    char dir[] = "/tmp/mpc-passes-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    mpc_instrument *i = mpc_instrument_create(&(mpc_instrument_options){
        .print_after = "dce,autocast", .time_passes = true, .stats = true, .verify_each = true, .dump_dir = dir});
    mpc_pipeline_hooks hooks = mpc_instrument_hooks(i);
    mpc_graph *out = mpc_pipeline_run(g, "autocast,insert-casts,dce", &env, &hooks);
    const char *text = mpc_instrument_text(i);
    CHECK(strstr(text, "# after autocast\nmpir 1") != NULL && strstr(text, "# after dce\nmpir 1") != NULL);
    CHECK(strstr(text, "# after insert-casts\nmpir 1") == NULL && strstr(text, "# after insert-casts: ") != NULL);
    CHECK(strstr(text, "ms in all") != NULL && *mpc_instrument_reproducer(i) == '\0');
    mpc_graph_destroy(out);
    out = mpc_pipeline_run(g, "grad,optimizer{kind=rprop lr=0.5}", &env, &hooks);
    CHECK(out == NULL);
    const char *again = mpc_instrument_reproducer(i);
    CHECK(strstr(again, "# RUN: optimizer{kind=\"rprop\" lr=\"0.5\"") == again && strstr(again, "\"grad:w\"") != NULL);
    mpc_instrument_destroy(i);
    mpc_str command = {0};
    mpc_str_printf(&command,
                   "ls %s | tr '\\n' ' ' | grep -q '01-autocast.mpir 02-insert-casts.mpir 03-dce.mpir "
                   ".*reproducer.mpir' && rm -r %s",
                   dir, dir);
    CHECK(system(mpc_str_cstr(&command)) == 0);
    mpc_str_free(&command);
}

/* The assignment of one graph, printed and read back, decides another elaboration of the same names. */
static void assignment_is_made_once(session *s, const mpc_graph *g) {
    mpc_assignment *first = mpc_assignment_create(), *copy = mpc_assignment_create();
    mpc_str text = {0}, again = {0};
    mpc_pass_env env = {.ctx = s->ctx, .assignment = first};
    mpc_graph *a = mpc_pipeline_run(g, "autocast{format=bf16}", &env, NULL);
    CHECK(mpc_assignment_count(first) > 0);
    mpc_assignment_print(first, &text);
    CHECK(mpc_assignment_parse(copy, mpc_str_cstr(&text), &s->sink) == MPC_OK);
    mpc_assignment_print(copy, &again);
    CHECK_STR(mpc_str_cstr(&again), mpc_str_cstr(&text));
    env.assignment = copy; /* whatever the options say now */
    mpc_graph *b = mpc_pipeline_run(g, "autocast{format=f16}", &env, NULL);
    CHECK(a != NULL && b != NULL && mpc_graph_equal(a, b));
    static const char *const broken[] = {"", "mpc assignment 2\n", "mpc assignment 1\nx\trelu\n",
                                         "mpc assignment 1\nx\trelu\t-\tf33\t-\t-\twhy\n",
                                         "mpc assignment 1\nx\trelu\t-\tf32\t-\t-\twhy\tmore\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        CHECK(mpc_assignment_parse(copy, broken[i], &s->sink) == MPC_FAILED);
        CHECK(strcmp(last(s)->code, "E110") == 0);
    }
    mpc_graph_destroy(a);
    mpc_graph_destroy(b);
    mpc_str_free(&text);
    mpc_str_free(&again);
    mpc_assignment_destroy(first);
    mpc_assignment_destroy(copy);
}

/* The n-th allocation fails, for every n: a diagnostic or a clean failure, never a crash; the input is untouched. */
static void survives_failing_memory(const char *pipeline) {
    bool done = false;
    for (uint64_t n = 1; n < 4000 && !done; n++) {
        session s;
        if (!open_session(&s)) abort();
        mpc_graph *g = parse(&s, model), *before = g;
        mpc_pass_env env = {.ctx = s.ctx};
        mpc_alloc_fail_after(n);
        mpc_graph *out = mpc_pipeline_run(g, pipeline, &env, NULL);
        mpc_alloc_fail_after(0);
        done = out != NULL;
        CHECK(before == g && mpc_graph_verify(g) == MPC_OK);
        mpc_graph_destroy(out);
        mpc_graph_destroy(g);
        close_session(&s);
    }
    CHECK_MSG(done, "%s never ran through", pipeline);
}

int main(void) {
    session s;
    if (!open_session(&s)) return 1;
    mpc_graph *g = parse(&s, model);
    CHECK(g != NULL);
    if (g != NULL) {
        bad_pipelines(&s, g);
        bad_graphs(&s);
        options_reach_passes(&s, g);
        hooks_watch(&s, g);
        assignment_is_made_once(&s, g);
    }
    mpc_graph_destroy(g);
    close_session(&s);
    survives_failing_memory(
        "@train{autocast.format=f16 loss-scale.mode=dynamic optimizer.accumulate=2 optimizer.clip=1}");
    survives_failing_memory("@eval");
    return check_result();
}
