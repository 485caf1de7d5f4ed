/* The verifier: every invariant of a graph. It reads ill-formed graphs without crashing: tables first (V01, V02), the
 * rest only if they hold. Passes are checked after each run with it, so its messages name the value and the invariant.
 *
 *   V01  operand, attribute, result, input, next and output indices lie in their tables; there are no more groups
 *        than nodes
 *   V02  a result names its node as producer and its own number, an input names none; every value is one of these, once
 *   V03  a node reads inputs and results of earlier nodes only
 *   V04  value names are unique and not empty
 *   V05  a node has as many operands and results as its op takes
 *   V06  attributes are declared, of the declared kind, in declared order, once each; required ones are there, defaults
 *        are not stored
 *   V07  result types follow from the operands; the format of a float may differ (nodes may mix float formats: reads
 *        widen to f32), except where the op keeps its operand's
 *   V08  a state has a name, skip is keep, advance or zero, (name, derived) is unique, a derived state has the format
 *        it names
 *   V09  a next binds a state, to a value of the same type, and no state has two
 *   V10  output names are unique and not empty
 *   V11  every value has a type whose format can be stored
 *   V12  formats of a decision are floats, or for the result of a cast to integers its own; a result format can be stored
 *   V13  a place lies in the arena and is as large as its value, or names another value
 *   V14  groups can run one after another: none needs, through others, what it makes itself; what stands in no group
 *        reads nothing that a group makes */
#include <string.h>

#include "ir/attrs.h"
#include "ir/context_internal.h"
#include "ir/graph.h"
#include "ir/idmap.h"
#include "ir/infer.h"

enum { MOST_ERRORS = 10 };

typedef struct verifier {
    const mpc_graph *g;
    unsigned errors;
    bool no_memory;
    mpc_idmap seen; /* of the check at work */
} verifier;

static void fail(verifier *v, const char *code, mpc_loc loc, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void fail(verifier *v, const char *code, mpc_loc loc, const char *format, ...) {
    const mpc_sink *sink = v->g->ctx->sink;
    if (v->errors++ >= MOST_ERRORS || !sink || !sink->emit) return;
    mpc_str text = {0}, place = {0};
    va_list args;
    va_start(args, format);
    mpc_str_vprintf(&text, format, args);
    va_end(args);
    if (loc.file) mpc_str_printf(&place, "%s:%u:%u", mpc_sym_text(v->g->ctx, loc.file), loc.line, loc.column);
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = code,
                     .message = text.failed ? format : mpc_str_cstr(&text),
                     .place = place.data};
    sink->emit(sink->user, &diag);
    mpc_str_free(&text);
    mpc_str_free(&place);
}

static const mpc_loc nowhere;

static const char *node_name(const verifier *v, const mpc_node *n) {
    bool named = n->result_count && n->result_begin < v->g->value_count;
    return named ? mpc_value_name(v->g, n->result_begin) : "?";
}

static bool in_table(uint32_t begin, uint32_t count, uint32_t total) {
    return begin <= total && count <= total - begin;
}

static void check_node_tables(verifier *v, mpc_node_id id) {
    const mpc_graph *g = v->g;
    const mpc_node *n = &g->nodes[id];
    if (!mpc_op_get(g->ctx, n->op)) fail(v, "V01", n->loc, "node %u: there is no op %u", id, n->op);
    if (!in_table(n->operand_begin, n->operand_count, g->operand_total) ||
        !in_table(n->attr_begin, n->attr_count, g->attr_total) ||
        !in_table(n->result_begin, n->result_count, g->value_count)) {
        fail(v, "V01", n->loc, "node %u: operands, attributes or results lie outside their tables", id);
        return;
    }
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (mpc_operand(g, n, i) >= g->value_count)
            fail(v, "V01", n->loc, "%s: operand %u is no value", node_name(v, n), i);
}

static void check_tables(verifier *v) {
    const mpc_graph *g = v->g;
    for (uint32_t i = 0; i < g->node_count; i++) check_node_tables(v, i);
    for (uint32_t i = 0; i < g->input_count; i++)
        if (g->inputs[i].value >= g->value_count ||
            !in_table(g->inputs[i].attr_begin, g->inputs[i].attr_count, g->attr_total))
            fail(v, "V01", nowhere, "input %u lies outside the tables", i);
    for (uint32_t i = 0; i < g->next_count; i++)
        if (g->nexts[i].state >= g->value_count || g->nexts[i].value >= g->value_count)
            fail(v, "V01", nowhere, "next %u names no value", i);
    for (uint32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i].value >= g->value_count) fail(v, "V01", nowhere, "output %u names no value", i);
    for (uint32_t i = 0; g->groups && i < g->node_count; i++)
        if (g->groups[i] > g->node_count)
            fail(v, "V01", g->nodes[i].loc, "node %u: there is no group %u", i, g->groups[i]);
}

