/* Plugins in a context: their ops are differentiated rightly, they are gone with the context, and no failing allocation
 * leaves anything half done. argv[1]: the folder of the built examples. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ir/eval/eval.h"
#include "passes/pass.h"
#include "passes/plugins.h"
#include "passes/precision/cost.h"
#include "passes/precision/precision.h"
#include "tests/check.h"

static const char *folder;

typedef struct setting {
    mpc_sources *sources;
    mpc_diag_list *list;
    mpc_sink sink;
    mpc_context *ctx;
} setting;

static setting begin(void) {
    setting s = {.sources = mpc_sources_create(), .list = mpc_diag_list_create()};
    s.sink = mpc_diag_list_sink(s.list);
    return s;
}

static bool open_context(setting *s) {
    s->ctx = mpc_context_create(&s->sink, s->sources);
    return s->ctx && mpc_passes_register(s->ctx) == MPC_OK;
}

static void end(setting *s) {
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->list);
    mpc_sources_destroy(s->sources);
}

static mpc_status load(setting *s, const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    return mpc_plugin_load(s->ctx, path);
}

/* --- gradients --- */

enum { COUNT = 6 };
static const double POINTS[COUNT] = {-3, -0.5, -1e-3, 0.25, 1, 40};
static const double WEIGHTS[COUNT] = {1, -2, 0.5, 3, -1, 0.7}; /* a sum of all would hide a wrong element */

typedef struct point {
    double x[COUNT];
    mpc_arena *arena;
} point;

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    const point *p = user;
    mpc_tensor t = mpc_tensor_make(p->arena, mpc_value_type(g, mpc_result(state, 0)));
    for (int i = 0; i < COUNT && t.data; i++) t.data[i] = p->x[i];
    return t;
}

/* Output `name` in f64; `out` has room for `count`. */
static void evaluate(const mpc_graph *g, point *p, const char *name, double *out, int count) {
    mpc_tensor k = mpc_tensor_make(p->arena, mpc_value_type(g, g->inputs[0].value));
    mpc_tensor *values = mpc_arena_alloc(p->arena, (g->value_count + 1) * sizeof *values);
    for (int i = 0; i < COUNT; i++) k.data[i] = WEIGHTS[i];
    mpc_eval_options options = {.f64 = true};
    CHECK(mpc_evaluate(g, &k, read_state, p, &options, p->arena, values) == MPC_OK);
    for (int i = 0; i < count; i++) out[i] = values[mpc_graph_find_output(g, name)].data[i];
}

static const char TEXT[] = "mpir 1\ngraph @g(%k: f32[6]) {\n"
                           "  %w = state() {name=w trainable=true} : f32[6]\n"
                           "  %y = softsign(%w) : f32[6]\n"
                           "  %p = mul(%y, %k) : f32[6]\n"
                           "  %loss = sum(%p) {axes=[0]} : f32[]\n"
                           "  next %w, %w\n  return(\"loss\": %loss)\n}\n";

static void gradient_is_the_slope_of_the_value(void) {
    setting s = begin();
    CHECK(open_context(&s) && load(&s, "softsign") == MPC_OK);
    mpc_graph *g = mpc_graph_parse(s.ctx, mpc_sources_add(s.sources, "g", TEXT, sizeof TEXT - 1));
    mpc_pass_env env = {.ctx = s.ctx};
    mpc_graph *both[2] = {mpc_pipeline_run(g, "grad", &env, NULL), mpc_pipeline_run(g, "grad,expand", &env, NULL)};
    point p = {.arena = mpc_arena_create()};
    for (int k = 0; k < 2 && both[k]; k++)
        for (int i = 0; i < COUNT; i++) {
            double above, below, slopes[COUNT], step = 1e-5;
            memcpy(p.x, POINTS, sizeof p.x);
            evaluate(both[k], &p, "grad:w", slopes, COUNT);
            p.x[i] = POINTS[i] + step;
            evaluate(both[k], &p, "loss", &above, 1);
            p.x[i] = POINTS[i] - step;
            evaluate(both[k], &p, "loss", &below, 1);
            double slope = (above - below) / (2 * step);
            CHECK_MSG(fabs(slope - slopes[i]) < 1e-4 * (1 + fabs(slope)), "at %g: %.9g, gradient %.9g", POINTS[i],
                      slope, slopes[i]);
        }
    CHECK(both[0] && both[1]);
    mpc_arena_destroy(p.arena);
    mpc_graph_destroy(both[0]);
    mpc_graph_destroy(both[1]);
    mpc_graph_destroy(g);
    end(&s);
}

/* --- life --- */

static bool knows_all(const setting *s) {
    return mpc_pass_named(s->ctx, "double-add") && mpc_op_find(s->ctx, "softsign", NULL) &&
           mpc_solver_named(s->ctx, "wide-small") && mpc_device_profile_named(s->ctx, "toy-npu");
}

static void each_context_has_its_own_plugins(void) {
    static const char *const names[] = {"double_add", "softsign", "wide_small", "toy_npu", "fp12"};
    setting with = begin(), without = begin();
    CHECK(open_context(&with) && open_context(&without));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECK(load(&with, names[i]) == MPC_OK);
    CHECK(knows_all(&with) && mpc_format_is_user(mpc_format_find("fp12")));
    CHECK(!mpc_pass_named(without.ctx, "double-add") && !mpc_op_find(without.ctx, "softsign", NULL) &&
          !mpc_solver_named(without.ctx, "wide-small") && !mpc_device_profile_named(without.ctx, "toy-npu"));
    mpc_format place = mpc_format_find("fp12");
    CHECK(load(&without, "fp12") == MPC_OK && mpc_format_find("fp12") == place); /* formats are the process's */
    end(&with);
    CHECK(load(&without, "double_add") == MPC_OK);
    end(&without);
}

static void failing_allocations_leave_nothing_behind(void) {
    static const char *const names[] = {"double_add", "softsign", "wide_small", "toy_npu", "fp12"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        mpc_status status = MPC_NO_MEMORY;
        for (uint64_t n = 1; n < 400 && status != MPC_OK; n++) {
            setting s = begin();
            CHECK(open_context(&s));
            mpc_alloc_fail_after(n);
            status = load(&s, names[k]);
            mpc_alloc_fail_after(0);
            end(&s);
        }
        CHECK_MSG(status == MPC_OK, "%s never loads", names[k]);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) return EXIT_FAILURE;
    folder = argv[1];
    gradient_is_the_slope_of_the_value();
    each_context_has_its_own_plugins();
    failing_allocations_leave_nothing_behind();
    return check_result();
}
