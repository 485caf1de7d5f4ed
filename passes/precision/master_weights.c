/* A low copy of a parameter is a state of its own, written by the update from the new master (N75), instead of a cast
 * in every step: so it costs nothing in the forward pass, and an evaluation graph reads the same copy. Copies are never
 * saved; a store remakes them from their masters. A cast that the user wrote stays where it is. A parameter without master
 * (attribute `stored`) is the other way round: the state itself takes the low format, what reads it low reads the state,
 * and everything else, the update among it, reads it widened. */
#include <string.h>

#include "passes/passes.h"
#include "passes/precision/precision.h"
#include "passes/rewrite.h"

typedef struct copy {     /* the low copy of a parameter in one format */
    mpc_value_id master;  /* in the old graph */
    mpc_value_id derived; /* in the new graph */
    mpc_format format;
    uint32_t other; /* next copy of the same master, MPC_NONE at the end */
    bool bound;     /* it has its next */
    bool sole;      /* it is the parameter: there is no master */
} copy;

typedef struct masters {
    mpc_rewrite rw;
    copy *copies;
    uint32_t count;
    uint32_t *first;     /* by old value of a master: its first copy, or MPC_NONE */
    mpc_value_id *next;  /* by old value of a state: its next value, or MPC_NONE */
    mpc_value_id *owner; /* by old value: the state whose next it is, or MPC_NONE */
} masters;

static bool is_inserted_cast(const mpc_graph *g, const mpc_node *n) {
    return n->op == MPC_OP_cast && strcmp(mpc_attr_str(g, n, "by"), "autocast") == 0 &&
           mpc_format_is_low(mpc_attr_format(g, n, "to"));
}

/* The parameter whose elements the value holds, looking through views; MPC_NONE. */
static mpc_value_id master_behind(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (n != NULL && n->operand_count == 1 && mpc_op_get(g->ctx, n->op)->kind == MPC_KIND_VIEW) {
        v = mpc_operand(g, n, 0);
        n = mpc_producer(g, v);
    }
    return mpc_is_param_state(g, n) && mpc_attr_format(g, n, "derived") == MPC_FMT_none ? v : MPC_NONE;
}

static mpc_value_id add_copy(masters *m, mpc_value_id master, mpc_format format) {
    const mpc_graph *g = m->rw.in;
    const mpc_node *n = mpc_producer(g, master);
    const char *name = mpc_attr_str(g, n, "name");
    char *value = mpc_arena_printf(m->rw.scratch, "%s.%s", mpc_value_name(g, master), mpc_format_get(format)->name);
    mpc_type_id type = mpc_type_with_format(g->ctx, g->values[master].type, format);
    mpc_attr_arg attrs[3] = {MPC_A_STR("skip", "keep"), MPC_A_STR("role", "copy"), MPC_A_FORMAT("derived", format)};
    if (value == NULL || type == 0) {
        mpc_builder_fail(m->rw.b, "out of memory");
        return MPC_NONE;
    }
    mpc_builder_set_loc(m->rw.b, n->loc);
    mpc_builder_set_origin(m->rw.b, 0);
    mpc_builder_set_why(m->rw.b, mpc_intern(g->ctx, "low copy, written by the update (N75)"));
    mpc_builder_set_name(m->rw.b, value);
    return mpc_build_state(m->rw.b, name, type, attrs, 3);
}

static mpc_value_id copy_of(masters *m, mpc_value_id master, mpc_format format) {
    for (uint32_t i = m->first[master]; i != MPC_NONE; i = m->copies[i].other)
        if (m->copies[i].format == format) return m->copies[i].derived;
    mpc_value_id derived = add_copy(m, master, format);
    m->copies[m->count] = (copy){.master = master, .derived = derived, .format = format, .other = m->first[master]};
    m->first[master] = m->count++;
    return derived;
}

