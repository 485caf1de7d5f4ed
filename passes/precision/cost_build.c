/* Makes the terms of mpc_costs from a graph: who reads which value in which format across which border, and how large the products are. Whether a value
 * crosses is taken from the lowered graph (grouping.c), in which format a reader wants it from the graph itself. A reading that crosses no border still
 * asks for a conversion, in registers. Lists are sorted by counting and repeats found by stamps, so all of it is linear. */
#include "base/alloc.h"
#include "base/array.h"
#include "passes/precision/cost_data.h"
#include "passes/precision/grouping.h"

typedef struct found_reading {
    mpc_value_id value;
    uint32_t group;
    mpc_reading reading;
} found_reading;

typedef struct maker {
    mpc_costs *c;
    const mpc_plan *p;
    const mpc_graph *g;
    mpc_grouping groups;
    uint32_t *reader_stamp, *group_stamp, *fixed_stamp; /* value + 1 that was last seen with this reader, group */
    MPC_ARRAY(found_reading) found;
} maker;

bool mpc_is_relabeling(const mpc_graph *g, const mpc_node *n) {
    (void)g;
    return n != NULL && (n->op == MPC_OP_reshape || n->op == MPC_OP_transpose || n->op == MPC_OP_expand);
}

/* --- how a node reads --- */

static mpc_reading fixed_reading(mpc_node_id reader, mpc_format f) {
    return (mpc_reading){.reader = reader, .as = MPC_READ_FIXED, .format = f, .through = MPC_NONE};
}

/* A given view in the format of what it looks at, which is settled too: casts are looked for behind it, as for an open one. */
static bool is_seen_through(const maker *m, mpc_node_id id) {
    const mpc_node *n = &m->g->nodes[id];
    if (!mpc_is_relabeling(m->g, n)) return false;
    mpc_value_id source = mpc_operand(m->g, n, 0);
    mpc_node_id producer = m->g->values[source].producer;
    bool settled = producer == MPC_NONE || m->p->given[producer] || !mpc_is_assigned(m->g, producer);
    return settled && m->p->format[source] == m->p->decisions[id].operand;
}

static mpc_reading given_reading(const maker *m, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(m->g, id);
    mpc_format wanted = m->p->decisions[id].operand;
    mpc_reading stored = {.reader = id, .as = MPC_READ_STORED, .through = MPC_NONE};
    if (wanted == MPC_FMT_none || wanted == MPC_FMT_tf32) return stored;
    bool taken = op->cls == MPC_CLASS_LOW || op->kind == MPC_KIND_VIEW || mpc_format_is_low(wanted);
    return taken ? fixed_reading(id, wanted) : stored;
}

/* Slot i of a node, or what any of its slots does where they are alike. */
static mpc_reading reading_of_slot(const maker *m, mpc_node_id id, uint32_t i) {
    const mpc_graph *g = m->g;
    const mpc_node *n = &g->nodes[id];
    const mpc_op *op = mpc_node_op(g, id);
    mpc_format typed = mpc_value_format(g, mpc_operand(g, n, i));
    mpc_reading r = {.reader = id, .as = MPC_READ_STORED, .through = MPC_NONE};
    if (op->cls == MPC_CLASS_NONE || m->p->fixed.operand[n->operand_begin + i]) return fixed_reading(id, typed);
    if (m->p->given[id] && !is_seen_through(m, id)) return given_reading(m, id);
    if (op->cls == MPC_CLASS_LOW) r.as = MPC_READ_OPERANDS;
    else if (op->kind == MPC_KIND_VIEW && n->operand_count > 1) r.as = MPC_READ_OPERANDS;
    else if (mpc_is_relabeling(g, n)) {
        r.as = MPC_READ_COPIES;
        r.through = m->groups.storage[mpc_result(n, 0)];
    }
    return r;
}

/* Does the slot hold the value, as it is or behind views that lowering took into the reader? */
static bool slot_holds(const maker *m, mpc_value_id operand, mpc_value_id v) {
    enum { MOST_VIEWS = 16 };
    for (int views = 0; views < MOST_VIEWS; views++) {
        const mpc_node *n = mpc_producer(m->g, operand);
        if (m->groups.storage[operand] == v) return true;
        if (n == NULL || n->operand_count != 1 || mpc_op_get(m->g->ctx, n->op)->kind != MPC_KIND_VIEW) return false;
        operand = mpc_operand(m->g, n, 0);
    }
    return false;
}

