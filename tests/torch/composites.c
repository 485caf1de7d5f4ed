/* Composites against figures that PyTorch computed in f64 (make_figures.py): each model of models/ is elaborated and
 * differentiated, its parameters are those of figures.json, and gradients are compared twice: the graph in f64, and the
 * lowered graph in f32, as the device `ref` runs it. The loss is sum(y * w), so the gradient of `w` is the value. */
#include <jansson.h>
#include <math.h>

#include "ir/eval/eval.h"
#include "passes/pass.h"
#include "passes/passes.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

/* Of the largest figure of a tensor: the order of sums differs, and f32 has 2^-24. */
static const double f64_bound = 1e-14, f32_bound = 1e-6;

static const char *folder;

typedef struct figure {
    const char *name;
    json_t *data;
    mpc_arena *arena;
    double worst[2];
} figure;

/* Zeros where the figure says nothing. */
static mpc_tensor filled(mpc_arena *arena, const mpc_type *type, const json_t *figure_of) {
    mpc_tensor t = mpc_tensor_make(arena, type);
    json_t *values = json_object_get(figure_of, "values");
    int64_t count = mpc_type_elements(type);
    CHECK_MSG((int64_t)json_array_size(values) == count, "%zu values for %lld", json_array_size(values),
              (long long)count);
    for (int64_t i = 0; i < count; i++) t.data[i] = json_number_value(json_array_get(values, (size_t)i));
    return t;
}

static mpc_tensor state_of(void *user, const mpc_graph *g, const mpc_node *state) {
    figure *f = user;
    const char *name = mpc_attr_str(g, state, "name");
    json_t *values = json_object_get(json_object_get(f->data, "states"), name);
    CHECK_MSG(values != NULL, "%s: no figures for state %s", f->name, name);
    return filled(f->arena, mpc_value_type(g, mpc_result(state, 0)), values);
}

static mpc_tensor *inputs_of(figure *f, const mpc_graph *g) {
    mpc_tensor *inputs = mpc_arena_alloc(f->arena, (g->input_count + 1) * sizeof *inputs);
    for (uint32_t i = 0; i < g->input_count; i++) {
        mpc_value_id v = g->inputs[i].value;
        json_t *values = json_object_get(json_object_get(f->data, "inputs"), mpc_value_name(g, v));
        inputs[i] = filled(f->arena, mpc_value_type(g, v), values);
    }
    return inputs;
}

static void compare(figure *f, const char *name, const mpc_tensor *got, const json_t *want, bool f64) {
    mpc_tensor figures = filled(f->arena, &got->type, want);
    int64_t count = mpc_type_elements(&got->type);
    double most = 0, off = 0;
    for (int64_t i = 0; i < count; i++) {
        most = fmax(most, fabs(figures.data[i]));
        off = fmax(off, fabs(got->data[i] - figures.data[i]));
        if (isnan(got->data[i])) off = INFINITY;
    }
    double share = off / fmax(most, 1e-30);
    f->worst[f64] = fmax(f->worst[f64], share);
    CHECK_MSG(share <= (f64 ? f64_bound : f32_bound), "%s: %s is off by %g of its largest in %s", f->name, name, share,
              f64 ? "f64" : "f32");
}

static const mpc_tensor *next_of(const mpc_graph *g, const mpc_tensor *values, const char *name) {
    for (uint32_t i = 0; i < g->next_count; i++)
        if (strcmp(mpc_attr_str(g, mpc_producer(g, g->nexts[i].state), "name"), name) == 0)
            return &values[g->nexts[i].value];
    return NULL;
}

static void compare_all(figure *f, const mpc_graph *g, bool f64) {
    mpc_tensor *values = mpc_arena_alloc(f->arena, (g->value_count + 1) * sizeof *values);
    mpc_eval_options options = {.f64 = f64};
    bool ok = mpc_evaluate(g, inputs_of(f, g), state_of, f, &options, f->arena, values) == MPC_OK;
    CHECK_MSG(ok, "%s", f->name);
    if (!ok) return;
    const char *name;
    json_t *want;
    json_object_foreach(json_object_get(f->data, "grads"), name, want) {
        char output[64];
        snprintf(output, sizeof output, "grad:%s", name);
        mpc_value_id v = mpc_graph_find_output(g, output);
        CHECK_MSG(v != MPC_NONE, "%s: no gradient of %s", f->name, name);
        if (v != MPC_NONE) compare(f, name, &values[v], want, f64);
    }
    json_object_foreach(json_object_get(f->data, "next"), name, want) {
        const mpc_tensor *got = next_of(g, values, name);
        CHECK_MSG(got != NULL, "%s: nothing moves %s", f->name, name);
        if (got != NULL) compare(f, name, got, want, f64);
    }
}

static int64_t batch_of(const figure *f) {
    json_t *inputs = json_object_get(f->data, "inputs"), *first = json_object_iter_value(json_object_iter(inputs));
    json_t *size = json_array_get(json_object_get(first, "shape"), 0);
    return size != NULL ? json_integer_value(size) : 1;
}

static mpc_graph *passed(session *s, const mpc_graph *g, const char *pipeline) {
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    return g != NULL ? mpc_pipeline_run(g, pipeline, &env, &hooks) : NULL;
}

static void check_figure(figure *f) {
    char path[512];
    size_t length;
    session s;
    snprintf(path, sizeof path, "%s/models/%s.mpg", folder, f->name);
    char *text = read_whole(path, &length);
    CHECK_MSG(text != NULL, "%s", path);
    if (text == NULL) return;
    open_text(&s, path, text, NULL, 0);
    f->arena = mpc_arena_create();
    mpc_graph *forward = elaborate(&s, MPC_PHASE_TRAIN, batch_of(f));
    mpc_graph *step = mpc_passes_register(s.ctx) == MPC_OK ? passed(&s, forward, "grad") : NULL;
    mpc_graph *low = passed(&s, step, "@lower");
    CHECK_MSG(low != NULL, "%s", f->name);
    show_diagnostics(s.diags, s.sources);
    if (low != NULL) {
        compare_all(f, step, true);
        compare_all(f, low, false);
        printf("%-28s f64 %.1e, f32 %.1e\n", f->name, f->worst[true], f->worst[false]);
    }
    mpc_graph_destroy(low);
    mpc_graph_destroy(step);
    mpc_graph_destroy(forward);
    mpc_arena_destroy(f->arena);
    close_session(&s);
    free(text);
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    folder = argv[1];
    char path[512];
    snprintf(path, sizeof path, "%s/figures.json", folder);
    json_t *all = json_load_file(path, 0, NULL), *data;
    const char *name;
    CHECK_MSG(json_object_size(all) >= 12, "%s", path);
    json_object_foreach(all, name, data) if (argc < 3 || strcmp(name, argv[2]) == 0)
        check_figure(&(figure){.name = name, .data = data});
    json_decref(all);
    return check_result();
}
