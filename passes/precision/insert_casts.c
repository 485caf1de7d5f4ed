/* Makes decisions into types: one cast per (value, format), placed before the first node that needs it, then the
 * planned format on every result. Mechanical: nothing is decided here. What ops read as it comes (elementwise ops widen
 * in registers) gets no cast; a cast stands where a matmul wants one format for its operands, a view moves bits, the
 * user asked for a narrower operand, or a type is fixed. Declared outputs and next values keep the types they had
 * (FC-098). */
#include <string.h>

#include "passes/passes.h"
#include "passes/precision/precision.h"
#include "passes/rewrite.h"

typedef struct inserter {
    mpc_rewrite rw;
    mpc_fixed fixed;
    mpc_format *format;  /* by old value: planned storage */
    mpc_value_id *casts; /* by old value times MPC_FMT_count: the cast in the new graph, or MPC_NONE */
    mpc_node_id reader;  /* whose operands are being converted; MPC_NONE: outputs and next values */
} inserter;

static void plan_formats(inserter *s) {
    const mpc_graph *g = s->rw.in;
    for (uint32_t v = 0; v < g->value_count; v++) s->format[v] = mpc_format_stored(g, &s->fixed, v);
}

static mpc_value_id *cast_of(inserter *s, mpc_value_id v, mpc_format to) {
    return &s->casts[(size_t)v * MPC_FMT_count + to];
}

/* The first reader that wanted the conversion answers for it. */
static mpc_sym reason_of_conversion(inserter *s) {
    const mpc_graph *g = s->rw.in;
    if (s->reader == MPC_NONE) return mpc_intern(g->ctx, "cast: outputs and states keep their declared formats");
    const mpc_node *n = &g->nodes[s->reader];
    const mpc_op *op = mpc_node_op(g, s->reader);
    const char *because = "its type is fixed";
    if (mpc_node_prec(g, n) != MPC_FMT_none) because = "its precision is written (N99)";
    else if (op->cls == MPC_CLASS_LOW) because = "LOW (N01)";
    else if (op->kind == MPC_KIND_VIEW) because = "what it joins has one format (N43)";
    const char *text =
        mpc_arena_printf(s->rw.scratch, "cast for %%%s, %s", mpc_value_name(g, mpc_result(n, 0)), because);
    if (text == NULL) mpc_builder_fail(s->rw.b, "out of memory");
    return text == NULL ? 0 : mpc_intern(g->ctx, text);
}

static void dress_conversion(inserter *s, mpc_value_id v, mpc_format to) {
    const mpc_graph *g = s->rw.in;
    const mpc_node *producer = mpc_producer(g, v);
    const char *name = mpc_arena_printf(s->rw.scratch, "%s.%s", mpc_value_name(g, v), mpc_format_get(to)->name);
    if (name == NULL) mpc_builder_fail(s->rw.b, "out of memory");
    mpc_builder_set_loc(s->rw.b, producer == NULL ? (mpc_loc){0} : producer->loc);
    mpc_builder_set_origin(s->rw.b, producer == NULL ? 0 : producer->origin);
    mpc_builder_set_why(s->rw.b, reason_of_conversion(s));
    mpc_builder_set_name(s->rw.b, name == NULL ? "cast" : name);
}

/* A view that keeps all elements: it may as well look at the converted source, which others may share. */
static bool is_relabeling(const mpc_node *n) {
    return n != NULL && (n->op == MPC_OP_reshape || n->op == MPC_OP_transpose || n->op == MPC_OP_expand);
}

/* The value in format `to`: through relabeling views back to the source, a cast there, and the views again. */
static mpc_value_id converted(inserter *s, mpc_value_id v, mpc_format to) {
    enum { MAX_VIEWS = 16 };
    const mpc_graph *g = s->rw.in;
    mpc_value_id chain[MAX_VIEWS];
    uint32_t length = 0;
    while (s->format[v] != to && *cast_of(s, v, to) == MPC_NONE && length < MAX_VIEWS &&
           is_relabeling(mpc_producer(g, v)) && s->format[mpc_operand(g, mpc_producer(g, v), 0)] == s->format[v]) {
        chain[length++] = v;
        v = mpc_operand(g, mpc_producer(g, v), 0);
    }
    mpc_value_id now = s->format[v] == to ? s->rw.map[v] : *cast_of(s, v, to);
    if (now == MPC_NONE) {
        mpc_attr_arg attrs[2] = {MPC_A_FORMAT("to", to), MPC_A_STR("by", "autocast")};
        dress_conversion(s, v, to);
        now = *cast_of(s, v, to) = mpc_build(s->rw.b, MPC_OP_cast, &s->rw.map[v], 1, attrs, 2);
    }
    while (length-- > 0) {
        const mpc_node *view = mpc_producer(g, chain[length]);
        mpc_attr_arg attr; /* shape or perm: relabeling views have one attribute */
        if (view->attr_count == 1) mpc_rewrite_attrs(g, view, &attr);
        dress_conversion(s, chain[length], to);
        now = *cast_of(s, chain[length], to) = mpc_build(s->rw.b, view->op, &now, 1, &attr, view->attr_count);
    }
    return now;
}

