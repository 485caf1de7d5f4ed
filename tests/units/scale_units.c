/* Scale units: each mistake with a scaled gradient is V20 and names what was mixed and where it comes from; what the
 * passes make has none, before and after expansion; and the units are true: with twice the scale, a value of S^k is 2^k
 * times as large, to the bit. */
#include <math.h>
#include <time.h>

#include "base/str.h"
#include "ir/eval/eval.h"
#include "passes/passes.h"
#include "passes/scale_units.h"
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

static const char *last_message(const session *s) {
    size_t count = mpc_diag_list_count(s->diags);
    return count ? mpc_diag_list_get(s->diags, count - 1)->message : "";
}

/* The graph after `pipeline`, every pass verified; NULL and a failed check when something is wrong. */
static mpc_graph *make(session *s, const char *text, const char *pipeline) {
    mpc_graph *in = mpc_graph_parse(s->ctx, mpc_sources_add(s->sources, "test", text, strlen(text)));
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *out = in ? mpc_pipeline_run(in, pipeline, &env, &hooks) : NULL;
    mpc_graph_destroy(in);
    CHECK_MSG(out != NULL, "%s: %s", pipeline, last_message(s));
    return out;
}

/* ---- mistakes ---- */

#define HEAD \
    "mpir 1\ngraph @g(%x: f32[4], %i: i32[4]) {\n" \
    "  %w = state() {name=w skip=keep trainable=true} : f32[4]\n" \
    "  %scale = state() {name=\"scaler.scale\" skip=advance role=scaler init=constant a=1024.0} : f32[]\n" \
    "  %one = const() {value=1.0} : f32[]\n" \
    "  %two = const() {value=2.0} : f32[]\n" \
    "  %zero = const() {value=0.0} : f32[]\n" \
    "  %inverse = div(%one, %scale) : f32[]\n" \
    "  %dy = mul(%x, %scale) : f32[4]\n" \
    "  %g = unscale(%dy, %inverse) : f32[4]\n"

typedef struct mistake {
    const char *what, *nodes, *end;
    const char *expected[4]; /* words of the message; NULL: no mistake */
} mistake;