static void check_values(verifier *v) {
    const mpc_graph *g = v->g;
    uint64_t owned = g->input_count;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const mpc_value *value = &g->values[g->inputs[i].value];
        if (value->producer != MPC_NONE || value->index != i)
            fail(v, "V02", nowhere, "input %u isn't the value's source", i);
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        owned += n->result_count;
        for (uint32_t j = 0; j < n->result_count; j++) {
            const mpc_value *value = &g->values[mpc_result(n, j)];
            if (value->producer != i || value->index != j)
                fail(v, "V02", n->loc, "result %u of %s names another producer", j, node_name(v, n));
        }
    }
    if (owned != g->value_count)
        fail(v, "V02", nowhere, "%u values, but %llu are made", g->value_count, (unsigned long long)owned);
}

static void check_order(verifier *v) {
    for (uint32_t i = 0; i < v->g->node_count; i++) {
        const mpc_node *n = &v->g->nodes[i];
        for (uint32_t j = 0; j < n->operand_count; j++) {
            mpc_node_id producer = v->g->values[mpc_operand(v->g, n, j)].producer;
            if (producer != MPC_NONE && producer >= i)
                fail(v, "V03", n->loc, "%s reads %s, which is made later", node_name(v, n),
                     mpc_value_name(v->g, mpc_operand(v->g, n, j)));
        }
    }
}

/* Adds a key to the set; false if it was there. */
static bool is_first(verifier *v, uint32_t key) {
    if (mpc_idmap_find(&v->seen, key)) return false;
    if (!mpc_idmap_add(&v->seen, key, 0)) v->no_memory = true;
    return true;
}

static void check_names(verifier *v) {
    for (uint32_t i = 0; i < v->g->value_count; i++) {
        if (!v->g->values[i].name) fail(v, "V04", nowhere, "value %u has no name", i);
        else if (!is_first(v, v->g->values[i].name))
            fail(v, "V04", nowhere, "two values are named `%s`", mpc_value_name(v->g, i));
    }
    mpc_idmap_free(&v->seen);
}

/* `specs` is walked along: stored attributes must follow its order. */
static void check_attrs(verifier *v, mpc_loc loc, const char *owner, const mpc_attr *attrs, uint32_t count,
                        const mpc_attr_spec *specs, uint32_t spec_count, bool defaults_dropped) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *key = mpc_sym_text(v->g->ctx, attrs[i].key);
        while (next < spec_count && specs[next].key != attrs[i].key) next++;
        if (next == spec_count) {
            fail(v, "V06", loc, "%s: the attribute `%s` is not declared, out of order or given twice", owner, key);
            return;
        }
        if (specs[next].kind != attrs[i].kind)
            fail(v, "V06", loc, "%s: the attribute `%s` is %s, not %s", owner, key,
                 mpc_attr_kind_name(specs[next].kind), mpc_attr_kind_name(attrs[i].kind));
        else if (defaults_dropped && !specs[next].required && mpc_attr_same(&attrs[i], &specs[next].fallback))
            fail(v, "V06", loc, "%s: the attribute `%s` is stored though it has its default", owner, key);
        next++;
    }
}

static bool check_counts(verifier *v, const mpc_node *n, const mpc_op *op) {
    bool ok = n->operand_count >= op->min_operands && n->operand_count <= op->max_operands &&
              n->result_count == op->result_count;
    if (!ok)
        fail(v, "V05", n->loc, "%s: %s doesn't have %u operands and %u results", node_name(v, n), op->name,
             n->operand_count, n->result_count);
    return ok;
}

static void check_node_attrs(verifier *v, const mpc_node *n, const mpc_op *op) {
    const mpc_attr *attrs = v->g->attrs + n->attr_begin;
    check_attrs(v, n->loc, node_name(v, n), attrs, n->attr_count, op->attrs, op->attr_count, true);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (op->attrs[i].required && !mpc_attr_stored(attrs, n->attr_count, op->attrs[i].key))
            fail(v, "V06", n->loc, "%s: %s needs the attribute `%s`", node_name(v, n), op->name,
                 mpc_sym_text(v->g->ctx, op->attrs[i].key));
}

