/* Building one node: arguments become sorted attributes without defaults, types are inferred, names made unique. A
 * shape rule that refuses is a defect of the caller (the front end has checked what users write), so its message is an
 * E900. */
#include <string.h>

#include "base/alloc.h"
#include "ir/attrs.h"
#include "ir/builder_internal.h"
#include "ir/context_internal.h"

enum { MAX_ATTRS = 24 }; /* of one op */

static bool set_attr(mpc_builder *b, const mpc_attr_arg *arg, mpc_attr *attr) {
    switch (arg->kind) {
    case MPC_ATTR_INT:
        attr->i = arg->i;
        return true;
    case MPC_ATTR_FLOAT:
        attr->f = arg->f;
        return true;
    case MPC_ATTR_BOOL:
        attr->b = arg->i != 0;
        return true;
    case MPC_ATTR_STR:
        attr->s = arg->s ? mpc_intern(b->ctx, arg->s) : 0;
        if (!attr->s && arg->s && arg->s[0]) mpc_builder_no_memory(b);
        return !b->failed;
    case MPC_ATTR_FORMAT:
        attr->format = arg->format;
        return true;
    case MPC_ATTR_INTS:
        attr->ints = (mpc_int_list){arg->ints, arg->count};
        return true;
    }
    return false;
}

static bool check_keys(mpc_builder *b, const char *owner, const mpc_attr_spec *specs, uint32_t spec_count,
                       const mpc_attr_arg *args, uint32_t arg_count) {
    for (uint32_t i = 0; i < arg_count; i++) {
        const mpc_attr_spec *spec = mpc_attr_spec_find(b->ctx, specs, spec_count, args[i].key);
        if (!spec) mpc_builder_fail(b, "%s has no attribute `%s`", owner, args[i].key);
        else if (spec->kind != args[i].kind)
            mpc_builder_fail(b, "%s: the attribute `%s` is %s, not %s", owner, args[i].key,
                             mpc_attr_kind_name(spec->kind), mpc_attr_kind_name(args[i].kind));
        if (b->failed) return false;
    }
    return true;
}

/* Turns arguments into attributes in the order of `specs`; defaults are dropped if `drop`. `out` has room for
 * spec_count. When an argument is given twice, the last one counts. */
static bool convert_attrs(mpc_builder *b, const char *owner, const mpc_attr_spec *specs, uint32_t spec_count,
                          const mpc_attr_arg *args, uint32_t arg_count, bool drop, mpc_attr *out, uint32_t *out_count) {
    *out_count = 0;
    if (!check_keys(b, owner, specs, spec_count, args, arg_count)) return false;
    for (uint32_t i = 0; i < spec_count; i++) {
        const mpc_attr_arg *found = NULL;
        for (uint32_t j = 0; j < arg_count; j++)
            if (strcmp(args[j].key, mpc_sym_text(b->ctx, specs[i].key)) == 0) found = &args[j];
        if (!found) continue;
        mpc_attr attr = {.key = specs[i].key, .kind = specs[i].kind};
        if (!set_attr(b, found, &attr)) return false;
        if (!drop || specs[i].required || !mpc_attr_same(&attr, &specs[i].fallback)) out[(*out_count)++] = attr;
    }
    return true;
}

static bool collect_types(mpc_builder *b, const char *op, const mpc_value_id *operands, uint32_t count) {
    b->types.count = 0;
    if (!mpc_array_reserve(&b->types, count)) {
        mpc_builder_no_memory(b);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (operands[i] >= b->graph->value_count) {
            mpc_builder_fail(b, "%s: operand %u is no value of the graph", op, i);
            return false;
        }
        (void)mpc_array_push(&b->types, b->graph->values[operands[i]].type);
    }
    return true;
}

static void report_inference(mpc_builder *b, const mpc_infer *infer) {
    mpc_str types = {0};
    for (uint32_t i = 0; i < infer->operand_count && i < 8; i++) {
        if (i) mpc_str_append(&types, ", ");
        mpc_type_print(mpc_infer_operand(infer, i), &types);
    }
    const char *name = mpc_sym_text(b->ctx, b->pending_name);
    mpc_builder_fail(b, "%s%s%s(%s): %s", name, name[0] ? " = " : "", infer->op->name, mpc_str_cstr(&types),
                     infer->message);
    mpc_str_free(&types);
}

static bool set_formats(mpc_builder *b, mpc_infer *infer, mpc_format format) {
    for (uint32_t i = 0; format && i < infer->op->result_count; i++) {
        if (!mpc_format_is_float(mpc_type_get(b->ctx, infer->results[i])->format)) continue;
        infer->results[i] = mpc_type_with_format(b->ctx, infer->results[i], format);
        if (!infer->results[i]) {
            mpc_builder_no_memory(b);
            return false;
        }
    }
    return true;
}

