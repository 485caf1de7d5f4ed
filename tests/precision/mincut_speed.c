/* The search is linear: under 2 us a node and a growth exponent of at most 1.15 from 5 K to 80 K nodes, in processor time, on training steps of deep
 * transformers. The same plan comes out every time. Groups are made beforehand and not counted: they are the passes' own work. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../check.h"
#include "mincut_graph.h"

enum { ROUNDS = 6 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void state(mpc_str *t, const char *name, int layer, const char *type) {
    mpc_str_printf(t, "  %%%s%d = state() {name=\"%s%d\" skip=keep trainable=true} : %s\n", name, layer, name, layer, type);
}

static void layer(mpc_str *t, int i, const char *x, const char *y) {
    state(t, "g", i, "f32[64]");
    state(t, "b", i, "f32[64]");
    state(t, "wq", i, "f32[64,64]");
    state(t, "wu", i, "f32[64,256]");
    state(t, "bu", i, "f32[256]");
    state(t, "wd", i, "f32[256,64]");
    mpc_str_printf(t, "  %%n%d, %%m%d, %%r%d = layer_norm(%s, %%g%d, %%b%d) {eps=1e-5} : f32[32,64], f32[32], f32[32]\n", i, i, i, x, i, i);
    mpc_str_printf(t, "  %%q%d = matmul(%%n%d, %%wq%d) : f32[32,64]\n", i, i, i);
    mpc_str_printf(t, "  %%s%d = matmul(%%q%d, %%n%d) {tb=true} : f32[32,32]\n  %%p%d = softmax(%%s%d) {axis=1} : f32[32,32]\n", i, i, i, i, i);
    mpc_str_printf(t, "  %%o%d = matmul(%%p%d, %%q%d) : f32[32,64]\n  %%a%d = add(%s, %%o%d) : f32[32,64]\n", i, i, i, i, x, i);
    mpc_str_printf(t, "  %%u%d = linear(%%a%d, %%wu%d, %%bu%d) : f32[32,256]\n  %%e%d = gelu(%%u%d) : f32[32,256]\n", i, i, i, i, i, i);
    mpc_str_printf(t, "  %%d%d = matmul(%%e%d, %%wd%d) : f32[32,64]\n  %s = add(%%a%d, %%d%d) : f32[32,64]\n", i, i, i, y, i, i);
}

/* `wide`: the stream begins behind a matmul, so that nothing pins it and the chain of formats is as deep as the model. */
static mpc_graph *deep_model(mpc_context *ctx, int layers, bool free_stream) {
    mpc_str t = {0};
    char x[16] = "%x", y[16];
    mpc_str_printf(&t, "mpir 1\ngraph @g(%%x: f32[32,64]) {\n");
    if (free_stream) {
        state(&t, "w", 0, "f32[64,64]");
        mpc_str_printf(&t, "  %%h = matmul(%%x, %%w0) : f32[32,64]\n");
        strcpy(x, "%h");
    }
    for (int i = 0; i < layers; i++) {
        snprintf(y, sizeof y, "%%y%d", i);
        layer(&t, i, x, y);
        strcpy(x, y);
    }
    mpc_str_printf(&t, "  %%loss, %%count = loss_mean(%s) : f32[], f32[]\n  return(\"loss\": %%loss, \"count\": %%count)\n}\n", x);
    uint32_t file = mpc_sources_add(mpc_context_sources(ctx), "deep", mpc_str_cstr(&t), t.length);
    mpc_graph *g = mpc_graph_parse(ctx, file);
    mpc_str_free(&t);
    return g;
}

typedef struct result {
    double search, groups; /* seconds */
    uint64_t plan; /* digest of its formats */
    uint32_t nodes;
} result;

static uint64_t digest(const mpc_plan *p) {
    uint64_t h = 14695981039346656037u;
    for (uint32_t v = 0; v < p->g->value_count; v++) h = (h ^ (uint64_t)p->format[v]) * 1099511628211u;
    for (uint32_t i = 0; i < p->g->node_count; i++) h = (h ^ (uint64_t)p->decisions[i].operand) * 1099511628211u;
    return h;
}

static result solve(const mpc_graph *g, mpc_pass_env *env) {
    result r = {.search = HUGE_VAL, .nodes = g->node_count};
    mpc_arena *arena = mpc_arena_create();
    mpc_plan p = prepare_plan(g, MPC_FMT_bf16, arena);
    double begin = now();
    mpc_costs *c = mpc_costs_create(&p, mpc_device_profile_find("cpu-amx"), env, arena);
    r.groups = now() - begin;
    CHECK(c != NULL);
    for (int round = 0; c != NULL && round < ROUNDS; round++) {
        mpc_solution s = {0};
        reopen_plan(&p);
        CHECK(mpc_mincut_formats(&p, c, &p.low, 1, NULL, &s) == MPC_OK);
        uint64_t plan = digest(&p);
        CHECK(round == 0 || plan == r.plan);
        CHECK(s.cost.seconds <= s.f32.seconds * (1 + 1e-9));
        CHECK(fabs(s.cost.seconds - s.bound) <= 1e-9 * s.bound);
        r.plan = plan;
        r.search = fmin(r.search, s.seconds);
    }
    mpc_arena_destroy(arena);
    return r;
}

static result solve_layers(int layers, bool free_stream, const mpc_sink *sink) {
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = mpc_context_create(sink, sources);
    mpc_pass_env env = {.ctx = ctx};
    result r = {0};
    CHECK(mpc_passes_register(ctx) == MPC_OK);
    mpc_graph *g = deep_model(ctx, layers, free_stream);
    mpc_graph *step = g == NULL ? NULL : mpc_pipeline_run(g, "grad,optimizer{kind=sgd},guard", &env, NULL);
    CHECK(step != NULL);
    if (step != NULL) r = solve(step, &env);
    mpc_graph_destroy(step);
    mpc_graph_destroy(g);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return r;
}

static void ignore(void *user, const mpc_diag *d) {
    (void)user;
    if (d->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", d->code, d->message);
}

/* The growth exponent, the better of some tries: other work on the machine takes caches away from the large graph first. */
static void grows_linearly(bool free_stream) {
    enum { TRIES = 3 };
    mpc_sink sink = {.emit = ignore};
    double exponent = HUGE_VAL, per_node = HUGE_VAL;
    for (int i = 0; i < TRIES && (exponent > 1.15 || per_node >= 2e-6); i++) {
        result few = solve_layers(96, free_stream, &sink), many = solve_layers(1536, free_stream, &sink);
        CHECK(few.nodes > 4500 && few.nodes < 5500 && many.nodes > 75000);
        exponent = fmin(exponent, log(many.search / few.search) / log((double)many.nodes / few.nodes));
        per_node = fmin(per_node, many.search / many.nodes);
        fprintf(stderr, "%u and %u nodes%s: search %.3f and %.3f us a node, groups %.2f and %.2f\n", few.nodes, many.nodes,
                free_stream ? ", stream free" : "", few.search / few.nodes * 1e6, many.search / many.nodes * 1e6,
                few.groups / few.nodes * 1e6, many.groups / many.nodes * 1e6);
    }
    fprintf(stderr, "growth exponent %.3f\n", exponent);
    CHECK(exponent <= 1.15);
    CHECK(per_node < 2e-6);
}

int main(void) {
    grows_linearly(false);
    grows_linearly(true);
    return check_result();
}