static mpc_reading reading_of(const maker *m, mpc_node_id id, mpc_value_id v) {
    const mpc_node *n = &m->g->nodes[id];
    const mpc_op *op = mpc_node_op(m->g, id);
    if (op->cls == MPC_CLASS_NONE) return fixed_reading(id, mpc_value_format(m->g, v));
    uint32_t slot = 0;
    for (uint32_t i = n->operand_count; op->kind != MPC_KIND_VIEW && i-- > 0;) {
        if (!slot_holds(m, mpc_operand(m->g, n, i), v)) continue;
        slot = i;
        if (!m->p->fixed.operand[n->operand_begin + i]) break;
    }
    return reading_of_slot(m, id, slot);
}

/* --- collecting --- */

static bool add(maker *m, mpc_value_id v, uint32_t group, mpc_reading r) {
    found_reading f = {.value = v, .group = group, .reading = r};
    return mpc_array_push(&m->found, f);
}

static bool add_crossing(maker *m, const mpc_crossing *c) {
    const mpc_graph *g = m->g;
    mpc_reading r = reading_of(m, c->reader, c->value);
    bool low = mpc_node_op(g, c->reader)->cls == MPC_CLASS_LOW, again = false;
    mpc_value_id v = c->value;
    if (r.as == MPC_READ_COPIES && (r.through == v || m->groups.begin[r.through] == m->groups.begin[r.through + 1]))
        r.as = MPC_READ_STORED;
    r.crosses = true;
    r.counted = !(low && c->kernel);
    uint32_t *stamps = r.as == MPC_READ_STORED ? m->group_stamp
                       : r.as == MPC_READ_FIXED && r.format == MPC_FMT_f32 && r.counted ? m->fixed_stamp
                                                                                        : NULL;
    if (stamps != NULL) again = stamps[c->group] == v + 1, stamps[c->group] = v + 1;
    m->reader_stamp[c->reader] = v + 1;
    return again || add(m, v, c->group, r);
}

/* Readings that the lowered graph doesn't show as crossings: in the same group, or folded away. */
static bool add_slot(maker *m, mpc_value_id v, mpc_node_id id, uint32_t i) {
    mpc_reading r = reading_of_slot(m, id, i);
    if (m->reader_stamp[id] == v + 1 || r.as == MPC_READ_STORED) return true;
    if (r.as == MPC_READ_COPIES && r.through == v) return true;
    m->reader_stamp[id] = v + 1;
    return add(m, v, 0, r);
}

/* Slots by the storage that they read: offsets, and (node, slot) pairs. */
typedef struct slots {
    uint32_t *begin;
    mpc_node_id *node;
    uint32_t *slot;
} slots;

static slots list_slots(const maker *m, mpc_arena *arena) {
    const mpc_graph *g = m->g;
    slots s = {mpc_arena_alloc(arena, ((size_t)g->value_count + 3) * sizeof *s.begin),
               mpc_arena_alloc(arena, ((size_t)g->operand_total + 1) * sizeof *s.node),
               mpc_arena_alloc(arena, ((size_t)g->operand_total + 1) * sizeof *s.slot)};
    if (s.begin == NULL || s.node == NULL || s.slot == NULL) return (slots){0};
    for (mpc_node_id id = 0; id < g->node_count; id++)
        for (uint32_t i = 0; i < g->nodes[id].operand_count; i++)
            s.begin[m->groups.storage[mpc_operand(g, &g->nodes[id], i)] + 2]++;
    for (uint32_t v = 2; v <= g->value_count + 1; v++) s.begin[v] += s.begin[v - 1];
    for (mpc_node_id id = 0; id < g->node_count; id++)
        for (uint32_t i = 0; i < g->nodes[id].operand_count; i++) {
            uint32_t at = s.begin[m->groups.storage[mpc_operand(g, &g->nodes[id], i)] + 1]++;
            s.node[at] = id;
            s.slot[at] = i;
        }
    return s;
}

