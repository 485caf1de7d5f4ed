/* What a plugin builds. In a pass that is a new graph beside the one that is read, and `map` leads from one to the
 * other; in an expansion or gradient rule it is the graph of the pass that called, and mpc's own helpers give
 * intermediates their names, f32 and the user's `prec`. A value that wasn't made must not reach the builder: ids are
 * checked before. */
#include <string.h>

#include "passes/expand_build.h"
#include "passes/grad_build.h"
#include "passes/plugins/plugin_functions.h"

enum { MAX_ATTRS = 7 }; /* helpers of rules take 8 with `prec` */

mpc_builder *mpc_call_builder(const mpc_call *c) {
    if (c->rw != NULL) return c->rw->b;
    if (c->expand != NULL) return c->expand->b;
    return c->grad != NULL ? c->grad->b : NULL;
}

static bool may_build(mpc_call *c) {
    if (mpc_call_builder(c) == NULL) mpc_call_fail(c, "nothing can be built here");
    return !mpc_call_failed(c);
}

static bool was_built(mpc_call *c, mpc_id value) {
    if (!may_build(c)) return false;
    if (value < mpc_builder_graph(mpc_call_builder(c))->value_count) return true;
    mpc_call_fail(c, value == MPC_NO_ID ? "an operand wasn't built" : "%u is no value that was built", value);
    return false;
}

static bool convert_attr(mpc_call *c, const mpc_plugin_attr *in, mpc_attr_arg *out) {
    static const char letters[] = "ifbstl"; /* in the order of mpc_attr_kind */
    const char *letter = in->kind == '\0' ? NULL : strchr(letters, in->kind);
    if (in->key == NULL || letter == NULL) {
        mpc_call_fail(c, "an attribute without key or kind");
        return false;
    }
    *out = (mpc_attr_arg){.key = in->key,
                          .kind = (mpc_attr_kind)(letter - letters),
                          .i = in->i,
                          .f = in->f,
                          .s = in->s == NULL ? "" : in->s,
                          .ints = in->ints,
                          .count = in->count};
    if (in->kind == 't') out->format = mpc_call_format(c, in->s);
    return !mpc_call_failed(c);
}

/* What an expression is made of, checked: the op exists, operands were built. */
static bool read_expr(mpc_call *c, mpc_expand_expr *x, const char *op, const mpc_plugin_attr *attrs,
                      mpc_attr_arg *args) {
    if (!may_build(c)) return false;
    if (!mpc_op_find(c->ctx, op, &x->op)) mpc_call_fail(c, "there is no op `%s`", op);
    if (x->attr_count > MAX_ATTRS) mpc_call_fail(c, "%s: more than %d attributes", op, MAX_ATTRS);
    for (uint32_t i = 0; i < x->operand_count && !mpc_call_failed(c); i++) (void)was_built(c, x->operands[i]);
    for (uint32_t i = 0; i < x->attr_count && !mpc_call_failed(c); i++) (void)convert_attr(c, &attrs[i], &args[i]);
    return !mpc_call_failed(c);
}

static bool is_view(const mpc_call *c, mpc_op_id op) { return mpc_op_get(c->ctx, op)->kind == MPC_KIND_VIEW; }

static mpc_grad_expr as_grad(const mpc_expand_expr *x) {
    return (mpc_grad_expr){x->op, x->operands, x->operand_count, x->attrs, x->attr_count};
}

mpc_id mpc_api_build(mpc_call *c, const char *op, const mpc_id *operands, uint32_t operand_count,
                     const mpc_plugin_attr *attrs, uint32_t attr_count) {
    mpc_attr_arg args[MAX_ATTRS + 1];
    mpc_expand_expr x = {.operands = operands, .operand_count = operand_count, .attrs = args, .attr_count = attr_count};
    if (!read_expr(c, &x, op, attrs, args)) return MPC_NO_ID;
    if (c->rw != NULL) return mpc_build(c->rw->b, x.op, operands, operand_count, args, attr_count);
    if (c->expand != NULL) return mpc_expand_build(c->expand, &x, is_view(c, x.op) ? MPC_FMT_none : MPC_FMT_f32);
    mpc_grad_expr e = as_grad(&x);
    return is_view(c, x.op) ? mpc_grad_build_inferred(c->grad, &e) : mpc_grad_build(c->grad, &e);
}

/* A view of an f32 intermediate can't round: it is built in f32, and whoever called the rule converts. */
static void emit_result(mpc_call *c, uint32_t r, const mpc_expand_expr *x) {
    bool view = is_view(c, x->op);
    if (view) {
        mpc_api_give(c, r, mpc_expand_build(c->expand, x, MPC_FMT_none));
        return;
    }
    mpc_format format = mpc_expand_result_type(c->expand, r).format;
    mpc_expand_name_result(c->expand, r);
    mpc_api_give(c, r, mpc_expand_build(c->expand, x, mpc_format_is_float(format) ? format : MPC_FMT_f32));
}

