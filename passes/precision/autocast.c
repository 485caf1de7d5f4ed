/* The assignment of formats: an analysis that changes no node and writes a decision and a reason beside each. Who is
 * heard first: an assignment made earlier (one model, one assignment, every elaboration), the user's `prec`, the
 * solver. Steps: (1) which formats the ops' types fix, (2) what readers do with each value, backwards, (3) one decision
 * per node, forwards. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "passes/passes.h"
#include "passes/precision/cost.h"
#include "passes/precision/precision.h"
#include "passes/precision/range.h"

mpc_plan mpc_plan_create(const mpc_graph *g, mpc_format low, mpc_arena *arena) {
    size_t values = (size_t)g->value_count + 1, nodes = (size_t)g->node_count + 1;
    mpc_plan p = {.g = g,
                  .arena = arena,
                  .low = low,
                  .fixed = mpc_fixed_formats(g, arena),
                  .wanted_by = mpc_arena_alloc(arena, values * sizeof *p.wanted_by),
                  .only_wanted = mpc_arena_alloc(arena, values),
                  .only_f32 = mpc_arena_alloc(arena, values),
                  .read = mpc_arena_alloc(arena, values),
                  .inside = mpc_arena_alloc(arena, values),
                  .say = mpc_arena_alloc(arena, values * sizeof *p.say),
                  .format = mpc_arena_alloc(arena, values * sizeof *p.format),
                  .given = mpc_arena_alloc(arena, nodes),
                  .forced_f32 = mpc_arena_alloc(arena, values * sizeof *p.forced_f32),
                  .decisions = mpc_arena_alloc(arena, nodes * sizeof *p.decisions),
                  .why = mpc_arena_alloc(arena, nodes * sizeof *p.why)};
    if (p.fixed.operand == NULL || p.wanted_by == NULL || p.only_wanted == NULL || p.only_f32 == NULL ||
        p.read == NULL || p.inside == NULL || p.say == NULL || p.format == NULL || p.given == NULL || p.forced_f32 == NULL ||
        p.decisions == NULL || p.why == NULL) {
        mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
        p.g = NULL;
        return p;
    }
    for (uint32_t v = 0; v < g->value_count; v++) p.format[v] = p.say[v] = mpc_value_format(g, v);
    return p;
}

bool mpc_plan_copy(const mpc_plan *p, mpc_plan *out) {
    size_t values = (size_t)p->g->value_count + 1, nodes = (size_t)p->g->node_count + 1;
    *out = *p;
    out->format = mpc_arena_alloc(p->arena, values * sizeof *out->format);
    out->say = mpc_arena_alloc(p->arena, values * sizeof *out->say);
    out->decisions = mpc_arena_alloc(p->arena, nodes * sizeof *out->decisions);
    out->why = mpc_arena_alloc(p->arena, nodes * sizeof *out->why);
    if (out->format == NULL || out->say == NULL || out->decisions == NULL || out->why == NULL) return false;
    memcpy(out->format, p->format, values * sizeof *out->format);
    memcpy(out->say, p->say, values * sizeof *out->say);
    memcpy(out->decisions, p->decisions, nodes * sizeof *out->decisions);
    memcpy(out->why, p->why, nodes * sizeof *out->why);
    return true;
}

mpc_status mpc_plan_allow(mpc_plan *p, mpc_format also) {
    if (also == MPC_FMT_none || also == p->low || !mpc_format_is_low(p->low)) return MPC_OK;
    p->forced_also = mpc_arena_alloc(p->arena, ((size_t)p->g->value_count + 1) * sizeof *p->forced_also);
    if (p->forced_also == NULL) return mpc_error(mpc_context_sink(p->g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    p->also = also;
    return MPC_OK;
}

static void set_formats(mpc_plan *p, mpc_node_id id, mpc_format result) {
    const mpc_node *n = &p->g->nodes[id];
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        if (!p->fixed.result[v] && result != MPC_FMT_none) p->format[v] = p->say[v] = result;
    }
}

/* Whoever decides: what is held is f32. */
static mpc_decision keep_held(mpc_plan *p, mpc_node_id id, mpc_decision d) {
    bool low_operand = mpc_format_is_low(d.operand), low_result = mpc_format_is_low(d.result);
    if (p->fixed.held[id] == 0 || (!low_operand && !low_result)) return d;
    if (low_operand) d.operand = MPC_FMT_f32;
    if (low_result) d.result = MPC_FMT_f32;
    p->why[id] = p->fixed.held[id];
    return d;
}

void mpc_plan_decide(mpc_plan *p, mpc_node_id id, mpc_decision decision, const char *why, ...) {
    char text[256];
    va_list args;
    va_start(args, why);
    vsnprintf(text, sizeof text, why, args);
    va_end(args);
    p->why[id] = mpc_intern(p->g->ctx, text);
    p->decisions[id] = mpc_range_keep(p, id, keep_held(p, id, decision));
    set_formats(p, id, p->decisions[id].result);
}