/* "relu_3": numbered per op, so that names don't depend on the rest of the graph. */
static void append_default_name(mpc_builder *b, mpc_op_id op, mpc_str *out) {
    uint32_t *number = mpc_idmap_find(&b->op_numbers, op), n = 1;
    if (number) n = ++*number;
    else if (!mpc_idmap_add(&b->op_numbers, op, n)) mpc_builder_no_memory(b);
    mpc_str_printf(out, "%s_%u", mpc_op_get(b->ctx, op)->name, n);
}

static bool make_names(mpc_builder *b, mpc_op_id op, uint32_t count, mpc_sym *names) {
    mpc_str text = {0};
    memset(names, 0, count * sizeof *names);
    if (!b->pending_name && b->graph->unnamed) return true;
    if (b->pending_name) mpc_str_append(&text, mpc_sym_text(b->ctx, b->pending_name));
    else append_default_name(b, op, &text);
    if (text.failed) mpc_builder_no_memory(b);
    if (count) names[0] = mpc_builder_unique_name(b, mpc_str_cstr(&text));
    for (uint32_t i = 1; i < count && names[0] && !b->failed; i++) {
        mpc_str_clear(&text);
        mpc_str_printf(&text, "%s.%u", mpc_sym_text(b->ctx, names[0]), i);
        if (text.failed) mpc_builder_no_memory(b);
        names[i] = mpc_builder_unique_name(b, mpc_str_cstr(&text));
    }
    mpc_str_free(&text);
    return !b->failed;
}

typedef struct request { /* one node to build */
    mpc_op_id op;
    const mpc_value_id *operands;
    uint32_t operand_count;
    const mpc_attr_arg *attrs;
    uint32_t attr_count;
    mpc_format format; /* of float results, or none */
    mpc_type_id type;  /* stated type of the first result, or 0 */
} request;

static bool infer_request(mpc_builder *b, const request *r, const mpc_op *op, const mpc_attr *attrs,
                          uint32_t attr_count, mpc_infer *infer) {
    *infer = (mpc_infer){.ctx = b->ctx,
                         .op = op,
                         .operands = b->types.data,
                         .operand_count = r->operand_count,
                         .attrs = attrs,
                         .attr_count = attr_count,
                         .results = {r->type}};
    if (mpc_infer_types(infer)) return set_formats(b, infer, r->format);
    report_inference(b, infer);
    return false;
}

static mpc_value_id build(mpc_builder *b, const request *r) {
    if (mpc_builder_failed(b)) return MPC_NONE;
    const mpc_op *op = mpc_op_get(b->ctx, r->op);
    if (!op || op->attr_count > MAX_ATTRS) {
        mpc_builder_fail(b, op ? "%s declares too many attributes" : "there is no such op", op ? op->name : "");
        return MPC_NONE;
    }
    mpc_attr attrs[MAX_ATTRS];
    uint32_t attr_count;
    mpc_infer infer;
    mpc_sym names[MPC_MAX_RESULTS];
    if (!collect_types(b, op->name, r->operands, r->operand_count) ||
        !convert_attrs(b, op->name, op->attrs, op->attr_count, r->attrs, r->attr_count, true, attrs, &attr_count) ||
        !infer_request(b, r, op, attrs, attr_count, &infer) || !make_names(b, r->op, op->result_count, names))
        return MPC_NONE;
    b->pending_name = 0;
    mpc_node node = {.op = r->op,
                     .operand_begin = b->graph->operand_total,
                     .operand_count = r->operand_count,
                     .attr_count = attr_count,
                     .loc = b->loc,
                     .origin = b->origin,
                     .why = b->why};
    if (!mpc_builder_add_operands(b, r->operands, r->operand_count) ||
        !mpc_builder_add_attrs(b, attrs, attr_count, &node.attr_begin))
        return MPC_NONE;
    return mpc_builder_add_node(b, &node, infer.results, names, op->result_count);
}

mpc_value_id mpc_build_as(mpc_builder *b, mpc_op_id op, const mpc_value_id *operands, uint32_t operand_count,
                          const mpc_attr_arg *attrs, uint32_t attr_count, mpc_format format) {
    return build(b, &(request){op, operands, operand_count, attrs, attr_count, format, 0});
}

mpc_value_id mpc_build(mpc_builder *b, mpc_op_id op, const mpc_value_id *operands, uint32_t operand_count,
                       const mpc_attr_arg *attrs, uint32_t attr_count) {
    return mpc_build_as(b, op, operands, operand_count, attrs, attr_count, MPC_FMT_none);
}

mpc_value_id mpc_build_typed(mpc_builder *b, mpc_op_id op, mpc_type_id type, const mpc_attr_arg *attrs,
                             uint32_t attr_count) {
    return build(b, &(request){op, NULL, 0, attrs, attr_count, MPC_FMT_none, type});
}

