/* Local rewrites, each beside its condition. The contract of a rule: the value it gives has the same type and the same
 * bits for every operand, NaN and signed zero included (only the payload of a NaN may differ); it builds at most a few
 * nodes; what it makes is never its own pattern again, so one sweep in topological order ends. A rule sees operands
 * that have been folded already. */
#include <math.h>
#include <string.h>

#include "ir/eval/eval.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct folder {
    mpc_rewrite rw;
    mpc_uses uses;  /* of the old graph */
    bool *bound;    /* by old value: an output or a next */
    mpc_node_id id; /* of the node at hand */
    const mpc_node *n;
    const mpc_value_id *operands; /* in the new graph */
} folder;

/* The value that replaces the node's only result; MPC_NONE: the rule doesn't apply. */
typedef mpc_value_id (*fold_rule)(folder *f);

/* --- looking at operands --- */

static const mpc_graph *graph(const folder *f) { return mpc_builder_graph(f->rw.b); }

static const mpc_node *producer(const folder *f, uint32_t operand) {
    return mpc_producer(graph(f), f->operands[operand]);
}

static bool const_operand(const folder *f, uint32_t operand, double *value) {
    const mpc_node *n = producer(f, operand);
    if (n == NULL || n->op != MPC_OP_const) return false;
    *value = mpc_attr_float(graph(f), n, "value");
    return true;
}

static bool operand_is(const folder *f, uint32_t operand, double value) {
    double c;
    return const_operand(f, operand, &c) && c == value && signbit(c) == signbit(value);
}

static mpc_type_id result_type(const folder *f) { return f->rw.in->values[mpc_result(f->n, 0)].type; }

/* `v`, if it has the node's type. */
static mpc_value_id if_same_type(const folder *f, mpc_value_id v) {
    return graph(f)->values[v].type == result_type(f) ? v : MPC_NONE;
}

static mpc_value_id constant(folder *f, double value) {
    mpc_attr_arg attr = MPC_A_FLOAT("value", value);
    mpc_rewrite_dress(&f->rw, f->n);
    return mpc_build_typed(f->rw.b, MPC_OP_const, result_type(f), &attr, 1);
}

/* --- constants --- */

static bool constant_scalars(const folder *f, mpc_tensor *tensors, double *values) {
    for (uint32_t i = 0; i < f->n->operand_count; i++) {
        tensors[i] = (mpc_tensor){.type = *mpc_builder_type(f->rw.b, f->operands[i]), .data = &values[i]};
        if (mpc_type_elements(&tensors[i].type) != 1 || !const_operand(f, i, &values[i])) return false;
    }
    return f->n->operand_count > 0;
}

/* Evaluated as every device would; a result that isn't finite is left to the run, where it is seen. */
static mpc_value_id fold_elementwise(folder *f) {
    mpc_tensor tensors[3], result;
    double values[3];
    if (f->n->operand_count > 3 || mpc_type_elements(mpc_type_get(f->rw.in->ctx, result_type(f))) != 1) return MPC_NONE;
    if (!constant_scalars(f, tensors, values)) return MPC_NONE;
    if (mpc_evaluate_node(f->rw.in, f->id, tensors, false, f->rw.scratch, &result) != MPC_OK) {
        mpc_builder_fail(f->rw.b, "a constant can't be folded");
        return MPC_NONE;
    }
    return isfinite(result.data[0]) ? constant(f, result.data[0]) : MPC_NONE;
}

/* A view of a tensor filled with one number. */
static mpc_value_id fold_filled(folder *f) {
    double value;
    return f->n->operand_count == 1 && const_operand(f, 0, &value) ? constant(f, value) : MPC_NONE;
}

/* --- identities --- */

static mpc_value_id fold_mul(folder *f) {
    if (operand_is(f, 1, 1)) return if_same_type(f, f->operands[0]);
    return operand_is(f, 0, 1) ? if_same_type(f, f->operands[1]) : MPC_NONE;
}

static mpc_value_id fold_div(folder *f) { return operand_is(f, 1, 1) ? if_same_type(f, f->operands[0]) : MPC_NONE; }