static const mistake mistakes[] = {
    {"a sum of a gradient and a scaled one",
     "  %bad = add(%g, %dy) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: add", "`g` carries 1 (from `g`)", "`dy` carries S^1 (from `scale`)"}},
    {"a choice between them",
     "  %c = gt(%x, %zero) : bool[4]\n  %bad = where(%c, %dy, %g) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: where", "S^1"}},
    {"a norm of a scaled gradient",
     "  %n = global_norm(%g, %dy) : f32[]\n",
     "\"y\": %n",
     {"`n`: global_norm", "true values only", "`dy` carries S^1", "`g`"}},
    {"clipping by a literal",
     "  %bad = minimum(%dy, %two) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: minimum", "`two` carries 1"}},
    {"a comparison", "  %bad = gt(%dy, %two) : bool[4]\n", "\"y\": %x", {"`bad`: gt", "`dy` carries S^1", "`two`"}},
    {"an update",
     "  %m = const() {value=0.0} : f32[4]\n  %new, %moment = sgd(%w, %dy, %m, %one) : f32[4], f32[4]\n",
     "\"y\": %x",
     {"`new`: sgd", "`dy` carries S^1", "`w`"}},
    {"unscaling twice",
     "  %bad = unscale(%g, %inverse) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: unscale", "doesn't give a true gradient", "`g` carries 1", "`inverse` carries S^-1"}},
    {"unscaling by the scale",
     "  %bad = unscale(%dy, %scale) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: unscale", "`scale` carries S "}},
    {"a product of two scaled ones, unscaled once",
     "  %dd = mul(%dy, %dy) : f32[4]\n  %bad = unscale(%dd, %inverse) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: unscale", "`dd` carries S^2"}},
    {"an exponential", "  %bad = exp(%dy) : f32[4]\n", "\"y\": %x", {"`bad`: exp", "`dy` carries S^1"}},
    {"a gradient rule that gets it as its activation",
     "  %bad = gelu_grad(%dy, %x) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: gelu_grad", "`dy` carries S^1"}},
    {"an output", "", "\"grad:w\": %dy", {"the output `grad:w`", "`dy` carries S^1 (from `scale`)"}},
    {"an accumulator", "  next %w, %dy\n", "\"y\": %x", {"next value of `w`", "`dy` carries S^1"}},
    {"a scaled bias",
     "  %a = reshape(%x) {shape=[1,4]} : f32[1,4]\n  %k = const() {value=1.0} : f32[4,4]\n  %bad = linear(%a, %k, %dy) "
     ": f32[1,4]\n",
     "\"y\": %x",
     {"`bad`: linear", "adds a bias of another scale"}},
    {"the scale as its own gradient's next value",
     "  %d = sum(%dy) {axes=[0]} : f32[]\n  next %scale, %d\n",
     "\"y\": %x",
     {"next value of `scale`", "`d` carries S^1"}},
    {"a converted flag added to it",
     "  %c = gt(%x, %zero) : bool[4]\n  %f = cast(%c) {to=f32 by=front} : f32[4]\n  %bad = add(%dy, %f) : f32[4]\n",
     "\"y\": %x",
     {"`bad`: add", "`f` carries 1 (from `f`)"}},
    /* what is right */
    {"zero fits every unit",
     "  %c = gt(%x, %zero) : bool[4]\n  %r = where(%c, %dy, %zero) : f32[4]\n  %s = add(%r, %dy) : f32[4]\n  %u = "
     "unscale(%s, %inverse) : f32[4]\n",
     "\"grad:w\": %u",
     {NULL}},
    {"a scale may be compared, limited, and go out",
     "  %c = lt(%scale, %one) : bool[]\n  %d = mul(%scale, %two) : f32[]\n  %e = minimum(%d, %two) : f32[]\n"
     "  %s = where(%c, %e, %scale) : f32[]\n  next %scale, %s\n",
     "\"scale\": %scale",
     {NULL}},
    {"a sign is the same in every unit",
     "  %c = eq(%dy, %zero) : bool[4]\n  %d = gt(%dy, %scale) : bool[4]\n",
     "\"y\": %c",
     {NULL}},
    {"finite or not is asked in any unit", "  %f = is_finite(%dy) : bool[4]\n", "\"y\": %f", {NULL}},
    {"a ratio of two scaled ones is a true value",
     "  %q = div(%dy, %scale) : f32[4]\n  %n = global_norm(%q) : f32[]\n",
     "\"y\": %n",
     {NULL}},
    {"linear parts keep it",
     "  %s = sum(%dy) {axes=[0]} : f32[]\n  %n = neg(%s) : f32[]\n  %m = mul(%n, %two) : f32[]\n  %u = unscale(%m, "
     "%inverse) : f32[]\n",
     "\"y\": %u",
     {NULL}},
};

/* Any pipeline refuses it before its first pass, whether passes are verified or not. */
static void check_in_a_pipeline(session *s, const mistake *m, const mpc_graph *g) {
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_graph *out = g != NULL ? mpc_pipeline_run(g, "dce", &env, NULL) : NULL;
    CHECK_MSG((out != NULL) == (m->expected[0] == NULL), "%s, in a pipeline: %s", m->what, last_message(s));
    CHECK_MSG(out != NULL || strcmp(mpc_diag_list_get(s->diags, 1)->code, "V20") == 0, "%s", last_message(s));
    mpc_graph_destroy(out);
}

