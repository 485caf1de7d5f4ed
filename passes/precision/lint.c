/* Findings of `mpc lint`: hazards that are left in a graph with decisions, and literals that keep their op in f32. Each
 * rests on a literal, an integer range, an interval that lies wholly outside, a pattern with a known better form, or a
 * profile: what is merely unbounded is never reported. Only forward nodes are looked at: a gradient has no line of its
 * own to change. */
#include "passes/precision/lint.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

/* --- what rules ask --- */

const mpc_node *mpc_lint_origin_of(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    while (n != NULL && n->operand_count == 1 &&
           (n->op == MPC_OP_cast || n->op == MPC_OP_stop_gradient || mpc_op_get(g->ctx, n->op)->kind == MPC_KIND_VIEW))
        n = mpc_producer(g, mpc_operand(g, n, 0));
    return n;
}

static const char *sentence(mpc_lint_run *l, const char *format, va_list args) {
    char text[320];
    vsnprintf(text, sizeof text, format, args);
    const char *copy = mpc_arena_strdup(l->arena, text);
    if (copy == NULL) l->failed = true;
    return copy;
}

const char *mpc_lint_text(mpc_lint_run *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const char *text = sentence(l, format, args);
    va_end(args);
    return text;
}

bool mpc_lint_has(const mpc_lint_run *l, mpc_node_id id) {
    for (size_t i = l->out->count; i-- > 0;)
        if (l->out->data[i].node == id) return true;
    return false;
}

static bool is_same_place(mpc_loc a, mpc_loc b) {
    return a.file != 0 && a.file == b.file && a.line == b.line && a.column == b.column;
}

bool mpc_lint_is_builtins(const mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    mpc_value_id v = mpc_result(n, 0);
    for (uint32_t i = l->uses.begin[v]; i < l->uses.begin[v + 1]; i++) {
        const mpc_node *reader = &l->g->nodes[l->uses.users[i]];
        bool needs = reader->op == MPC_OP_rsqrt || reader->op == MPC_OP_sqrt || reader->op == MPC_OP_log ||
                     (reader->op == MPC_OP_div && mpc_operand(l->g, reader, 1) == v);
        if (needs && reader->origin == 0 && is_same_place(reader->loc, n->loc)) return true;
    }
    return false;
}

/* One statement is one finding, however often a `repeat` has unrolled it. */
static bool is_known(const mpc_lint_run *l, const mpc_finding *f) {
    const mpc_graph *g = l->g;
    for (size_t i = 0; i < l->out->count; i++) {
        const mpc_finding *old = &l->out->data[i];
        bool same = old->node == f->node || is_same_place(g->nodes[old->node].loc, g->nodes[f->node].loc);
        if (same && strcmp(old->code, f->code) == 0) return true;
    }
    return false;
}

void mpc_lint_add(mpc_lint_run *l, mpc_finding finding) {
    if (finding.what == NULL || is_known(l, &finding)) return;
    if (!mpc_array_push(l->out, finding)) l->failed = true;
}

bool mpc_lint_kept(const mpc_lint_run *l, mpc_node_id id, const char *rule) {
    const mpc_node *n = &l->g->nodes[id];
    return n->why != 0 && strstr(mpc_sym_text(l->g->ctx, n->why), rule) != NULL &&
           mpc_lint_stored(l, mpc_result(n, 0)) == MPC_FMT_f32;
}

void mpc_findings_free(mpc_findings *f) { mpc_array_free(f); }

static const mpc_lint_rule rules[] = {mpc_lint_literals, mpc_lint_whole_numbers, mpc_lint_range,    mpc_lint_profile,
                                      mpc_lint_exp,      mpc_lint_vanished,      mpc_lint_log_odds, mpc_lint_angle,
                                      mpc_lint_reach,    mpc_lint_reads,         mpc_lint_forced};

static bool prepare(mpc_lint_run *l) {
    mpc_range_options options = {.low = MPC_FMT_f32};
    size_t values = (size_t)l->g->value_count + 1;
    l->fixed = mpc_fixed_formats(l->g, l->arena);
    l->range = mpc_range_analyze(l->g, &options, l->arena);
    l->reach = l->range != NULL ? mpc_reach_find(l->g, l->range, l->arena) : NULL;
    l->uses = mpc_graph_uses(l->g, l->arena);
    l->told = mpc_arena_alloc(l->arena, values);
    l->passed = mpc_arena_alloc(l->arena, values);
    return l->fixed.operand != NULL && l->reach != NULL && l->uses.begin != NULL && l->told != NULL &&
           l->passed != NULL;
}

mpc_status mpc_lint(const mpc_graph *g, mpc_format low, const mpc_observations *seen, mpc_arena *arena,
                    mpc_findings *out) {
    *out = (mpc_findings){0};
    mpc_lint_run l = {.g = g, .low = low, .seen = seen, .arena = arena, .out = out};
    l.failed = !prepare(&l);
    for (mpc_node_id id = 0; id < g->node_count && !l.failed; id++)
        for (size_t i = 0; g->nodes[id].origin == 0 && i < sizeof rules / sizeof *rules; i++) rules[i](&l, id);
    if (!l.failed) return MPC_OK;
    mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory");
    return MPC_NO_MEMORY;
}
