/* Fusion: which nodes become one kernel. Nodes are taken in order; each tries to join the groups that make its operands
 * (a reduction also groups that read the same tensor), then scalar groups are joined with each other. A union is
 * allowed when the nodes have a common iteration space (ir/space.h) and there is a position for it between everything
 * it reads and everything that reads it: positions are a topological order of groups at all times, so no search for
 * cycles is needed. Formats are never looked at. */
#include <string.h>

#include "ir/space.h"
#include "passes/fuse_split.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { MOST_NODES = 80, SHARED_READERS = 8, SCALAR_LOOKBACK = 8, FAR = 16 };

typedef struct group {
    mpc_node_id *nodes; /* ascending; NULL: merged away */
    uint32_t count;
    uint32_t position;       /* unique, topological */
    int64_t size;            /* elements of its largest space */
    bool takes;              /* other nodes may join */
    const mpc_type *uniform; /* all members are elementwise on this shape and scalars; NULL: they aren't */
} group;

typedef struct fuser {
    const mpc_graph *g;
    mpc_arena *scratch;
    mpc_uses uses;
    group *groups;      /* by first node's id at creation: at most one per node */
    mpc_node_id *ids;   /* by node: itself, the list of a group of one */
    bool *loops;        /* by node: mpc_space_takes it */
    uint32_t *group_of; /* by node; MPC_NONE: constants, ranges, states */
    uint32_t *after;    /* by node: nodes that no loop can take on the longest way to it */
    uint32_t *needed;   /* by node: the least `after` of what has to be stored of it, or of what loops make of it */
    bool failed;
} fuser;

static bool is_free(const mpc_graph *g, mpc_node_id node) { return mpc_node_op(g, node)->kind == MPC_KIND_STRUCT; }

static uint32_t group_of_value(const fuser *f, mpc_value_id value) {
    mpc_node_id producer = f->g->values[value].producer;
    return producer == MPC_NONE ? MPC_NONE : f->group_of[producer];
}

/* --- position --- */

typedef struct window {
    uint32_t lo, hi; /* positions of the last group it reads, of the first that reads it */
    bool has_lo;
} window;

static void narrow_window(const fuser *f, const group *of, uint32_t a, uint32_t b, window *w) {
    for (uint32_t i = 0; i < of->count; i++) {
        const mpc_node *n = &f->g->nodes[of->nodes[i]];
        for (uint32_t j = 0; j < n->operand_count; j++) {
            uint32_t from = group_of_value(f, mpc_operand(f->g, n, j));
            if (from == MPC_NONE || from == a || from == b) continue;
            if (!w->has_lo || f->groups[from].position > w->lo) w->lo = f->groups[from].position;
            w->has_lo = true;
        }
        for (uint32_t r = 0; r < n->result_count; r++)
            for (uint32_t u = f->uses.begin[mpc_result(n, r)]; u < f->uses.begin[mpc_result(n, r) + 1]; u++) {
                uint32_t to = f->group_of[f->uses.users[u]];
                if (to == MPC_NONE || to == a || to == b) continue;
                if (f->groups[to].position < w->hi) w->hi = f->groups[to].position;
            }
    }
}

/* A position of one of the two that fits the union. */
static bool find_position(const fuser *f, uint32_t a, uint32_t b, uint32_t *position) {
    window w = {.lo = 0, .hi = UINT32_MAX};
    narrow_window(f, &f->groups[a], a, b, &w);
    narrow_window(f, &f->groups[b], a, b, &w);
    uint32_t pa = f->groups[a].position, pb = f->groups[b].position;
    uint32_t late = pa > pb ? pa : pb, early = pa > pb ? pb : pa;
    if ((!w.has_lo || late > w.lo) && late < w.hi) return *position = late, true;
    if ((!w.has_lo || early > w.lo) && early < w.hi) return *position = early, true;
    return false;
}

/* --- union --- */

static uint32_t merge_nodes(const group *a, const group *b, mpc_node_id *nodes) {
    uint32_t i = 0, j = 0, k = 0;
    while (i < a->count && j < b->count) nodes[k++] = a->nodes[i] < b->nodes[j] ? a->nodes[i++] : b->nodes[j++];
    while (i < a->count) nodes[k++] = a->nodes[i++];
    while (j < b->count) nodes[k++] = b->nodes[j++];
    return k;
}

static bool has_shape_of(const mpc_type *a, const mpc_type *b) {
    return a->rank == b->rank && memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0;
}

