/* The scale unit of every value, forwards through the graph, one rule per op (scale_units.def); a mistake is V20 and
 * names both origins. The scale enters as the state `scaler.scale`, or as the literal of that name as long as folding
 * hasn't touched it: after that a static scale can't be told from the model's own numbers, and nothing is checked. What
 * computes the scale's own next value is none of a gradient's business, so that part of the graph is exempt, as far
 * as it reads no float but the scale and literals. */
#include "passes/scale_units.h"

#include <math.h>
#include <string.h>

#include "ir/context.h"

typedef struct analysis {
    const mpc_graph *g;
    const char *maker; /* the pass that made the graph; NULL: it came so */
    const uint32_t *row; /* by op: index of its rule plus one; 0: none */
    mpc_scale_unit *unit;
    bool *scaler; /* by value: part of the scale's own update */
    mpc_value_id scale;
    unsigned errors;
} analysis;

typedef mpc_scale_unit (*unit_rule)(analysis *a, const mpc_node *n, uint32_t operand);
typedef struct rule_row {
    mpc_op_id op;
    unit_rule rule;
    uint32_t operand;
} rule_row;

static bool is_float(const analysis *a, mpc_value_id v) { return mpc_format_is_float(mpc_value_format(a->g, v)); }
static mpc_scale_unit plain(mpc_value_id from) { return (mpc_scale_unit){MPC_SCALE_UNIT_POWER, 0, from}; }
static mpc_scale_unit any(void) { return (mpc_scale_unit){MPC_SCALE_UNIT_ANY, 0, MPC_NONE}; }
static mpc_scale_unit of(const analysis *a, const mpc_node *n, uint32_t i) { return a->unit[mpc_operand(a->g, n, i)]; }

static bool is_true_value(mpc_scale_unit u) {
    return u.kind == MPC_SCALE_UNIT_ANY || u.kind == MPC_SCALE_UNIT_OPEN ||
           (u.kind == MPC_SCALE_UNIT_POWER && !u.exponent);
}

void mpc_scale_unit_print(const mpc_scale_unit *u, mpc_str *out) {
    static const char *const words[] = {[MPC_SCALE_UNIT_ANY] = "any",
                                        [MPC_SCALE_UNIT_POWER] = "1",
                                        [MPC_SCALE_UNIT_SCALE] = "S",
                                        [MPC_SCALE_UNIT_OPEN] = "open"};
    if (u->kind == MPC_SCALE_UNIT_POWER && u->exponent) mpc_str_printf(out, "S^%d", u->exponent);
    else mpc_str_append(out, words[u->kind]);
}

/* "`dy` carries S^1 (from `loss.seed.scaled`, m.mpg:3)" */
static void describe(const analysis *a, mpc_value_id v, mpc_str *out) {
    const mpc_scale_unit *u = &a->unit[v];
    mpc_value_id from = u->from == MPC_NONE ? v : u->from;
    const mpc_node *maker = mpc_producer(a->g, from);
    mpc_str_printf(out, "`%s` carries ", mpc_value_name(a->g, v));
    mpc_scale_unit_print(u, out);
    mpc_str_printf(out, " (from `%s`", mpc_value_name(a->g, from));
    if (maker != NULL && maker->loc.file)
        mpc_str_printf(out, ", %s:%u", mpc_sym_text(a->g->ctx, maker->loc.file), maker->loc.line);
    mpc_str_append(out, ")");
}

static void say_maker(const analysis *a, mpc_str *out) {
    if (a->maker != NULL) mpc_str_printf(out, "; pass `%s` made it so", a->maker);
}