static bool types_agree(const mpc_op *op, const mpc_type *inferred, const mpc_type *stated) {
    if (inferred->rank != stated->rank || memcmp(inferred->dims, stated->dims, sizeof stated->dims) != 0) return false;
    if (inferred->format == stated->format) return true;
    return !(op->flags & MPC_OPF_KEEPS_FORMAT) && mpc_format_is_float(inferred->format) &&
           mpc_format_is_float(stated->format);
}

static void report_type(verifier *v, const mpc_node *n, const mpc_type *inferred, const mpc_type *stated) {
    mpc_str text = {0};
    mpc_type_print(inferred, &text);
    mpc_str_append(&text, ", not ");
    mpc_type_print(stated, &text);
    fail(v, "V07", n->loc, "%s: %s gives %s", node_name(v, n), mpc_op_get(v->g->ctx, n->op)->name, mpc_str_cstr(&text));
    mpc_str_free(&text);
}

static void check_types(verifier *v, const mpc_node *n, const mpc_op *op, mpc_type_id *operand_types) {
    const mpc_graph *g = v->g;
    for (uint32_t i = 0; i < n->operand_count; i++) operand_types[i] = g->values[mpc_operand(g, n, i)].type;
    mpc_infer infer = {.ctx = g->ctx,
                       .op = op,
                       .operands = operand_types,
                       .operand_count = n->operand_count,
                       .attrs = g->attrs + n->attr_begin,
                       .attr_count = n->attr_count};
    for (uint32_t i = 0; i < n->result_count && i < MPC_MAX_RESULTS; i++)
        infer.results[i] = g->values[mpc_result(n, i)].type;
    if (!mpc_infer_types(&infer)) {
        fail(v, "V07", n->loc, "%s: %s %s", node_name(v, n), op->name, infer.message);
        return;
    }
    for (uint32_t i = 0; i < n->result_count; i++) {
        const mpc_type *inferred = mpc_type_get(g->ctx, infer.results[i]),
                       *stated = mpc_value_type(g, mpc_result(n, i));
        if (!types_agree(op, inferred, stated)) report_type(v, n, inferred, stated);
    }
}

static void check_nodes(verifier *v, mpc_arena *arena) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < v->g->node_count; i++)
        if (v->g->nodes[i].operand_count > most) most = v->g->nodes[i].operand_count;
    mpc_type_id *types = mpc_arena_alloc(arena, (most + 1) * sizeof *types);
    if (!types) {
        v->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < v->g->node_count; i++) {
        const mpc_node *n = &v->g->nodes[i];
        const mpc_op *op = mpc_op_get(v->g->ctx, n->op);
        unsigned before = v->errors;
        if (!check_counts(v, n, op)) continue;
        check_node_attrs(v, n, op);
        if (v->errors == before) check_types(v, n, op, types);
    }
}

static void check_formats(verifier *v) {
    for (uint32_t i = 0; i < v->g->value_count; i++) {
        mpc_format format = mpc_value_format(v->g, i);
        if (!mpc_format_get(format)->storable)
            fail(v, "V11", nowhere, "%s has the format %s, in which nothing is stored", mpc_value_name(v->g, i),
                 mpc_format_get(format)->name);
    }
}

static void check_state(verifier *v, const mpc_node *n) {
    const mpc_graph *g = v->g;
    const char *name = mpc_attr_str(g, n, "name"), *skip = mpc_attr_str(g, n, "skip");
    mpc_format derived = mpc_attr_format(g, n, "derived");
    if (!name[0]) fail(v, "V08", n->loc, "the state %s has no name", node_name(v, n));
    if (strcmp(skip, "keep") != 0 && strcmp(skip, "advance") != 0 && strcmp(skip, "zero") != 0)
        fail(v, "V08", n->loc, "the state %s says skip=%s; it must be keep, advance or zero", name, skip);
    if (derived && derived != mpc_value_format(g, n->result_begin))
        fail(v, "V08", n->loc, "the state %s is derived=%s, but its value is %s", name, mpc_format_get(derived)->name,
             mpc_format_get(mpc_value_format(g, n->result_begin))->name);
}

/* Unique by name and derived format: the symbol of "name/format". */
static bool state_is_first(verifier *v, const mpc_node *n) {
    mpc_str key = {0};
    mpc_str_printf(&key, "%s\x1f%s", mpc_attr_str(v->g, n, "name"),
                   mpc_format_get(mpc_attr_format(v->g, n, "derived"))->name);
    mpc_sym sym = key.failed ? 0 : mpc_intern(v->g->ctx, mpc_str_cstr(&key));
    mpc_str_free(&key);
    if (!sym) v->no_memory = true;
    return !sym || is_first(v, sym);
}