static void rebuild_with_prec(inserter *s, mpc_node_id id, mpc_format prec) {
    const mpc_node *n = &s->rw.in->nodes[id];
    mpc_attr_arg attrs[32];
    if (n->attr_count + 1 > sizeof attrs / sizeof *attrs) {
        mpc_builder_fail(s->rw.b, "too many attributes");
        return;
    }
    mpc_rewrite_attrs(s->rw.in, n, attrs);
    attrs[n->attr_count] = MPC_A_FORMAT("prec", prec);
    mpc_rewrite_dress(&s->rw, n);
    mpc_rewrite_map_results(&s->rw, n,
                            mpc_build(s->rw.b, n->op, s->rw.operands, n->operand_count, attrs, n->attr_count + 1));
}

static void insert_at(inserter *s, mpc_node_id id) {
    const mpc_graph *g = s->rw.in;
    const mpc_node *n = &g->nodes[id];
    mpc_decision d = mpc_decision_at(g, id);
    s->reader = id;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(g, n, i);
        mpc_value_id operand = converted(s, v, mpc_format_read(g, &s->fixed, id, i));
        s->rw.operands[i] = operand;
    }
    bool stays_attribute = d.compute == MPC_FMT_tf32 && mpc_node_prec(g, n) != MPC_FMT_tf32;
    if (stays_attribute && mpc_node_has_attr(g, n, "prec")) rebuild_with_prec(s, id, MPC_FMT_tf32);
    else mpc_rewrite_map_results(&s->rw, n, mpc_build_copy(s->rw.b, g, id, s->rw.operands));
}

static void bind_ends(inserter *s) {
    const mpc_graph *g = s->rw.in;
    s->reader = MPC_NONE;
    for (uint32_t i = 0; i < g->next_count; i++) {
        mpc_value_id v = g->nexts[i].value;
        mpc_build_next(s->rw.b, s->rw.map[g->nexts[i].state], converted(s, v, mpc_value_format(g, g->nexts[i].state)));
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        mpc_value_id v = g->outputs[i].value;
        mpc_build_output(s->rw.b, mpc_sym_text(g->ctx, g->outputs[i].name), converted(s, v, mpc_value_format(g, v)));
    }
}

/* Copied nodes came with the types they had; now they get the planned formats. */
static mpc_status set_types(mpc_graph *out, const mpc_graph *in, const mpc_value_id *map, const mpc_format *format) {
    for (uint32_t v = 0; v < in->value_count; v++) {
        mpc_type_id type = mpc_type_with_format(in->ctx, in->values[v].type, format[v]);
        if (type == 0) return MPC_NO_MEMORY;
        out->values[map[v]].type = type;
    }
    return MPC_OK;
}

static mpc_graph *finish(inserter *s, mpc_arena *keep) {
    const mpc_graph *in = s->rw.in;
    size_t count = in->value_count;
    mpc_value_id *map = mpc_arena_alloc(keep, (count + 1) * sizeof *map);
    mpc_format *format = mpc_arena_alloc(keep, (count + 1) * sizeof *format);
    if (map == NULL || format == NULL) mpc_builder_fail(s->rw.b, "out of memory");
    else {
        memcpy(map, s->rw.map, count * sizeof *map);
        memcpy(format, s->format, count * sizeof *format);
    }
    mpc_graph *out = mpc_rewrite_finish(&s->rw);
    if (out == NULL || set_types(out, in, map, format) == MPC_OK) return out;
    mpc_error(mpc_context_sink(in->ctx), "E901", "out of memory");
    mpc_graph_destroy(out);
    return NULL;
}

static mpc_graph *insert_all(inserter *s, mpc_arena *keep) {
    const mpc_graph *in = s->rw.in;
    size_t cells = (size_t)in->value_count * MPC_FMT_count;
    s->fixed = mpc_fixed_formats(in, s->rw.scratch);
    s->format = mpc_rewrite_scratch(&s->rw, in->value_count, sizeof *s->format);
    s->casts = mpc_rewrite_scratch(&s->rw, cells, sizeof *s->casts);
    if (s->fixed.operand == NULL || s->format == NULL || s->casts == NULL) {
        mpc_builder_fail(s->rw.b, "out of memory");
        return mpc_rewrite_finish(&s->rw);
    }
    for (size_t i = 0; i < cells; i++) s->casts[i] = MPC_NONE;
    plan_formats(s);
    for (mpc_node_id id = 0; id < in->node_count && !mpc_builder_failed(s->rw.b); id++) insert_at(s, id);
    if (!mpc_builder_failed(s->rw.b)) bind_ends(s);
    return finish(s, keep);
}

mpc_graph *mpc_pass_insert_casts(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    inserter s = {0};
    mpc_arena *keep = mpc_arena_create();
    (void)options;
    if (keep == NULL) {
        mpc_error(mpc_context_sink(env->ctx), "E901", "out of memory");
        return NULL;
    }
    mpc_graph *out = mpc_rewrite_begin(&s.rw, in) ? insert_all(&s, keep) : NULL;
    mpc_arena_destroy(keep);
    return out;
}