static bool collect(maker *m, mpc_arena *scratch) {
    const mpc_graph *g = m->g;
    slots s = list_slots(m, scratch);
    if (s.begin == NULL) return false;
    for (uint32_t v = 0; v < g->value_count; v++) {
        if (!(m->c->elements[v] > 0)) continue;
        for (uint32_t i = m->groups.begin[v]; i < m->groups.begin[v + 1]; i++)
            if (!add_crossing(m, &m->groups.crossings[i])) return false;
        for (uint32_t i = s.begin[v]; i < s.begin[v + 1]; i++)
            if (!add_slot(m, v, s.node[i], s.slot[i])) return false;
    }
    return true;
}

/* Outputs and next values leave the step in their declared formats. */
static bool collect_ends(maker *m) {
    const mpc_graph *g = m->g;
    mpc_reading r = fixed_reading(MPC_NONE, MPC_FMT_f32);
    r.crosses = true;
    for (uint32_t i = 0; i < g->output_count + g->next_count; i++) {
        bool output = i < g->output_count;
        mpc_value_id v = m->groups.storage[output ? g->outputs[i].value : g->nexts[i - g->output_count].value];
        r.format = mpc_value_format(g, output ? v : g->nexts[i - g->output_count].state);
        if (m->c->elements[v] > 0 && !add(m, v, 0, r)) return false;
    }
    return true;
}

static bool sort_readings(maker *m) {
    mpc_costs *c = m->c;
    uint32_t values = m->g->value_count, count = (uint32_t)m->found.count;
    c->begin = mpc_arena_alloc(c->arena, ((size_t)values + 3) * sizeof *c->begin);
    c->readings = mpc_arena_alloc(c->arena, ((size_t)count + 1) * sizeof *c->readings);
    if (c->begin == NULL || c->readings == NULL) return false;
    for (uint32_t i = 0; i < count; i++) c->begin[m->found.data[i].value + 2]++;
    for (uint32_t v = 2; v <= values + 1; v++) c->begin[v] += c->begin[v - 1];
    for (uint32_t i = 0; i < count; i++) c->readings[c->begin[m->found.data[i].value + 1]++] = m->found.data[i].reading;
    return true;
}

/* --- what values are --- */

static mpc_made made_of(const maker *m, mpc_value_id v, const bool *has_next) {
    const mpc_graph *g = m->g;
    const mpc_node *n = mpc_producer(g, v);
    if (n == NULL) return MPC_MADE_BEFORE;
    if (n->op == MPC_OP_const || n->op == MPC_OP_range) return MPC_MADE_FREE;
    if (n->op != MPC_OP_state) return m->groups.loop[v] ? MPC_MADE_LOOP : MPC_MADE_KERNEL;
    if (mpc_attr_format(g, n, "derived") != MPC_FMT_none) return MPC_MADE_FREE;
    if (!mpc_is_param_state(g, n)) return MPC_MADE_BEFORE;
    return has_next[v] ? MPC_MADE_UPDATE : MPC_MADE_FREE;
}

static bool describe_values(maker *m, mpc_arena *scratch) {
    const mpc_graph *g = m->g;
    mpc_costs *c = m->c;
    bool *has_next = mpc_arena_alloc(scratch, (size_t)g->value_count + 1);
    c->made = mpc_arena_alloc(c->arena, ((size_t)g->value_count + 1) * sizeof *c->made);
    c->elements = mpc_arena_alloc(c->arena, ((size_t)g->value_count + 1) * sizeof *c->elements);
    if (has_next == NULL || c->made == NULL || c->elements == NULL) return false;
    for (uint32_t i = 0; i < g->next_count; i++) has_next[g->nexts[i].state] = true;
    for (uint32_t v = 0; v < g->value_count; v++) {
        const mpc_node *n = mpc_producer(g, v);
        bool data = n == NULL || (n->op != MPC_OP_const && n->op != MPC_OP_range);
        c->made[v] = made_of(m, v, has_next);
        if (data && mpc_format_is_float(mpc_value_format(g, v)))
            c->elements[v] = (double)mpc_type_elements(mpc_value_type(g, v));
    }
    return true;
}

