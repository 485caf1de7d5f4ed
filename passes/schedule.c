/* Order of groups. Two orders are made, the one the graph came in and a greedy one that frees most bytes (or takes
 * fewest) at each step, and the one with the lower peak is kept. All readers of a state's old value come before the
 * group that makes its next value, so that it can be written in place; where that would be a cycle, the wish is dropped
 * and the planner copies. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "ir/strided.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct edge_list { /* targets of group i: to[begin[i] .. begin[i + 1]) */
    uint32_t *begin, *to;
} edge_list;

typedef struct scheduler {
    const mpc_graph *g;
    mpc_arena *scratch;
    uint32_t count;       /* groups are 1..count */
    edge_list hard, soft; /* data; "reads the old state" before "writes the next" */
    mpc_value_id *root;   /* by value, through reshapes */
    edge_list reads;      /* values (roots, stored) that a group reads, each once */
    edge_list makes;      /* values that leave the group */
    uint32_t *readers;    /* by root value: groups that read it; outputs count one more and never die */
    bool no_memory;
} scheduler;

typedef struct pair {
    uint32_t from, to;
} pair;
typedef MPC_ARRAY(pair) pair_list;

static void push(scheduler *s, pair_list *pairs, uint32_t from, uint32_t to) {
    if (!mpc_array_push(pairs, (pair){from, to})) s->no_memory = true;
}

