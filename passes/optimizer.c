/* Turns gradients into updates, in this order and no other (N62): accumulate, divide by what counted, norm, clip, decay
 * and update. With accumulate > 1 the graph is one micro-step; `update` says that it ends a window, and every state but
 * the accumulators stands still until then. What must not happen on a step that is refused is not decided here: `guard`
 * does that for all states alike. Gradients come as outputs `grad:NAME`, or `grad:NAME#SHARE` where losses that train
 * NAME don't count alike. */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "passes/optimizer_parts.h"

mpc_value_id mpc_optimizer_named(mpc_optimizer *p, const char *name, mpc_op_id op, mpc_value_id a, mpc_value_id b) {
    mpc_builder_set_name(p->rw.b, name);
    return mpc_build2(p->rw.b, op, a, b);
}

static mpc_value_id f32_const(mpc_optimizer *p, double value) { return mpc_build_const(p->rw.b, value, MPC_FMT_f32); }

mpc_value_id mpc_optimizer_scalar(mpc_optimizer *p, const char *name, mpc_format format, const char *skip) {
    return mpc_rewrite_state(&p->rw, name, mpc_scalar_type(p->rw.in->ctx, format), skip, "counter", 0);
}

const char *mpc_optimizer_path(mpc_optimizer *p, const mpc_update_parameter *q, const char *suffix) {
    const char *path = mpc_arena_printf(p->rw.scratch, "%s/%s", q->name, suffix);
    if (path == NULL) mpc_builder_fail(p->rw.b, "out of memory");
    return path == NULL ? "" : path;
}

mpc_value_id mpc_optimizer_like(mpc_optimizer *p, const mpc_update_parameter *q, const char *suffix, const char *skip,
                                const char *role) {
    const mpc_graph *g = p->rw.in;
    mpc_type_id type = mpc_type_with_format(g->ctx, g->values[mpc_result(q->state, 0)].type, MPC_FMT_f32);
    return mpc_rewrite_state(&p->rw, mpc_optimizer_path(p, q, suffix), type, skip, role, 0);
}

/* --- norm, clipping --- */

/* With accumulation the norm of the sums over what counted, so that a micro-step that ends no window needs no means;
 * several counts are no divisor in common, so there it is that of the means. */
static void measure_norm(mpc_optimizer *p) {
    bool divides = p->total != MPC_NONE;
    if (p->accumulate <= 1)
        for (uint32_t i = 0; i < p->count; i++) p->sums[i] = p->parameters[i].gradient;
    mpc_builder_set_name(p->rw.b, divides ? "window.norm" : "grad_norm");
    p->norm = p->count == 0 ? f32_const(p, 0) : mpc_build(p->rw.b, MPC_OP_global_norm, p->sums, p->count, NULL, 0);
    if (divides) p->norm = mpc_optimizer_named(p, "grad_norm", MPC_OP_div, p->norm, p->total);
}

/* By the norm, min(1, clip / norm): 1 for a zero norm (clip / 0 is infinite), NaN for a NaN norm, which `guard`
 * refuses.
 */
static void clip_by_norm(mpc_optimizer *p, double clip) {
    mpc_value_id ratio = mpc_build2(p->rw.b, MPC_OP_div, f32_const(p, clip), p->norm);
    mpc_value_id factor = mpc_optimizer_named(p, "clip.factor", MPC_OP_minimum, ratio, f32_const(p, 1));
    for (uint32_t i = 0; i < p->count; i++) {
        mpc_update_parameter *q = &p->parameters[i];
        q->gradient = mpc_optimizer_named(p, mpc_optimizer_path(p, q, "clipped"), MPC_OP_mul, q->gradient, factor);
    }
}

/* Element by element, into [-bound, bound]; NaN stays NaN. */
static void clip_by_value(mpc_optimizer *p, double bound) {
    mpc_value_id low = f32_const(p, -bound), high = f32_const(p, bound);
    for (uint32_t i = 0; i < p->count; i++) {
        mpc_update_parameter *q = &p->parameters[i];
        mpc_value_id above = mpc_build2(p->rw.b, MPC_OP_maximum, q->gradient, low);
        q->gradient = mpc_optimizer_named(p, mpc_optimizer_path(p, q, "bounded"), MPC_OP_minimum, above, high);
    }
}