static bool is_integer(const folder *f) {
    return mpc_format_get(mpc_type_get(f->rw.in->ctx, result_type(f))->format)->kind == MPC_FORMAT_INT;
}

/* x + -0 is x for every x; x + 0 turns -0 into 0, so it stays, except among integers. */
static mpc_value_id fold_add(folder *f) {
    double zero = is_integer(f) ? 0.0 : -0.0;
    if (operand_is(f, 1, zero)) return if_same_type(f, f->operands[0]);
    return operand_is(f, 0, zero) ? if_same_type(f, f->operands[1]) : MPC_NONE;
}

static mpc_value_id fold_sub(folder *f) { return operand_is(f, 1, 0.0) ? if_same_type(f, f->operands[0]) : MPC_NONE; }

/* -(-x), not not x */
static mpc_value_id fold_twice(folder *f) {
    const mpc_node *inner = producer(f, 0);
    if (inner == NULL || inner->op != f->n->op || graph(f)->values[f->operands[0]].type != result_type(f))
        return MPC_NONE;
    return if_same_type(f, mpc_operand(graph(f), inner, 0));
}

static mpc_value_id fold_logic(folder *f, bool neutral) {
    double value;
    for (uint32_t i = 0; i < 2; i++) {
        if (!const_operand(f, i, &value)) continue;
        if ((value != 0) == neutral) return if_same_type(f, f->operands[1 - i]);
        return constant(f, neutral ? 0 : 1);
    }
    return f->operands[0] == f->operands[1] ? if_same_type(f, f->operands[0]) : MPC_NONE;
}

static mpc_value_id fold_and(folder *f) { return fold_logic(f, true); }
static mpc_value_id fold_or(folder *f) { return fold_logic(f, false); }

static mpc_value_id fold_where(folder *f) {
    double condition;
    if (f->operands[1] == f->operands[2]) return if_same_type(f, f->operands[1]);
    return const_operand(f, 0, &condition) ? if_same_type(f, f->operands[condition != 0 ? 1 : 2]) : MPC_NONE;
}

/* --- views --- */

static mpc_value_id same_shape(folder *f) { return if_same_type(f, f->operands[0]); }

static mpc_value_id fold_reshape(folder *f) {
    const mpc_type *type = mpc_type_get(f->rw.in->ctx, result_type(f));
    const mpc_node *inner = producer(f, 0);
    if (same_shape(f) != MPC_NONE) return f->operands[0];
    if (inner == NULL || inner->op != MPC_OP_reshape) return MPC_NONE;
    mpc_value_id source = mpc_operand(graph(f), inner, 0);
    if (if_same_type(f, source) != MPC_NONE) return source;
    mpc_rewrite_dress(&f->rw, f->n);
    return mpc_build_reshape(f->rw.b, source, type->rank, type->dims);
}

static bool is_identity(const int64_t *perm, uint32_t rank) {
    for (uint32_t i = 0; i < rank; i++)
        if (perm[i] != (int64_t)i) return false;
    return true;
}

/* --- into the op that takes it --- */

/* A transpose of the last two axes and nothing else. */
static bool swaps_last_axes(const mpc_graph *g, const mpc_node *n) {
    if (n == NULL || n->op != MPC_OP_transpose) return false;
    mpc_int_list perm = mpc_attr_ints(g, n, "perm");
    if (perm.count < 2 || !is_identity(perm.data, perm.count - 2)) return false;
    return perm.data[perm.count - 2] == (int64_t)perm.count - 1 && perm.data[perm.count - 1] == (int64_t)perm.count - 2;
}

static mpc_value_id rebuild_matmul(folder *f, const mpc_value_id operands[2], bool ta, bool tb) {
    enum { MAX = 8 };
    mpc_attr_arg attrs[MAX + 2];
    uint32_t count = f->n->attr_count;
    if (count > MAX) return MPC_NONE;
    mpc_rewrite_attrs(f->rw.in, f->n, attrs);
    attrs[count++] = MPC_A_BOOL("ta", ta); /* the last one of a key counts */
    attrs[count++] = MPC_A_BOOL("tb", tb);
    mpc_rewrite_dress(&f->rw, f->n);
    mpc_format format = mpc_type_get(f->rw.in->ctx, result_type(f))->format;
    return mpc_build_as(f->rw.b, MPC_OP_matmul, operands, 2, attrs, count, format);
}