/* `second`: MPC_NONE, or the value whose unit differs. `rule`: what the op needs. */
static void refuse(analysis *a, const mpc_node *n, mpc_value_id first, mpc_value_id second, const char *rule) {
    mpc_str text = {0};
    describe(a, first, &text);
    if (second != MPC_NONE) {
        mpc_str_append(&text, ", ");
        describe(a, second, &text);
    }
    a->errors++;
    say_maker(a, &text);
    mpc_error(mpc_context_sink(a->g->ctx), "V20", "`%s`: %s %s: %s", mpc_value_name(a->g, n->result_begin),
              mpc_op_get(a->g->ctx, n->op)->name, rule, mpc_str_cstr(&text));
    mpc_str_free(&text);
}

/* ---- rules ---- */

/* Two units of a sum. What is open, or fits everything, takes the other's. */
static bool meet(mpc_scale_unit x, mpc_scale_unit y, mpc_scale_unit *out) {
    bool x_gives = x.kind == MPC_SCALE_UNIT_ANY || x.kind == MPC_SCALE_UNIT_OPEN;
    bool y_gives = y.kind == MPC_SCALE_UNIT_ANY || y.kind == MPC_SCALE_UNIT_OPEN;
    *out = x_gives && !(y.kind == MPC_SCALE_UNIT_ANY) ? y : x;
    if (x_gives || y_gives) return true;
    *out = x.kind == MPC_SCALE_UNIT_SCALE ? y : x;
    int ex = x.kind == MPC_SCALE_UNIT_SCALE ? 1 : x.exponent, ey = y.kind == MPC_SCALE_UNIT_SCALE ? 1 : y.exponent;
    return ex == ey;
}

static mpc_scale_unit unit_join(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    mpc_scale_unit out = any();
    mpc_value_id first = MPC_NONE;
    bool floats = false; /* a converted flag or integer is a true value */
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(a->g, n, i);
        if (!is_float(a, v)) continue;
        mpc_scale_unit met;
        floats = true;
        if (!meet(out, a->unit[v], &met)) {
            refuse(a, n, first, v, "joins values of different scales");
            return met;
        }
        if (out.kind == MPC_SCALE_UNIT_ANY && a->unit[v].kind != MPC_SCALE_UNIT_ANY) first = v;
        out = met;
    }
    return floats ? out : plain(MPC_NONE);
}

/* Exponents of x * S^0 and y^sign; a zero stays a zero. */
static mpc_scale_unit combine(mpc_scale_unit x, mpc_scale_unit y, int sign) {
    if (x.kind == MPC_SCALE_UNIT_ANY) return x;
    if (x.kind == MPC_SCALE_UNIT_OPEN || y.kind == MPC_SCALE_UNIT_OPEN)
        return (mpc_scale_unit){MPC_SCALE_UNIT_OPEN, 0, MPC_NONE};
    if (y.kind == MPC_SCALE_UNIT_ANY) return sign > 0 ? y : (mpc_scale_unit){MPC_SCALE_UNIT_OPEN, 0, MPC_NONE};
    int ex = x.kind == MPC_SCALE_UNIT_SCALE ? 1 : x.exponent, ey = y.kind == MPC_SCALE_UNIT_SCALE ? 1 : y.exponent;
    return (mpc_scale_unit){MPC_SCALE_UNIT_POWER, ex + sign * ey, ex != 0 ? x.from : y.from};
}

static mpc_scale_unit unit_product(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    mpc_scale_unit out = combine(of(a, n, 0), of(a, n, 1), 1), sum = out;
    if (out.kind == MPC_SCALE_UNIT_POWER && !out.exponent) out.from = MPC_NONE;
    if (n->operand_count > 2 && !meet(out, of(a, n, 2), &sum)) {
        mpc_value_id scaled = of(a, n, 0).kind == MPC_SCALE_UNIT_POWER && !of(a, n, 0).exponent
                                  ? mpc_operand(a->g, n, 1)
                                  : mpc_operand(a->g, n, 0);
        refuse(a, n, scaled, mpc_operand(a->g, n, 2), "adds a bias of another scale");
    }
    return sum;
}

static mpc_scale_unit unit_quotient(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    mpc_scale_unit out = combine(of(a, n, 0), of(a, n, 1), -1);
    if (out.kind == MPC_SCALE_UNIT_POWER && !out.exponent) out.from = MPC_NONE;
    return out;
}