static void clip_gradients(mpc_optimizer *p) {
    double norm = mpc_option_float(p->o, "clip"), value = mpc_option_float(p->o, "clip_value");
    if (norm > 0) clip_by_norm(p, norm);
    if (value > 0) clip_by_value(p, value);
}

/* --- the old graph --- */

static const char *gradient_name(const mpc_graph *g, uint32_t output) {
    const char *name = mpc_sym_text(g->ctx, g->outputs[output].name);
    return strncmp(name, "grad:", 5) == 0 ? name + 5 : NULL;
}

/* Name -> node of every state that isn't a copy. NULL when out of memory. */
static mpc_map *index_states(const mpc_graph *g) {
    mpc_map *index = mpc_map_create();
    bool ok = index != NULL;
    for (mpc_node_id i = 0; ok && i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (n->op == MPC_OP_state && mpc_attr_format(g, n, "derived") == MPC_FMT_none)
            ok = mpc_map_set(index, mpc_attr_str(g, n, "name"), i);
    }
    if (ok) return index;
    mpc_map_destroy(index);
    return NULL;
}

/* Everything but the outputs `grad:...`, which end here. */
static void copy_graph(mpc_optimizer *p) {
    const mpc_graph *g = p->rw.in;
    for (mpc_node_id i = 0; i < g->node_count; i++) mpc_rewrite_copy_node(&p->rw, i);
    for (uint32_t i = 0; i < g->next_count; i++)
        mpc_build_next(p->rw.b, p->rw.map[g->nexts[i].state], p->rw.map[g->nexts[i].value]);
    for (uint32_t i = 0; i < g->output_count; i++)
        if (gradient_name(g, i) == NULL)
            mpc_build_output(p->rw.b, mpc_sym_text(g->ctx, g->outputs[i].name), p->rw.map[g->outputs[i].value]);
}

/* The state of a gradient output; NULL after a diagnostic. Masters are f32 (N70). */
static const mpc_node *master_of(const mpc_graph *g, const mpc_map *states, const char *name) {
    const mpc_sink *sink = mpc_context_sink(g->ctx);
    uint32_t id;
    if (!mpc_map_get(states, name, &id)) {
        mpc_error(sink, "E108", "optimizer: there is no state `%s` for the output `grad:%s`", name, name);
        return NULL;
    }
    mpc_format format = mpc_value_format(g, mpc_result(&g->nodes[id], 0));
    if (format == MPC_FMT_f32) return &g->nodes[id];
    mpc_error(sink, "E108", "optimizer: parameter `%s` is %s, but masters are f32 (N70)", name,
              mpc_format_get(format)->name);
    return NULL;
}

/* "w#2": the name ends before the share; 0: there is none. `name` is NULL when out of memory. */
static int64_t read_share(mpc_arena *arena, const char **name) {
    const char *mark = strrchr(*name, '#');
    if (mark == NULL) return 0;
    *name = mpc_arena_strndup(arena, *name, (size_t)(mark - *name));
    return strtoll(mark + 1, NULL, 10);
}

/* Parameters keep the order in which they are first mentioned. */
static mpc_status add_gradient(mpc_optimizer *p, const mpc_graph *g, const mpc_map *states, mpc_arena *arena,
                               uint32_t output) {
    const char *name = gradient_name(g, output);
    mpc_gradient_part *part = mpc_arena_alloc(arena, sizeof *part);
    int64_t share = read_share(arena, &name);
    if (part == NULL || name == NULL) return mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
    *part = (mpc_gradient_part){.share = share, .gradient = g->outputs[output].value};
    const mpc_node *state = master_of(g, states, name);
    if (state == NULL) return MPC_FAILED;
    mpc_update_parameter *q = p->parameters;
    while (q < p->parameters + p->count && q->state != state) q++;
    if (q == p->parameters + p->count) p->parameters[p->count++] = (mpc_update_parameter){.name = name, .state = state};
    mpc_gradient_part **end = &q->parts;
    while (*end != NULL) end = &(*end)->next;
    *end = part;
    return MPC_OK;
}

