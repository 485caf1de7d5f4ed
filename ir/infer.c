/* Result types: the generic checks of a row of ops.def (operand count, required attributes and kinds), then the op's
 * own shape rule. A failed rule leaves one sentence and the operand at fault; the caller decides how to say it. */
#include "ir/infer.h"

#include <stdarg.h>
#include <stdio.h>

#include "ir/attrs.h"
#include "ir/graph.h"

bool mpc_infer_fail(mpc_infer *infer, uint32_t operand, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(infer->message, sizeof infer->message, format, args);
    va_end(args);
    infer->bad_operand = operand;
    return false;
}

static bool check_operand_count(mpc_infer *infer) {
    const mpc_op *op = infer->op;
    uint32_t n = infer->operand_count;
    if (n < op->min_operands || n > op->max_operands) {
        if (op->min_operands == op->max_operands)
            return mpc_infer_fail(infer, MPC_NONE, "takes %u operands, not %u", op->min_operands, n);
        if (n < op->min_operands)
            return mpc_infer_fail(infer, MPC_NONE, "takes at least %u operands, not %u", op->min_operands, n);
        return mpc_infer_fail(infer, MPC_NONE, "takes at most %u operands, not %u", op->max_operands, n);
    }
    for (uint32_t i = 0; i < n; i++)
        if (!infer->operands[i]) return mpc_infer_fail(infer, i, "operand %u has no type", i);
    return true;
}

static bool check_attrs(mpc_infer *infer) {
    const mpc_op *op = infer->op;
    for (uint32_t i = 0; i < op->attr_count; i++) {
        const mpc_attr_spec *spec = &op->attrs[i];
        const mpc_attr *attr = mpc_attr_stored(infer->attrs, infer->attr_count, spec->key);
        const char *key = mpc_sym_text(infer->ctx, spec->key);
        if (!attr && spec->required) return mpc_infer_fail(infer, MPC_NONE, "needs the attribute `%s`", key);
        if (attr && attr->kind != spec->kind)
            return mpc_infer_fail(infer, MPC_NONE, "the attribute `%s` is %s, not %s", key,
                                  mpc_attr_kind_name(spec->kind), mpc_attr_kind_name(attr->kind));
    }
    return true;
}

bool mpc_infer_types(mpc_infer *infer) {
    infer->bad_operand = MPC_NONE;
    infer->message[0] = '\0';
    if (!check_operand_count(infer) || !check_attrs(infer)) return false;
    if (infer->op->result_count > MPC_MAX_RESULTS) return mpc_infer_fail(infer, MPC_NONE, "has too many results");
    if (infer->op->shape && !infer->op->shape(infer)) {
        if (!infer->message[0]) mpc_infer_fail(infer, infer->bad_operand, "can't take these operands");
        return false;
    }
    for (uint32_t i = 0; i < infer->op->result_count; i++)
        if (!infer->results[i])
            return mpc_infer_fail(infer, MPC_NONE, "has no type for result %u (or it is too large)", i);
    return true;
}

const mpc_type *mpc_infer_operand(const mpc_infer *infer, uint32_t i) {
    return mpc_type_get(infer->ctx, infer->operands[i]);
}

static const mpc_attr *get(const mpc_infer *infer, const char *key, mpc_attr_kind kind) {
    return mpc_attr_resolve(infer->ctx, infer->op, infer->attrs, infer->attr_count, key, kind);
}

int64_t mpc_infer_int(const mpc_infer *infer, const char *key) { return get(infer, key, MPC_ATTR_INT)->i; }
double mpc_infer_float(const mpc_infer *infer, const char *key) { return get(infer, key, MPC_ATTR_FLOAT)->f; }
bool mpc_infer_bool(const mpc_infer *infer, const char *key) { return get(infer, key, MPC_ATTR_BOOL)->b; }
const char *mpc_infer_str(const mpc_infer *infer, const char *key) {
    return mpc_sym_text(infer->ctx, get(infer, key, MPC_ATTR_STR)->s);
}
mpc_format mpc_infer_format(const mpc_infer *infer, const char *key) {
    return get(infer, key, MPC_ATTR_FORMAT)->format;
}
mpc_int_list mpc_infer_ints(const mpc_infer *infer, const char *key) { return get(infer, key, MPC_ATTR_INTS)->ints; }

bool mpc_broadcast(const mpc_type *a, const mpc_type *b, mpc_type *out) {
    mpc_type result = {.format = mpc_format_join(a->format, b->format), .rank = a->rank > b->rank ? a->rank : b->rank};
    for (uint32_t i = 0; i < result.rank; i++) { /* axes counted from the last */
        int64_t x = i < a->rank ? a->dims[a->rank - 1 - i] : 1;
        int64_t y = i < b->rank ? b->dims[b->rank - 1 - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        result.dims[result.rank - 1 - i] = x == 1 ? y : x;
    }
    *out = result;
    return true;
}
