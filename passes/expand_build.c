/* Building blocks of expansion rules. Operands come as stored and are widened before use, so every value inside is f32;
 * only `emit` and the rule's caller round. A rule that builds with plain mpc_build calls works too, but its nodes are
 * called by op and number. */
#include "passes/expand_build.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 512 };

bool mpc_expand_has_prec(const mpc_context *ctx, const mpc_op *op) {
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(mpc_sym_text(ctx, op->attrs[i].key), "prec") == 0) return true;
    return false;
}

mpc_type mpc_expand_result_type(const mpc_expand *e, uint32_t r) {
    return *mpc_value_type(e->from, mpc_result(e->node, r));
}

mpc_type mpc_expand_type(const mpc_expand *e, mpc_value_id value) {
    if (value == MPC_NONE || mpc_builder_failed(e->b)) return (mpc_type){.format = MPC_FMT_f32, .rank = 1, .dims = {1}};
    return *mpc_builder_type(e->b, value);
}

void mpc_expand_name_result(mpc_expand *e, uint32_t r) {
    mpc_builder_set_name_of(e->b, e->from, mpc_result(e->node, r));
    e->named = true;
}

static void name_next(mpc_expand *e, const char *what) {
    char name[NAME_SIZE];
    if (!e->named && !e->from->unnamed) {
        snprintf(name, sizeof name, "%s.%s", mpc_value_name(e->from, mpc_result(e->node, 0)), what);
        mpc_builder_set_name(e->b, name);
    }
    e->named = false;
}

/* --- what was made before --- */

/* Fills the key of a scalar made of scalars; false: it isn't one, or can't be shared because it has a name. */
static bool scalar_key(const mpc_expand *e, const mpc_expand_expr *x, mpc_format format, uint32_t key[MPC_EXPAND_KEY]) {
    enum { MOST_OPERANDS = 3 };
    if (e->memo == NULL || e->named || x->operand_count == 0 || x->operand_count > MOST_OPERANDS) return false;
    if (x->attr_count > 0 || mpc_op_get(e->from->ctx, x->op)->kind != MPC_KIND_EWISE) return false;
    key[0] = x->op + 1;
    key[1] = (uint32_t)format;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (mpc_expand_type(e, x->operands[i]).rank > 0) return false;
        key[2 + i] = x->operands[i] + 1;
    }
    return true;
}

/* Where a value with this key is or belongs. */
static uint32_t *memo_slot(const mpc_expand *e, const uint32_t key[MPC_EXPAND_KEY]) {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < MPC_EXPAND_KEY; i++) hash = (hash ^ key[i]) * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(hash >> 32) % MPC_EXPAND_MEMO;
    if (memcmp(e->memo->made[at].key, key, sizeof e->memo->made[at].key) == 0) return &e->memo->made[at].value;
    memcpy(e->memo->made[at].key, key, sizeof e->memo->made[at].key);
    e->memo->made[at].value = 0;
    return &e->memo->made[at].value;
}

static mpc_value_id remember(uint32_t *slot, mpc_value_id v) {
    *slot = v + 1;
    return v;
}

/* --- building --- */

static mpc_value_id build_anew(mpc_expand *e, const mpc_expand_expr *x, mpc_format format) {
    mpc_context *ctx = mpc_builder_context(e->b);
    const mpc_op *op = mpc_op_get(ctx, x->op);
    mpc_attr_arg attrs[MPC_EXPAND_MAX_ATTRS + 1];
    uint32_t count = x->attr_count;
    if (count > 0) memcpy(attrs, x->attrs, count * sizeof *attrs);
    if (e->prec != MPC_FMT_none && mpc_expand_has_prec(ctx, op)) attrs[count++] = MPC_A_FORMAT("prec", e->prec);
    name_next(e, op->name);
    return mpc_build_as(e->b, x->op, x->operands, x->operand_count, attrs, count, format);
}