static void check_states(verifier *v) {
    for (uint32_t i = 0; i < v->g->node_count; i++) {
        const mpc_node *n = &v->g->nodes[i];
        if (n->op != MPC_OP_state) continue;
        check_state(v, n);
        if (!state_is_first(v, n)) fail(v, "V08", n->loc, "there are two states `%s`", mpc_attr_str(v->g, n, "name"));
    }
    mpc_idmap_free(&v->seen);
}

static void check_nexts(verifier *v) {
    const mpc_graph *g = v->g;
    for (uint32_t i = 0; i < g->next_count; i++) {
        const mpc_next *next = &g->nexts[i];
        const mpc_node *n = mpc_producer(g, next->state);
        const char *name = mpc_value_name(g, next->state);
        if (!n || n->op != MPC_OP_state) {
            fail(v, "V09", nowhere, "next binds %s, which is no state", name);
            continue;
        }
        if (g->values[next->state].type != g->values[next->value].type)
            fail(v, "V09", n->loc, "the next value of %s is %s, of another type", name, mpc_value_name(g, next->value));
        if (!is_first(v, next->state)) fail(v, "V09", n->loc, "the state %s has two next values", name);
    }
    mpc_idmap_free(&v->seen);
}

static void check_outputs(verifier *v) {
    for (uint32_t i = 0; i < v->g->output_count; i++) {
        mpc_sym name = v->g->outputs[i].name;
        if (!name) fail(v, "V10", nowhere, "output %u has no name", i);
        else if (!is_first(v, name))
            fail(v, "V10", nowhere, "there are two outputs `%s`", mpc_sym_text(v->g->ctx, name));
    }
    mpc_idmap_free(&v->seen);
}

static void check_inputs(verifier *v) {
    uint32_t count;
    const mpc_attr_spec *specs = mpc_input_attr_specs(v->g->ctx, &count);
    for (uint32_t i = 0; i < v->g->input_count; i++) {
        const mpc_input *in = &v->g->inputs[i];
        check_attrs(v, nowhere, mpc_value_name(v->g, in->value), v->g->attrs + in->attr_begin, in->attr_count, specs,
                    count, false);
    }
}

static bool float_or_none(mpc_format format) { return format == MPC_FMT_none || mpc_format_is_float(format); }

/* A float, or the own format of a result that holds none (a cast of floats to integers). */
static bool may_be_stored(const mpc_graph *g, const mpc_node *n, mpc_format format) {
    if (format == MPC_FMT_none) return true;
    bool own = n->result_count > 0 && mpc_value_format(g, mpc_result(n, 0)) == format;
    return (own || mpc_format_is_float(format)) && mpc_format_get(format)->storable;
}

static bool has_floats(const mpc_graph *g, const mpc_node *n) {
    for (uint32_t i = 0; i < n->operand_count; i++)
        if (mpc_format_is_float(mpc_value_format(g, mpc_operand(g, n, i)))) return true;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (mpc_format_is_float(mpc_value_format(g, mpc_result(n, i)))) return true;
    return false;
}

static void check_decisions(verifier *v) {
    for (uint32_t i = 0; v->g->decisions && i < v->g->node_count; i++) {
        const mpc_decision *d = &v->g->decisions[i];
        if (!d->present) continue;
        if (!has_floats(v->g, &v->g->nodes[i]))
            fail(v, "V12", v->g->nodes[i].loc, "%s: formats are decided, but it reads and gives no floats",
                 node_name(v, &v->g->nodes[i]));
        bool floats = float_or_none(d->operand) && float_or_none(d->compute) && float_or_none(d->acc);
        if (!floats || !may_be_stored(v->g, &v->g->nodes[i], d->result))
            fail(v, "V12", v->g->nodes[i].loc, "%s: a format of its decision is no float, or can't be stored",
                 node_name(v, &v->g->nodes[i]));
    }
}