/* The state of a parameter without master, in its low format; whoever reads the old value gets it widened. */
static void add_sole(masters *m, const mpc_node *n, mpc_format format) {
    const mpc_graph *g = m->rw.in;
    mpc_value_id old = mpc_result(n, 0);
    mpc_type_id type = mpc_type_with_format(g->ctx, g->values[old].type, format);
    mpc_attr_arg *attrs = mpc_rewrite_scratch(&m->rw, n->attr_count, sizeof *attrs);
    mpc_attr_arg to[2] = {MPC_A_FORMAT("to", MPC_FMT_f32), MPC_A_STR("by", "master")};
    if (attrs == NULL || type == 0) {
        mpc_builder_fail(m->rw.b, "out of memory");
        return;
    }
    mpc_rewrite_attrs(g, n, attrs);
    mpc_rewrite_dress(&m->rw, n);
    mpc_builder_set_why(m->rw.b, mpc_intern(g->ctx, "no master: the update rounds to this format (N73)"));
    mpc_value_id low = mpc_build_typed(m->rw.b, MPC_OP_state, type, attrs, n->attr_count);
    m->copies[m->count] = (copy){.master = old, .derived = low, .format = format, .other = MPC_NONE, .sole = true};
    m->first[old] = m->count++;
    char *name = mpc_arena_printf(m->rw.scratch, "%s.f32", mpc_value_name(g, old));
    mpc_builder_set_name(m->rw.b, name == NULL ? "wide" : name);
    m->rw.map[old] = mpc_build(m->rw.b, MPC_OP_cast, &low, 1, to, 2);
}

/* The views between a parameter and value `v`, again on the copy. The chain is short: one turn per view. */
static mpc_value_id views_again(masters *m, mpc_value_id v, mpc_value_id master, mpc_format format) {
    const mpc_graph *g = m->rw.in;
    mpc_value_id chain[MPC_MAX_RANK * 4], now = copy_of(m, master, format);
    mpc_attr_arg attrs[8];
    uint32_t length = 0;
    for (; v != master && length < sizeof chain / sizeof *chain; v = mpc_operand(g, mpc_producer(g, v), 0))
        chain[length++] = v;
    if (v != master) mpc_builder_fail(m->rw.b, "too many views of one parameter");
    while (length-- > 0) {
        const mpc_node *n = mpc_producer(g, chain[length]);
        if (n->attr_count > sizeof attrs / sizeof *attrs) mpc_builder_fail(m->rw.b, "too many attributes");
        if (mpc_builder_failed(m->rw.b)) return MPC_NONE;
        mpc_rewrite_attrs(g, n, attrs);
        mpc_rewrite_dress(&m->rw, n);
        now = mpc_build(m->rw.b, n->op, &now, 1, attrs, n->attr_count);
    }
    return now;
}

/* The cast of the next master. Where that is where(ok, new, master) the copy is where(ok, cast(new), copy): the same
 * bits, since the copy is the cast of the master already, and a device may leave out both at once. */
static mpc_value_id next_copy(masters *m, const copy *c, mpc_value_id next) {
    const mpc_graph *g = m->rw.in;
    const mpc_node *n = mpc_producer(g, next);
    mpc_attr_arg attrs[2] = {MPC_A_FORMAT("to", c->format), MPC_A_STR("by", "master")};
    bool guarded = n != NULL && n->op == MPC_OP_where && mpc_operand(g, n, 2) == c->master;
    mpc_value_id fresh = m->rw.map[guarded ? mpc_operand(g, n, 1) : next];
    mpc_value_id cast = mpc_build(m->rw.b, MPC_OP_cast, &fresh, 1, attrs, 2);
    if (!guarded) return cast;
    const char *name =
        mpc_arena_printf(m->rw.scratch, "%s.%s", mpc_value_name(g, next), mpc_format_get(c->format)->name);
    mpc_builder_set_name(m->rw.b, name == NULL ? "copy" : name);
    return mpc_build3(m->rw.b, MPC_OP_where, m->rw.map[mpc_operand(g, n, 0)], cast, c->derived);
}

