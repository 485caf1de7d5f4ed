/* The solver `list`: each op's class decides, as the lists of common frameworks do, but with three separate answers:
 * what the op computes in (always f32 here), what it reads, and what it stores. LOW     reads low, accumulates f32,
 * stores low; f32 where only masters, sums or outputs read the result (N01, N60) HIGH    f32 inside; stores low where
 * that is what its reader takes (N10, N30) FOLLOW  the widest format of its operands, scalars and broadcast parameters
 * not counted (N43); f32 where nobody gains CLEAR   the format of what it moves (N42) A decision is made once all
 * operands have theirs: nodes come in topological order. */
#include <math.h>
#include <stdio.h>

#include "passes/precision/cost.h"
#include "passes/precision/precision.h"
#include "passes/precision/range.h"

static const char *format_name(mpc_format f) { return f == MPC_FMT_none ? "as typed" : mpc_format_get(f)->name; }

static bool is_low(const mpc_plan *p, mpc_value_id v) { return mpc_format_is_low(p->format[v]); }

enum { CITED_SIZE = MPC_RULE_SIZE + 4 };

/* " (N10)": the first rule that the op's documentation cites, else `otherwise`. */
static const char *cited_rule(const mpc_op *op, const char *otherwise, char out[CITED_SIZE]) {
    char rule[MPC_RULE_SIZE];
    if (!mpc_find_rule(op->doc, rule)) return otherwise;
    snprintf(out, CITED_SIZE, " (%s)", rule);
    return out;
}

static const char *reader_name(const mpc_plan *p, mpc_value_id v) {
    mpc_node_id id = p->wanted_by[v];
    return id == MPC_NONE ? "none" : mpc_node_op(p->g, id)->name;
}

static mpc_decision decision_of(const mpc_plan *p, mpc_node_id id, mpc_format operand, mpc_format result) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_decision d = {.present = true, .operand = operand, .compute = MPC_FMT_f32, .result = result};
    if (mpc_node_has_attr(p->g, n, "acc")) d.acc = mpc_attr_format(p->g, n, "acc");
    return d;
}

/* --- LOW --- */

/* A result that only masters, sums or outputs read keeps the accumulator's digits. */
bool mpc_result_stays_f32(const mpc_plan *p, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id v = mpc_result(n, i);
        if (p->fixed.result[v]) continue;
        if (n->origin == 0 ? p->read[v] : !p->only_f32[v]) return false;
    }
    return true;
}

static void solve_low(mpc_plan *p, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    bool f32 = mpc_result_stays_f32(p, n);
    mpc_decision d = decision_of(p, id, p->low, f32 ? MPC_FMT_f32 : p->low);
    mpc_format acc = d.acc == MPC_FMT_none ? MPC_FMT_f32 : d.acc;
    const mpc_op *op = mpc_node_op(p->g, id);
    char buffer[CITED_SIZE];
    const char *rule = op->kind == MPC_KIND_COMPOSITE ? cited_rule(op, " (N01)", buffer) : " (N01)";
    mpc_plan_decide(p, id, d, "LOW: reads %s, accumulates %s%s%s", format_name(p->low), format_name(acc), rule,
                    f32 ? "; stores f32, no reader gains from less (N60)" : "");
}

/* --- what operands say --- */

static bool is_const(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return n != NULL && n->op == MPC_OP_const;
}

/* A parameter behind views. */
static bool is_param(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (n != NULL && n->operand_count == 1 && mpc_op_get(g->ctx, n->op)->kind == MPC_KIND_VIEW)
        n = mpc_producer(g, mpc_operand(g, n, 0));
    return mpc_is_param_state(g, n);
}

/* Constants and scalars enter at full precision and say nothing about the format (FC-091), nor does a parameter that is
 * spread over a larger tensor, as a bias or a gain is. */
bool mpc_has_a_say(const mpc_graph *g, mpc_value_id v, int64_t result_elements) {
    int64_t elements = mpc_type_elements(mpc_value_type(g, v));
    if (!mpc_format_is_float(mpc_value_format(g, v)) || is_const(g, v)) return false;
    if (elements == 1 && result_elements > 1) return false;
    return !(elements < result_elements && is_param(g, v));
}

