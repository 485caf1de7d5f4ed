/* What the readers of every value do with it, from the last node to the first, so that all readers of a value have been
 * seen when its producer is decided. Two questions: would some reader have it in a low format (a matmul, also through
 * ops that only follow), and is there nobody who gains from that (so that a following op may keep its f32 result in a
 * register for a reduction, N40)? */
#include <string.h>

#include "passes/precision/precision.h"

bool mpc_node_has_attr(const mpc_graph *g, const mpc_node *n, const char *key) {
    const mpc_op *op = mpc_op_get(g->ctx, n->op);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(mpc_sym_text(g->ctx, op->attrs[i].key), key) == 0) return true;
    return false;
}

mpc_format mpc_node_prec(const mpc_graph *g, const mpc_node *n) {
    return mpc_node_has_attr(g, n, "prec") ? mpc_attr_format(g, n, "prec") : MPC_FMT_none;
}

bool mpc_node_stores_low(const mpc_graph *g, mpc_node_id id) {
    mpc_op_kind kind = mpc_node_op(g, id)->kind;
    return kind == MPC_KIND_COMPOSITE || kind == MPC_KIND_POOL;
}

bool mpc_is_param_state(const mpc_graph *g, const mpc_node *n) {
    return n != NULL && n->op == MPC_OP_state && strcmp(mpc_attr_str(g, n, "role"), "param") == 0;
}

bool mpc_is_written_cast(const mpc_graph *g, const mpc_node *n) {
    if (n == NULL || n->op != MPC_OP_cast) return false;
    const char *by = mpc_attr_str(g, n, "by");
    return strcmp(by, "user") == 0 || strcmp(by, "front") == 0;
}

static bool any_result_wanted(const mpc_plan *p, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (p->wanted_by[mpc_result(n, i)] != MPC_NONE) return true;
    return false;
}

static bool all_results_f32(const mpc_plan *p, const mpc_node *n) {
    for (uint32_t i = 0; i < n->result_count; i++)
        if (!p->fixed.result[mpc_result(n, i)] && !p->only_f32[mpc_result(n, i)]) return false;
    return true;
}

static bool first_result_wanted(const mpc_plan *p, const mpc_node *n) {
    mpc_value_id v = mpc_result(n, 0);
    return !p->fixed.result[v] && p->wanted_by[v] != MPC_NONE;
}

typedef struct reading { /* of one operand by one node */
    bool wants, gains;
} reading;

/* The backward half of a norm or a softmax: its operands are activations and their gradients, which keep their value's
 * format even where the result is f32. */
static bool is_backward_of_activation(const mpc_plan *p, mpc_node_id id, uint32_t operand) {
    const mpc_graph *g = p->g;
    const mpc_node *n = &g->nodes[id];
    mpc_value_id x = mpc_operand(g, n, operand), y = mpc_result(n, 0);
    return n->origin != 0 && mpc_node_stores_low(g, id) && !p->fixed.result[y] &&
           mpc_type_elements(mpc_value_type(g, x)) == mpc_type_elements(mpc_value_type(g, y));
}

static reading read_high(const mpc_plan *p, mpc_node_id id, uint32_t operand) {
    const mpc_node *n = &p->g->nodes[id];
    if (p->fixed.operand[n->operand_begin + operand]) return (reading){false, false};
    bool low = mpc_node_stores_low(p->g, id) && first_result_wanted(p, n);
    return (reading){low && operand == 0, low || is_backward_of_activation(p, id, operand)};
}

static reading read_by_class(const mpc_plan *p, mpc_node_id id, uint32_t operand) {
    const mpc_node *n = &p->g->nodes[id];
    bool fixed = p->fixed.operand[n->operand_begin + operand], narrow = mpc_format_is_low(p->low);
    switch (mpc_node_op(p->g, id)->cls) {
    case MPC_CLASS_NONE:
        return (reading){false, false};
    case MPC_CLASS_LOW:
        return (reading){narrow && !fixed, narrow && !fixed};
    case MPC_CLASS_HIGH:
        return read_high(p, id, operand);
    case MPC_CLASS_FOLLOW:
    case MPC_CLASS_CLEAR:
        break;
    }
    if (mpc_is_written_cast(p->g, n)) return (reading){false, false};
    return (reading){any_result_wanted(p, n), !all_results_f32(p, n)};
}

static reading read_operand(const mpc_plan *p, mpc_node_id id, uint32_t operand) {
    mpc_format prec = mpc_node_prec(p->g, &p->g->nodes[id]);
    if (prec == MPC_FMT_none) return read_by_class(p, id, operand);
    bool low = mpc_format_is_low(prec);
    return (reading){low, low};
}

/* Every reader takes it low, directly or behind views. */
static bool takes_it_low(const mpc_plan *p, mpc_node_id id, reading r) {
    const mpc_node *n = &p->g->nodes[id];
    const mpc_op *op = mpc_node_op(p->g, id);
    if (op->cls == MPC_CLASS_LOW) return r.wants;
    return op->kind == MPC_KIND_VIEW && p->only_wanted[mpc_result(n, 0)] && p->read[mpc_result(n, 0)];
}

/* The reader continues the computation of one gradient, in the same kernel. */
static bool is_same_gradient(const mpc_plan *p, mpc_node_id id, mpc_value_id v) {
    const mpc_node *producer = mpc_producer(p->g, v);
    mpc_op_kind kind = mpc_node_op(p->g, id)->kind;
    return producer != NULL && producer->origin != 0 && producer->origin == p->g->nodes[id].origin &&
           (kind == MPC_KIND_EWISE || kind == MPC_KIND_REDUCE);
}

static void read_node(mpc_plan *p, mpc_node_id id) {
    const mpc_node *n = &p->g->nodes[id];
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(p->g, n, i);
        reading r = read_operand(p, id, i);
        p->read[v] = true;
        if (r.wants) p->wanted_by[v] = id;
        if (r.gains) p->only_f32[v] = false;
        if (!is_same_gradient(p, id, v)) p->inside[v] = false;
        if (!takes_it_low(p, id, r)) p->only_wanted[v] = false;
    }
}

void mpc_plan_read_backwards(mpc_plan *p) {
    const mpc_graph *g = p->g;
    for (uint32_t v = 0; v < g->value_count; v++) {
        p->wanted_by[v] = MPC_NONE;
        p->only_wanted[v] = p->only_f32[v] = p->inside[v] = true;
        p->read[v] = false;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        p->only_wanted[g->outputs[i].value] = p->inside[g->outputs[i].value] = false;
    for (uint32_t i = 0; i < g->next_count; i++)
        p->only_wanted[g->nexts[i].value] = p->inside[g->nexts[i].value] = false;
    for (mpc_node_id id = g->node_count; id-- > 0;) read_node(p, id);
}