static void check_mistake(const mistake *m) {
    session s;
    mpc_str text = {0};
    mpc_str_append(&text, HEAD);
    mpc_str_printf(&text, "%s  return(%s)\n}\n", m->nodes, m->end);
    CHECK(open_session(&s));
    mpc_graph *g = mpc_graph_parse(s.ctx, mpc_sources_add(s.sources, "test", mpc_str_cstr(&text), text.length));
    CHECK_MSG(g != NULL && mpc_graph_verify(g) == MPC_OK, "%s: %s", m->what, last_message(&s));
    mpc_status status = g ? mpc_scale_units_verify(g, NULL) : MPC_FAILED;
    CHECK_MSG((status == MPC_OK) == (m->expected[0] == NULL), "%s: %s", m->what, last_message(&s));
    size_t count = mpc_diag_list_count(s.diags);
    if (m->expected[0])
        CHECK_MSG(count == 1 && strcmp(mpc_diag_list_get(s.diags, 0)->code, "V20") == 0, "%s: %zu", m->what, count);
    for (int i = 0; i < 4 && m->expected[i] && count; i++)
        CHECK_MSG(strstr(mpc_diag_list_get(s.diags, 0)->message, m->expected[i]), "%s: no %s in: %s", m->what,
                  m->expected[i], last_message(&s));
    check_in_a_pipeline(&s, m, g);
    mpc_graph_destroy(g);
    mpc_str_free(&text);
    close_session(&s);
}

/* ---- a pass that makes a mistake ---- */

/* What a careless researcher might write: the scaled gradient is added to the true one. */
static mpc_graph *mix(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)options, (void)env;
    mpc_builder *b = mpc_builder_create(in->ctx, "g");
    mpc_value_id map[64] = {0};
    if (b == NULL || in->value_count > 64) return NULL;
    mpc_build_copy_all(b, in, map);
    for (mpc_node_id i = 0; i < in->node_count; i++) {
        const mpc_node *n = &in->nodes[i];
        if (n->op != MPC_OP_unscale) continue;
        mpc_builder_set_name(b, "mixed");
        mpc_build2(b, MPC_OP_add, map[n->result_begin], map[mpc_operand(in, n, 0)]);
    }
    return mpc_builder_finish(b);
}

static void the_pass_that_mixes_is_named(void) {
    static const mpc_pass mixer = {.name = "mixer", .doc = "", .options = "", .run = mix};
    session s;
    CHECK(open_session(&s) && mpc_context_extend(s.ctx, MPC_EXT_PASS, "mixer", &mixer) == MPC_OK);
    const char text[] = HEAD "  return(\"y\": %g)\n}\n";
    mpc_graph *in = mpc_graph_parse(s.ctx, mpc_sources_add(s.sources, "test", text, strlen(text)));
    mpc_pass_env env = {.ctx = s.ctx};
    mpc_graph *out = in != NULL ? mpc_pipeline_run(in, "fold,mixer,dce", &env, NULL) : NULL;
    CHECK(in != NULL && out == NULL && mpc_diag_list_count(s.diags) == 2);
    const mpc_diag *found = mpc_diag_list_count(s.diags) ? mpc_diag_list_get(s.diags, 0) : NULL;
    CHECK_MSG(found && strcmp(found->code, "V20") == 0 && strstr(found->message, "`mixed`") &&
                  strstr(found->message, "pass `mixer`"),
              "%s", found ? found->message : "nothing");
    mpc_graph_destroy(out);
    mpc_graph_destroy(in);
    close_session(&s);
}

/* ---- what it costs, since every pass of every command pays it ---- */

/* Seconds of one check of a chain of so many nodes; 0 and a failed check when it couldn't be made. */
static double seconds_of_check(uint32_t nodes) {
    session s;
    mpc_str text = {0};
    mpc_str_append(&text, HEAD "  %v0 = mul(%dy, %two) : f32[4]\n");
    for (uint32_t i = 1; i < nodes; i++)
        mpc_str_printf(&text, "  %%v%u = %s(%%v%u, %%%s) : f32[4]\n", i, i % 2 ? "add" : "mul", i - 1,
                       i % 2 ? "dy" : "two");
    mpc_str_printf(&text, "  %%u = unscale(%%v%u, %%inverse) : f32[4]\n  return(\"y\": %%u)\n}\n", nodes - 1);
    bool ok = open_session(&s) && !text.failed;
    mpc_graph *g = ok ? mpc_graph_parse(s.ctx, mpc_sources_add(s.sources, "test", text.data, text.length)) : NULL;
    double best = 0;
    for (int round = 0; g != NULL && round < 5; round++) {
        clock_t begin = clock();
        ok = mpc_scale_units_verify(g, NULL) == MPC_OK && ok;
        double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (round == 0 || seconds < best) best = seconds;
    }
    CHECK_MSG(g != NULL && ok, "%s", last_message(&s));
    mpc_graph_destroy(g);
    mpc_str_free(&text);
    close_session(&s);
    return best;
}