static mpc_format join_of_operands(const mpc_plan *p, const mpc_node *n) {
    int64_t elements = mpc_type_elements(mpc_value_type(p->g, mpc_result(n, 0)));
    mpc_format join = MPC_FMT_none;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        if (!mpc_has_a_say(p->g, v, elements)) continue;
        join = join == MPC_FMT_none ? p->say[v] : mpc_format_join(join, p->say[v]);
    }
    return join == MPC_FMT_none ? MPC_FMT_f32 : join;
}

/* Inside one gradient, or one composite that autodiff took apart, nothing is rounded (1 - y * y near 1 would be lost):
 * the intermediate is f32, and its readers hear what its operands said. */
static bool is_intermediate(const mpc_plan *p, const mpc_node *n, mpc_format said) {
    mpc_value_id v = mpc_result(n, 0);
    return p->inside[v] && p->read[v] && mpc_format_is_low(said);
}

/* --- HIGH --- */

static bool may_store_low(const mpc_plan *p, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_value_id y = mpc_result(n, 0);
    if (!mpc_node_stores_low(p->g, id) || p->fixed.result[y] || p->wanted_by[y] == MPC_NONE || n->operand_count == 0)
        return false;
    return is_low(p, mpc_operand(p->g, n, 0)) || (p->only_wanted[y] && p->read[y]);
}

static const char *rule_of_kind(mpc_op_kind kind) {
    if (kind == MPC_KIND_COMPOSITE) return "";
    return kind == MPC_KIND_EWISE ? " (N41)" : " (N40)";
}

static void solve_high(mpc_plan *p, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(p->g, id);
    char buffer[CITED_SIZE];
    const char *rule = cited_rule(op, rule_of_kind(op->kind), buffer);
    mpc_value_id y = mpc_result(&p->g->nodes[id], 0);
    if (may_store_low(p, id)) {
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, p->low),
                        "HIGH: %s is f32 inside%s; stores %s for its reader %s", op->name, rule, format_name(p->low),
                        reader_name(p, y));
    } else {
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, MPC_FMT_f32), "HIGH: %s is f32 inside%s; stores f32",
                        op->name, rule);
        mpc_format said = join_of_operands(p, &p->g->nodes[id]);
        if (is_intermediate(p, &p->g->nodes[id], said)) p->say[y] = said;
    }
}

/* --- FOLLOW --- */

static void report_constant(const mpc_plan *p, const mpc_node *n, double c, const char *what, mpc_format f) {
    const char *file = mpc_sym_text(p->g->ctx, n->loc.file);
    int digits = mpc_constant_digits(what);
    mpc_str place = {0};
    if (n->loc.file != 0) mpc_str_printf(&place, "%s:%u:%u: ", file, n->loc.line, n->loc.column);
    mpc_warn(mpc_context_sink(p->g->ctx), "W151", (mpc_span){0},
             "%sthe constant %.*g %s in %s: `%s` (%s) stays f32 (N45)", mpc_str_cstr(&place), digits, c, what, format_name(f),
             mpc_value_name(p->g, mpc_result(n, 0)), mpc_op_get(p->g->ctx, n->op)->name);
    mpc_str_free(&place);
}

/* The first constant operand that doesn't survive, and what becomes of it; else NULL. */
static const char *lost_constant(const mpc_plan *p, const mpc_node *n, mpc_format f, double *c) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_node *operand = mpc_producer(p->g, mpc_operand(p->g, n, i));
        if (operand == NULL || operand->op != MPC_OP_const || p->fixed.operand[n->operand_begin + i]) continue;
        *c = mpc_attr_float(p->g, operand, "value");
        const char *what = mpc_constant_loss(*c, f);
        if (what != NULL) return what;
    }
    return NULL;
}

bool mpc_constants_survive(const mpc_plan *p, const mpc_node *n, mpc_format f) {
    double c;
    return lost_constant(p, n, f, &c) == NULL;
}

