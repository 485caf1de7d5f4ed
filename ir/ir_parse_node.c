/* One node line of the text form: "%a, %b = op(%x, %y) {...} : f32[..], f32[..] suffixes". Results are defined after
 * the operands are read, so a node can't read itself; types are checked against the op's shape rule, except for the
 * formats of floats. */
#include <string.h>

#include "base/alloc.h"
#include "ir/attrs.h"
#include "ir/context_internal.h"
#include "ir/ir_parser.h"

bool mpc_ir_parse_name(mpc_ir_parser *p, mpc_ir_name *name) {
    if (p->token.kind != MPC_TOK_VALUE) return mpc_ir_unexpected(p, "a value");
    *name = (mpc_ir_name){mpc_intern_n(p->ctx, p->token.text, p->token.length), mpc_ir_span(p)};
    if (!name->sym) return mpc_ir_no_memory(p);
    mpc_ir_advance(p);
    return true;
}

bool mpc_ir_define(mpc_ir_parser *p, const mpc_ir_name *name, mpc_value_id value) {
    if (mpc_idmap_find(&p->values, name->sym))
        return mpc_ir_fail(p, "E504", name->span, "`%s` is defined twice", mpc_sym_text(p->ctx, name->sym));
    return mpc_idmap_add(&p->values, name->sym, value) || mpc_ir_no_memory(p);
}

bool mpc_ir_parse_ref(mpc_ir_parser *p, mpc_value_id *value) {
    mpc_ir_name name;
    if (!mpc_ir_parse_name(p, &name)) return false;
    const uint32_t *found = mpc_idmap_find(&p->values, name.sym);
    if (!found)
        return mpc_ir_fail(p, "E503", name.span, "no earlier line defines `%s`", mpc_sym_text(p->ctx, name.sym));
    *value = *found;
    return true;
}

static bool parse_names(mpc_ir_parser *p) {
    p->names.count = 0;
    do {
        mpc_ir_name name;
        if (!mpc_ir_parse_name(p, &name)) return false;
        if (!mpc_array_push(&p->names, name)) return mpc_ir_no_memory(p);
    } while (mpc_ir_accept(p, ','));
    return mpc_ir_expect(p, '=');
}

static bool parse_op(mpc_ir_parser *p, mpc_op_id *op) {
    if (p->token.kind != MPC_TOK_WORD) return mpc_ir_unexpected(p, "an op");
    char name[64];
    bool fits = p->token.length < sizeof name;
    if (fits) {
        memcpy(name, p->token.text, p->token.length);
        name[p->token.length] = '\0';
    }
    if (!fits || !mpc_op_find(p->ctx, name, op))
        return mpc_ir_fail(p, "E505", mpc_ir_span(p), "there is no op `%.*s`", (int)p->token.length, p->token.text);
    mpc_ir_advance(p);
    return true;
}

static bool parse_operands(mpc_ir_parser *p) {
    p->operands.count = p->operand_types.count = 0;
    if (!mpc_ir_expect(p, '(')) return false;
    if (mpc_ir_accept(p, ')')) return true;
    do {
        mpc_value_id value;
        if (!mpc_ir_parse_ref(p, &value)) return false;
        mpc_type_id type = mpc_builder_graph(p->b)->values[value].type;
        if (!mpc_array_push(&p->operands, value) || !mpc_array_push(&p->operand_types, type))
            return mpc_ir_no_memory(p);
    } while (mpc_ir_accept(p, ','));
    return mpc_ir_expect(p, ')');
}

static bool parse_types(mpc_ir_parser *p) {
    p->types.count = 0;
    if (!mpc_ir_expect(p, ':')) return false;
    do {
        mpc_type_id type;
        if (!mpc_ir_parse_type(p, &type)) return false;
        if (!mpc_array_push(&p->types, type)) return mpc_ir_no_memory(p);
    } while (mpc_ir_accept(p, ','));
    return true;
}

static bool check_counts(mpc_ir_parser *p, const mpc_op *op, mpc_span span) {
    if (p->operands.count < op->min_operands || p->operands.count > op->max_operands)
        return mpc_ir_fail(p, "E509", span, "%s doesn't take %zu operands", op->name, p->operands.count);
    if (p->names.count != op->result_count)
        return mpc_ir_fail(p, "E509", span, "%s has %u results, not %zu", op->name, op->result_count, p->names.count);
    if (p->types.count != p->names.count)
        return mpc_ir_fail(p, "E509", span, "%zu results, but %zu types", p->names.count, p->types.count);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].required && !mpc_attr_stored(p->attrs.data, (uint32_t)p->attrs.count, op->attrs[i].key))
            return mpc_ir_fail(p, "E506", span, "%s needs the attribute `%s`", op->name,
                               mpc_sym_text(p->ctx, op->attrs[i].key));
    return true;
}

static bool check_type(mpc_ir_parser *p, const mpc_op *op, mpc_span span, mpc_type_id inferred, mpc_type_id stated) {
    if (inferred == stated) return true;
    const mpc_type *a = mpc_type_get(p->ctx, inferred), *b = mpc_type_get(p->ctx, stated);
    bool both_float = mpc_format_is_float(a->format) && mpc_format_is_float(b->format);
    if (both_float && a->rank == b->rank && memcmp(a->dims, b->dims, sizeof a->dims) == 0) return true;
    mpc_str wanted = {0};
    mpc_type_print(a, &wanted);
    mpc_ir_fail(p, "E507", span, "%s gives %s here", op->name, mpc_str_cstr(&wanted));
    mpc_str_free(&wanted);
    return false;
}