/* --- LOW ops --- */

static double dim(const mpc_type *t, int64_t from_end) {
    return (int64_t)t->rank >= from_end ? (double)t->dims[t->rank - from_end] : 1;
}

static void describe_matmul(const mpc_graph *g, const mpc_node *n, mpc_op_size *z) {
    const mpc_type *a = mpc_value_type(g, mpc_operand(g, n, 0)), *y = mpc_value_type(g, mpc_result(n, 0));
    double all = (double)mpc_type_elements(y);
    bool batched = mpc_node_has_attr(g, n, "ta"), ta = batched && mpc_attr_bool(g, n, "ta");
    z->kind = ta ? MPC_COST_MATMUL_WEIGHT : MPC_COST_MATMUL;
    z->extent[1] = dim(y, 1);
    z->extent[2] = dim(a, ta ? 2 : 1);
    z->extent[0] = batched ? dim(y, 2) : all / z->extent[1];
    z->batch = all / (z->extent[0] * z->extent[1]);
    if (z->batch > 1) z->kind = MPC_COST_MATMUL_BATCH;
}

/* For each place of the window a product: pixels of the result, channels, out channels in the order of what is made. */
static void describe_conv(const mpc_graph *g, const mpc_node *n, mpc_op_size *z) {
    bool weight = n->op == MPC_OP_conv2d_grad_weight, input = n->op == MPC_OP_conv2d_grad_input;
    const mpc_type *w = mpc_value_type(g, weight ? mpc_result(n, 0) : mpc_operand(g, n, 1));
    mpc_value_id made = input ? mpc_operand(g, n, 0) : weight ? mpc_operand(g, n, 1) : mpc_result(n, 0);
    double out = dim(w, 1), in = dim(w, 2), pixels = (double)mpc_type_elements(mpc_value_type(g, made)) / out;
    double extent[3] = {weight ? in : pixels, input ? in : out, weight ? pixels : input ? out : in};
    z->kind = weight ? MPC_COST_CONV_WEIGHT : input ? MPC_COST_CONV_INPUT : MPC_COST_CONV;
    z->batch = (double)mpc_type_elements(w) / (out * in);
    for (int i = 0; i < 3; i++) z->extent[i] = extent[i];
}

/* Keys that a query meets: all of them where scores are made as a whole, those of its window in a fused kernel. */
static double keys_met(const mpc_graph *g, const mpc_node *n, int64_t keys, bool fused) {
    int64_t window = mpc_attr_int(g, n, "window"), sides = mpc_attr_bool(g, n, "causal") ? 1 : 2;
    bool skips = fused && window > 0 && window <= keys / sides;
    return (double)(skips ? sides * (window - 1) + 1 : keys);
}

/* q [b,t,h,d], k [b,s,kv,d]: two products forwards, five backwards, each of all heads of queries. */
static void describe_attention(const mpc_graph *g, const mpc_node *n, bool fused, mpc_op_size *z) {
    const mpc_type *q = mpc_value_type(g, mpc_operand(g, n, 0)), *k = mpc_value_type(g, mpc_operand(g, n, 1));
    double products = n->op == MPC_OP_attention_grad ? 5 : 2;
    z->kind = MPC_COST_ATTENTION;
    z->batch = products * (double)(q->dims[0] * q->dims[2]);
    z->extent[0] = (double)q->dims[1];
    z->extent[1] = keys_met(g, n, k->dims[1], fused);
    z->extent[2] = (double)q->dims[3];
}

/* x [b,t,c] and the states [b,h] times the weights of all gates; the backward pass has twice the products. */
static void describe_recurrent(const mpc_graph *g, const mpc_node *n, mpc_op_size *z) {
    const mpc_type *x = mpc_value_type(g, mpc_operand(g, n, 0)), *w = mpc_value_type(g, mpc_operand(g, n, 2));
    bool backward = n->op == MPC_OP_lstm_grad || n->op == MPC_OP_gru_grad;
    z->batch = backward ? 2 : 1;
    z->extent[0] = (double)(x->dims[0] * x->dims[1]);
    z->extent[1] = (double)w->dims[1];
    z->extent[2] = (double)(x->dims[2] + w->dims[0]);
}

