/* Ops of plugins as functions of the language: operands in order, attributes by name, several results as a tuple. The
 * signature is made from the op's row, so that messages and checks are those of any other op. Built-in ops are not
 * reached this way: the language has its own words for them. */
#include <string.h>

#include "frontend/fe_builtins.h"

enum { MAX_SIGNATURE = 512 };

static bool is_prec(const fe_elab *e, const mpc_attr_spec *spec) {
    return strcmp(mpc_sym_text(e->ctx, spec->key), "prec") == 0;
}

static uint32_t operand_limit(const mpc_op *op) {
    return op->max_operands < FE_MAX_OP_IN ? op->max_operands : FE_MAX_OP_IN;
}

/* "x y? | eps? mode!?" */
static const char *signature_of(fe_elab *e, const mpc_op *op) {
    static const char *const names[FE_MAX_OP_IN] = {"x", "y", "z", "u", "v", "w", "s", "t"};
    mpc_str text = {0};
    for (uint32_t i = 0; i < operand_limit(op); i++)
        mpc_str_printf(&text, "%s%s ", names[i], i < op->min_operands ? "" : "?");
    mpc_str_append(&text, "|");
    for (uint32_t i = 0; i < op->attr_count; i++) {
        const mpc_attr_spec *spec = &op->attrs[i];
        bool word = spec->kind == MPC_ATTR_STR || spec->kind == MPC_ATTR_FORMAT;
        if (!is_prec(e, spec))
            mpc_str_printf(&text, " %s%s%s", mpc_sym_text(e->ctx, spec->key), word ? "!" : "",
                           spec->required ? "" : "?");
    }
    const char *kept = text.failed ? NULL : fe_format(e, "%s", mpc_str_cstr(&text));
    mpc_str_free(&text);
    return kept;
}

static const mpc_op *find_op(const fe_elab *e, const char *name, mpc_op_id *id) {
    const mpc_op *op = mpc_op_find(e->ctx, name, id) ? mpc_op_get(e->ctx, *id) : NULL;
    return op && op->plugin ? op : NULL;
}

static mpc_attr_arg int_list(fe_call *c, uint32_t i, const char *key) {
    int64_t *ints = fe_alloc(c->e, MPC_MAX_RANK * sizeof *ints);
    uint32_t count = ints ? fe_arg_ints(c, i, ints, MPC_MAX_RANK, 0) : UINT32_MAX;
    if (count == UINT32_MAX) c->bad = true;
    return MPC_A_INTS(key, ints, c->bad ? 0 : count);
}

static mpc_attr_arg attribute(fe_call *c, uint32_t i, const mpc_attr_spec *spec) {
    const char *key = mpc_sym_text(c->e->ctx, spec->key);
    switch (spec->kind) {
    case MPC_ATTR_INT:
        return MPC_A_INT(key, fe_arg_int(c, i, 0));
    case MPC_ATTR_FLOAT:
        return MPC_A_FLOAT(key, fe_arg_float(c, i, 0));
    case MPC_ATTR_BOOL:
        return MPC_A_BOOL(key, fe_arg_bool(c, i, false));
    case MPC_ATTR_FORMAT:
        return MPC_A_FORMAT(key, fe_arg_format(c, i));
    case MPC_ATTR_INTS:
        return int_list(c, i, key);
    case MPC_ATTR_STR:
        break;
    }
    return MPC_A_STR(key, c->v[i].kind == FE_STRING ? c->v[i].s : "");
}

/* A number stands for an f32 scalar, as in arithmetic. */
static fe_value operand(fe_call *c, uint32_t i) {
    return fe_is_number(c->v[i]) ? fe_scalar(c->e, c->ast[i], c->v[i], MPC_FMT_f32) : fe_arg_tensor(c, i);
}

static fe_value all_results(fe_elab *e, fe_value first, uint32_t count) {
    if (count == 1 || first.kind != FE_TENSOR) return first;
    fe_value all = {.kind = FE_TUPLE, .count = count, .items = fe_alloc(e, count * sizeof *all.items)};
    if (!all.items) return FE_POISONED;
    for (uint32_t i = 0; i < count; i++) all.items[i] = i ? fe_other_result(e, first, i) : first;
    return all;
}

static fe_value call_op(fe_call *c) {
    mpc_op_id id;
    const mpc_op *op = find_op(c->e, c->fn->name, &id);
    if (!op) return FE_POISONED;
    fe_op o = fe_op_begin(c->e, c->at, id, c->name);
    uint32_t next = operand_limit(op);
    for (uint32_t i = 0; i < next; i++)
        if (fe_given(c, i)) fe_op_in(&o, operand(c, i));
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (is_prec(c->e, &op->attrs[i])) continue;
        if (fe_given(c, next)) fe_op_attr(&o, attribute(c, next, &op->attrs[i]));
        next++;
    }
    return c->bad ? FE_POISONED : all_results(c->e, fe_op_end(&o), op->result_count);
}

const fe_builtin *fe_find_plugin_op(fe_elab *e, const char *name) {
    mpc_op_id id;
    const mpc_op *op = find_op(e, name, &id);
    fe_builtin *fn = op ? fe_alloc(e, sizeof *fn) : NULL;
    const char *args = fn ? signature_of(e, op) : NULL;
    if (!args) return NULL;
    *fn = (fe_builtin){.name = op->name, .args = args, .run = call_op, .parameters = false};
    return fn;
}