/* Measured: 0.05 us a node; one compilation asks some 26 times and takes 40 us a node and more. */
static void it_is_linear_and_quick(void) {
    double small = seconds_of_check(20000), large = seconds_of_check(80000);
    printf("scale units: %.3f us a node at 20K nodes, %.3f at 80K\n", small / 20e3 * 1e6, large / 80e3 * 1e6);
    CHECK_MSG(large < 80e3 * 0.5e-6 && large < 4 * 2 * small + 1e-3, "%g s and %g s", small, large);
}

/* ---- what the passes make ---- */

static const char mlp[] = "mpir 1\ngraph @g(%x: f32[4,8], %y: i32[4]) {\n"
                          "  %w1 = state() {name=w1 skip=keep trainable=true} : f32[8,8]\n"
                          "  %b1 = state() {name=b1 skip=keep trainable=true} : f32[8]\n"
                          "  %ga = state() {name=ga skip=keep trainable=true init=ones} : f32[8]\n"
                          "  %be = state() {name=be skip=keep trainable=true} : f32[8]\n"
                          "  %w2 = state() {name=w2 skip=keep trainable=true} : f32[8,3]\n"
                          "  %z = linear(%x, %w1, %b1) : f32[4,8]\n"
                          "  %a = gelu(%z) : f32[4,8]\n"
                          "  %n, %mean, %rstd = layer_norm(%a, %ga, %be) : f32[4,8], f32[4], f32[4]\n"
                          "  %r = add(%n, %z) : f32[4,8]\n"
                          "  %m = maximum(%r, %n) : f32[4,8]\n"
                          "  %logits = linear(%m, %w2) : f32[4,3]\n"
                          "  %ce, %lse = cross_entropy(%logits, %y) : f32[4], f32[4]\n"
                          "  %loss, %count = loss_mean(%ce) : f32[], f32[]\n"
                          "  return(\"loss\": %loss, \"count\": %count)\n}\n";

static void passes_make_no_mistake(void) {
    static const char *const modes[] = {"mode=static init=1024", "mode=static init=1", "mode=dynamic init=1024"};
    static const char *const tails[] = {"", ",@clean", ",@lower"};
    for (unsigned i = 0; i < 9; i++) {
        session s;
        mpc_str pipeline = {0};
        mpc_str_printf(&pipeline,
                       "grad,loss-scale{%s},optimizer{kind=adamw clip=1 "
                       "accumulate=%u},guard,autocast{format=f16},insert-casts,master-weights%s",
                       modes[i % 3], 1 + i % 2, tails[i / 3]);
        CHECK(open_session(&s));
        mpc_graph_destroy(make(&s, mlp, mpc_str_cstr(&pipeline)));
        mpc_str_free(&pipeline);
        close_session(&s);
    }
}

/* ---- soundness ---- */

typedef struct evaluated {
    session s;
    mpc_arena *arena;
    mpc_graph *g;
    mpc_scale_unit *units;
    mpc_tensor *values;
    double scale;
} evaluated;

static void fill(mpc_tensor *t, unsigned seed, double constant) {
    for (int64_t k = 0; k < mpc_type_elements(&t->type); k++) {
        seed = seed * 1664525u + 1013904223u;
        double u = (double)(seed >> 8) / (1u << 24) - 0.5;
        t->data[k] = constant != 0                   ? constant
                     : t->type.format == MPC_FMT_i32 ? (double)(seed >> 30) * 2 / 3
                                                     : mpc_round_to(t->type.format, u);
        if (t->type.format == MPC_FMT_i32) t->data[k] = floor(t->data[k]);
    }
}

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *n) {
    evaluated *e = user;
    mpc_tensor t = mpc_tensor_make(e->arena, mpc_value_type(g, n->result_begin));
    const char *name = mpc_attr_str(g, n, "name");
    bool moves = strcmp(mpc_attr_str(g, n, "role"), "param") == 0;
    if (moves) fill(&t, (unsigned)strlen(name) + (unsigned)name[0] * 7u + (unsigned)name[1], 0);
    else memset(t.data, 0, (size_t)mpc_type_elements(&t.type) * sizeof *t.data);
    if (strcmp(name, "scaler.scale") == 0) t.data[0] = e->scale;
    return t;
}

