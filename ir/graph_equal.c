/* Structural equality. Values are compared by what makes them (producer and result number), not by id: two graphs that
 * print the same text are equal though one numbered its inputs late. Both graphs must be of one context, since symbols
 * and types are compared as ids. */
#include "ir/attrs.h"
#include "ir/graph.h"

static bool same_value_ref(const mpc_graph *a, mpc_value_id x, const mpc_graph *b, mpc_value_id y) {
    const mpc_value *v = &a->values[x], *w = &b->values[y];
    return v->producer == w->producer && v->index == w->index;
}

static bool same_value(const mpc_graph *a, mpc_value_id x, const mpc_graph *b, mpc_value_id y) {
    const mpc_value *v = &a->values[x], *w = &b->values[y];
    return same_value_ref(a, x, b, y) && v->type == w->type && v->name == w->name;
}

static bool same_decision(const mpc_graph *a, const mpc_graph *b, mpc_node_id id) {
    static const mpc_decision none;
    const mpc_decision *x = a->decisions && a->decisions[id].present ? &a->decisions[id] : &none;
    const mpc_decision *y = b->decisions && b->decisions[id].present ? &b->decisions[id] : &none;
    return x->present == y->present && x->operand == y->operand && x->compute == y->compute && x->acc == y->acc &&
           x->result == y->result;
}

static bool same_node(const mpc_graph *a, const mpc_graph *b, mpc_node_id id) {
    const mpc_node *n = &a->nodes[id], *m = &b->nodes[id];
    if (n->op != m->op || n->operand_count != m->operand_count || n->result_count != m->result_count) return false;
    if (n->loc.file != m->loc.file || n->origin != m->origin || n->why != m->why) return false;
    if (n->loc.file && (n->loc.line != m->loc.line || n->loc.column != m->loc.column)) return false;
    if (!mpc_attrs_same(a->attrs + n->attr_begin, n->attr_count, b->attrs + m->attr_begin, m->attr_count)) return false;
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (!same_value_ref(a, mpc_operand(a, n, i), b, mpc_operand(b, m, i))) return false;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (!same_value(a, mpc_result(n, i), b, mpc_result(m, i))) return false;
    uint32_t group = a->groups ? a->groups[id] : 0, other = b->groups ? b->groups[id] : 0;
    return group == other && same_decision(a, b, id);
}

static bool same_inputs(const mpc_graph *a, const mpc_graph *b) {
    for (uint32_t i = 0; i < a->input_count; i++) {
        const mpc_input *x = &a->inputs[i], *y = &b->inputs[i];
        if (!same_value(a, x->value, b, y->value)) return false;
        if (!mpc_attrs_same(a->attrs + x->attr_begin, x->attr_count, b->attrs + y->attr_begin, y->attr_count))
            return false;
    }
    return true;
}

static bool same_ends(const mpc_graph *a, const mpc_graph *b) {
    for (uint32_t i = 0; i < a->next_count; i++)
        if (!same_value_ref(a, a->nexts[i].state, b, b->nexts[i].state) ||
            !same_value_ref(a, a->nexts[i].value, b, b->nexts[i].value))
            return false;
    for (uint32_t i = 0; i < a->output_count; i++)
        if (a->outputs[i].name != b->outputs[i].name || !same_value_ref(a, a->outputs[i].value, b, b->outputs[i].value))
            return false;
    return true;
}

static bool same_place(const mpc_graph *a, mpc_value_id x, const mpc_graph *b, mpc_value_id y) {
    static const mpc_place none;
    const mpc_place *p = a->places ? &a->places[x] : &none, *q = b->places ? &b->places[y] : &none;
    if (p->kind != q->kind) return false;
    if (p->kind == MPC_PLACE_ARENA) return p->offset == q->offset && p->bytes == q->bytes;
    return p->kind == MPC_PLACE_NONE || same_value_ref(a, p->value, b, q->value);
}

static bool same_places(const mpc_graph *a, const mpc_graph *b) {
    if (a->arena_bytes != b->arena_bytes) return false;
    if (!a->places && !b->places) return true;
    for (uint32_t i = 0; i < a->input_count; i++)
        if (!same_place(a, a->inputs[i].value, b, b->inputs[i].value)) return false;
    for (uint32_t i = 0; i < a->node_count; i++)
        for (uint32_t j = 0; j < a->nodes[i].result_count; j++)
            if (!same_place(a, mpc_result(&a->nodes[i], j), b, mpc_result(&b->nodes[i], j))) return false;
    return true;
}

bool mpc_graph_equal(const mpc_graph *a, const mpc_graph *b) {
    if (a->ctx != b->ctx || a->name != b->name || a->node_count != b->node_count || a->value_count != b->value_count ||
        a->input_count != b->input_count || a->next_count != b->next_count || a->output_count != b->output_count)
        return false;
    if (!same_inputs(a, b)) return false;
    for (uint32_t i = 0; i < a->node_count; i++)
        if (!same_node(a, b, i)) return false;
    return same_ends(a, b) && same_places(a, b);
}