mpc_value_id mpc_expand_build(mpc_expand *e, const mpc_expand_expr *x, mpc_format format) {
    uint32_t key[MPC_EXPAND_KEY] = {0};
    if (mpc_builder_failed(e->b)) return MPC_NONE;
    if (!scalar_key(e, x, format, key)) return build_anew(e, x, format);
    uint32_t *slot = memo_slot(e, key);
    return *slot != 0 ? *slot - 1 : remember(slot, build_anew(e, x, format));
}

mpc_value_id mpc_expand_as(mpc_expand *e, mpc_value_id a, mpc_format to) {
    mpc_type type = mpc_expand_type(e, a);
    uint32_t key[MPC_EXPAND_KEY] = {MPC_OP_cast + 1, (uint32_t)to, a + 1}, *slot = NULL;
    if (mpc_builder_failed(e->b) || type.format == to) return a;
    if (type.rank == 0 && e->memo != NULL && !e->named) slot = memo_slot(e, key);
    if (slot != NULL && *slot != 0) return *slot - 1;
    name_next(e, "cast");
    mpc_value_id v = mpc_build_cast(e->b, a, to, "expand");
    return slot != NULL ? remember(slot, v) : v;
}

mpc_value_id mpc_expand_f32(mpc_expand *e, uint32_t i) { return mpc_expand_as(e, e->operands[i], MPC_FMT_f32); }

static mpc_value_id constant(mpc_expand *e, double value, mpc_format format) {
    if (mpc_builder_failed(e->b)) return MPC_NONE;
    uint32_t key[MPC_EXPAND_KEY] = {0, (uint32_t)format}, *slot = NULL;
    memcpy(&key[2], &value, sizeof value);
    if (e->memo != NULL && !e->named) slot = memo_slot(e, key);
    if (slot != NULL && *slot != 0) return *slot - 1;
    name_next(e, "const");
    mpc_value_id v = mpc_build_const(e->b, value, format);
    return slot != NULL ? remember(slot, v) : v;
}

mpc_value_id mpc_expand_number(mpc_expand *e, double value) { return constant(e, value, MPC_FMT_f32); }

mpc_value_id mpc_expand_int(mpc_expand *e, int64_t value) { return constant(e, (double)value, MPC_FMT_i32); }

mpc_value_id mpc_expand_op1(mpc_expand *e, mpc_op_id op, mpc_value_id a) {
    return mpc_expand_build(e, &(mpc_expand_expr){op, &a, 1, NULL, 0}, MPC_FMT_f32);
}

mpc_value_id mpc_expand_op2(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    return mpc_expand_build(e, &(mpc_expand_expr){op, (mpc_value_id[]){a, c}, 2, NULL, 0}, MPC_FMT_f32);
}

mpc_value_id mpc_expand_op3(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d) {
    return mpc_expand_build(e, &(mpc_expand_expr){op, (mpc_value_id[]){a, c, d}, 3, NULL, 0}, MPC_FMT_f32);
}

mpc_value_id mpc_expand_scale(mpc_expand *e, mpc_value_id a, double factor) {
    return mpc_expand_op2(e, MPC_OP_mul, a, mpc_expand_number(e, factor));
}

static mpc_value_id reduce(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_int_list axes, bool keep) {
    mpc_attr_arg attrs[2] = {MPC_A_INTS("axes", axes.data, axes.count), MPC_A_BOOL("keep", keep)};
    return mpc_expand_build(e, &(mpc_expand_expr){op, &a, 1, attrs, 2}, MPC_FMT_f32);
}

mpc_value_id mpc_expand_reduce(mpc_expand *e, mpc_op_id op, mpc_value_id a, int64_t axis, bool keep) {
    return reduce(e, op, a, (mpc_int_list){&axis, 1}, keep);
}

mpc_value_id mpc_expand_sum_axes(mpc_expand *e, mpc_value_id a, uint32_t count) {
    int64_t axes[MPC_MAX_RANK];
    for (uint32_t i = 0; i < count; i++) axes[i] = (int64_t)i;
    return count == 0 ? a : reduce(e, MPC_OP_sum, a, (mpc_int_list){axes, count}, false);
}

