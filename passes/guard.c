/* Decides once per step whether it may move anything (N84), and makes every state's next value obey its declaration:
 * `keep` moves only on an applied step, `advance` unless the run has stopped, `zero` is cleared by a refused window.
 * One bool, `ok`, stands behind all selects of kept states, so a device can leave out the whole update when it is
 * false. A loss that is NaN is a fault of data or model and never moves the scale; an infinite loss or gradient is an
 * overflow (N83). `stop` is sticky: after it nothing moves. */
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct guard {
    mpc_rewrite rw;
    bool stops;                      /* on_nonfinite = stop */
    bool windows;                    /* accumulate > 1 */
    mpc_node_id scaler;              /* node of scaler_update in the old graph, or MPC_NONE */
    mpc_value_id old_update, update; /* output `update` in both graphs */
    mpc_value_id stop, go;           /* state, and its negation */
    mpc_value_id nan_loss, finite;   /* of this micro-step */
    mpc_value_id bad, overflow;      /* of the window so far; without accumulation of this step */
    mpc_value_id ok;                 /* this step is applied */
    mpc_value_id ended;              /* a window ended in a run that goes on */
    mpc_value_id refused;            /* it ended and was bad */
} guard;

static mpc_value_id op2(guard *q, mpc_op_id op, mpc_value_id a, mpc_value_id b) {
    return mpc_build2(q->rw.b, op, a, b);
}
static mpc_value_id both(guard *q, mpc_value_id a, mpc_value_id b) { return op2(q, MPC_OP_and, a, b); }
static mpc_value_id either(guard *q, mpc_value_id a, mpc_value_id b) { return op2(q, MPC_OP_or, a, b); }
static mpc_value_id not(guard * q, mpc_value_id a) { return mpc_build1(q->rw.b, MPC_OP_not, a); }
static mpc_value_id select(guard *q, mpc_value_id c, mpc_value_id a, mpc_value_id b) {
    return mpc_build3(q->rw.b, MPC_OP_where, c, a, b);
}
static void name(guard *q, const char *text) { mpc_builder_set_name(q->rw.b, text); }

static mpc_value_id scalar_state(guard *q, const char *text, mpc_format format, const char *skip, const char *role) {
    return mpc_rewrite_state(&q->rw, text, mpc_scalar_type(q->rw.in->ctx, format), skip, role, 0);
}

static mpc_value_id old_output(guard *q, const char *text) { return q->rw.map[mpc_graph_find_output(q->rw.in, text)]; }

/* --- what happened --- */

static void judge_step(guard *q) {
    mpc_builder *b = q->rw.b;
    mpc_value_id loss = old_output(q, "loss"), norm = old_output(q, "grad_norm");
    q->stop = scalar_state(q, "stop", MPC_FMT_bool, "advance", "stop");
    name(q, "step.go");
    q->go = not(q, q->stop);
    name(q, "loss.nan");
    q->nan_loss = mpc_build1(b, MPC_OP_is_nan, loss);
    mpc_value_id loss_finite = mpc_build1(b, MPC_OP_is_finite, loss),
                 norm_finite = mpc_build1(b, MPC_OP_is_finite, norm);
    name(q, "step.finite");
    q->finite = both(q, loss_finite, norm_finite);
}

static void judge_single(guard *q) {
    name(q, "step.bad");
    q->bad = not(q, q->finite);
    mpc_value_id counted = not(q, q->nan_loss);
    name(q, "step.overflow");
    q->overflow = both(q, q->bad, counted);
}

/* Binds a flag of a window: false again where a window ends, still in a run that has stopped. */
static void bind_flag(guard *q, mpc_value_id state, mpc_value_id now) {
    mpc_build_next(q->rw.b, state, select(q, q->go, both(q, now, not(q, q->update)), state));
}

/* The first bad micro-step of a window says what it was: after it the accumulators, and so the norm, hold its traces.
 */
static void judge_window(guard *q) {
    mpc_value_id was_bad = scalar_state(q, "window.bad", MPC_FMT_bool, "zero", "counter");
    mpc_value_id was_overflow = scalar_state(q, "window.overflow", MPC_FMT_bool, "zero", "counter");
    mpc_value_id now_bad = not(q, q->finite);
    mpc_value_id first = both(q, now_bad, not(q, was_bad));
    name(q, "step.bad");
    q->bad = either(q, was_bad, now_bad);
    mpc_value_id first_overflow = both(q, first, not(q, q->nan_loss));
    name(q, "step.overflow");
    q->overflow = either(q, was_overflow, first_overflow);
    bind_flag(q, was_bad, q->bad);
    bind_flag(q, was_overflow, q->overflow);
}

static bool is_count(const char *output) { return strcmp(output, "count") == 0 || strncmp(output, "count.", 6) == 0; }

/* Some element of some loss counted. A step in which none did is neither applied nor skipped (FC-125). MPC_NONE:
 * always. */
