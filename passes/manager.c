/* The pass manager: rows of passes and pipelines as tables, requirements checked before anything runs, then one pass
 * after the other, each on a const graph. A failed pass leaves nothing behind: intermediate graphs are destroyed, the
 * caller's stays. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/scale_units.h"

enum {
    GRAD = MPC_HAS_GRAD,
    UPDATE = MPC_HAS_UPDATE,
    GUARD = MPC_HAS_GUARD,
    DECISIONS = MPC_HAS_DECISIONS,
    CASTS = MPC_HAS_CASTS,
    MASTERS = MPC_HAS_MASTERS,
    PRIMITIVES = MPC_HAS_PRIMITIVES,
    GROUPS = MPC_HAS_GROUPS,
    ORDER = MPC_HAS_ORDER,
    PLACES = MPC_HAS_PLACES,
    LOSS_SCALE = MPC_HAS_LOSS_SCALE,
};

#define PASS(id, name, requires, provides, destroys, options, doc) \
    {name, doc, options, requires, provides, destroys, mpc_pass_##id},
static const mpc_pass pass_rows[] = {
#include "passes/passes.def"
};
#undef PASS

typedef struct pipeline_row {
    const char *name, *text;
} pipeline_row;
#define PIPELINE(name, text) {name, text},
static const pipeline_row pipeline_rows[] = {
#include "passes/pipelines.def"
};
#undef PIPELINE

typedef struct property_row {
    unsigned bit;
    const char *text;
} property_row;
static const property_row property_rows[] = {
    {GRAD, "gradients"},
    {LOSS_SCALE, "a loss scale"},
    {UPDATE, "an optimizer's update"},
    {GUARD, "guards"},
    {DECISIONS, "decisions"},
    {CASTS, "inserted casts"},
    {MASTERS, "derived low copies"},
    {PRIMITIVES, "primitive ops only"},
    {GROUPS, "fusion groups"},
    {ORDER, "an order of groups"},
    {PLACES, "places in memory"},
};
enum { PROPERTY_COUNT = sizeof property_rows / sizeof *property_rows };

enum { PASS_COUNT = sizeof pass_rows / sizeof *pass_rows };

static const mpc_pass *find_built_in(const char *name) {
    for (uint32_t i = 0; i < PASS_COUNT; i++)
        if (strcmp(pass_rows[i].name, name) == 0) return &pass_rows[i];
    return NULL;
}

const mpc_pass *mpc_pass_of(const mpc_context *ctx, uint32_t index) {
    if (index < PASS_COUNT) return &pass_rows[index];
    return mpc_context_extension_at(ctx, MPC_EXT_PASS, index - PASS_COUNT);
}

const mpc_pass *mpc_pass_named(const mpc_context *ctx, const char *name) {
    const mpc_pass *pass = find_built_in(name);
    return pass != NULL ? pass : mpc_context_find_extension(ctx, MPC_EXT_PASS, name);
}

uint32_t mpc_pipeline_count(void) { return sizeof pipeline_rows / sizeof *pipeline_rows; }

const char *mpc_pipeline_name(uint32_t index) { return pipeline_rows[index].name; }

const char *mpc_pipeline_text(uint32_t index) { return pipeline_rows[index].text; }

static unsigned node_properties(const mpc_graph *g, const mpc_node *n, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(g, id);
    unsigned has = op->kind == MPC_KIND_COMPOSITE ? PRIMITIVES : 0;
    if (n->op == MPC_OP_cast && strcmp(mpc_attr_str(g, n, "by"), "autocast") == 0) has |= CASTS;
    if (n->op != MPC_OP_state) return has;
    const char *name = mpc_attr_str(g, n, "name");
    if (mpc_attr_format(g, n, "derived") != MPC_FMT_none) has |= CASTS | MASTERS;
    if (strcmp(name, "step.applied") == 0) has |= UPDATE;
    if (strcmp(name, "stop") == 0) has |= GUARD;
    if (strcmp(name, "scaler.scale") == 0) has |= LOSS_SCALE;
    return has;
}

static bool has_gradient_output(const mpc_graph *g) {
    for (uint32_t i = 0; i < g->output_count; i++)
        if (strncmp(mpc_sym_text(g->ctx, g->outputs[i].name), "grad:", 5) == 0) return true;
    return false;
}

/* What a graph that comes as text has behind it, as far as its face shows. */
static unsigned graph_properties(const mpc_graph *g) {
    unsigned has = 0;
    for (mpc_node_id i = 0; i < g->node_count; i++) has |= node_properties(g, &g->nodes[i], i);
    has ^= PRIMITIVES; /* so far: some node is composite */
    if (has_gradient_output(g)) has |= GRAD;
    if (g->decisions != NULL) has |= DECISIONS;
    if (g->groups != NULL) has |= GROUPS | ORDER;
    if (g->places != NULL) has |= PLACES;
    return has;
}