void mpc_api_emit(mpc_call *c, uint32_t index, const char *op, const mpc_id *operands, uint32_t operand_count,
                  const mpc_plugin_attr *attrs, uint32_t attr_count) {
    mpc_attr_arg args[MAX_ATTRS + 1];
    mpc_expand_expr x = {.operands = operands, .operand_count = operand_count, .attrs = args, .attr_count = attr_count};
    if (c->expand == NULL && c->grad == NULL) mpc_call_fail(c, "only the rule of an op can do this");
    if (!read_expr(c, &x, op, attrs, args) || !mpc_api_wanted(c, index)) return;
    if (c->expand != NULL) {
        emit_result(c, index, &x);
        return;
    }
    mpc_grad_expr e = as_grad(&x);
    if (is_view(c, x.op)) mpc_grad_emit_view(c->grad, index, &e);
    else mpc_grad_emit(c->grad, index, &e);
}

mpc_id mpc_api_number(mpc_call *c, double value) {
    if (!may_build(c)) return MPC_NO_ID;
    if (c->expand != NULL) return mpc_expand_number(c->expand, value);
    return c->grad != NULL ? mpc_grad_number(c->grad, value) : mpc_build_const(c->rw->b, value, MPC_FMT_f32);
}

mpc_id mpc_api_cast(mpc_call *c, mpc_id value, const char *format) {
    mpc_format to = mpc_call_format(c, format);
    if (!was_built(c, value)) return MPC_NO_ID;
    if (to == MPC_FMT_none) mpc_call_fail(c, "a cast needs a format");
    if (mpc_call_failed(c)) return MPC_NO_ID;
    if (c->expand != NULL) return mpc_expand_as(c->expand, value, to);
    return c->grad != NULL ? mpc_grad_convert(c->grad, value, to) : mpc_build_cast(c->rw->b, value, to, "plugin");
}

/* --- passes --- */

static bool in_pass(mpc_call *c) {
    if (c->rw == NULL) mpc_call_fail(c, "only a pass can do this");
    return !mpc_call_failed(c);
}

mpc_id mpc_api_copy(mpc_call *c, mpc_id node) {
    const mpc_graph *g;
    if (!in_pass(c)) return MPC_NO_ID;
    const mpc_node *n = mpc_call_node(c, node, &g);
    if (n == NULL) return MPC_NO_ID;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(g, n, i);
        if (c->rw->map[v] != MPC_NONE) continue;
        mpc_call_fail(c, "`%s` reads `%s`, which was neither copied nor replaced",
                      n->result_count > 0 ? mpc_value_name(g, mpc_result(n, 0)) : "a node", mpc_value_name(g, v));
        return MPC_NO_ID;
    }
    mpc_rewrite_copy_node(c->rw, node);
    return n->result_count == 0 ? MPC_NO_ID : c->rw->map[mpc_result(n, 0)];
}

void mpc_api_replace(mpc_call *c, mpc_id old, mpc_id made) {
    if (in_pass(c) && mpc_call_type(c, old) != NULL && was_built(c, made)) c->rw->map[old] = made;
}

mpc_id mpc_api_mapped(mpc_call *c, mpc_id old) {
    return in_pass(c) && mpc_call_type(c, old) != NULL ? c->rw->map[old] : MPC_NO_ID;
}

void mpc_api_dress(mpc_call *c, mpc_id node) {
    const mpc_graph *g;
    const mpc_node *n = in_pass(c) ? mpc_call_node(c, node, &g) : NULL;
    if (n != NULL) mpc_rewrite_dress(c->rw, n);
}

void mpc_api_call_it(mpc_call *c, const char *name) {
    if (in_pass(c)) mpc_builder_set_name(c->rw->b, name);
}

static const mpc_type *built_type(mpc_call *c, mpc_id made) {
    return was_built(c, made) ? mpc_builder_type(mpc_call_builder(c), made) : NULL;
}

const char *mpc_api_built_format(mpc_call *c, mpc_id made) {
    const mpc_type *t = built_type(c, made);
    return t == NULL ? "f32" : mpc_call_format_name(t->format);
}

uint32_t mpc_api_built_rank(mpc_call *c, mpc_id made) {
    const mpc_type *t = built_type(c, made);
    return t == NULL ? 0 : t->rank;
}

int64_t mpc_api_built_dim(mpc_call *c, mpc_id made, uint32_t axis) {
    const mpc_type *t = built_type(c, made);
    if (t != NULL && axis < t->rank) return t->dims[axis];
    mpc_call_fail(c, "there is no axis %u", axis);
    return 1;
}

void mpc_api_set_output(mpc_call *c, const char *name, mpc_id made) {
    if (in_pass(c) && was_built(c, made)) mpc_build_output(c->rw->b, name, made);
}

void mpc_api_set_next(mpc_call *c, mpc_id made_state, mpc_id made) {
    if (in_pass(c) && was_built(c, made_state) && was_built(c, made)) mpc_build_next(c->rw->b, made_state, made);
}