static mpc_value_id view(mpc_expand *e, mpc_op_id op, mpc_value_id a, mpc_attr_arg attr) {
    return mpc_expand_build(e, &(mpc_expand_expr){op, &a, 1, &attr, 1}, MPC_FMT_none);
}

static bool has_shape(const mpc_type *t, uint32_t rank, const int64_t *dims) {
    return t->rank == rank && (rank == 0 || memcmp(t->dims, dims, rank * sizeof *dims) == 0);
}

mpc_value_id mpc_expand_to_shape(mpc_expand *e, mpc_value_id a, uint32_t rank, const int64_t *dims) {
    mpc_type t = mpc_expand_type(e, a);
    return has_shape(&t, rank, dims) ? a : view(e, MPC_OP_reshape, a, MPC_A_INTS("shape", dims, rank));
}

mpc_value_id mpc_expand_broadcast(mpc_expand *e, mpc_value_id a, uint32_t rank, const int64_t *dims) {
    mpc_type t = mpc_expand_type(e, a);
    return has_shape(&t, rank, dims) ? a : view(e, MPC_OP_expand, a, MPC_A_INTS("shape", dims, rank));
}

mpc_value_id mpc_expand_permute(mpc_expand *e, mpc_value_id a, const int64_t *perm) {
    return view(e, MPC_OP_transpose, a, MPC_A_INTS("perm", perm, mpc_expand_type(e, a).rank));
}

mpc_value_id mpc_expand_column(mpc_expand *e, mpc_value_id a) {
    mpc_type t = mpc_expand_type(e, a);
    t.dims[t.rank] = 1;
    return mpc_expand_to_shape(e, a, t.rank + 1, t.dims);
}

mpc_value_id mpc_expand_positions(mpc_expand *e, int64_t n, uint32_t rank, uint32_t axis) {
    int64_t dims[MPC_MAX_RANK];
    if (mpc_builder_failed(e->b)) return MPC_NONE;
    for (uint32_t i = 0; i < rank; i++) dims[i] = i == axis ? n : 1;
    name_next(e, "range");
    mpc_type_id type = mpc_type_make(mpc_builder_context(e->b), MPC_FMT_i32, 1, &n);
    mpc_value_id range = mpc_build_typed(e->b, MPC_OP_range, type, NULL, 0);
    /* A trailing axis broadcasts as it is. */
    return axis + 1 == rank ? range : mpc_expand_to_shape(e, range, rank - axis, dims + axis);
}

static void emit(mpc_expand *e, uint32_t r, mpc_op_id op, const mpc_value_id *operands, uint32_t count) {
    if (!e->used[r]) return;
    mpc_expand_name_result(e, r);
    e->results[r] =
        mpc_expand_build(e, &(mpc_expand_expr){op, operands, count, NULL, 0}, mpc_expand_result_type(e, r).format);
}

void mpc_expand_emit1(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a) { emit(e, r, op, &a, 1); }

void mpc_expand_emit2(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    emit(e, r, op, (mpc_value_id[]){a, c}, 2);
}

void mpc_expand_emit3(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d) {
    emit(e, r, op, (mpc_value_id[]){a, c, d}, 3);
}

static mpc_value_id keep(mpc_expand *e, uint32_t r, mpc_op_id op, const mpc_value_id *operands, uint32_t count) {
    if (e->used[r]) mpc_expand_name_result(e, r);
    e->results[r] = mpc_expand_build(e, &(mpc_expand_expr){op, operands, count, NULL, 0}, MPC_FMT_f32);
    return e->results[r];
}

mpc_value_id mpc_expand_keep1(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a) { return keep(e, r, op, &a, 1); }

mpc_value_id mpc_expand_keep2(mpc_expand *e, uint32_t r, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    return keep(e, r, op, (mpc_value_id[]){a, c}, 2);
}