void mpc_report_constants(const mpc_plan *p, const mpc_node *n, mpc_format f) {
    double c;
    const char *what = lost_constant(p, n, f, &c);
    if (what != NULL) report_constant(p, n, c, what, f);
}

static bool constants_survive(const mpc_plan *p, const mpc_node *n, mpc_format f) {
    mpc_report_constants(p, n, f);
    return mpc_constants_survive(p, n, f);
}

static void solve_follow(mpc_plan *p, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    mpc_format f = join_of_operands(p, n);
    if (mpc_format_is_low(f) && p->only_f32[mpc_result(n, 0)])
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, MPC_FMT_f32),
                        "FOLLOW: f32, no reader gains from less (N40)");
    else if (is_intermediate(p, n, f)) {
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, MPC_FMT_f32),
                        "FOLLOW: f32, an intermediate of a gradient (N60)");
        p->say[mpc_result(n, 0)] = f;
    } else if (mpc_format_is_low(f) && !constants_survive(p, n, f))
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, MPC_FMT_f32),
                        "FOLLOW: f32, a constant doesn't survive %s (N45)", format_name(f));
    else
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, f), "FOLLOW: %s, the widest of its operands (N43)",
                        format_name(f));
}

/* --- CLEAR --- */

/* Views move bits, so all they join must have one format (FC-089); others take their first operand's. */
static void solve_clear(mpc_plan *p, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    if (n->op == MPC_OP_cast) {
        mpc_format to = mpc_attr_format(p->g, n, "to");
        mpc_plan_decide(p, id, decision_of(p, id, MPC_FMT_none, to), "%s: to %s (N99)",
                        mpc_is_written_cast(p->g, n) ? "cast as written" : "cast", format_name(to));
        return;
    }
    mpc_format f = p->format[mpc_operand(p->g, n, 0)];
    bool view = mpc_node_op(p->g, id)->kind == MPC_KIND_VIEW;
    for (uint32_t i = 1; view && i < n->operand_count; i++) f = mpc_format_join(f, p->format[mpc_operand(p->g, n, i)]);
    if (p->fixed.result[mpc_result(n, 0)]) f = MPC_FMT_none;
    if (f == MPC_FMT_none) mpc_plan_decide(p, id, decision_of(p, id, f, f), "CLEAR: looks at what is stored (N48)");
    else
        mpc_plan_decide(p, id, decision_of(p, id, view ? f : MPC_FMT_none, f), "CLEAR: moves bits, which stay %s (N42)",
                        format_name(f));
}

/* --- NONE --- */

void mpc_explain_typed(mpc_plan *p, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(p->g, id);
    const mpc_node *n = &p->g->nodes[id];
    char text[64], buffer[CITED_SIZE];
    bool floats = false;
    if (n->why != 0 || op->kind == MPC_KIND_STRUCT) return;
    for (uint32_t i = 0; i < n->result_count; i++)
        floats = floats || mpc_format_is_float(mpc_value_format(p->g, mpc_result(n, i)));
    if (!floats) snprintf(text, sizeof text, "control: integers and flags stay (N44)");
    else snprintf(text, sizeof text, "master arithmetic is f32%s", cited_rule(op, " (N70)", buffer));
    p->why[id] = mpc_intern(p->g->ctx, text);
}

void mpc_solve_list(mpc_plan *p, mpc_node_id id) {
    switch (mpc_node_op(p->g, id)->cls) {
    case MPC_CLASS_LOW:
        solve_low(p, id);
        break;
    case MPC_CLASS_HIGH:
        solve_high(p, id);
        break;
    case MPC_CLASS_FOLLOW:
        solve_follow(p, id);
        break;
    case MPC_CLASS_CLEAR:
        solve_clear(p, id);
        break;
    case MPC_CLASS_NONE:
        break;
    }
}

mpc_status mpc_solver_list(mpc_plan *p, const mpc_solver_env *env) {
    (void)env;
    for (mpc_node_id id = 0; id < p->g->node_count; id++)
        if (mpc_is_assigned(p->g, id) && !p->given[id]) mpc_solve_list(p, id);
    return MPC_OK;
}