static void bind_copy(masters *m, copy *c) {
    mpc_value_id next = m->next[c->master];
    if (c->bound || next == MPC_NONE) return;
    c->bound = true;
    mpc_builder_set_loc(m->rw.b, (mpc_loc){0});
    mpc_builder_set_origin(m->rw.b, 0);
    const char *why = c->sole ? "the parameter in the format it is stored in (N73)" : "the copy is the cast of the new master (N75)";
    mpc_builder_set_why(m->rw.b, mpc_intern(m->rw.in->ctx, why));
    mpc_build_next(m->rw.b, c->derived, next_copy(m, c, next));
}

/* A parameter without master has no copies: whoever wants another format than its own casts. */
static bool takes_copy(const masters *m, mpc_value_id master, const mpc_node *cast) {
    uint32_t first = m->first[master];
    return first == MPC_NONE || !m->copies[first].sole ||
           m->copies[first].format == mpc_attr_format(m->rw.in, cast, "to");
}

/* Copies are written where their masters are, so that one kernel does both. */
static void bind_copies_of(masters *m, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id owner = m->owner[mpc_result(n, i)];
        for (uint32_t k = owner == MPC_NONE ? MPC_NONE : m->first[owner]; k != MPC_NONE; k = m->copies[k].other)
            bind_copy(m, &m->copies[k]);
    }
}

static void copy_nodes(masters *m) {
    const mpc_graph *g = m->rw.in;
    for (mpc_node_id i = 0; i < g->node_count && !mpc_builder_failed(m->rw.b); i++) {
        const mpc_node *n = &g->nodes[i];
        mpc_value_id master = is_inserted_cast(g, n) ? master_behind(g, mpc_operand(g, n, 0)) : MPC_NONE;
        mpc_format stored = n->op == MPC_OP_state ? mpc_attr_format(g, n, "stored") : MPC_FMT_none;
        if (stored != MPC_FMT_none) add_sole(m, n, stored);
        else if (master == MPC_NONE || !takes_copy(m, master, n)) mpc_rewrite_copy_node(&m->rw, i);
        else m->rw.map[mpc_result(n, 0)] = views_again(m, mpc_operand(g, n, 0), master, mpc_attr_format(g, n, "to"));
        bind_copies_of(m, n);
    }
}

/* All nexts but those of parameters without master, whose low values have their own. */
static void copy_ends(masters *m) {
    const mpc_graph *g = m->rw.in;
    for (uint32_t i = 0; i < g->next_count; i++) {
        const mpc_next *next = &g->nexts[i];
        uint32_t first = m->first[next->state];
        if (first == MPC_NONE || !m->copies[first].sole)
            mpc_build_next(m->rw.b, m->rw.map[next->state], m->rw.map[next->value]);
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        mpc_build_output(m->rw.b, mpc_sym_text(g->ctx, g->outputs[i].name), m->rw.map[g->outputs[i].value]);
}

static bool prepare(masters *m) {
    const mpc_graph *g = m->rw.in;
    size_t count = g->value_count;
    m->copies = mpc_rewrite_scratch(&m->rw, g->node_count, sizeof *m->copies);
    m->first = mpc_rewrite_scratch(&m->rw, count, sizeof *m->first);
    m->next = mpc_rewrite_scratch(&m->rw, count, sizeof *m->next);
    m->owner = mpc_rewrite_scratch(&m->rw, count, sizeof *m->owner);
    if (m->copies == NULL || m->first == NULL || m->next == NULL || m->owner == NULL) return false;
    for (size_t v = 0; v < count; v++) m->first[v] = m->next[v] = m->owner[v] = MPC_NONE;
    for (uint32_t i = 0; i < g->next_count; i++) {
        m->next[g->nexts[i].state] = g->nexts[i].value;
        m->owner[g->nexts[i].value] = g->nexts[i].state;
    }
    return true;
}

mpc_graph *mpc_pass_master_weights(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    masters m = {0};
    (void)options;
    (void)env;
    if (!mpc_rewrite_begin(&m.rw, in)) return NULL;
    if (prepare(&m)) {
        copy_nodes(&m);
        copy_ends(&m);
        for (uint32_t i = 0; i < m.count && !mpc_builder_failed(m.rw.b); i++) bind_copy(&m, &m.copies[i]);
    }
    return mpc_rewrite_finish(&m.rw);
}