/* The shape of an elementwise node whose operands have it too, or are scalars. */
static const mpc_type *uniform_shape(const mpc_graph *g, mpc_node_id node) {
    const mpc_node *n = &g->nodes[node];
    const mpc_type *shape = mpc_value_type(g, mpc_result(n, 0));
    if (mpc_node_op(g, node)->kind != MPC_KIND_EWISE || mpc_type_elements(shape) < 1) return NULL;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_type *operand = mpc_value_type(g, mpc_operand(g, n, i));
        if (!has_shape_of(operand, shape) && mpc_type_elements(operand) != 1) return NULL;
    }
    return shape;
}

static const mpc_type *uniform_union(const group *a, const group *b) {
    bool both = a->uniform != NULL && b->uniform != NULL && has_shape_of(a->uniform, b->uniform);
    return both ? a->uniform : NULL;
}

/* Do the nodes have a space? Most groups are uniform, and one shape always is one. */
static bool has_space(const fuser *f, const group *a, const group *b) {
    if (uniform_union(a, b) != NULL) return true;
    mpc_node_id nodes[MOST_NODES];
    mpc_space space;
    uint32_t count = merge_nodes(a, b, nodes);
    return mpc_space_build(f->g, nodes, count, &space);
}

/* Cheap refusals before the space is built. */
static bool may_fit(const group *a, const group *b) {
    if (!a->takes || !b->takes || a->count + b->count > MOST_NODES) return false;
    int64_t large = a->size > b->size ? a->size : b->size, small = a->size > b->size ? b->size : a->size;
    if (small == 0 || large % small != 0) return false;
    /* Every unit of the larger one would make the scalars again. */
    if (small == 1 && large > 1 && a->uniform != NULL && b->uniform != NULL) return false;
    return small > 1 || large <= MPC_SPACE_SINGLE;
}

static bool try_union(fuser *f, uint32_t a, uint32_t b) {
    group *ga = &f->groups[a], *gb = &f->groups[b];
    uint32_t position;
    if (a == b || !may_fit(ga, gb)) return false;
    if (!has_space(f, ga, gb) || !find_position(f, a, b, &position)) return false;
    mpc_node_id *merged = mpc_arena_alloc(f->scratch, (ga->count + gb->count) * sizeof *merged);
    if (merged == NULL) return f->failed = true, false;
    for (uint32_t i = 0; i < gb->count; i++) f->group_of[gb->nodes[i]] = a;
    int64_t size = ga->size > gb->size ? ga->size : gb->size;
    *ga = (group){merged, merge_nodes(ga, gb, merged), position, size, true, uniform_union(ga, gb)};
    *gb = (group){.nodes = NULL};
    return true;
}

/* --- candidates --- */

/* Is the value stored anyway: has it a reader in a third group, or one that no loop can take? */
static bool leaves(const fuser *f, mpc_value_id v, uint32_t own, uint32_t target) {
    for (uint32_t u = f->uses.begin[v]; u < f->uses.begin[v + 1]; u++) {
        mpc_node_id user = f->uses.users[u];
        uint32_t to = f->group_of[user];
        if (to == MPC_NONE ? !f->loops[user] : to != target && to != own) return true;
    }
    return false;
}

/* Is the first reader of what `node` makes nearer than `before`, and that far away? */
static bool is_nearer_later(const fuser *f, mpc_node_id node, mpc_node_id before) {
    mpc_value_id result = mpc_result(&f->g->nodes[node], 0);
    if (node - before <= FAR || f->uses.begin[result] == f->uses.begin[result + 1]) return false;
    return f->uses.users[f->uses.begin[result]] - node < node - before;
}

/* A value made from what is stored anyway, read only much later (a mask for the backward pass, a norm's output
 * recomputed there), belongs to its reader: joined here it would have to be stored. */
static bool belongs_later(const fuser *f, mpc_node_id node, uint32_t target) {
    const mpc_node *n = &f->g->nodes[node];
    mpc_value_id result = mpc_result(n, 0);
    mpc_node_id nearest = 0;
    int64_t kept = 0;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(f->g, n, i);
        if (group_of_value(f, v) != target) continue;
        if (f->g->values[v].producer > nearest) nearest = f->g->values[v].producer;
        if (!leaves(f, v, f->group_of[node], target)) kept += mpc_type_elements(mpc_value_type(f->g, v));
    }
    return is_nearer_later(f, node, nearest) && kept < mpc_type_elements(mpc_value_type(f->g, result));
}

/* What is made of unscaled gradients, which are stored for their norm, is wanted only once the norm has said that the
 * step counts: joined with the unscaling, new weights and moments would have to be stored beside the old ones. */