static mpc_scale_unit unit_unscale(analysis *a, const mpc_node *n, uint32_t operand) {
    mpc_scale_unit out = unit_product(a, n, operand);
    if (!is_true_value(out))
        refuse(a, n, mpc_operand(a->g, n, 0), mpc_operand(a->g, n, 1), "doesn't give a true gradient");
    return plain(n->result_begin);
}

/* All operands but those from `but` to `last`. */
static mpc_scale_unit need_plain_beside(analysis *a, const mpc_node *n, uint32_t but, uint32_t last) {
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(a->g, n, i);
        if ((i >= but && i <= last) || !is_float(a, v) || is_true_value(a->unit[v])) continue;
        mpc_value_id other = MPC_NONE; /* the other origin: a true value beside it */
        for (uint32_t k = 0; k < n->operand_count && other == MPC_NONE; k++)
            if (k != i && (k < but || k > last) && is_float(a, mpc_operand(a->g, n, k)) && is_true_value(of(a, n, k)))
                other = mpc_operand(a->g, n, k);
        refuse(a, n, v, other, "takes true values only");
        break;
    }
    return plain(MPC_NONE);
}

static mpc_scale_unit need_plain(analysis *a, const mpc_node *n, uint32_t but) {
    return need_plain_beside(a, n, but, but);
}

static mpc_scale_unit unit_plain(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    return need_plain(a, n, MPC_NONE);
}

static mpc_scale_unit unit_compare(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    mpc_scale_unit x = of(a, n, 0), y = of(a, n, 1), met;
    bool literal =
        (x.kind == MPC_SCALE_UNIT_SCALE && is_true_value(y)) || (y.kind == MPC_SCALE_UNIT_SCALE && is_true_value(x));
    if (!literal && !meet(x, y, &met))
        refuse(a, n, mpc_operand(a->g, n, 0), mpc_operand(a->g, n, 1), "compares values of different scales");
    return plain(MPC_NONE);
}

static mpc_scale_unit unit_follow(analysis *a, const mpc_node *n, uint32_t operand) {
    need_plain(a, n, operand);
    return operand < n->operand_count ? of(a, n, operand) : plain(MPC_NONE);
}

static mpc_scale_unit unit_pair(analysis *a, const mpc_node *n, uint32_t operand) {
    need_plain_beside(a, n, operand, operand + 1);
    mpc_scale_unit first = of(a, n, operand), both = first;
    if (operand + 1 < n->operand_count && !meet(first, of(a, n, operand + 1), &both))
        refuse(a, n, mpc_operand(a->g, n, operand), mpc_operand(a->g, n, operand + 1), "takes both in one scale");
    return both;
}

static mpc_scale_unit unit_flag(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)a, (void)n, (void)operand;
    return plain(MPC_NONE);
}

static mpc_scale_unit unit_literal(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    double value = mpc_attr_float(a->g, n, "value");
    return value == 0 || !isfinite(value) ? any() : plain(MPC_NONE);
}

static mpc_scale_unit unit_scaler(analysis *a, const mpc_node *n, uint32_t operand) {
    (void)operand;
    mpc_scale_unit u = of(a, n, 0);
    if (u.kind != MPC_SCALE_UNIT_SCALE && u.kind != MPC_SCALE_UNIT_OPEN)
        refuse(a, n, mpc_operand(a->g, n, 0), MPC_NONE, "updates something that isn't the scale");
    return (mpc_scale_unit){MPC_SCALE_UNIT_SCALE, 1, a->scale};
}

/* A plugin's op: true values give true values, of anything else nothing is known. */
static mpc_scale_unit unit_unknown(analysis *a, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (is_float(a, mpc_operand(a->g, n, i)) && !is_true_value(of(a, n, i)))
            return (mpc_scale_unit){MPC_SCALE_UNIT_OPEN, 0, MPC_NONE};
    return plain(MPC_NONE);
}