/* --- the user's word --- */

/* A parameter's gradient has the master's format, whatever region its op stands in (N60). */
static mpc_format user_result(const mpc_plan *p, const mpc_node *n, mpc_format prec) {
    if (prec == MPC_FMT_tf32) return MPC_FMT_f32;
    if (n->origin == 0 || !mpc_format_is_low(prec)) return prec;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (!p->only_f32[mpc_result(n, i)]) return prec;
    return MPC_FMT_f32;
}

void mpc_solve_user(mpc_plan *p, mpc_node_id id, mpc_format prec) {
    const mpc_graph *g = p->g;
    const mpc_node *n = &g->nodes[id];
    mpc_decision d = {.present = true,
                      .operand = prec == MPC_FMT_tf32 ? MPC_FMT_none : prec,
                      .compute = prec == MPC_FMT_tf32 ? MPC_FMT_tf32 : MPC_FMT_f32,
                      .result = user_result(p, n, prec)};
    if (mpc_node_has_attr(g, n, "acc")) d.acc = mpc_attr_format(g, n, "acc");
    if (n->why != 0) mpc_plan_decide(p, id, d, "%s", mpc_sym_text(g->ctx, n->why));
    else if (n->loc.file == 0) mpc_plan_decide(p, id, d, "prec: @%s (N99)", mpc_format_get(prec)->name);
    else
        mpc_plan_decide(p, id, d, "prec: @%s at %s:%u (N99)", mpc_format_get(prec)->name,
                        mpc_sym_text(g->ctx, n->loc.file), n->loc.line);
}

/* --- precision f32 and tf32: nothing is narrowed but by the user --- */

/* One format for the operands of a product: what they have, or the widest where the user narrowed one of them. */
static mpc_format common_format(const mpc_plan *p, const mpc_node *n) {
    mpc_format join = MPC_FMT_none;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        if (p->fixed.operand[n->operand_begin + i]) continue;
        mpc_format f = p->format[mpc_operand(p->g, n, i)];
        join = join == MPC_FMT_none ? f : mpc_format_join(join, f);
    }
    return join;
}

static void solve_wide(mpc_plan *p, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_class cls = mpc_node_op(p->g, id)->cls;
    mpc_decision d = {.present = true, .compute = MPC_FMT_f32};
    if (cls == MPC_CLASS_CLEAR) {
        mpc_solve_list(p, id); /* moves what the user narrowed as it is */
        return;
    }
    if (mpc_node_has_attr(p->g, n, "acc")) d.acc = mpc_attr_format(p->g, n, "acc");
    if (cls != MPC_CLASS_LOW) {
        mpc_plan_decide(p, id, d, "precision f32");
        return;
    }
    d.operand = common_format(p, n);
    d.compute = p->low;
    mpc_plan_decide(p, id, d, "%s",
                    p->low == MPC_FMT_tf32 ? "LOW: computes in tf32, as asked for (N03)" : "precision f32");
}

/* --- all nodes --- */

static bool has_floats(const mpc_graph *g, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (mpc_format_is_float(mpc_value_format(g, mpc_operand(g, n, i)))) return true;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (mpc_format_is_float(mpc_value_format(g, mpc_result(n, i)))) return true;
    return false;
}

bool mpc_is_assigned(const mpc_graph *g, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(g, id);
    return op->kind != MPC_KIND_STRUCT && op->cls != MPC_CLASS_NONE && has_floats(g, &g->nodes[id]);
}

/* The earlier decision, if the value of that name is still made by the same op. */
static bool take_assigned(mpc_plan *p, mpc_node_id id, const mpc_assignment *a) {
    const mpc_graph *g = p->g;
    const mpc_assigned *line = mpc_assignment_find(a, mpc_value_name(g, mpc_result(&g->nodes[id], 0)));
    if (line == NULL || strcmp(line->op, mpc_node_op(g, id)->name) != 0) return false;
    mpc_plan_decide(p, id, line->decision, "%s", line->why);
    return true;
}

/* What is settled before any solver is asked. Formats of what lies before a node are known to it only if they are given too. */
static void take_given(mpc_plan *p, const mpc_assignment *earlier) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (!mpc_is_assigned(g, id)) {
            mpc_explain_typed(p, id);
            continue;
        }
        mpc_format prec = mpc_node_prec(g, &g->nodes[id]);
        p->given[id] = earlier != NULL && take_assigned(p, id, earlier);
        if (p->given[id] || prec == MPC_FMT_none) continue;
        mpc_solve_user(p, id, prec);
        p->given[id] = true;
    }
}