static bool waits_for_norm(const fuser *f, mpc_node_id node, mpc_value_id operand) {
    const mpc_node *n = mpc_producer(f->g, operand);
    return n != NULL && n->op == MPC_OP_unscale && f->needed[node] > f->after[node];
}

static bool is_reduction(const mpc_graph *g, mpc_node_id node) { return mpc_node_op(g, node)->kind == MPC_KIND_REDUCE; }

/* The stored value behind casts and reshapes that were made for one reader (fuse_split.c). */
static mpc_value_id source_of(const fuser *f, mpc_value_id v) {
    const mpc_node *n = mpc_producer(f->g, v);
    while (n != NULL && (n->op == MPC_OP_cast || n->op == MPC_OP_reshape) &&
           f->uses.begin[v + 1] - f->uses.begin[v] == 1) {
        v = mpc_operand(f->g, n, 0);
        n = mpc_producer(f->g, v);
    }
    return v;
}

static bool has_reduction(const fuser *f, uint32_t id) {
    for (uint32_t i = 0; i < f->groups[id].count; i++)
        if (is_reduction(f->g, f->groups[id].nodes[i])) return true;
    return false;
}

/* A reduction and whoever else reads the same tensor at about the same time. */
static void join_readers(fuser *f, mpc_node_id node, mpc_value_id operand) {
    if (mpc_type_elements(mpc_value_type(f->g, operand)) != mpc_space_size(f->g, node)) return;
    mpc_value_id value = source_of(f, operand);
    uint32_t seen = 0;
    for (uint32_t u = f->uses.begin[value]; u < f->uses.begin[value + 1] && seen < SHARED_READERS; u++, seen++) {
        mpc_node_id reader = f->uses.users[u];
        if (reader >= node || f->group_of[reader] == MPC_NONE || is_nearer_later(f, node, reader)) continue;
        if (is_reduction(f->g, node) || has_reduction(f, f->group_of[reader]))
            try_union(f, f->group_of[node], f->group_of[reader]);
    }
}

/* Made for one reader: joins with it, not with others that read the same. */
static bool is_own_copy(const fuser *f, mpc_node_id node) {
    return source_of(f, mpc_result(&f->g->nodes[node], 0)) != mpc_result(&f->g->nodes[node], 0);
}

static void place_node(fuser *f, mpc_node_id node, bool fuse) {
    const mpc_node *n = &f->g->nodes[node];
    if (is_free(f->g, node)) return;
    group *own = &f->groups[node];
    f->ids[node] = node;
    mpc_space space;
    const mpc_type *uniform = f->loops[node] ? uniform_shape(f->g, node) : NULL;
    bool takes = uniform != NULL || (f->loops[node] && mpc_space_build(f->g, &f->ids[node], 1, &space));
    *own = (group){&f->ids[node], 1, node, mpc_space_size(f->g, node), fuse && takes, uniform};
    f->group_of[node] = node;
    if (!own->takes) return;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id v = mpc_operand(f->g, n, i);
        uint32_t from = group_of_value(f, v);
        if (from != MPC_NONE && !belongs_later(f, node, from) && !waits_for_norm(f, node, v))
            try_union(f, f->group_of[node], from);
    }
    for (uint32_t i = 0; i < n->operand_count && !is_own_copy(f, node); i++)
        join_readers(f, node, mpc_operand(f->g, n, i));
}

/* Control scalars are many tiny nodes; few kernels of one unit should make them all. */
static bool join_scalars(fuser *f) {
    uint32_t count = f->g->node_count, recent[SCALAR_LOOKBACK], kept = 0;
    uint32_t *at = mpc_arena_alloc(f->scratch, (count + 1) * sizeof *at);
    if (at == NULL) return false;
    for (uint32_t i = 0; i < count; i++) at[i] = MPC_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (f->groups[i].nodes != NULL) at[f->groups[i].position] = i;
    for (uint32_t p = 0; p < count; p++) {
        uint32_t id = at[p];
        if (id == MPC_NONE || f->groups[id].nodes == NULL || !f->groups[id].takes || f->groups[id].size != 1) continue;
        bool joined = false;
        for (uint32_t i = kept; i-- > 0 && !joined;) joined = try_union(f, recent[i], id);
        if (joined) continue;
        if (kept == SCALAR_LOOKBACK) memmove(recent, recent + 1, --kept * sizeof *recent);
        recent[kept++] = id;
    }
    return !f->failed;
}

/* --- result --- */

