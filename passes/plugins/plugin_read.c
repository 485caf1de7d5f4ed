/* What a plugin reads of a graph. Ids are checked here, since they come from outside: a wrong one fails the call and
 * reads as nothing. Which graph an id belongs to depends on the callback: a pass, a solver and an evaluation read a
 * finished graph, gradient and expansion rules the one that is being built, and a shape rule none at all: its values
 * are the operands' numbers. */
#include <string.h>

#include "passes/plugins/plugin_functions.h"

/* The graph whose values the call's ids are. */
static const mpc_graph *graph_of(const mpc_call *c) {
    bool building = c->kind == MPC_CALL_EXPAND || c->kind == MPC_CALL_GRAD;
    return building ? mpc_builder_graph(mpc_call_builder(c)) : c->g;
}

static const mpc_node *self(mpc_call *c, const mpc_graph **g) {
    switch (c->kind) {
    case MPC_CALL_EXPAND:
        *g = c->expand->from;
        return c->expand->node;
    case MPC_CALL_GRAD:
        *g = mpc_builder_graph(c->grad->b);
        return &c->grad->node;
    case MPC_CALL_EVAL:
        *g = c->eval->graph;
        return c->eval->node;
    default:
        return NULL;
    }
}

const mpc_node *mpc_call_node(mpc_call *c, mpc_id id, const mpc_graph **g) {
    const mpc_node *n = id == MPC_SELF ? self(c, g) : NULL;
    if (n != NULL) return n;
    *g = graph_of(c);
    if (*g != NULL && id < (*g)->node_count) return &(*g)->nodes[id];
    mpc_call_fail(c, "%u is no node here", id);
    return NULL;
}

static const mpc_op *op_of(mpc_call *c, mpc_id id) {
    const mpc_graph *g;
    if (c->kind == MPC_CALL_SHAPE && id == MPC_SELF) return c->infer->op;
    const mpc_node *n = mpc_call_node(c, id, &g);
    return n == NULL ? NULL : mpc_op_get(c->ctx, n->op);
}

/* --- nodes --- */

uint32_t mpc_api_node_count(mpc_call *c) { return c->g == NULL ? 0 : c->g->node_count; }

const char *mpc_api_op(mpc_call *c, mpc_id node) {
    const mpc_op *op = op_of(c, node);
    return op == NULL ? "" : op->name;
}

const char *mpc_api_op_class(mpc_call *c, mpc_id node) {
    const mpc_op *op = op_of(c, node);
    return op == NULL ? "" : mpc_class_name(op->cls);
}

const char *mpc_api_op_kind(mpc_call *c, mpc_id node) {
    static const char *const names[] = {
        [MPC_KIND_STRUCT] = "struct", [MPC_KIND_EWISE] = "ewise",        [MPC_KIND_REDUCE] = "reduce",
        [MPC_KIND_VIEW] = "view",     [MPC_KIND_MATMUL] = "matmul",      [MPC_KIND_CONV] = "conv",
        [MPC_KIND_POOL] = "pool",     [MPC_KIND_GATHER] = "gather",      [MPC_KIND_RANDOM] = "random",
        [MPC_KIND_NORM] = "norm",     [MPC_KIND_COMPOSITE] = "composite"};
    const mpc_op *op = op_of(c, node);
    return op == NULL ? "" : names[op->kind];
}

uint32_t mpc_api_operand_count(mpc_call *c, mpc_id node) {
    const mpc_graph *g;
    if (c->kind == MPC_CALL_SHAPE && node == MPC_SELF) return c->infer->operand_count;
    const mpc_node *n = mpc_call_node(c, node, &g);
    return n == NULL ? 0 : n->operand_count;
}

/* Widened once, when it is asked for. */
static mpc_id widened(mpc_call *c, uint32_t index) {
    mpc_id v = c->expand->operands[index];
    if (mpc_call_failed(c) || !mpc_format_is_float(mpc_builder_type(c->expand->b, v)->format)) return v;
    if (c->widened[index] == MPC_NO_ID) c->widened[index] = mpc_expand_f32(c->expand, index);
    return c->widened[index];
}

mpc_id mpc_api_operand(mpc_call *c, mpc_id node, uint32_t index) {
    const mpc_graph *g;
    if (index >= mpc_api_operand_count(c, node)) {
        mpc_call_fail(c, "there is no operand %u", index);
        return MPC_NO_ID;
    }
    if (node == MPC_SELF && c->kind == MPC_CALL_SHAPE) return index;
    if (node == MPC_SELF && c->kind == MPC_CALL_EXPAND) return widened(c, index);
    const mpc_node *n = mpc_call_node(c, node, &g);
    return n == NULL ? MPC_NO_ID : mpc_operand(g, n, index);
}

uint32_t mpc_api_result_count(mpc_call *c, mpc_id node) {
    const mpc_op *op = op_of(c, node);
    return op == NULL ? 0 : op->result_count;
}

mpc_id mpc_api_result(mpc_call *c, mpc_id node, uint32_t index) {
    const mpc_graph *g;
    bool none_yet = c->kind == MPC_CALL_SHAPE || (c->kind == MPC_CALL_EXPAND && node == MPC_SELF);
    const mpc_node *n = none_yet ? NULL : mpc_call_node(c, node, &g);
    if (n != NULL && index < n->result_count) return mpc_result(n, index);
    mpc_call_fail(c, "there is no result %u", index);
    return MPC_NO_ID;
}