static bool is_open(const mpc_plan *p) {
    for (mpc_node_id id = 0; id < p->g->node_count; id++)
        if (mpc_is_assigned(p->g, id) && !p->given[id]) return true;
    return false;
}

/* Costs are those of the plan's open nodes, so they are made when the given ones are known. */
static mpc_status solve_low(mpc_plan *p, const mpc_solver *solver, const mpc_solver_env *env) {
    mpc_solver_env own = *env;
    if (!is_open(p)) return MPC_OK;
    if (solver->needs_costs) own.costs = mpc_costs_create(p, env->pass->profile, env->pass, p->arena);
    return solver->needs_costs && own.costs == NULL ? MPC_FAILED : solver->solve(p, &own);
}

static mpc_status solve_open(mpc_plan *p, const mpc_solver *solver, const mpc_solver_env *env) {
    if (mpc_format_is_low(p->low)) return solve_low(p, solver, env);
    for (mpc_node_id id = 0; id < p->g->node_count; id++)
        if (mpc_is_assigned(p->g, id) && !p->given[id]) solve_wide(p, id);
    return MPC_OK;
}

static mpc_status decide_all(mpc_plan *p, const mpc_assignment *earlier, const mpc_solver *solver, const mpc_solver_env *env) {
    take_given(p, earlier);
    mpc_status status = mpc_range_force(p, env->pass->observed);
    if (status == MPC_OK && earlier == NULL) status = mpc_plan_pin_agreements(p);
    for (bool again = true; again && status == MPC_OK;) {
        status = solve_open(p, solver, env);
        if (status != MPC_OK || earlier != NULL) break;
        status = mpc_plan_settle_agreements(p, &again);
    }
    return status;
}

static mpc_status record(const mpc_plan *p, mpc_assignment *a) {
    const mpc_graph *g = p->g;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        mpc_assigned line = {.value = mpc_value_name(g, mpc_result(&g->nodes[id], 0)),
                             .op = mpc_node_op(g, id)->name,
                             .why = mpc_sym_text(g->ctx, p->why[id]),
                             .decision = p->decisions[id]};
        if (line.decision.present && !mpc_assignment_add(a, &line))
            return mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    }
    return MPC_OK;
}

/* --- the pass --- */

static bool is_training(const mpc_graph *g) { return mpc_graph_find_output(g, "grad_norm") != MPC_NONE; }

/* f16 wants a loss scale, bf16 doesn't (N80). */
static void check_scaling(const mpc_graph *g, mpc_format low, mpc_format also) {
    const mpc_sink *sink = mpc_context_sink(g->ctx);
    bool scaled = mpc_graph_find_value(g, "scaler.scale") != MPC_NONE;
    if (!is_training(g)) return;
    bool wants = low == MPC_FMT_f16 || also == MPC_FMT_f16;
    if (wants && !scaled)
        mpc_warn(sink, "W153", (mpc_span){0},
                 "f16 training without loss scaling: gradients below 2^-24 become 0 (N80)");
    if (!wants && scaled)
        mpc_warn(sink, "W152", (mpc_span){0}, "loss scaling with %s: its range needs none (N80)",
                 mpc_format_get(low)->name);
}

static mpc_graph *copy_with_decisions(const mpc_graph *in, const mpc_plan *p) {
    mpc_builder *b = mpc_builder_create(in->ctx, mpc_sym_text(in->ctx, in->name));
    mpc_value_id *map = mpc_arena_alloc(p->arena, ((size_t)in->value_count + 1) * sizeof *map);
    if (b == NULL) return NULL;
    if (map == NULL) mpc_builder_fail(b, "out of memory");
    else mpc_build_copy_all(b, in, map);
    static const mpc_decision undecided = {0};
    for (mpc_node_id id = 0; id < in->node_count && !mpc_builder_failed(b); id++)
        if (p->decisions[id].present) mpc_build_decision(b, map[mpc_result(&in->nodes[id], 0)], &p->decisions[id]);
        else if (in->decisions != NULL) mpc_build_decision(b, map[mpc_result(&in->nodes[id], 0)], &undecided);
    mpc_graph *out = mpc_builder_finish(b);
    for (mpc_node_id id = 0; out != NULL && id < out->node_count; id++)
        if (p->why[id] != 0) out->nodes[id].why = p->why[id];
    return out;
}

/* The user's words against the hard rules and against each other; once, for the assignment is made once. */
static mpc_status read_words(mpc_plan *p, const char *agree, bool earlier) {
    if (earlier) return MPC_OK;
    mpc_status status = mpc_plan_check_words(p);
    return status == MPC_OK ? mpc_plan_read_agreements(p, agree) : status;
}

typedef struct autocast_options {
    mpc_format low, also;
    const mpc_solver *solver;
    const char *agree;
} autocast_options;