static mpc_graph *copy_graph(const mpc_graph *in) {
    mpc_rewrite rw;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    for (mpc_node_id id = 0; id < in->node_count; id++) mpc_rewrite_copy_node(&rw, id);
    return mpc_rewrite_finish(&rw);
}

/* Numbers the groups by position. */
static bool write_groups(mpc_graph *g, const fuser *f) {
    uint32_t *number = mpc_arena_alloc(f->scratch, (g->node_count + 1) * sizeof *number), next = 0;
    g->groups = mpc_arena_alloc(g->arena, (g->node_count + 1) * sizeof *g->groups);
    if (g->groups == NULL || number == NULL) return false;
    for (uint32_t i = 0; i < g->node_count; i++)
        if (f->groups[i].nodes != NULL) number[f->groups[i].position] = 1;
    for (uint32_t p = 0; p < g->node_count; p++)
        if (number[p]) number[p] = ++next;
    for (uint32_t i = 0; i < g->node_count; i++)
        g->groups[i] = f->group_of[i] == MPC_NONE ? 0 : number[f->groups[f->group_of[i]].position];
    return true;
}

static void count_after(fuser *f) {
    for (mpc_node_id id = 0; id < f->g->node_count; id++) {
        const mpc_node *n = &f->g->nodes[id];
        f->after[id] = 0;
        for (uint32_t i = 0; i < n->operand_count; i++) {
            mpc_node_id from = f->g->values[mpc_operand(f->g, n, i)].producer;
            if (from == MPC_NONE || is_free(f->g, from)) continue;
            uint32_t there = f->after[from] + !f->loops[from];
            if (there > f->after[id]) f->after[id] = there;
        }
    }
}

static void find_needed(fuser *f) {
    for (mpc_node_id id = f->g->node_count; id-- > 0;) {
        const mpc_node *n = &f->g->nodes[id];
        uint32_t least = UINT32_MAX;
        for (uint32_t r = 0; r < n->result_count; r++)
            for (uint32_t u = f->uses.begin[mpc_result(n, r)]; u < f->uses.begin[mpc_result(n, r) + 1]; u++) {
                mpc_node_id user = f->uses.users[u];
                uint32_t there = f->loops[user] ? f->needed[user] : f->after[user];
                if (there < least) least = there;
            }
        f->needed[id] = least == UINT32_MAX ? f->after[id] : least;
    }
}

static bool begin(fuser *f, const mpc_graph *in) {
    size_t count = (size_t)in->node_count + 1;
    *f = (fuser){.g = in, .scratch = mpc_arena_create()};
    if (f->scratch == NULL) return false;
    f->uses = mpc_graph_uses(in, f->scratch);
    f->groups = mpc_arena_alloc(f->scratch, count * sizeof *f->groups);
    f->ids = mpc_arena_alloc(f->scratch, count * sizeof *f->ids);
    f->loops = mpc_arena_alloc(f->scratch, count * sizeof *f->loops);
    f->group_of = mpc_arena_alloc(f->scratch, count * sizeof *f->group_of);
    f->after = mpc_arena_alloc(f->scratch, count * sizeof *f->after);
    f->needed = mpc_arena_alloc(f->scratch, count * sizeof *f->needed);
    if (!f->uses.begin || !f->groups || !f->ids || !f->loops || !f->group_of || !f->after || !f->needed) return false;
    for (size_t i = 0; i < count; i++) f->group_of[i] = MPC_NONE;
    for (mpc_node_id id = 0; id < in->node_count; id++) f->loops[id] = mpc_space_takes(in, id);
    count_after(f);
    find_needed(f);
    return true;
}

/* `g` with groups; NULL, and `g` released, when out of memory. */
static mpc_graph *group_nodes(mpc_graph *g, bool fuse) {
    fuser f;
    bool done = begin(&f, g);
    for (mpc_node_id id = 0; done && id < g->node_count && !f.failed; id++) place_node(&f, id, fuse);
    done = done && !f.failed && (!fuse || join_scalars(&f)) && write_groups(g, &f);
    mpc_arena_destroy(f.scratch);
    if (done) return g;
    mpc_error(mpc_context_sink(g->ctx), "E901", "out of memory in pass fuse");
    mpc_graph_destroy(g);
    return NULL;
}

mpc_graph *mpc_pass_fuse(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)env;
    bool fuse = options == NULL || strcmp(mpc_option_str(options, "mode"), "off") != 0;
    mpc_graph *own = fuse ? mpc_fuse_split(in) : copy_graph(in);
    return own == NULL ? NULL : group_nodes(own, fuse);
}