static mpc_value_id some_valid(guard *q) {
    const mpc_graph *in = q->rw.in;
    mpc_builder *b = q->rw.b;
    mpc_value_id zero = mpc_build_const(b, 0, MPC_FMT_f32), some = MPC_NONE;
    mpc_value_id valid = mpc_graph_find_value(in, "window.valid");
    if (valid != MPC_NONE) return op2(q, MPC_OP_gt, q->rw.map[valid], zero);
    for (uint32_t i = 0; i < in->output_count; i++) {
        if (!is_count(mpc_sym_text(in->ctx, in->outputs[i].name))) continue;
        mpc_value_id counted = op2(q, MPC_OP_gt, q->rw.map[in->outputs[i].value], zero);
        some = some == MPC_NONE ? counted : either(q, some, counted);
    }
    return some;
}

static void decide(guard *q) {
    judge_step(q);
    if (q->windows) judge_window(q);
    else judge_single(q);
    name(q, "step.ended");
    q->ended = both(q, q->update, q->go);
    mpc_value_id good = not(q, q->bad), valid = some_valid(q);
    if (valid != MPC_NONE) good = both(q, good, valid);
    name(q, "step.ok");
    q->ok = both(q, q->ended, good);
    name(q, "step.refused");
    q->refused = both(q, q->ended, q->bad);
}

/* --- scale and stop --- */

/* The scale falls once for an overflowing window and counts an applied one; it stands still for anything else
 * (N81-N83). */
static mpc_value_id update_scale(guard *q) {
    mpc_rewrite *rw = &q->rw;
    const mpc_node *n = &rw->in->nodes[q->scaler];
    mpc_value_id floor = mpc_graph_find_value(rw->in, "scaler.min");
    mpc_attr_arg attrs[8];
    if (n->attr_count > 8 || floor == MPC_NONE) {
        mpc_builder_fail(rw->b, "guard: the loss scale has no value `scaler.min`");
        return MPC_NONE;
    }
    mpc_rewrite_attrs(rw->in, n, attrs);
    mpc_value_id operands[4] = {rw->map[mpc_operand(rw->in, n, 0)], rw->map[mpc_operand(rw->in, n, 1)], MPC_NONE,
                                q->ok};
    operands[2] = both(q, q->ended, q->overflow);
    mpc_rewrite_dress(rw, n);
    mpc_value_id scale = mpc_build(rw->b, n->op, operands, 4, attrs, n->attr_count);
    mpc_rewrite_map_results(rw, n, scale);
    name(q, "scaler.exhausted");
    return op2(q, MPC_OP_lt, scale, rw->map[floor]);
}

/* A scale that adapts answers overflows by itself; without one `on_nonfinite` answers for them too. */
static void bind_stop(guard *q) {
    mpc_value_id cause = MPC_NONE;
    if (q->scaler != MPC_NONE) cause = update_scale(q);
    if (q->stops) {
        mpc_value_id fatal = q->scaler != MPC_NONE ? q->nan_loss : not(q, q->finite);
        cause = cause == MPC_NONE ? fatal : either(q, cause, fatal);
    }
    name(q, "step.stop");
    mpc_value_id next = cause == MPC_NONE ? q->stop : either(q, q->stop, cause);
    mpc_build_next(q->rw.b, q->stop, next);
    mpc_build_output(q->rw.b, "stop", next);
}

/* --- states --- */

/* The new value itself, where `optimizer` wrote where(update, new, state): `ok` implies `update`. */
static mpc_value_id without_window_select(const guard *q, const mpc_next *next) {
    const mpc_graph *g = q->rw.in;
    const mpc_node *n = mpc_producer(g, next->value);
    if (n == NULL || n->op != MPC_OP_where) return next->value;
    bool selects = mpc_operand(g, n, 0) == q->old_update && mpc_operand(g, n, 2) == next->state;
    return selects ? mpc_operand(g, n, 1) : next->value;
}

/* where(update, ..., x): a refused window ends, so what it becomes then is what an ended window leaves anyway. */
static bool ends_with_window(const guard *q, const mpc_next *next) {
    const mpc_node *n = mpc_producer(q->rw.in, next->value);
    return n != NULL && n->op == MPC_OP_where && mpc_operand(q->rw.in, n, 0) == q->old_update;
}

static void name_next(guard *q, mpc_value_id state) {
    const char *text = mpc_arena_printf(q->rw.scratch, "%s.next", mpc_value_name(q->rw.in, state));
    name(q, text == NULL ? "next" : text);
}

static mpc_value_id zero_next(guard *q, const mpc_next *next) {
    const mpc_value_id *map = q->rw.map;
    mpc_value_id value = map[next->value];
    if (!ends_with_window(q, next)) {
        mpc_value_id zero = mpc_build_const(q->rw.b, 0, mpc_value_format(q->rw.in, next->state));
        value = select(q, q->refused, zero, value);
    }
    name_next(q, next->state);
    return select(q, q->go, value, map[next->state]);
}