#define UNIT(op, rule, operand) {MPC_OP_##op, unit_##rule, operand},
static const rule_row rule_rows[] = {
#include "passes/scale_units.def"
};
#undef UNIT

enum { ROW_COUNT = sizeof rule_rows / sizeof *rule_rows };

static const uint32_t *rows_by_op(const mpc_context *ctx, mpc_arena *arena) {
    uint32_t *row = mpc_arena_alloc(arena, (mpc_op_count(ctx) + 1) * sizeof *row);
    for (uint32_t i = 0; row != NULL && i < ROW_COUNT; i++) row[rule_rows[i].op] = i + 1;
    return row;
}

static mpc_scale_unit unit_of_node(analysis *a, const mpc_node *n) {
    if (a->row[n->op] != 0) {
        const rule_row *r = &rule_rows[a->row[n->op] - 1];
        return r->rule(a, n, r->operand);
    }
    return mpc_op_get(a->g->ctx, n->op)->plugin != NULL ? unit_unknown(a, n) : unit_plain(a, n, 0);
}

/* ---- where the scale is ---- */

/* By symbol, since this is asked of every graph. */
static const mpc_node *named_node(const mpc_graph *g, const char *name, mpc_op_id op) {
    mpc_sym symbol = mpc_intern(g->ctx, name);
    mpc_value_id v = 0;
    while (v < g->value_count && g->values[v].name != symbol) v++;
    const mpc_node *n = v == g->value_count ? NULL : mpc_producer(g, v);
    return n != NULL && n->op == op ? n : NULL;
}

static mpc_value_id find_scale(const mpc_graph *g) {
    for (mpc_node_id i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == MPC_OP_state && strcmp(mpc_attr_str(g, &g->nodes[i], "name"), "scaler.scale") == 0)
            return g->nodes[i].result_begin;
    const mpc_node *literal = named_node(g, "scaler.scale", MPC_OP_const);
    bool untouched =
        literal != NULL && named_node(g, "loss.seed.scaled", MPC_OP_mul) && named_node(g, "scaler.inverse", MPC_OP_div);
    return untouched ? literal->result_begin : MPC_NONE;
}

/* Made of the scale and literals alone. */
static bool is_closed(const analysis *a, const bool *closed, const mpc_node *n) {
    bool floats = false;
    if (n->op == MPC_OP_const || n->result_begin == a->scale) return true;
    for (uint32_t k = 0; k < n->operand_count; k++) {
        mpc_value_id v = mpc_operand(a->g, n, k);
        if (!is_float(a, v)) continue;
        if (!closed[v]) return false;
        floats = true;
    }
    return floats;
}

static void mark_ends(const analysis *a, bool *needed) {
    const mpc_graph *g = a->g;
    mpc_value_id next = mpc_graph_next_of(g, a->scale);
    for (mpc_value_id v = 0; v < g->value_count; v++) needed[v] = true;
    for (uint32_t i = 0; i < g->operand_total; i++) needed[g->operands[i]] = false;
    for (uint32_t i = 0; i < g->output_count; i++) needed[g->outputs[i].value] = false;
    for (uint32_t i = 0; i < g->next_count; i++) needed[g->nexts[i].value] = false;
    if (next != MPC_NONE) needed[next] = true;
}

/* Fills `scaler`: what is closed and goes into the next value of the scale, or nowhere. */
static void mark_scaler(analysis *a, bool *closed) {
    const mpc_graph *g = a->g;
    mark_ends(a, a->scaler);
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        bool own = is_closed(a, closed, &g->nodes[i]);
        for (uint32_t k = 0; k < g->nodes[i].result_count; k++) closed[mpc_result(&g->nodes[i], k)] = own;
    }
    for (mpc_node_id i = g->node_count; i-- > 0;) {
        const mpc_node *n = &g->nodes[i];
        bool marked = false;
        for (uint32_t k = 0; k < n->result_count; k++)
            marked |= a->scaler[mpc_result(n, k)] &= closed[mpc_result(n, k)];
        for (uint32_t k = 0; marked && k < n->operand_count; k++)
            if (is_float(a, mpc_operand(g, n, k))) a->scaler[mpc_operand(g, n, k)] = true;
    }
}

