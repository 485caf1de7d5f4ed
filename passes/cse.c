/* Equal nodes become the first of them: same op, operands, attributes and result types. States are never merged (their
 * name says who they are), nor random ops (two dropouts are two draws), nor anything with an effect. Operands of a
 * commutative op are compared in either order. In a lowered graph, what the backward part computes again from saved
 * values stays computed again: merged, every intermediate of a forward kernel would be stored until the backward one
 * reads it. */
#include <string.h>

#include "passes/cse.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct merger {
    mpc_rewrite rw;
    mpc_value_id *first; /* by value: the equal one that stays; itself mostly */
    bool *live;          /* by value that stays; NULL: all are */
    mpc_node_id *slots;  /* open addressing; MPC_NONE: free. Nodes of the old graph */
    uint32_t mask;
    bool *forward; /* by node: output `loss` depends on it; NULL unless the graph is lowered */
} merger;

enum { SMALL_ELEMENTS = 16384 }; /* worth keeping rather than computing again */

static uint64_t mix(uint64_t hash, uint64_t x) {
    hash ^= x + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    return hash * 0xff51afd7ed558ccdu;
}

static bool swaps(const merger *m, const mpc_node *n) {
    return n->operand_count == 2 && (mpc_op_get(m->rw.in->ctx, n->op)->flags & MPC_OPF_COMMUTES) != 0;
}

static mpc_value_id operand(const merger *m, const mpc_node *n, uint32_t i) {
    return m->first[mpc_operand(m->rw.in, n, i)];
}

static uint64_t hash_attr(const mpc_attr *a) {
    uint64_t bits = 0;
    if (a->kind == MPC_ATTR_INTS) return mpc_hash_bytes(a->ints.data, a->ints.count * sizeof *a->ints.data);
    if (a->kind == MPC_ATTR_FLOAT) memcpy(&bits, &a->f, sizeof bits);
    else if (a->kind == MPC_ATTR_INT) bits = (uint64_t)a->i;
    else if (a->kind == MPC_ATTR_BOOL) bits = a->b;
    else bits = a->kind == MPC_ATTR_STR ? a->s : (uint64_t)a->format;
    return bits;
}

static uint64_t hash_node(const merger *m, const mpc_node *n) {
    const mpc_graph *g = m->rw.in;
    uint64_t hash = mix(n->op, g->values[mpc_result(n, 0)].type), sum = 0;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        if (swaps(m, n)) sum += mix(17, operand(m, n, i));
        else hash = mix(hash, operand(m, n, i));
    }
    for (uint32_t i = 0; i < n->attr_count; i++)
        hash = mix(mix(hash, g->attrs[n->attr_begin + i].key), hash_attr(&g->attrs[n->attr_begin + i]));
    return mix(hash, sum);
}

/* Floats by their bits: 0 and -0 are different constants. */
static bool same_attr(const mpc_attr *a, const mpc_attr *b) {
    if (a->key != b->key || a->kind != b->kind) return false;
    if (a->kind != MPC_ATTR_INTS) return hash_attr(a) == hash_attr(b);
    return a->ints.count == b->ints.count &&
           (a->ints.count == 0 || memcmp(a->ints.data, b->ints.data, a->ints.count * sizeof *a->ints.data) == 0);
}

static bool same_operands(const merger *m, const mpc_node *a, const mpc_node *b) {
    if (swaps(m, a) && operand(m, a, 0) == operand(m, b, 1) && operand(m, a, 1) == operand(m, b, 0)) return true;
    for (uint32_t i = 0; i < a->operand_count; i++)
        if (operand(m, a, i) != operand(m, b, i)) return false;
    return true;
}

/* Not when it would keep a large value from the forward part to the end. */
static bool may_share(const merger *m, const mpc_node *a, const mpc_node *b) {
    const mpc_graph *g = m->rw.in;
    if (m->forward == NULL || m->forward[a - g->nodes] == m->forward[b - g->nodes]) return true;
    mpc_op_kind kind = mpc_op_get(g->ctx, a->op)->kind;
    return kind == MPC_KIND_STRUCT || kind == MPC_KIND_VIEW ||
           mpc_type_elements(mpc_value_type(g, mpc_result(a, 0))) <= SMALL_ELEMENTS;
}

static bool same_node(const merger *m, const mpc_node *a, const mpc_node *b) {
    const mpc_graph *g = m->rw.in;
    if (a->op != b->op || a->operand_count != b->operand_count || a->attr_count != b->attr_count ||
        a->result_count != b->result_count)
        return false;
    for (uint32_t i = 0; i < a->result_count; i++)
        if (g->values[mpc_result(a, i)].type != g->values[mpc_result(b, i)].type) return false;
    for (uint32_t i = 0; i < a->attr_count; i++)
        if (!same_attr(&g->attrs[a->attr_begin + i], &g->attrs[b->attr_begin + i])) return false;
    return same_operands(m, a, b) && may_share(m, a, b);
}

static bool may_merge(const mpc_graph *g, mpc_node_id id) {
    const mpc_op *op = mpc_node_op(g, id);
    return g->nodes[id].op != MPC_OP_state && (op->flags & (MPC_OPF_RANDOM | MPC_OPF_EFFECT)) == 0;
}