static mpc_value_id fold_matmul(folder *f) {
    mpc_value_id operands[2] = {f->operands[0], f->operands[1]};
    bool flags[2] = {mpc_attr_bool(f->rw.in, f->n, "ta"), mpc_attr_bool(f->rw.in, f->n, "tb")}, changed = false;
    for (uint32_t i = 0; i < 2; i++) {
        const mpc_node *n = producer(f, i);
        if (!swaps_last_axes(graph(f), n)) continue;
        operands[i] = mpc_operand(graph(f), n, 0);
        flags[i] = !flags[i];
        changed = true;
    }
    return changed ? rebuild_matmul(f, operands, flags[0], flags[1]) : MPC_NONE;
}

static bool has_one_reader(const folder *f, mpc_value_id old) {
    return f->uses.begin[old + 1] - f->uses.begin[old] == 1 && !f->bound[old];
}

/* (a b)^T is b^T a^T, element by element the same products in the same order. Only where nobody else reads a b, and not
 * for one matrix b that a stack a shares: only the second operand may be shared. By value: building moves the table of
 * nodes. */
static mpc_value_id transposed_matmul(folder *f, mpc_node inner) {
    enum { MAX = 8 };
    mpc_attr_arg attrs[MAX + 2];
    if (!swaps_last_axes(f->rw.in, f->n) || !has_one_reader(f, mpc_operand(f->rw.in, f->n, 0)) ||
        inner.attr_count > MAX)
        return MPC_NONE;
    mpc_value_id turned[2] = {mpc_operand(graph(f), &inner, 1), mpc_operand(graph(f), &inner, 0)};
    if (mpc_value_type(graph(f), turned[0])->rank != mpc_value_type(graph(f), turned[1])->rank) return MPC_NONE;
    mpc_rewrite_attrs(graph(f), &inner, attrs);
    attrs[inner.attr_count] = MPC_A_BOOL("ta", !mpc_attr_bool(graph(f), &inner, "tb"));
    attrs[inner.attr_count + 1] = MPC_A_BOOL("tb", !mpc_attr_bool(graph(f), &inner, "ta"));
    mpc_rewrite_dress(&f->rw, f->n);
    mpc_builder_set_why(f->rw.b, inner.why);
    mpc_format format = mpc_type_get(f->rw.in->ctx, result_type(f))->format;
    return mpc_build_as(f->rw.b, MPC_OP_matmul, turned, 2, attrs, inner.attr_count + 2, format);
}

static mpc_value_id fold_transpose(folder *f) {
    mpc_int_list outer = mpc_attr_ints(f->rw.in, f->n, "perm");
    const mpc_node *inner = producer(f, 0);
    int64_t perm[MPC_MAX_RANK];
    if (is_identity(outer.data, outer.count)) return if_same_type(f, f->operands[0]);
    if (inner != NULL && inner->op == MPC_OP_matmul) return transposed_matmul(f, *inner);
    if (inner == NULL || inner->op != MPC_OP_transpose) return MPC_NONE;
    mpc_int_list first = mpc_attr_ints(graph(f), inner, "perm");
    mpc_value_id source = mpc_operand(graph(f), inner, 0);
    for (uint32_t i = 0; i < outer.count; i++) perm[i] = first.data[outer.data[i]];
    if (is_identity(perm, outer.count)) return if_same_type(f, source);
    mpc_rewrite_dress(&f->rw, f->n);
    return mpc_build_transpose(f->rw.b, source, perm);
}