static bool check_types(mpc_ir_parser *p, const mpc_op *op, mpc_span span) {
    mpc_infer infer = {.ctx = p->ctx,
                       .op = op,
                       .operands = p->operand_types.data,
                       .operand_count = (uint32_t)p->operand_types.count,
                       .attrs = p->attrs.data,
                       .attr_count = (uint32_t)p->attrs.count};
    for (uint32_t i = 0; i < p->types.count && i < MPC_MAX_RESULTS; i++) infer.results[i] = p->types.data[i];
    if (!mpc_infer_types(&infer)) return mpc_ir_fail(p, "E507", span, "%s: %s", op->name, infer.message);
    for (uint32_t i = 0; i < p->types.count; i++)
        if (!check_type(p, op, span, infer.results[i], p->types.data[i])) return false;
    return true;
}

static bool parse_quoted_suffix(mpc_ir_parser *p, mpc_sym *sym) {
    if (p->token.kind != MPC_TOK_STRING) return mpc_ir_unexpected(p, "a text in quotes");
    *sym = mpc_intern_n(p->ctx, p->token.text, p->token.length);
    if (!*sym && p->token.length) return mpc_ir_no_memory(p);
    mpc_ir_advance(p);
    return true;
}

static bool parse_loc(mpc_ir_parser *p, mpc_loc *loc) {
    uint64_t line, column;
    if (!parse_quoted_suffix(p, &loc->file) || !mpc_ir_expect(p, ':') || !mpc_ir_parse_unsigned(p, UINT32_MAX, &line) ||
        !mpc_ir_expect(p, ':') || !mpc_ir_parse_unsigned(p, UINT32_MAX, &column))
        return false;
    loc->line = (uint32_t)line;
    loc->column = (uint32_t)column;
    return true;
}

static bool parse_decision(mpc_ir_parser *p, mpc_decision *d) {
    const struct {
        const char *key;
        mpc_format *format;
    } parts[] = {{"in", &d->operand}, {"compute", &d->compute}, {"acc", &d->acc}, {"out", &d->result}};
    d->present = true;
    while (p->token.kind == MPC_TOK_WORD) {
        mpc_format *format = NULL;
        for (unsigned i = 0; i < 4; i++)
            if (mpc_ir_at_word(p, parts[i].key)) format = parts[i].format;
        if (!format) return mpc_ir_unexpected(p, "in, compute, acc or out");
        mpc_ir_advance(p);
        if (!mpc_ir_expect(p, '=') || !mpc_ir_parse_format(p, format)) return false;
    }
    return true;
}

typedef struct suffixes { /* what may follow the types */
    mpc_loc loc;
    mpc_sym origin, why;
    mpc_decision decision;
    uint64_t group;
} suffixes;

static bool parse_suffix(mpc_ir_parser *p, suffixes *s, bool *found) {
    static const char *const words[] = {"loc", "origin", "why", "assign", "group"};
    unsigned which = 0;
    while (which < 5 && !mpc_ir_at_word(p, words[which])) which++;
    *found = which < 5;
    if (!*found) return true;
    mpc_ir_advance(p);
    if (!mpc_ir_expect(p, '(')) return false;
    bool ok = false;
    switch (which) {
    case 0:
        ok = parse_loc(p, &s->loc);
        break;
    case 1:
        ok = parse_quoted_suffix(p, &s->origin);
        break;
    case 2:
        ok = parse_quoted_suffix(p, &s->why);
        break;
    case 3:
        ok = parse_decision(p, &s->decision);
        break;
    default:
        ok = mpc_ir_parse_unsigned(p, UINT32_MAX, &s->group);
        break;
    }
    return ok && mpc_ir_expect(p, ')');
}

/* Defines the results; the names are known to be free in the builder, because the parser's own map says so. */
static bool add_node(mpc_ir_parser *p, mpc_op_id op, const suffixes *s) {
    mpc_sym names[MPC_MAX_RESULTS];
    uint32_t count = (uint32_t)p->names.count;
    mpc_value_id first = mpc_builder_graph(p->b)->value_count;
    for (uint32_t i = 0; i < count; i++) {
        if (!mpc_ir_define(p, &p->names.data[i], first + i)) return false;
        names[i] = mpc_builder_unique_name(p->b, mpc_sym_text(p->ctx, p->names.data[i].sym));
    }
    mpc_node node = {.op = op,
                     .operand_begin = mpc_builder_graph(p->b)->operand_total,
                     .operand_count = (uint32_t)p->operands.count,
                     .attr_count = (uint32_t)p->attrs.count,
                     .loc = s->loc,
                     .origin = s->origin,
                     .why = s->why};
    if (!mpc_builder_add_operands(p->b, p->operands.data, node.operand_count) ||
        !mpc_builder_add_attrs(p->b, p->attrs.data, node.attr_count, &node.attr_begin) ||
        mpc_builder_add_node(p->b, &node, p->types.data, names, count) == MPC_NONE)
        return false;
    if (s->decision.present) mpc_build_decision(p->b, first, &s->decision);
    p->any_group = p->any_group || s->group;
    return mpc_array_push(&p->groups, (uint32_t)s->group) || mpc_ir_no_memory(p);
}

bool mpc_ir_parse_node(mpc_ir_parser *p) {
    mpc_op_id id = 0;
    if (!parse_names(p)) return false;
    mpc_span span = mpc_ir_span(p);
    if (!parse_op(p, &id)) return false;
    const mpc_op *op = mpc_op_get(p->ctx, id);
    if (!parse_operands(p) || !mpc_ir_parse_attrs(p, op->name, op->attrs, op->attr_count, true) || !parse_types(p))
        return false;
    if (!check_counts(p, op, span) || !check_types(p, op, span)) return false;
    suffixes s = {0};
    for (bool found = true; found;)
        if (!parse_suffix(p, &s, &found)) return false;
    return add_node(p, id, &s);
}