const char *mpc_api_origin(mpc_call *c, mpc_id node) {
    const mpc_graph *g;
    const mpc_node *n = mpc_call_node(c, node, &g);
    return n == NULL ? "" : mpc_sym_text(c->ctx, n->origin);
}

const char *mpc_api_reason(mpc_call *c, mpc_id node) {
    const mpc_graph *g;
    const mpc_node *n = mpc_call_node(c, node, &g);
    return n == NULL ? "" : mpc_sym_text(c->ctx, n->why);
}

const char *mpc_api_place(mpc_call *c, mpc_id node, uint32_t *line) {
    const mpc_graph *g;
    const mpc_node *n = mpc_call_node(c, node, &g);
    if (line != NULL) *line = n == NULL ? 0 : n->loc.line;
    return n == NULL ? "" : mpc_sym_text(c->ctx, n->loc.file);
}

bool mpc_api_decision(mpc_call *c, mpc_id node, mpc_plugin_decision *out) {
    const mpc_decision *all = c->plan != NULL ? c->plan->decisions : c->g != NULL ? c->g->decisions : NULL;
    *out = (mpc_plugin_decision){"", "", "", ""};
    if (c->g == NULL || node >= c->g->node_count || all == NULL || !all[node].present) return false;
    const mpc_decision *d = &all[node];
    *out = (mpc_plugin_decision){mpc_call_format_name(d->operand), mpc_call_format_name(d->compute),
                                 mpc_call_format_name(d->acc), mpc_call_format_name(d->result)};
    return true;
}

/* --- values --- */

static bool is_value(mpc_call *c, mpc_id value) {
    const mpc_graph *g = graph_of(c);
    if (g != NULL && value < g->value_count) return true;
    mpc_call_fail(c, "%u is no value here", value);
    return false;
}

const mpc_type *mpc_call_type(mpc_call *c, mpc_id value) {
    if (c->kind != MPC_CALL_SHAPE) return is_value(c, value) ? mpc_value_type(graph_of(c), value) : NULL;
    if (value < c->infer->operand_count) return mpc_infer_operand(c->infer, value);
    mpc_call_fail(c, "there is no operand %u", value);
    return NULL;
}

const char *mpc_api_name(mpc_call *c, mpc_id value) {
    if (c->kind == MPC_CALL_SHAPE || !is_value(c, value)) return "";
    return mpc_value_name(graph_of(c), value);
}

const char *mpc_api_format(mpc_call *c, mpc_id value) {
    const mpc_type *t = mpc_call_type(c, value);
    return t == NULL ? "f32" : mpc_call_format_name(t->format);
}

uint32_t mpc_api_rank(mpc_call *c, mpc_id value) {
    const mpc_type *t = mpc_call_type(c, value);
    return t == NULL ? 0 : t->rank;
}

int64_t mpc_api_dim(mpc_call *c, mpc_id value, uint32_t axis) {
    const mpc_type *t = mpc_call_type(c, value);
    if (t != NULL && axis < t->rank) return t->dims[axis];
    mpc_call_fail(c, "there is no axis %u", axis);
    return 1;
}

int64_t mpc_api_elements(mpc_call *c, mpc_id value) {
    const mpc_type *t = mpc_call_type(c, value);
    return t == NULL ? 0 : mpc_type_elements(t);
}

mpc_id mpc_api_producer(mpc_call *c, mpc_id value) {
    if (c->kind == MPC_CALL_SHAPE || !is_value(c, value)) return MPC_NO_ID;
    return graph_of(c)->values[value].producer;
}

bool mpc_api_constant(mpc_call *c, mpc_id value, double *number) {
    mpc_id node = mpc_api_producer(c, value);
    if (node == MPC_NO_ID) return false;
    const mpc_graph *g = graph_of(c);
    if (g->nodes[node].op != MPC_OP_const) return false;
    *number = mpc_attr_float(g, &g->nodes[node], "value");
    return true;
}

/* --- the graph's ends --- */

uint32_t mpc_api_input_count(mpc_call *c) { return c->g == NULL ? 0 : c->g->input_count; }
uint32_t mpc_api_output_count(mpc_call *c) { return c->g == NULL ? 0 : c->g->output_count; }
uint32_t mpc_api_next_count(mpc_call *c) { return c->g == NULL ? 0 : c->g->next_count; }

static bool in_range(mpc_call *c, uint32_t index, uint32_t count, const char *what) {
    if (index >= count) mpc_call_fail(c, "there is no %s %u", what, index);
    return index < count;
}

mpc_id mpc_api_input(mpc_call *c, uint32_t index) {
    return in_range(c, index, mpc_api_input_count(c), "input") ? c->g->inputs[index].value : MPC_NO_ID;
}

const char *mpc_api_output_name(mpc_call *c, uint32_t index) {
    if (!in_range(c, index, mpc_api_output_count(c), "output")) return "";
    return mpc_sym_text(c->ctx, c->g->outputs[index].name);
}

mpc_id mpc_api_output(mpc_call *c, uint32_t index) {
    return in_range(c, index, mpc_api_output_count(c), "output") ? c->g->outputs[index].value : MPC_NO_ID;
}

mpc_id mpc_api_next_state(mpc_call *c, uint32_t index) {
    return in_range(c, index, mpc_api_next_count(c), "next") ? c->g->nexts[index].state : MPC_NO_ID;
}

mpc_id mpc_api_next_value(mpc_call *c, uint32_t index) {
    return in_range(c, index, mpc_api_next_count(c), "next") ? c->g->nexts[index].value : MPC_NO_ID;
}