static bool is_recurrent(mpc_op_id op) {
    return op == MPC_OP_lstm || op == MPC_OP_lstm_grad || op == MPC_OP_gru || op == MPC_OP_gru_grad;
}

bool mpc_op_size_find(const mpc_graph *g, mpc_node_id id, bool fused, mpc_op_size *out) {
    const mpc_node *n = &g->nodes[id];
    *out = (mpc_op_size){0};
    if (mpc_type_elements(mpc_value_type(g, mpc_result(n, 0))) <= 0) return false;
    if (mpc_node_op(g, id)->kind == MPC_KIND_CONV) describe_conv(g, n, out);
    else if (n->op == MPC_OP_attention || n->op == MPC_OP_attention_grad) describe_attention(g, n, fused, out);
    else if (is_recurrent(n->op)) describe_recurrent(g, n, out);
    else describe_matmul(g, n, out);
    return out->extent[0] > 0 && out->extent[1] > 0 && out->extent[2] > 0;
}

static void describe_op(maker *m, mpc_node_id id) {
    const mpc_graph *g = m->g;
    const mpc_node *n = &g->nodes[id];
    mpc_op_terms *t = &m->c->ops[id];
    t->present = mpc_op_size_find(g, id, m->c->profile.keeps_attention, &t->size);
    if (!t->present) return;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(g, n, i);
        double elements = (double)mpc_type_elements(mpc_value_type(g, v));
        if (!mpc_format_is_float(mpc_value_format(g, v))) continue;
        if (m->p->fixed.operand[n->operand_begin + i]) t->fixed_bytes += elements * 4;
        else t->moved += elements;
    }
    t->size.operands = t->moved;
    t->size.result = (double)mpc_type_elements(mpc_value_type(g, mpc_result(n, 0)));
    t->moved += m->groups.inner[id];
}

static bool describe_ops(maker *m) {
    const mpc_graph *g = m->g;
    m->c->ops = mpc_arena_alloc(m->c->arena, ((size_t)g->node_count + 1) * sizeof *m->c->ops);
    if (m->c->ops == NULL) return false;
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (mpc_node_op(g, id)->cls == MPC_CLASS_LOW && mpc_is_assigned(g, id)) describe_op(m, id);
    return true;
}

static bool make_terms(maker *m, mpc_arena *scratch) {
    const mpc_graph *g = m->g;
    m->reader_stamp = mpc_arena_alloc(scratch, ((size_t)g->node_count + 1) * sizeof *m->reader_stamp);
    m->group_stamp = mpc_arena_alloc(scratch, ((size_t)m->groups.group_count + 1) * sizeof *m->group_stamp);
    m->fixed_stamp = mpc_arena_alloc(scratch, ((size_t)m->groups.group_count + 1) * sizeof *m->fixed_stamp);
    if (m->reader_stamp == NULL || m->group_stamp == NULL || m->fixed_stamp == NULL) return false;
    return describe_values(m, scratch) && describe_ops(m) && collect(m, scratch) && collect_ends(m) &&
           sort_readings(m) && mpc_costs_find_far(m->c, scratch);
}

mpc_costs *mpc_costs_create(const mpc_plan *plan, const mpc_device_profile *profile, mpc_pass_env *env,
                            mpc_arena *arena) {
    const mpc_graph *g = plan->g;
    mpc_costs *c = mpc_arena_alloc(arena, sizeof *c);
    mpc_arena *scratch = mpc_arena_create();
    maker m = {.c = c, .p = plan, .g = g};
    bool ok = c != NULL && scratch != NULL;
    if (ok) {
        *c = (mpc_costs){.plan = plan, .g = g, .profile = *profile, .arena = arena};
        m.groups = mpc_group_uncast(g, profile->keeps_attention, env, arena);
        if (!m.groups.ok) return mpc_arena_destroy(scratch), NULL;
        c->storage = m.groups.storage;
        c->folded = m.groups.folded;
        ok = make_terms(&m, scratch);
    }
    if (!ok) mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
    mpc_array_free(&m.found);
    mpc_arena_destroy(scratch);
    return ok ? c : NULL;
}