/* The slot that holds an equal node, or the free one where `id` belongs. */
static mpc_node_id *find_slot(merger *m, mpc_node_id id) {
    const mpc_graph *g = m->rw.in;
    uint32_t at = (uint32_t)hash_node(m, &g->nodes[id]) & m->mask;
    while (m->slots[at] != MPC_NONE && !same_node(m, &g->nodes[m->slots[at]], &g->nodes[id])) at = (at + 1) & m->mask;
    return &m->slots[at];
}

/* Attention may stay one op in a lowered graph (expand{keep=attention}). */
static bool is_lowered(const mpc_graph *g) {
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        mpc_op_id op = g->nodes[id].op;
        bool kept = op == MPC_OP_attention || op == MPC_OP_attention_grad;
        if (!kept && mpc_node_op(g, id)->kind == MPC_KIND_COMPOSITE) return false;
    }
    return true;
}

static void find_forward(merger *m) {
    const mpc_graph *g = m->rw.in;
    mpc_value_id loss = mpc_graph_find_output(g, "loss");
    if (loss == MPC_NONE || g->values[loss].producer == MPC_NONE || !is_lowered(g)) return;
    m->forward = mpc_rewrite_scratch(&m->rw, g->node_count, sizeof *m->forward);
    if (m->forward == NULL) return;
    m->forward[g->values[loss].producer] = true;
    for (mpc_node_id id = g->node_count; id-- > 0;) {
        const mpc_node *n = &g->nodes[id];
        for (uint32_t i = 0; i < n->operand_count && m->forward[id]; i++) {
            mpc_node_id producer = g->values[mpc_operand(g, n, i)].producer;
            if (producer != MPC_NONE) m->forward[producer] = true;
        }
    }
}

static void find_equals(merger *m) {
    const mpc_graph *g = m->rw.in;
    for (uint32_t v = 0; v < g->value_count; v++) m->first[v] = v;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        mpc_node_id *slot = may_merge(g, id) ? find_slot(m, id) : NULL;
        if (slot == NULL) continue;
        if (*slot == MPC_NONE) *slot = id;
        for (uint32_t i = 0; *slot != id && i < g->nodes[id].result_count; i++)
            m->first[mpc_result(&g->nodes[id], i)] = mpc_result(&g->nodes[*slot], i);
    }
}

/* --- what is left --- */

static bool stays(const merger *m, const mpc_node *n) {
    bool effect = (mpc_op_get(m->rw.in->ctx, n->op)->flags & MPC_OPF_EFFECT) != 0;
    if (n->result_count > 0 && m->first[mpc_result(n, 0)] != mpc_result(n, 0)) return false;
    for (uint32_t i = 0; m->live != NULL && !effect && i < n->result_count; i++)
        if (m->live[mpc_result(n, i)]) return true;
    return m->live == NULL || effect;
}

static void find_live(merger *m) {
    const mpc_graph *g = m->rw.in;
    m->live = mpc_rewrite_scratch(&m->rw, g->value_count, sizeof *m->live);
    if (m->live == NULL) return;
    for (uint32_t i = 0; i < g->output_count; i++) m->live[m->first[g->outputs[i].value]] = true;
    for (uint32_t i = 0; i < g->next_count; i++)
        m->live[g->nexts[i].state] = m->live[m->first[g->nexts[i].value]] = true;
    for (mpc_node_id id = g->node_count; id-- > 0;) {
        bool kept = stays(m, &g->nodes[id]);
        for (uint32_t i = 0; kept && i < g->nodes[id].operand_count; i++) m->live[operand(m, &g->nodes[id], i)] = true;
    }
}

static void copy_rest(merger *m) {
    const mpc_graph *g = m->rw.in;
    for (mpc_node_id id = 0; id < g->node_count && !mpc_builder_failed(m->rw.b); id++) {
        const mpc_node *n = &g->nodes[id];
        if (stays(m, n)) mpc_rewrite_copy_node(&m->rw, id);
        else if (n->result_count > 0) mpc_rewrite_map_results(&m->rw, n, m->rw.map[m->first[mpc_result(n, 0)]]);
    }
    mpc_build_copy_ends(m->rw.b, g, m->rw.map);
}

static mpc_graph *merge(const mpc_graph *in, bool only_live) {
    merger m = {0};
    uint32_t size = 16;
    if (!mpc_rewrite_begin(&m.rw, in)) return NULL;
    while (size < 2 * in->node_count) size *= 2;
    m.mask = size - 1;
    m.slots = mpc_rewrite_scratch(&m.rw, size, sizeof *m.slots);
    m.first = mpc_rewrite_scratch(&m.rw, in->value_count, sizeof *m.first);
    if (m.slots != NULL && m.first != NULL) {
        for (uint32_t i = 0; i < size; i++) m.slots[i] = MPC_NONE;
        find_forward(&m);
        find_equals(&m);
        if (only_live) find_live(&m);
        copy_rest(&m);
    }
    return mpc_rewrite_finish(&m.rw);
}

mpc_graph *mpc_pass_cse(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)options;
    (void)env;
    return merge(in, false);
}

mpc_graph *mpc_cse_and_dce(const mpc_graph *in) { return merge(in, true); }