static void check_place(verifier *v, mpc_value_id id) {
    const mpc_graph *g = v->g;
    const mpc_place *place = &g->places[id];
    const char *name = mpc_value_name(g, id);
    if (place->kind == MPC_PLACE_IN_VALUE && (place->value >= g->value_count || place->value == id))
        fail(v, "V13", nowhere, "%s shares the storage of no other value", name);
    if (place->kind != MPC_PLACE_ARENA) return;
    if (place->offset > g->arena_bytes || place->bytes > g->arena_bytes - place->offset)
        fail(v, "V13", nowhere, "%s lies outside the arena of %llu bytes", name, (unsigned long long)g->arena_bytes);
    if (place->bytes < (uint64_t)mpc_type_bytes(mpc_value_type(g, id)))
        fail(v, "V13", nowhere, "%s has a place of %llu bytes, too small for it", name,
             (unsigned long long)place->bytes);
}

/* Groups as a graph, taken apart from its sources: what is left over is a cycle. */
typedef struct group_order {
    mpc_uses uses;
    uint32_t *first, *next; /* nodes of a group, as lists: node + 1, 0 at the end */
    uint32_t *waits;        /* by group: operands of its nodes that groups not yet done make */
    uint32_t *ready, ready_count;
} group_order;

static uint32_t maker_group(const mpc_graph *g, mpc_value_id v) {
    mpc_node_id producer = g->values[v].producer;
    return producer == MPC_NONE ? 0 : g->groups[producer];
}

static bool begin_group_order(const mpc_graph *g, group_order *o, mpc_arena *arena) {
    size_t count = (size_t)g->node_count + 1;
    o->uses = mpc_graph_uses(g, arena);
    uint32_t **tables[] = {&o->first, &o->next, &o->waits, &o->ready};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        *tables[i] = mpc_arena_alloc(arena, count * sizeof **tables[i]);
        if (!*tables[i]) return false;
    }
    return o->uses.begin != NULL;
}

static void finish_group(const mpc_graph *g, group_order *o, uint32_t group) {
    for (uint32_t at = o->first[group]; at; at = o->next[at - 1]) {
        const mpc_node *n = &g->nodes[at - 1];
        if (!n->result_count) continue;
        uint32_t end = o->uses.begin[n->result_begin + n->result_count];
        for (uint32_t u = o->uses.begin[n->result_begin]; u < end; u++) {
            uint32_t reader = g->groups[o->uses.users[u]];
            if (reader && reader != group && --o->waits[reader] == 0) o->ready[o->ready_count++] = reader;
        }
    }
}

static void check_groups(verifier *v, mpc_arena *arena) {
    const mpc_graph *g = v->g;
    group_order o = {.ready_count = 0};
    if (!begin_group_order(g, &o, arena)) {
        v->no_memory = true;
        return;
    }
    for (uint32_t i = g->node_count; i-- > 0;) {
        const mpc_node *n = &g->nodes[i];
        uint32_t own = g->groups[i];
        o.next[i] = o.first[own];
        o.first[own] = i + 1;
        for (uint32_t j = 0; j < n->operand_count; j++) {
            uint32_t from = maker_group(g, mpc_operand(g, n, j));
            if (from && !own) fail(v, "V14", n->loc, "%s is in no group, but reads from one", node_name(v, n));
            else if (from && from != own) o.waits[own]++;
        }
    }
    for (uint32_t k = 1; k <= g->node_count; k++)
        if (o.first[k] && !o.waits[k]) o.ready[o.ready_count++] = k;
    for (uint32_t i = 0; i < o.ready_count; i++) finish_group(g, &o, o.ready[i]);
    for (uint32_t k = 1; k <= g->node_count; k++)
        if (o.waits[k]) fail(v, "V14", g->nodes[o.first[k] - 1].loc, "group %u needs itself, through other groups", k);
}

mpc_status mpc_graph_verify(const mpc_graph *g) {
    verifier v = {.g = g};
    check_tables(&v);
    if (!v.errors) check_values(&v);
    if (v.errors) return MPC_FAILED;
    mpc_arena *arena = mpc_arena_create();
    check_names(&v);
    check_order(&v);
    check_formats(&v);
    if (arena) check_nodes(&v, arena);
    if (arena && g->groups && !v.errors) check_groups(&v, arena);
    mpc_arena_destroy(arena);
    check_inputs(&v);
    if (!v.errors) check_states(&v);
    check_nexts(&v);
    check_outputs(&v);
    check_decisions(&v);
    for (uint32_t i = 0; g->places && i < g->value_count; i++) check_place(&v, i);
    mpc_idmap_free(&v.seen);
    if (v.errors) return MPC_FAILED;
    if (arena && !v.no_memory) return MPC_OK;
    mpc_error(g->ctx->sink, "E901", "out of memory");
    return MPC_NO_MEMORY;
}