static const char *provider_of(unsigned bit) {
    for (uint32_t i = 0; i < PASS_COUNT; i++)
        if ((pass_rows[i].provides & bit) != 0) return pass_rows[i].name;
    return "none";
}

static mpc_status missing_property(const mpc_pass *pass, unsigned missing, const mpc_sink *sink) {
    for (int i = 0; i < PROPERTY_COUNT; i++)
        if ((missing & property_rows[i].bit) != 0)
            return mpc_error(sink, "E106", "pass `%s` needs %s: run `%s` before it, and no pass between that undoes it",
                             pass->name, property_rows[i].text, provider_of(property_rows[i].bit));
    return MPC_OK;
}

static mpc_status check_requirements(const mpc_pipeline *p, unsigned has, const mpc_sink *sink) {
    for (uint32_t i = 0; i < p->count; i++) {
        const mpc_pass *pass = p->items[i].pass;
        mpc_status status = missing_property(pass, pass->requires & ~has, sink);
        if (status != MPC_OK) return status;
        has = (has & ~pass->destroys) | pass->provides;
    }
    return MPC_OK;
}

static double now_seconds(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Scale units always, since a mistake in them trains on without a sign; the rest where `whole`. */
static bool is_sound(const mpc_graph *g, const char *maker, bool whole) {
    return (!whole || mpc_graph_verify(g) == MPC_OK) && mpc_scale_units_verify(g, maker) == MPC_OK;
}

static mpc_graph *verified(mpc_graph *g, const mpc_pass *pass, mpc_pass_env *env, bool whole) {
    if (g == NULL || is_sound(g, pass->name, whole)) return g;
    mpc_error(mpc_context_sink(env->ctx), "E107", "pass `%s` made an ill-formed graph; this is a defect of the pass",
              pass->name);
    mpc_graph_destroy(g);
    return NULL;
}

static mpc_graph *run_one(const mpc_graph *in, const mpc_pipeline_item *item, mpc_pass_env *env,
                          const mpc_pipeline_hooks *hooks) {
    if (hooks->before != NULL) hooks->before(hooks->user, item->pass, in);
    double start = now_seconds();
    mpc_graph *out = item->pass->run(in, &item->options, env);
    double seconds = now_seconds() - start;
    out = verified(out, item->pass, env, hooks->verify_each);
    if (out != NULL && hooks->after != NULL) hooks->after(hooks->user, item->pass, in, out, seconds);
    if (out == NULL && hooks->failed != NULL) hooks->failed(hooks->user, &item->options, in);
    return out;
}

static mpc_graph *copy_graph(const mpc_graph *in) {
    mpc_builder *b = mpc_builder_create(in->ctx, mpc_sym_text(in->ctx, in->name));
    mpc_arena *scratch = mpc_arena_create();
    mpc_value_id *map = scratch == NULL ? NULL : mpc_arena_alloc(scratch, (in->value_count + 1) * sizeof *map);
    mpc_graph *out = NULL;
    if (b != NULL && map != NULL) {
        mpc_build_copy_all(b, in, map);
        out = mpc_builder_finish(b);
    } else {
        mpc_builder_destroy(b);
        mpc_error(mpc_context_sink(in->ctx), "E901", "out of memory");
    }
    mpc_arena_destroy(scratch);
    return out;
}

static mpc_graph *run_all(const mpc_graph *in, const mpc_pipeline *p, mpc_pass_env *env,
                          const mpc_pipeline_hooks *hooks) {
    mpc_graph *current = NULL;
    for (uint32_t i = 0; i < p->count; i++) {
        mpc_graph *next = run_one(current == NULL ? in : current, &p->items[i], env, hooks);
        mpc_graph_destroy(current);
        if (next == NULL) return NULL;
        current = next;
    }
    return current == NULL ? copy_graph(in) : current;
}

mpc_graph *mpc_pipeline_run(const mpc_graph *in, const char *pipeline, mpc_pass_env *env,
                            const mpc_pipeline_hooks *hooks) {
    static const mpc_pipeline_hooks none = {0};
    const mpc_sink *sink = mpc_context_sink(env->ctx);
    mpc_arena *arena = mpc_arena_create();
    mpc_pipeline parsed;
    mpc_graph *out = NULL;
    if (hooks == NULL) hooks = &none;
    if (arena == NULL) mpc_error(sink, "E901", "out of memory");
    else if (!is_sound(in, NULL, hooks->verify_each)) out = NULL; /* not the first pass's fault */
    else if (mpc_pipeline_parse(pipeline, arena, env->ctx, &parsed) == MPC_OK &&
             check_requirements(&parsed, graph_properties(in), sink) == MPC_OK)
        out = run_all(in, &parsed, env, hooks);
    mpc_arena_destroy(arena);
    return out;
}