static int compare_pairs(const void *a, const void *b) {
    const pair *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

/* Sorted, each pair once. Frees `pairs`. */
static edge_list make_edges(scheduler *s, pair_list *pairs) {
    edge_list e = {mpc_arena_alloc(s->scratch, (s->count + 2) * sizeof *e.begin),
                   mpc_arena_alloc(s->scratch, (pairs->count + 1) * sizeof *e.to)};
    if (e.begin == NULL || e.to == NULL) {
        s->no_memory = true;
        mpc_array_free(pairs);
        return (edge_list){0};
    }
    if (pairs->count > 0) qsort(pairs->data, pairs->count, sizeof *pairs->data, compare_pairs);
    uint32_t used = 0, at = 0;
    for (uint32_t i = 0; i < pairs->count; i++) {
        if (i > 0 && compare_pairs(&pairs->data[i - 1], &pairs->data[i]) == 0) continue;
        while (at <= pairs->data[i].from) e.begin[at++] = used;
        e.to[used++] = pairs->data[i].to;
    }
    while (at <= s->count + 1) e.begin[at++] = used;
    mpc_array_free(pairs);
    return e;
}

static uint32_t group_of_value(const scheduler *s, mpc_value_id v) {
    mpc_node_id producer = s->g->values[v].producer;
    return producer == MPC_NONE ? 0 : s->g->groups[producer];
}

static bool is_alias(const scheduler *s, const mpc_node *n) {
    return n->op == MPC_OP_reshape && mpc_strided_is_view(s->g, n);
}

static void find_roots(scheduler *s) {
    for (mpc_value_id v = 0; v < s->g->value_count; v++) s->root[v] = v;
    for (mpc_node_id id = 0; id < s->g->node_count; id++) {
        const mpc_node *n = &s->g->nodes[id];
        if (is_alias(s, n)) s->root[mpc_result(n, 0)] = s->root[mpc_operand(s->g, n, 0)];
    }
}

static void collect_data(scheduler *s) {
    pair_list hard = {0}, reads = {0}, makes = {0};
    for (mpc_node_id id = 0; id < s->g->node_count; id++) {
        const mpc_node *n = &s->g->nodes[id];
        uint32_t own = s->g->groups[id];
        for (uint32_t i = 0; i < n->operand_count; i++) {
            mpc_value_id v = mpc_operand(s->g, n, i), root = s->root[v];
            uint32_t from = group_of_value(s, v);
            if (from != 0 && from != own) push(s, &hard, from, own);
            uint32_t maker = group_of_value(s, root);
            if (maker == 0 || maker == own || is_alias(s, n)) continue;
            push(s, &reads, own, root);
            push(s, &makes, maker, root);
        }
    }
    for (uint32_t i = 0; i < s->g->output_count; i++) {
        mpc_value_id root = s->root[s->g->outputs[i].value];
        if (group_of_value(s, root) != 0) push(s, &makes, group_of_value(s, root), root), s->readers[root]++;
    }
    s->hard = make_edges(s, &hard);
    s->reads = make_edges(s, &reads);
    s->makes = make_edges(s, &makes);
    if (s->no_memory) return;
    for (uint32_t i = 0; i < s->reads.begin[s->count + 1]; i++) s->readers[s->reads.to[i]]++;
}

/* Groups that read the storage of a state: its own users and those of views of it. */
static void collect_readers(scheduler *s, const mpc_uses *uses, mpc_value_id v, uint32_t writer, pair_list *soft) {
    for (uint32_t u = uses->begin[v]; u < uses->begin[v + 1]; u++) {
        mpc_node_id user = uses->users[u];
        if (s->g->groups[user] != 0 && s->g->groups[user] != writer) push(s, soft, s->g->groups[user], writer);
        if (mpc_node_op(s->g, user)->kind == MPC_KIND_VIEW)
            collect_readers(s, uses, mpc_result(&s->g->nodes[user], 0), writer, soft);
    }
}

static void collect_states(scheduler *s) {
    pair_list soft = {0};
    mpc_uses uses = mpc_graph_uses(s->g, s->scratch);
    if (uses.begin == NULL) s->no_memory = true;
    for (uint32_t i = 0; i < s->g->next_count && !s->no_memory; i++) {
        uint32_t writer = group_of_value(s, s->g->nexts[i].value);
        if (writer != 0) collect_readers(s, &uses, s->g->nexts[i].state, writer, &soft);
    }
    s->soft = make_edges(s, &soft);
}

/* --- one order --- */

typedef struct run {
    uint32_t *order; /* out, count entries */
    uint32_t *hard_left, *soft_left, *readers_left;
    uint32_t *ready;
    uint32_t ready_count, done;
    bool *taken;
    int64_t live, peak;
} run;

static int64_t bytes_of(const scheduler *s, mpc_value_id v) { return mpc_type_bytes(mpc_value_type(s->g, v)); }

static int64_t made_bytes(const scheduler *s, uint32_t group) {
    int64_t made = 0;
    for (uint32_t i = s->makes.begin[group]; i < s->makes.begin[group + 1]; i++) made += bytes_of(s, s->makes.to[i]);
    return made;
}

static int64_t freed_bytes(const scheduler *s, const run *r, uint32_t group) {
    int64_t freed = 0;
    for (uint32_t i = s->reads.begin[group]; i < s->reads.begin[group + 1]; i++)
        if (r->readers_left[s->reads.to[i]] == 1) freed += bytes_of(s, s->reads.to[i]);
    return freed;
}

static bool begin_run(scheduler *s, run *r) {
    size_t groups = (size_t)s->count + 2, values = (size_t)s->g->value_count + 1;
    *r = (run){.order = mpc_arena_alloc(s->scratch, groups * sizeof(uint32_t)),
               .hard_left = mpc_arena_alloc(s->scratch, groups * sizeof(uint32_t)),
               .soft_left = mpc_arena_alloc(s->scratch, groups * sizeof(uint32_t)),
               .ready = mpc_arena_alloc(s->scratch, groups * sizeof(uint32_t)),
               .readers_left = mpc_arena_alloc(s->scratch, values * sizeof(uint32_t)),
               .taken = mpc_arena_alloc(s->scratch, groups * sizeof(bool))};
    if (!r->order || !r->hard_left || !r->soft_left || !r->ready || !r->readers_left || !r->taken)
        return s->no_memory = true, false;
    memcpy(r->readers_left, s->readers, (values - 1) * sizeof(uint32_t));
    for (uint32_t i = 0; i < s->hard.begin[s->count + 1]; i++) r->hard_left[s->hard.to[i]]++;
    for (uint32_t i = 0; i < s->soft.begin[s->count + 1]; i++) r->soft_left[s->soft.to[i]]++;
    for (uint32_t i = 1; i <= s->count; i++)
        if (r->hard_left[i] == 0 && r->soft_left[i] == 0) r->ready[r->ready_count++] = i;
    return true;
}

static uint32_t pick(const scheduler *s, const run *r, bool greedy) {
    uint32_t best = 0;
    int64_t best_delta = 0;
    for (uint32_t i = 0; i < r->ready_count; i++) {
        uint32_t group = r->ready[i];
        int64_t delta = greedy ? made_bytes(s, group) - freed_bytes(s, r, group) : 0;
        if (best == 0 || delta < best_delta || (delta == best_delta && group < best)) {
            best = group;
            best_delta = delta;
        }
    }
    for (uint32_t i = 1; best == 0; i++) /* stuck: some state can't be written in place */
        if (!r->taken[i] && r->hard_left[i] == 0) best = i;
    return best;
}

static void release(run *r, uint32_t group) {
    if (!r->taken[group] && r->hard_left[group] == 0 && r->soft_left[group] == 0) r->ready[r->ready_count++] = group;
}

static void take(const scheduler *s, run *r, uint32_t group) {
    for (uint32_t i = 0; i < r->ready_count; i++)
        if (r->ready[i] == group) r->ready[i] = r->ready[--r->ready_count];
    r->taken[group] = true;
    r->order[r->done++] = group;
    r->live += made_bytes(s, group);
    if (r->live > r->peak) r->peak = r->live;
    r->live -= freed_bytes(s, r, group);
    for (uint32_t i = s->reads.begin[group]; i < s->reads.begin[group + 1]; i++) r->readers_left[s->reads.to[i]]--;
    for (uint32_t i = s->hard.begin[group]; i < s->hard.begin[group + 1]; i++)
        if (--r->hard_left[s->hard.to[i]] == 0) release(r, s->hard.to[i]);
    for (uint32_t i = s->soft.begin[group]; i < s->soft.begin[group + 1]; i++)
        if (--r->soft_left[s->soft.to[i]] == 0) release(r, s->soft.to[i]);
}

static bool run_order(scheduler *s, run *r, bool greedy) {
    if (!begin_run(s, r)) return false;
    while (r->done < s->count) take(s, r, pick(s, r, greedy));
    return true;
}

/* --- result --- */

static mpc_graph *reorder(scheduler *s, const uint32_t *order) {
    const mpc_graph *in = s->g;
    uint32_t *first = mpc_arena_alloc(s->scratch, (s->count + 2) * sizeof *first);
    uint32_t *nodes = mpc_arena_alloc(s->scratch, (in->node_count + 1) * sizeof *nodes);
    mpc_rewrite rw;
    if (first == NULL || nodes == NULL || !mpc_rewrite_begin(&rw, in)) return NULL;
    for (uint32_t i = 0; i < in->node_count; i++) first[in->groups[i] + 1]++;
    for (uint32_t i = 1; i <= s->count + 1; i++) first[i] += first[i - 1];
    for (uint32_t i = 0; i < in->node_count; i++) nodes[first[in->groups[i]]++] = i; /* now the end of each group */
    uint32_t at = 0;
    for (uint32_t i = 0; i < first[0]; i++, at++) mpc_rewrite_copy_node(&rw, nodes[i]);
    for (uint32_t k = 0; k < s->count; k++)
        for (uint32_t i = first[order[k] - 1]; i < first[order[k]]; i++) mpc_rewrite_copy_node(&rw, nodes[i]);
    mpc_graph *out = mpc_rewrite_finish(&rw);
    if (out == NULL) return NULL;
    out->groups = mpc_arena_alloc(out->arena, (in->node_count + 1) * sizeof *out->groups);
    if (out->groups == NULL) return mpc_graph_destroy(out), NULL;
    for (uint32_t k = 0; k < s->count; k++)
        for (uint32_t i = first[order[k] - 1]; i < first[order[k]]; i++) out->groups[at++] = k + 1;
    return out;
}

static mpc_graph *schedule(scheduler *s) {
    s->root = mpc_arena_alloc(s->scratch, ((size_t)s->g->value_count + 1) * sizeof *s->root);
    s->readers = mpc_arena_alloc(s->scratch, ((size_t)s->g->value_count + 1) * sizeof *s->readers);
    if (s->root == NULL || s->readers == NULL) return NULL;
    for (uint32_t i = 0; i < s->g->node_count; i++)
        if (s->g->groups[i] > s->count) s->count = s->g->groups[i];
    find_roots(s);
    collect_data(s);
    if (s->no_memory) return NULL;
    collect_states(s);
    run given, greedy;
    if (s->no_memory || !run_order(s, &given, false) || !run_order(s, &greedy, true)) return NULL;
    return reorder(s, greedy.peak < given.peak ? greedy.order : given.order);
}

mpc_graph *mpc_pass_schedule(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)options;
    (void)env;
    scheduler s = {.g = in, .scratch = mpc_arena_create()};
    mpc_graph *out = s.scratch != NULL ? schedule(&s) : NULL;
    if (out == NULL) mpc_error(mpc_context_sink(in->ctx), "E901", "out of memory in pass schedule");
    mpc_arena_destroy(s.scratch);
    return out;
}