static mpc_value_id guarded_next(guard *q, const mpc_next *next) {
    const mpc_value_id *map = q->rw.map;
    const mpc_node *state = mpc_producer(q->rw.in, next->state);
    const char *skip = mpc_attr_str(q->rw.in, state, "skip");
    mpc_value_id old = map[next->state];
    if (next->value == next->state) return old;
    if (strcmp(skip, "zero") == 0) return zero_next(q, next);
    name_next(q, next->state);
    if (strcmp(skip, "keep") == 0) return select(q, q->ok, map[without_window_select(q, next)], old);
    if (strcmp(skip, "advance") == 0) return select(q, q->go, map[next->value], old);
    mpc_builder_fail(q->rw.b, "guard: state `%s` doesn't say what a skipped step does to it",
                     mpc_attr_str(q->rw.in, state, "name"));
    return MPC_NONE;
}

/* An output that shows a state's next value shows the guarded one. */
static void bind_states(guard *q, mpc_value_id *shown) {
    const mpc_graph *g = q->rw.in;
    for (uint32_t i = 0; i < g->next_count; i++) {
        const mpc_next *next = &g->nexts[i];
        mpc_value_id value = guarded_next(q, next);
        mpc_build_next(q->rw.b, q->rw.map[next->state], value);
        shown[next->value] = value;
        shown[without_window_select(q, next)] = value;
    }
}

static mpc_value_id count_if(guard *q, const char *state, const char *next_name, mpc_value_id condition) {
    mpc_value_id old = scalar_state(q, state, MPC_FMT_i32, "advance", "counter");
    mpc_value_id more = op2(q, MPC_OP_add, old, mpc_build_const(q->rw.b, 1, MPC_FMT_i32));
    name(q, next_name);
    mpc_value_id next = select(q, condition, more, old);
    mpc_build_next(q->rw.b, old, next);
    return next;
}

static void bind_outputs(guard *q, const mpc_value_id *shown) {
    const mpc_graph *g = q->rw.in;
    for (uint32_t i = 0; i < g->output_count; i++) {
        mpc_value_id old = g->outputs[i].value;
        mpc_build_output(q->rw.b, mpc_sym_text(g->ctx, g->outputs[i].name),
                         shown[old] == MPC_NONE ? q->rw.map[old] : shown[old]);
    }
    mpc_build_output(q->rw.b, "finite", q->finite);
    mpc_build_output(q->rw.b, "skipped", count_if(q, "step.skipped", "step.skipped.next", q->refused));
    count_if(q, "step.attempts", "step.attempts.next", q->ended);
}

/* --- the old graph --- */

static void copy_nodes(guard *q) {
    const mpc_graph *g = q->rw.in;
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        if (g->nodes[i].op == MPC_OP_scaler_update) q->scaler = i;
        else mpc_rewrite_copy_node(&q->rw, i);
    }
}

static bool is_const(const mpc_graph *g, mpc_value_id value) {
    const mpc_node *n = value == MPC_NONE ? NULL : mpc_producer(g, value);
    return n != NULL && n->op == MPC_OP_const;
}

static mpc_graph *add_guards(guard *q, const mpc_graph *in) {
    if (!mpc_rewrite_begin(&q->rw, in)) return NULL;
    q->old_update = mpc_graph_find_output(in, "update");
    q->windows = !is_const(in, q->old_update);
    copy_nodes(q);
    q->update = old_output(q, "update");
    mpc_value_id *shown = mpc_rewrite_scratch(&q->rw, in->value_count, sizeof *shown);
    if (shown != NULL && !mpc_builder_failed(q->rw.b)) {
        for (uint32_t i = 0; i < in->value_count; i++) shown[i] = MPC_NONE;
        decide(q);
        bind_stop(q);
        bind_states(q, shown);
        bind_outputs(q, shown);
    }
    return mpc_rewrite_finish(&q->rw);
}

static mpc_status check_outputs(const mpc_graph *g) {
    mpc_status status = mpc_check_scalar_output(g, "guard", "loss", MPC_FMT_f32, false);
    if (status == MPC_OK) status = mpc_check_scalar_output(g, "guard", "grad_norm", MPC_FMT_f32, false);
    if (status == MPC_OK) status = mpc_check_scalar_output(g, "guard", "update", MPC_FMT_bool, false);
    for (uint32_t i = 0; i < g->output_count && status == MPC_OK; i++) {
        const char *output = mpc_sym_text(g->ctx, g->outputs[i].name);
        if (is_count(output)) status = mpc_check_scalar_output(g, "guard", output, MPC_FMT_f32, false);
    }
    return status;
}

mpc_graph *mpc_pass_guard(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    const char *answer = mpc_option_str(options, "on_nonfinite");
    guard q = {.stops = strcmp(answer, "stop") == 0, .scaler = MPC_NONE};
    if (!q.stops && strcmp(answer, "skip") != 0) {
        mpc_error(mpc_context_sink(env->ctx), "E105", "guard: `on_nonfinite` must be stop or skip, it is `%s`", answer);
        return NULL;
    }
    return check_outputs(in) == MPC_OK ? add_guards(&q, in) : NULL;
}
