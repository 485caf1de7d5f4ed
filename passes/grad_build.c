/* Building blocks of gradient rules: names, formats, `prec` and the way back through broadcasting, so that a rule is
 * only its formula. What is easy to get wrong: an intermediate value has no format of its own in low-precision code, it
 * is f32; only the gradient of an operand takes the operand's format, with one rounding, in the node that makes it. */
#include "passes/grad_build.h"

#include <stdio.h>
#include <string.h>

#include "passes/expand_build.h"

enum { NAME_SIZE = 512 };

static const mpc_graph *refresh(mpc_grad *g) { return g->g = mpc_builder_graph(g->b); }

mpc_value_id mpc_grad_operand(mpc_grad *g, uint32_t i) { return mpc_operand(refresh(g), &g->node, i); }

mpc_value_id mpc_grad_result(mpc_grad *g, uint32_t i) { return mpc_result(&g->node, i); }

static mpc_type type_of(const mpc_builder *b, mpc_value_id value) {
    if (value == MPC_NONE || mpc_builder_failed(b)) return (mpc_type){.format = MPC_FMT_f32};
    return *mpc_builder_type(b, value);
}

mpc_type mpc_grad_type(mpc_grad *g, mpc_value_id value) { return type_of(g->b, value); }

static bool same_shape(const mpc_type *a, const mpc_type *b) {
    return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

/* A cast of a float state: what stands between a parameter and a low-precision reader that the user asked for. */
static bool is_cast_parameter(const mpc_graph *graph, mpc_value_id value) {
    const mpc_node *cast = mpc_producer(graph, value);
    if (cast == NULL || cast->op != MPC_OP_cast) return false;
    mpc_value_id inner = mpc_operand(graph, cast, 0);
    const mpc_node *state = mpc_producer(graph, inner);
    return state != NULL && state->op == MPC_OP_state && mpc_format_is_float(mpc_value_format(graph, inner));
}

mpc_format mpc_grad_format(mpc_grad *g, uint32_t i) {
    const mpc_graph *graph = refresh(g);
    mpc_value_id operand = mpc_operand(graph, &g->node, i);
    mpc_format format = mpc_value_format(graph, operand);
    return is_cast_parameter(graph, operand) ? mpc_format_join(format, MPC_FMT_f32) : format;
}

bool mpc_grad_is_const(mpc_grad *g, mpc_value_id value, double *number) {
    const mpc_graph *graph = refresh(g);
    const mpc_node *n = mpc_producer(graph, value);
    if (n == NULL || n->op != MPC_OP_const) return false;
    *number = mpc_attr_float(graph, n, "value");
    return true;
}

static mpc_format wide_format(mpc_grad *g) {
    mpc_format format = mpc_grad_type(g, mpc_grad_result(g, 0)).format;
    return mpc_format_is_float(format) ? mpc_format_join(format, MPC_FMT_f32) : MPC_FMT_f32;
}

static void name_intermediate(mpc_grad *g, const char *what) {
    char name[NAME_SIZE];
    if (!g->named) {
        snprintf(name, sizeof name, "d.%s.%s", mpc_value_name(refresh(g), mpc_grad_result(g, 0)), what);
        mpc_builder_set_name(g->b, name);
    }
    g->named = false;
}

void mpc_grad_name_for(mpc_grad *g, uint32_t i) {
    char name[NAME_SIZE];
    const mpc_graph *graph = refresh(g);
    const char *operand = mpc_value_name(graph, mpc_operand(graph, &g->node, i));
    if (g->shared[i]) snprintf(name, sizeof name, "d.%s.via.%s", operand, mpc_value_name(graph, mpc_grad_result(g, 0)));
    else snprintf(name, sizeof name, "d.%s", operand);
    mpc_builder_set_name(g->b, name);
    g->named = true;
}

static mpc_value_id build(mpc_grad *g, const mpc_grad_expr *e, mpc_format format) {
    if (mpc_builder_failed(g->b)) return MPC_NONE;
    const mpc_op *op = mpc_op_get(mpc_builder_context(g->b), e->op);
    mpc_attr_arg attrs[MPC_GRAD_MAX_ATTRS + 1];
    uint32_t count = e->attr_count;
    if (count > 0) memcpy(attrs, e->attrs, count * sizeof *attrs);
    bool by_word = g->prec != MPC_FMT_none && mpc_expand_has_prec(mpc_builder_context(g->b), op);
    if (by_word) attrs[count++] = MPC_A_FORMAT("prec", g->prec);
    name_intermediate(g, op->name);
    mpc_builder_set_why(g->b, by_word ? g->node.why : 0); /* the word that it has from the forward op */
    mpc_value_id value = mpc_build_as(g->b, e->op, e->operands, e->operand_count, attrs, count, format);
    mpc_builder_set_why(g->b, 0);
    return value;
}

mpc_value_id mpc_grad_build(mpc_grad *g, const mpc_grad_expr *e) { return build(g, e, wide_format(g)); }

mpc_value_id mpc_grad_build_inferred(mpc_grad *g, const mpc_grad_expr *e) { return build(g, e, MPC_FMT_none); }

mpc_value_id mpc_grad_range(mpc_grad *g, int64_t n) {
    if (mpc_builder_failed(g->b)) return MPC_NONE;
    name_intermediate(g, "range");
    return mpc_build_typed(g->b, MPC_OP_range, mpc_type_make(mpc_builder_context(g->b), MPC_FMT_i32, 1, &n), NULL, 0);
}

mpc_value_id mpc_grad_number(mpc_grad *g, double value) {
    if (mpc_builder_failed(g->b)) return MPC_NONE;
    name_intermediate(g, "const");
    return mpc_build_const(g->b, value, wide_format(g));
}

mpc_value_id mpc_grad_op1(mpc_grad *g, mpc_op_id op, mpc_value_id a) {
    return mpc_grad_build(g, &(mpc_grad_expr){op, &a, 1, NULL, 0});
}

mpc_value_id mpc_grad_op2(mpc_grad *g, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    return mpc_grad_build(g, &(mpc_grad_expr){op, (mpc_value_id[]){a, c}, 2, NULL, 0});
}

mpc_value_id mpc_grad_op3(mpc_grad *g, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d) {
    return mpc_grad_build(g, &(mpc_grad_expr){op, (mpc_value_id[]){a, c, d}, 3, NULL, 0});
}

mpc_value_id mpc_grad_scale(mpc_grad *g, mpc_value_id a, double factor) {
    return mpc_grad_op2(g, MPC_OP_mul, a, mpc_grad_number(g, factor));
}

static mpc_value_id view(mpc_grad *g, mpc_op_id op, mpc_value_id a, mpc_attr_arg attr) {
    return build(g, &(mpc_grad_expr){op, &a, 1, &attr, 1}, MPC_FMT_none);
}

mpc_value_id mpc_grad_to_shape(mpc_grad *g, mpc_value_id a, uint32_t rank, const int64_t *dims) {
    mpc_type from = mpc_grad_type(g, a), to = {.rank = rank};
    if (rank > 0) memcpy(to.dims, dims, rank * sizeof *dims);
    if (!same_shape(&from, &to)) return view(g, MPC_OP_reshape, a, MPC_A_INTS("shape", dims, rank));
    g->named = false;
    return a;
}

mpc_value_id mpc_grad_permute(mpc_grad *g, mpc_value_id a, const int64_t *perm) {
    return view(g, MPC_OP_transpose, a, MPC_A_INTS("perm", perm, mpc_grad_type(g, a).rank));
}

mpc_value_id mpc_grad_broadcast(mpc_grad *g, mpc_value_id a, uint32_t rank, const int64_t *dims) {
    mpc_type from = mpc_grad_type(g, a), to = {.rank = rank};
    if (rank > 0) memcpy(to.dims, dims, rank * sizeof *dims);
    if (!same_shape(&from, &to)) return view(g, MPC_OP_expand, a, MPC_A_INTS("shape", dims, rank));
    g->named = false;
    return a;
}

mpc_value_id mpc_grad_convert(mpc_grad *g, mpc_value_id a, mpc_format to) {
    if (mpc_builder_failed(g->b) || mpc_grad_type(g, a).format == to) return a;
    name_intermediate(g, "cast");
    return mpc_build_cast(g->b, a, to, "grad");
}

mpc_value_id mpc_grad_sum_over(mpc_grad *g, mpc_value_id a, const int64_t *axes, uint32_t axis_count) {
    if (axis_count == 0) return a;
    mpc_attr_arg attr = MPC_A_INTS("axes", axes, axis_count);
    return mpc_grad_build(g, &(mpc_grad_expr){MPC_OP_sum, &a, 1, &attr, 1});
}

/* The axes of `from` that broadcasting to it from `to` added or stretched. `inner`: some of them stay in `to` with
 * size 1. */
static uint32_t broadcast_axes(const mpc_type *from, const mpc_type *to, int64_t axes[MPC_MAX_RANK], bool *inner) {
    uint32_t count = 0, extra = from->rank - to->rank;
    *inner = false;
    for (uint32_t i = 0; i < from->rank; i++) {
        if (i >= extra && to->dims[i - extra] == from->dims[i]) continue;
        *inner = *inner || i >= extra;
        axes[count++] = (int64_t)i;
    }
    return count;
}

/* One sum, and a reshape only if leading axes went and inner ones stay with size 1. The last of them gets the name. */
static mpc_value_id sum_back(mpc_grad *g, uint32_t i, mpc_value_id gradient, mpc_format format) {
    mpc_type from = mpc_grad_type(g, gradient), to = mpc_grad_type(g, mpc_grad_operand(g, i));
    int64_t axes[MPC_MAX_RANK];
    bool inner;
    uint32_t count = broadcast_axes(&from, &to, axes, &inner);
    bool keep = inner && from.rank == to.rank, reshapes = inner && !keep;
    mpc_attr_arg attrs[2] = {MPC_A_INTS("axes", axes, count), MPC_A_BOOL("keep", keep)};
    if (!reshapes) mpc_grad_name_for(g, i);
    mpc_value_id sum = build(g, &(mpc_grad_expr){MPC_OP_sum, &gradient, 1, attrs, 2}, format);
    if (!reshapes) return sum;
    mpc_grad_name_for(g, i);
    return mpc_grad_to_shape(g, sum, to.rank, to.dims);
}

mpc_value_id mpc_grad_fit(mpc_grad *g, uint32_t i, mpc_value_id gradient) {
    mpc_format format = mpc_grad_format(g, i);
    mpc_type from = mpc_grad_type(g, gradient), to = mpc_grad_type(g, mpc_grad_operand(g, i));
    if (gradient == MPC_NONE || mpc_builder_failed(g->b)) return MPC_NONE;
    if (!same_shape(&from, &to)) return sum_back(g, i, gradient, format);
    if (from.format == format) return gradient;
    mpc_grad_name_for(g, i);
    return mpc_grad_convert(g, gradient, format);
}

mpc_value_id mpc_grad_sum_to(mpc_builder *b, mpc_value_id gradient, mpc_value_id like) {
    mpc_type from = type_of(b, gradient), to = type_of(b, like);
    int64_t axes[MPC_MAX_RANK];
    bool inner;
    if (mpc_builder_failed(b) || same_shape(&from, &to)) return gradient;
    uint32_t count = broadcast_axes(&from, &to, axes, &inner);
    mpc_value_id sum = mpc_build_reduce(b, MPC_OP_sum, gradient, axes, count, inner && from.rank == to.rank);
    return mpc_build_reshape(b, sum, to.rank, to.dims);
}

void mpc_grad_emit(mpc_grad *g, uint32_t i, const mpc_grad_expr *e) {
    if (!g->wanted[i]) return;
    const mpc_op *forward = mpc_op_get(mpc_builder_context(g->b), g->node.op);
    mpc_type from = mpc_grad_type(g, mpc_grad_result(g, 0)), to = mpc_grad_type(g, mpc_grad_operand(g, i));
    bool last = forward->kind != MPC_KIND_EWISE || same_shape(&from, &to);
    if (last) mpc_grad_name_for(g, i);
    g->doperands[i] = build(g, e, last ? mpc_grad_format(g, i) : wide_format(g));
}

void mpc_grad_emit_view(mpc_grad *g, uint32_t i, const mpc_grad_expr *e) {
    if (!g->wanted[i]) return;
    mpc_grad_name_for(g, i);
    g->doperands[i] = build(g, e, MPC_FMT_none);
}

void mpc_grad_emit1(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a) {
    mpc_grad_emit(g, i, &(mpc_grad_expr){op, &a, 1, NULL, 0});
}

void mpc_grad_emit2(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    mpc_grad_emit(g, i, &(mpc_grad_expr){op, (mpc_value_id[]){a, c}, 2, NULL, 0});
}

void mpc_grad_emit3(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d) {
    mpc_grad_emit(g, i, &(mpc_grad_expr){op, (mpc_value_id[]){a, c, d}, 3, NULL, 0});
}

void mpc_grad_put(mpc_grad *g, uint32_t i, mpc_value_id value) {
    if (g->wanted[i]) g->doperands[i] = value;
}

void mpc_grad_emit_unless(mpc_grad *g, uint32_t i, mpc_value_id zero, mpc_value_id value) {
    mpc_grad_emit3(g, i, MPC_OP_where, zero, mpc_grad_number(g, 0), value);
}

void mpc_grad_emit2_guarded(mpc_grad *g, uint32_t i, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    if (!g->wanted[i]) return;
    if (!g->selected) {
        mpc_grad_emit2(g, i, op, a, c);
        return;
    }
    mpc_value_id dead = mpc_grad_op2(g, MPC_OP_eq, g->dresults[0], mpc_grad_number(g, 0));
    mpc_grad_emit_unless(g, i, dead, mpc_grad_op2(g, op, a, c));
}