mpc_value_id mpc_build1(mpc_builder *b, mpc_op_id op, mpc_value_id a) { return mpc_build(b, op, &a, 1, NULL, 0); }

mpc_value_id mpc_build2(mpc_builder *b, mpc_op_id op, mpc_value_id a, mpc_value_id c) {
    return mpc_build(b, op, (mpc_value_id[]){a, c}, 2, NULL, 0);
}

mpc_value_id mpc_build3(mpc_builder *b, mpc_op_id op, mpc_value_id a, mpc_value_id c, mpc_value_id d) {
    return mpc_build(b, op, (mpc_value_id[]){a, c, d}, 3, NULL, 0);
}

mpc_value_id mpc_build_const(mpc_builder *b, double value, mpc_format format) {
    if (mpc_builder_failed(b)) return MPC_NONE;
    mpc_type_id type = mpc_type_make(b->ctx, format, 0, NULL);
    return mpc_build_typed(b, MPC_OP_const, type, &MPC_A_FLOAT("value", value), 1);
}

/* Helpers that return their operand must not leave its pending name to the next node. */
static mpc_value_id unchanged(mpc_builder *b, mpc_value_id a) {
    b->pending_name = 0;
    return a;
}

static bool is_value(const mpc_builder *b, mpc_value_id a) {
    return !mpc_builder_failed(b) && a < b->graph->value_count;
}

mpc_value_id mpc_build_cast(mpc_builder *b, mpc_value_id a, mpc_format to, const char *by) {
    if (is_value(b, a) && mpc_builder_type(b, a)->format == to) return unchanged(b, a);
    const mpc_attr_arg attrs[] = {MPC_A_FORMAT("to", to), MPC_A_STR("by", by)};
    return mpc_build(b, MPC_OP_cast, &a, 1, attrs, 2);
}

mpc_value_id mpc_build_reshape(mpc_builder *b, mpc_value_id a, uint32_t rank, const int64_t *dims) {
    const mpc_type *type = mpc_builder_failed(b) ? NULL : mpc_builder_type(b, a);
    if (is_value(b, a) && type->rank == rank && (!rank || memcmp(type->dims, dims, rank * sizeof *dims) == 0))
        return unchanged(b, a);
    return mpc_build(b, MPC_OP_reshape, &a, 1, &MPC_A_INTS("shape", dims, rank), 1);
}

mpc_value_id mpc_build_transpose(mpc_builder *b, mpc_value_id a, const int64_t *perm) {
    uint32_t rank = mpc_builder_failed(b) ? 0 : mpc_builder_type(b, a)->rank;
    return mpc_build(b, MPC_OP_transpose, &a, 1, &MPC_A_INTS("perm", perm, rank), 1);
}

mpc_value_id mpc_build_reduce(mpc_builder *b, mpc_op_id op, mpc_value_id a, const int64_t *axes, uint32_t axis_count,
                              bool keep) {
    const mpc_attr_arg attrs[] = {MPC_A_INTS("axes", axes, axis_count), MPC_A_BOOL("keep", keep)};
    return mpc_build(b, op, &a, 1, attrs, 2);
}

mpc_value_id mpc_build_state(mpc_builder *b, const char *name, mpc_type_id type, const mpc_attr_arg *attrs,
                             uint32_t attr_count) {
    if (mpc_builder_failed(b)) return MPC_NONE;
    mpc_attr_arg all[MAX_ATTRS];
    if (attr_count >= MAX_ATTRS) {
        mpc_builder_fail(b, "state `%s` has too many attributes", name);
        return MPC_NONE;
    }
    if (attr_count) memcpy(all, attrs, attr_count * sizeof *attrs);
    all[attr_count] = MPC_A_STR("name", name);
    if (!b->pending_name) mpc_builder_set_name(b, name);
    return mpc_build_typed(b, MPC_OP_state, type, all, attr_count + 1);
}

mpc_value_id mpc_build_input(mpc_builder *b, const char *name, mpc_type_id type, const mpc_attr_arg *attrs,
                             uint32_t attr_count) {
    if (mpc_builder_failed(b)) return MPC_NONE;
    uint32_t spec_count, count;
    const mpc_attr_spec *specs = mpc_input_attr_specs(b->ctx, &spec_count);
    mpc_attr converted[MAX_ATTRS];
    if (!type) mpc_builder_fail(b, "input `%s` has no type", name);
    b->pending_name = 0;
    if (!convert_attrs(b, "an input", specs, spec_count, attrs, attr_count, false, converted, &count)) return MPC_NONE;
    return mpc_builder_add_input(b, mpc_builder_unique_name(b, name), type, converted, count);
}
