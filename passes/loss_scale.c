/* Loss scaling (N80-N86): the backward pass starts from the scale instead of 1, and every gradient is multiplied by the
 * reciprocal of that same scale before anything else sees it, so a scaled gradient cannot be clipped or compared by
 * mistake (N62, N85). Whether a step overflowed is only known to `guard`, which rebinds the two flags that
 * `scaler_update` reads here. */
#include <math.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct scaling {
    mpc_rewrite rw;
    const mpc_pass_options *options;
    bool dynamic;
    mpc_value_id scale, clean, inverse; /* in the new graph; clean: dynamic only */
} scaling;

static bool is_power_of_two(double x) {
    int exponent;
    return isfinite(x) && x > 0 && frexp(x, &exponent) == 0.5;
}

static mpc_status check_powers(const mpc_pass_options *o, const mpc_sink *sink) {
    static const char *const keys[] = {"init", "growth", "backoff", "max", "min"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double x = mpc_option_float(o, keys[i]);
        if (!is_power_of_two(x))
            return mpc_error(sink, "E109", "loss scale: `%s` must be a power of two (N64), it is %g", keys[i], x);
    }
    if (mpc_option_float(o, "backoff") >= 1)
        return mpc_error(sink, "E105", "loss scale: `backoff` must be below 1, else the scale never falls");
    if (mpc_option_float(o, "growth") < 1) return mpc_error(sink, "E105", "loss scale: `growth` must be at least 1");
    if (mpc_option_int(o, "interval") < 1) return mpc_error(sink, "E105", "loss scale: `interval` must be at least 1");
    if (mpc_option_float(o, "init") < mpc_option_float(o, "min"))
        return mpc_error(sink, "E105", "loss scale: `init` is below `min`, at which a run ends");
    return MPC_OK;
}

static void add_scale(scaling *s) {
    mpc_context *ctx = s->rw.in->ctx;
    double init = mpc_option_float(s->options, "init");
    if (s->dynamic) {
        s->scale =
            mpc_rewrite_state(&s->rw, "scaler.scale", mpc_scalar_type(ctx, MPC_FMT_f32), "advance", "scaler", init);
        s->clean = mpc_rewrite_state(&s->rw, "scaler.clean", mpc_scalar_type(ctx, MPC_FMT_i32), "advance", "scaler", 0);
    } else {
        mpc_builder_set_name(s->rw.b, "scaler.scale");
        s->scale = mpc_build_const(s->rw.b, init, MPC_FMT_f32);
    }
    mpc_value_id one = mpc_build_const(s->rw.b, 1, MPC_FMT_f32);
    mpc_builder_set_name(s->rw.b, "scaler.inverse");
    s->inverse = mpc_build2(s->rw.b, MPC_OP_div, one, s->scale);
}

static void copy_nodes(scaling *s, mpc_value_id seed) {
    mpc_rewrite *rw = &s->rw;
    for (mpc_node_id i = 0; i < rw->in->node_count; i++) {
        mpc_rewrite_copy_node(rw, i);
        if (mpc_result(&rw->in->nodes[i], 0) != seed) continue;
        add_scale(s);
        mpc_builder_set_name(rw->b, "loss.seed.scaled");
        rw->map[seed] = mpc_build2(rw->b, MPC_OP_mul, rw->map[seed], s->scale);
    }
}

static void unscale_gradients(scaling *s) {
    const mpc_graph *in = s->rw.in;
    for (uint32_t i = 0; i < in->output_count; i++) {
        const char *name = mpc_sym_text(in->ctx, in->outputs[i].name);
        if (strncmp(name, "grad:", 5) != 0) continue;
        char *path = mpc_arena_printf(s->rw.scratch, "%s/unscaled", name + 5);
        if (path == NULL) {
            mpc_builder_fail(s->rw.b, "out of memory");
            return;
        }
        mpc_builder_set_name(s->rw.b, path);
        mpc_value_id gradient = s->rw.map[in->outputs[i].value];
        mpc_build_output(s->rw.b, name, mpc_build2(s->rw.b, MPC_OP_unscale, gradient, s->inverse));
    }
}

/* The flags and the floor stand as constants until `guard` knows better; without guard the scale never moves. */
static void add_update(scaling *s) {
    mpc_builder *b = s->rw.b;
    mpc_builder_set_name(b, "scaler.min");
    mpc_build_const(b, mpc_option_float(s->options, "min"), MPC_FMT_f32);
    mpc_value_id no = mpc_build_const(b, 0, MPC_FMT_bool);
    mpc_value_id operands[4] = {s->scale, s->clean, no, no};
    mpc_attr_arg attrs[4] = {
        MPC_A_FLOAT("growth", mpc_option_float(s->options, "growth")),
        MPC_A_FLOAT("backoff", mpc_option_float(s->options, "backoff")),
        MPC_A_INT("interval", mpc_option_int(s->options, "interval")),
        MPC_A_FLOAT("max", mpc_option_float(s->options, "max")),
    };
    mpc_builder_set_name(b, "scaler.update");
    mpc_value_id scale = mpc_build(b, MPC_OP_scaler_update, operands, 4, attrs, 4);
    if (scale == MPC_NONE) return;
    mpc_build_next(b, s->scale, scale);
    mpc_build_next(b, s->clean, scale + 1);
    mpc_build_output(b, "scale", scale);
}

static mpc_graph *copy_graph(const mpc_graph *in) {
    mpc_rewrite rw;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    for (mpc_node_id i = 0; i < in->node_count; i++) mpc_rewrite_copy_node(&rw, i);
    mpc_build_copy_ends(rw.b, in, rw.map);
    return mpc_rewrite_finish(&rw);
}

/* Where nothing is trainable there is no backward pass, and nothing to scale. */
static bool has_gradients(const mpc_graph *g) {
    for (uint32_t i = 0; i < g->output_count; i++)
        if (strncmp(mpc_sym_text(g->ctx, g->outputs[i].name), "grad:", 5) == 0) return true;
    return false;
}

static mpc_graph *scale_loss(scaling *s, const mpc_graph *in) {
    mpc_value_id seed = mpc_graph_find_value(in, "loss.seed");
    if (seed == MPC_NONE && !has_gradients(in)) return copy_graph(in);
    if (seed == MPC_NONE) {
        mpc_error(mpc_context_sink(in->ctx), "E108",
                  "loss-scale: there is no value `loss.seed` that the backward pass starts from");
        return NULL;
    }
    if (!mpc_rewrite_begin(&s->rw, in)) return NULL;
    copy_nodes(s, seed);
    mpc_build_copy_ends(s->rw.b, in, s->rw.map);
    unscale_gradients(s);
    if (s->dynamic) add_update(s);
    else mpc_build_output(s->rw.b, "scale", s->scale);
    return mpc_rewrite_finish(&s->rw);
}

mpc_graph *mpc_pass_loss_scale(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    const mpc_sink *sink = mpc_context_sink(env->ctx);
    const char *mode = mpc_option_str(options, "mode");
    scaling s = {.options = options, .dynamic = strcmp(mode, "dynamic") == 0};
    if (strcmp(mode, "none") == 0) return copy_graph(in);
    if (!s.dynamic && strcmp(mode, "static") != 0) {
        mpc_error(sink, "E105", "loss-scale: `mode` must be none, static or dynamic, it is `%s`", mode);
        return NULL;
    }
    return check_powers(options, sink) == MPC_OK ? scale_loss(&s, in) : NULL;
}