static bool evaluate(evaluated *e, const char *pipeline, double scale) {
    *e = (evaluated){.scale = scale, .arena = mpc_arena_create()};
    if (!open_session(&e->s)) return false;
    e->g = make(&e->s, mlp, pipeline);
    if (e->g == NULL || mpc_scale_units(e->g, e->arena, &e->units) != MPC_OK || e->units == NULL) return false;
    mpc_tensor inputs[8];
    for (uint32_t i = 0; i < e->g->input_count && i < 8; i++) {
        inputs[i] = mpc_tensor_make(e->arena, mpc_value_type(e->g, e->g->inputs[i].value));
        fill(&inputs[i], 77 + i, 0);
    }
    e->values = mpc_arena_alloc(e->arena, (e->g->value_count + 1) * sizeof *e->values);
    return mpc_evaluate(e->g, inputs, read_state, e, NULL, e->arena, e->values) == MPC_OK;
}

static void finish(evaluated *e) {
    mpc_graph_destroy(e->g);
    mpc_arena_destroy(e->arena);
    close_session(&e->s);
}

/* Values of the same name in both graphs. `scaled`: how many carried S to some power. */
static void compare(const evaluated *once, const evaluated *twice, unsigned *scaled) {
    for (mpc_value_id v = 0; v < once->g->value_count; v++) {
        const mpc_scale_unit *u = &once->units[v];
        if (u->kind == MPC_SCALE_UNIT_ANY || u->kind == MPC_SCALE_UNIT_OPEN ||
            !mpc_format_is_float(mpc_value_format(once->g, v)))
            continue;
        mpc_value_id other = mpc_graph_find_value(twice->g, mpc_value_name(once->g, v));
        const mpc_tensor *a = &once->values[v], *b = other == MPC_NONE ? NULL : &twice->values[other];
        int exponent = u->kind == MPC_SCALE_UNIT_SCALE ? 1 : u->exponent;
        bool same = b != NULL;
        for (int64_t k = 0; same && k < mpc_type_elements(&a->type); k++)
            same = b->data[k] == ldexp(a->data[k], exponent) || (isnan(a->data[k]) && isnan(b->data[k]));
        *scaled += exponent != 0;
        CHECK_MSG(same, "%s, S^%d", mpc_value_name(once->g, v), exponent);
    }
}

static void twice_the_scale_doubles_what_is_scaled(void) {
    static const char *const tails[] = {"", ",autocast{format=bf16},insert-casts", ",expand", ",@clean", ",@lower"};
    for (unsigned i = 0; i < sizeof tails / sizeof *tails; i++) {
        mpc_str pipeline = {0};
        mpc_str_printf(&pipeline,
                       "grad,loss-scale{mode=dynamic max=1099511627776},optimizer{kind=sgd lr=0.1 clip=1},guard%s",
                       tails[i]);
        evaluated once, twice;
        unsigned scaled = 0;
        bool ok = evaluate(&once, mpc_str_cstr(&pipeline), 1024),
             both = evaluate(&twice, mpc_str_cstr(&pipeline), 2048);
        CHECK_MSG(ok && both, "%s", mpc_str_cstr(&pipeline));
        if (ok && both) compare(&once, &twice, &scaled);
        CHECK_MSG(scaled >= 12, "%u values are scaled after %s", scaled, mpc_str_cstr(&pipeline));
        finish(&once);
        finish(&twice);
        mpc_str_free(&pipeline);
    }
}

int main(void) {
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) check_mistake(&mistakes[i]);
    the_pass_that_mixes_is_named();
    it_is_linear_and_quick();
    passes_make_no_mistake();
    twice_the_scale_doubles_what_is_scaled();
    return check_result();
}