/* Names and states; the values of the new graph follow when it is copied. */
static mpc_status collect_parameters(mpc_optimizer *p, const mpc_graph *g, mpc_arena *arena) {
    size_t count = (size_t)g->output_count + 1;
    p->parameters = mpc_arena_alloc(arena, count * sizeof *p->parameters);
    p->sums = mpc_arena_alloc(arena, count * sizeof *p->sums);
    mpc_map *states = index_states(g);
    mpc_status status = MPC_OK;
    if (p->parameters == NULL || p->sums == NULL || states == NULL)
        status = mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
    for (uint32_t i = 0; i < g->output_count && status == MPC_OK; i++) {
        if (gradient_name(g, i) != NULL) status = add_gradient(p, g, states, arena, i);
    }
    mpc_map_destroy(states);
    return status;
}

/* The gradient as one micro-batch has it. */
static void map_parameters(mpc_optimizer *p) {
    for (uint32_t i = 0; i < p->count; i++) {
        mpc_update_parameter *q = &p->parameters[i];
        q->value = p->rw.map[mpc_result(q->state, 0)];
        q->gradient = p->rw.map[q->parts->gradient];
        for (const mpc_gradient_part *part = q->parts->next; part != NULL && p->accumulate <= 1; part = part->next)
            q->gradient = mpc_build2(p->rw.b, MPC_OP_add, q->gradient, p->rw.map[part->gradient]);
    }
}

static void add_outputs(mpc_optimizer *p) {
    mpc_builder *b = p->rw.b;
    mpc_build_output(b, "grad_norm", p->norm);
    mpc_build_output(b, "lr", p->rate);
    mpc_build_output(b, "update", p->update);
    mpc_build_output(b, "applied", p->next_applied);
}

static mpc_graph *build(mpc_optimizer *p, const mpc_graph *in) {
    if (!mpc_rewrite_begin(&p->rw, in)) return NULL;
    mpc_builder *b = p->rw.b;
    if (p->accumulate > 1) {
        mpc_attr_arg source = MPC_A_STR("source", "control:flush");
        p->flush = mpc_build_input(b, "control.flush", mpc_scalar_type(in->ctx, MPC_FMT_bool), &source, 1);
    }
    copy_graph(p);
    map_parameters(p);
    p->zero = f32_const(p, 0);
    if (p->count == 0) { /* a step without gradients counts as nothing: no valid element */
        mpc_builder_set_name(b, "window.valid");
        mpc_build_const(b, 0, MPC_FMT_f32);
    }
    if (p->accumulate > 1) {
        mpc_optimizer_accumulate(p);
    } else {
        mpc_builder_set_name(b, "step.update");
        p->update = mpc_build_const(b, 1, MPC_FMT_bool);
    }
    measure_norm(p);
    clip_gradients(p);
    mpc_optimizer_set_rate(p);
    mpc_optimizer_update(p);
    add_outputs(p);
    return mpc_rewrite_finish(&p->rw);
}

static mpc_status check_options(const mpc_pass_options *o, const mpc_sink *sink) {
    if (mpc_optimizer_check_kind(o, sink) != MPC_OK) return MPC_FAILED;
    if (mpc_option_int(o, "accumulate") < 1)
        return mpc_error(sink, "E105", "optimizer: `accumulate` must be at least 1");
    if (!(mpc_option_float(o, "nominal") > 0)) return mpc_error(sink, "E105", "optimizer: `nominal` must be positive");
    return MPC_OK;
}

mpc_graph *mpc_pass_optimizer(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    if (check_options(options, mpc_context_sink(env->ctx)) != MPC_OK) return NULL;
    mpc_arena *arena = mpc_arena_create();
    mpc_optimizer p = {.o = options, .total = MPC_NONE, .accumulate = mpc_option_int(options, "accumulate")};
    mpc_graph *out = NULL;
    if (arena == NULL) mpc_error(mpc_context_sink(env->ctx), "E901", "out of memory");
    else if (mpc_check_scalar_output(in, "optimizer", "count", MPC_FMT_f32, true) == MPC_OK &&
             collect_parameters(&p, in, arena) == MPC_OK)
        out = build(&p, in);
    mpc_arena_destroy(arena);
    return out;
}