/* ---- ends ---- */

static void check_end(analysis *a, mpc_value_id v, bool may_be_scale, const char *what, const char *name) {
    const mpc_scale_unit *u = &a->unit[v];
    if (!is_float(a, v) || is_true_value(*u) || (may_be_scale && u->kind == MPC_SCALE_UNIT_SCALE)) return;
    mpc_str text = {0};
    describe(a, v, &text);
    say_maker(a, &text);
    a->errors++;
    mpc_error(mpc_context_sink(a->g->ctx), "V20", "the %s `%s` must be a true value: %s", what, name,
              mpc_str_cstr(&text));
    mpc_str_free(&text);
}

static void check_ends(analysis *a) {
    const mpc_graph *g = a->g;
    for (uint32_t i = 0; i < g->next_count; i++)
        check_end(a, g->nexts[i].value, g->nexts[i].state == a->scale, "next value of",
                  mpc_value_name(g, g->nexts[i].state));
    for (uint32_t i = 0; i < g->output_count; i++) {
        const char *name = mpc_sym_text(g->ctx, g->outputs[i].name);
        bool waits = strncmp(name, "each:", 5) == 0; /* gradients as they are, for measurements */
        if (!waits) check_end(a, g->outputs[i].value, strcmp(name, "scale") == 0, "output", name);
    }
}

static void analyze_node(analysis *a, const mpc_node *n) {
    if (n->result_count == 0) return;
    bool own = a->scaler[n->result_begin] && n->op != MPC_OP_const && n->op != MPC_OP_scaler_update;
    mpc_scale_unit u =
        own || n->result_begin == a->scale ? (mpc_scale_unit){MPC_SCALE_UNIT_SCALE, 1, a->scale} : unit_of_node(a, n);
    for (uint32_t k = 0; k < n->result_count; k++) {
        mpc_value_id v = mpc_result(n, k);
        a->unit[v] = is_float(a, v) ? u : plain(MPC_NONE);
        if (a->unit[v].from == MPC_NONE) a->unit[v].from = v;
    }
}

static mpc_status analyze(const mpc_graph *g, const char *maker, mpc_arena *arena, mpc_scale_unit **units) {
    analysis a = {.g = g, .maker = maker, .scale = find_scale(g)};
    *units = NULL;
    if (a.scale == MPC_NONE) return MPC_OK;
    a.row = rows_by_op(g->ctx, arena);
    a.unit = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *a.unit);
    a.scaler = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *a.scaler);
    bool *closed = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *closed);
    if (a.row == NULL || a.unit == NULL || a.scaler == NULL || closed == NULL)
        return mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    for (mpc_value_id v = 0; v < g->value_count; v++) a.unit[v] = plain(v);
    memset(closed, 0, g->value_count * sizeof *closed);
    mark_scaler(&a, closed);
    for (mpc_node_id i = 0; i < g->node_count; i++) analyze_node(&a, &g->nodes[i]);
    check_ends(&a);
    *units = a.unit;
    return a.errors ? MPC_FAILED : MPC_OK;
}

mpc_status mpc_scale_units(const mpc_graph *g, mpc_arena *arena, mpc_scale_unit **units) {
    return analyze(g, NULL, arena, units);
}

mpc_status mpc_scale_units_verify(const mpc_graph *g, const char *maker) {
    mpc_arena *arena = mpc_arena_create();
    mpc_scale_unit *units;
    if (arena == NULL) return mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory"), MPC_NO_MEMORY;
    mpc_status status = analyze(g, maker, arena, &units);
    mpc_arena_destroy(arena);
    return status;
}