static mpc_graph *assign(const mpc_graph *in, const autocast_options *o, mpc_pass_env *env, mpc_arena *arena) {
    mpc_plan p = mpc_plan_create(in, o->low, arena);
    if (p.g == NULL || mpc_plan_allow(&p, o->also) != MPC_OK) return NULL;
    bool earlier = env->assignment != NULL && mpc_assignment_count(env->assignment) > 0;
    mpc_plan_read_backwards(&p);
    if (read_words(&p, o->agree, earlier) != MPC_OK) return NULL;
    check_scaling(in, o->low, o->also);
    mpc_solver_env solver_env = {.pass = env, .solver = o->solver, .goes_on = earlier};
    if (decide_all(&p, earlier ? env->assignment : NULL, o->solver, &solver_env) != MPC_OK) return NULL;
    if (env->assignment != NULL && !earlier && record(&p, env->assignment) != MPC_OK) return NULL;
    mpc_graph *out = copy_with_decisions(in, &p);
    if (out != NULL && !earlier) mpc_range_tell(out);
    return out;
}

static mpc_status refuse_solver(const char *name, const mpc_context *ctx) {
    mpc_str names = {0};
    for (uint32_t i = 0; mpc_solver_of(ctx, i) != NULL; i++)
        mpc_str_printf(&names, "%s%s", i > 0 ? ", " : "", mpc_solver_of(ctx, i)->name);
    mpc_status status = mpc_error(mpc_context_sink(ctx), "E105", "autocast: there is no solver `%s`; there is: %s", name, mpc_str_cstr(&names));
    mpc_str_free(&names);
    return status;
}

/* A second low format; the default is none. */
static mpc_status read_also(const char *also, const mpc_context *ctx, autocast_options *out) {
    out->also = mpc_format_find(also);
    if (*also == '\0' || strcmp(also, "none") == 0) out->also = MPC_FMT_none;
    else if (!mpc_format_is_low(out->also))
        return mpc_error(mpc_context_sink(ctx), "E105", "autocast: `also` must be bf16 or f16, it is `%s`", also);
    else if (out->also == out->low)
        return mpc_error(mpc_context_sink(ctx), "E105", "autocast: `also = %s` is the format already: leave it out, or name the other one", also);
    bool used = out->also != MPC_FMT_none && mpc_format_is_low(out->low);
    if (!used || out->solver->takes_also) return MPC_OK;
    return mpc_error(mpc_context_sink(ctx), "E105",
                     "autocast: solver `%s` decides between f32 and one low format; with %s also it takes mincut",
                     out->solver->name, also);
}

static mpc_status read_options(const mpc_pass_options *o, const mpc_context *ctx, autocast_options *out) {
    const char *format = mpc_option_str(o, "format"), *name = mpc_option_str(o, "solver");
    mpc_format low = mpc_format_find(format);
    *out = (autocast_options){.low = low, .solver = mpc_solver_named(ctx, name), .agree = mpc_option_str(o, "agree")};
    if (out->solver == NULL) return refuse_solver(name, ctx);
    bool known = low == MPC_FMT_f32 || low == MPC_FMT_tf32 || low == MPC_FMT_bf16 || low == MPC_FMT_f16;
    if (known || mpc_format_is_user(low)) return read_also(mpc_option_str(o, "also"), ctx, out);
    return mpc_error(mpc_context_sink(ctx), "E105", "autocast: `format` must be f32, tf32, bf16 or f16, it is `%s`", format);
}

/* `auto`: what the caller says costs are for. */
static mpc_status find_target(const char *name, const mpc_context *ctx, const mpc_device_profile **profile) {
    if (strcmp(name, "auto") == 0) return MPC_OK;
    const mpc_device_profile *found = mpc_device_profile_named(ctx, name);
    if (found == NULL) return mpc_error(mpc_context_sink(ctx), "E105", "autocast: there is no device profile `%s`", name);
    *profile = found;
    return MPC_OK;
}

mpc_graph *mpc_pass_autocast(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    const mpc_sink *sink = mpc_context_sink(env->ctx);
    autocast_options read;
    if (read_options(options, env->ctx, &read) != MPC_OK) return NULL;
    mpc_arena *arena = mpc_arena_create();
    if (arena == NULL) {
        mpc_error(sink, "E901", "out of memory");
        return NULL;
    }
    mpc_pass_env own = *env;
    if (own.profile == NULL) own.profile = mpc_device_profile_find("cpu-amx");
    mpc_graph *out = NULL;
    if (find_target(mpc_option_str(options, "target"), env->ctx, &own.profile) == MPC_OK)
        out = assign(in, &read, &own, arena);
    mpc_arena_destroy(arena);
    return out;
}