/* relu(round(acc)) is round(relu(acc)) where both are stored in one format: rounding keeps the sign. */
static mpc_value_id fold_relu(folder *f) {
    enum { MAX = 12, MAX_OPERANDS = 4 };
    mpc_attr_arg attrs[MAX + 1];
    mpc_value_id operands[MAX_OPERANDS];
    const mpc_node *n = producer(f, 0);
    if (n == NULL || (n->op != MPC_OP_linear && n->op != MPC_OP_conv2d) || n->attr_count > MAX ||
        n->operand_count > MAX_OPERANDS)
        return MPC_NONE;
    if (strcmp(mpc_attr_str(graph(f), n, "act"), "none") != 0 || !has_one_reader(f, mpc_operand(f->rw.in, f->n, 0)))
        return MPC_NONE;
    if (if_same_type(f, f->operands[0]) == MPC_NONE) return MPC_NONE;
    mpc_node copy = *n; /* building moves the table of nodes */
    for (uint32_t i = 0; i < copy.operand_count; i++) operands[i] = mpc_operand(graph(f), n, i);
    mpc_rewrite_attrs(graph(f), n, attrs);
    attrs[copy.attr_count] = MPC_A_STR("act", "relu");
    mpc_rewrite_dress(&f->rw, f->n);
    mpc_builder_set_why(f->rw.b, copy.why);
    mpc_format format = mpc_type_get(f->rw.in->ctx, result_type(f))->format;
    return mpc_build_as(f->rw.b, copy.op, operands, copy.operand_count, attrs, copy.attr_count + 1, format);
}

/* --- the table --- */

typedef struct fold_row {
    mpc_op_id op;
    fold_rule rule;
} fold_row;
static const fold_row rows[] = {
    {MPC_OP_mul, fold_mul},         {MPC_OP_div, fold_div},      {MPC_OP_add, fold_add},
    {MPC_OP_sub, fold_sub},         {MPC_OP_neg, fold_twice},    {MPC_OP_not, fold_twice},
    {MPC_OP_and, fold_and},         {MPC_OP_or, fold_or},        {MPC_OP_where, fold_where},
    {MPC_OP_reshape, fold_reshape}, {MPC_OP_expand, same_shape}, {MPC_OP_slice, same_shape},
    {MPC_OP_pad, same_shape},       {MPC_OP_concat, same_shape}, {MPC_OP_transpose, fold_transpose},
    {MPC_OP_matmul, fold_matmul},   {MPC_OP_relu, fold_relu},
};

static mpc_value_id fold_by_kind(folder *f) {
    mpc_op_kind kind = mpc_node_op(f->rw.in, f->id)->kind;
    if (kind == MPC_KIND_EWISE) return fold_elementwise(f);
    bool filled = kind == MPC_KIND_VIEW && f->n->op != MPC_OP_pad;
    return filled ? fold_filled(f) : MPC_NONE;
}

static mpc_value_id fold_node(folder *f) {
    if (f->n->result_count != 1) return MPC_NONE;
    mpc_value_id v = fold_by_kind(f);
    for (size_t i = 0; v == MPC_NONE && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == f->n->op) v = rows[i].rule(f);
    return v;
}

static void fold_all(folder *f) {
    const mpc_graph *g = f->rw.in;
    for (mpc_node_id id = 0; id < g->node_count && !mpc_builder_failed(f->rw.b); id++) {
        f->id = id;
        f->n = &g->nodes[id];
        f->operands = mpc_rewrite_operands(&f->rw, f->n);
        mpc_value_id v = fold_node(f);
        if (mpc_builder_failed(f->rw.b)) return;
        if (v == MPC_NONE) mpc_rewrite_copy_node(&f->rw, id);
        else f->rw.map[mpc_result(f->n, 0)] = v;
    }
}

static void mark_bound(folder *f) {
    const mpc_graph *g = f->rw.in;
    for (uint32_t i = 0; i < g->output_count; i++) f->bound[g->outputs[i].value] = true;
    for (uint32_t i = 0; i < g->next_count; i++) f->bound[g->nexts[i].value] = true;
}

mpc_graph *mpc_pass_fold(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    folder f = {0};
    (void)options;
    (void)env;
    if (!mpc_rewrite_begin(&f.rw, in)) return NULL;
    f.uses = mpc_graph_uses(in, f.rw.scratch);
    f.bound = mpc_rewrite_scratch(&f.rw, in->value_count, sizeof *f.bound);
    if (f.uses.begin == NULL || f.uses.users == NULL) mpc_builder_fail(f.rw.b, "out of memory");
    else if (f.bound != NULL) {
        mark_bound(&f);
        fold_all(&f);
        mpc_build_copy_ends(f.rw.b, in, f.rw.map);
    }
    return mpc_rewrite_finish(&f.rw);
}
