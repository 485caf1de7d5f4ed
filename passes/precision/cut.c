/* Maximum flow by two search trees that grow from both ends and are repaired instead of rebuilt after each augmentation (Boykov and Kolmogorov, 2004):
 * on graphs like ours, wide and shallow with mostly short paths, it is linear in practice. When it ends, the source's tree is everything that the source
 * can still reach, hence the smallest source side of all minimum cuts, whatever the order of augmentations was. An arc's residual and its reverse's are
 * neighbours in `arcs` (index ^ 1). */
#include "passes/precision/cut.h"

#include "base/alloc.h"
#include "base/array.h"

static const uint32_t NONE = UINT32_MAX, TERMINAL = UINT32_MAX - 1, ORPHAN = UINT32_MAX - 2; /* no arcs */
typedef enum tree { FREE, SOURCE, SINK } tree;

typedef struct arc {
    uint32_t to;
    int64_t left;
} arc;

typedef struct node {
    int64_t terminal;      /* residual from the source (> 0) or to the sink (< 0) */
    uint32_t parent;       /* arc from this node to its parent; TERMINAL, ORPHAN, NONE */
    uint32_t stamp, depth; /* when the distance to the terminal was last known to be right, and it */
    uint8_t tree;
    bool queued;
} node;

struct mpc_cut {
    MPC_ARRAY(node) nodes;
    MPC_ARRAY(arc) arcs;
    uint32_t *begin, *order; /* arcs by tail: order[begin[i] .. begin[i + 1]) */
    uint32_t *queue;         /* ring of active nodes */
    uint32_t head, tail, room;
    MPC_ARRAY(uint32_t) orphans;
    uint32_t now;
    int64_t flow;
    bool failed;
};

mpc_cut *mpc_cut_create(void) {
    mpc_cut *cut = mpc_alloc(sizeof *cut);
    if (cut != NULL) *cut = (mpc_cut){0};
    return cut;
}

void mpc_cut_destroy(mpc_cut *cut) {
    if (cut == NULL) return;
    mpc_array_free(&cut->nodes);
    mpc_array_free(&cut->arcs);
    mpc_array_free(&cut->orphans);
    mpc_free(cut->begin);
    mpc_free(cut->order);
    mpc_free(cut->queue);
    mpc_free(cut);
}

uint32_t mpc_cut_node(mpc_cut *cut) {
    node fresh = {.parent = NONE};
    if (cut->failed || !mpc_array_push(&cut->nodes, fresh)) {
        cut->failed = true;
        return 0;
    }
    return (uint32_t)cut->nodes.count - 1;
}

static int64_t clamp(int64_t x) {
    return x > MPC_CUT_INFINITE ? MPC_CUT_INFINITE : x < -MPC_CUT_INFINITE ? -MPC_CUT_INFINITE : x;
}

/* What both sides cost is paid anyway. */
void mpc_cut_side(mpc_cut *cut, uint32_t i, int64_t on_source, int64_t on_sink) {
    if (cut->failed) return;
    int64_t *terminal = &cut->nodes.data[i].terminal, source = on_sink, sink = on_source;
    if (*terminal > 0) source = clamp(source + *terminal);
    else sink = clamp(sink - *terminal);
    int64_t both = source < sink ? source : sink;
    cut->flow += both;
    *terminal = source - sink;
}

void mpc_cut_edge(mpc_cut *cut, uint32_t a, uint32_t b, int64_t cost) {
    arc forward = {b, clamp(cost)}, back = {a, 0};
    if (cut->failed || a == b || cost <= 0) return;
    if (!mpc_array_push(&cut->arcs, forward) || !mpc_array_push(&cut->arcs, back)) cut->failed = true;
}

/* --- trees --- */

static uint32_t tail_of(const mpc_cut *cut, uint32_t a) { return cut->arcs.data[a ^ 1].to; }

static void activate(mpc_cut *cut, uint32_t i) {
    if (cut->nodes.data[i].queued) return;
    cut->nodes.data[i].queued = true;
    cut->queue[cut->tail] = i;
    cut->tail = cut->tail + 1 == cut->room ? 0 : cut->tail + 1;
}

/* Active nodes that have left their tree meanwhile are passed over. */
static uint32_t next_active(mpc_cut *cut) {
    while (cut->head != cut->tail) {
        uint32_t i = cut->queue[cut->head];
        cut->head = cut->head + 1 == cut->room ? 0 : cut->head + 1;
        cut->nodes.data[i].queued = false;
        if (cut->nodes.data[i].parent != NONE) return i;
    }
    return NONE;
}

static void orphan(mpc_cut *cut, uint32_t i) {
    cut->nodes.data[i].parent = ORPHAN;
    if (!mpc_array_push(&cut->orphans, i)) cut->failed = true;
}

/* Residual of arc `a` in the direction away from the source, for a node of the given tree looking outwards. */
static int64_t outward(const mpc_cut *cut, uint32_t a, uint8_t of) { return cut->arcs.data[of == SOURCE ? a : a ^ 1].left; }

/* Grows a tree at an active node. The arc, from the source's tree to the sink's, where they meet; NONE. */
static uint32_t grow(mpc_cut *cut, uint32_t i) {
    node *nodes = cut->nodes.data, *n = &nodes[i];
    for (uint32_t k = cut->begin[i]; k < cut->begin[i + 1]; k++) {
        uint32_t a = cut->order[k], to = cut->arcs.data[a].to;
        node *m = &nodes[to];
        if (outward(cut, a, n->tree) == 0) continue;
        if (m->tree == FREE) {
            m->tree = n->tree;
            m->parent = a ^ 1;
            m->stamp = n->stamp;
            m->depth = n->depth + 1;
            activate(cut, to);
        } else if (m->tree != n->tree) {
            return n->tree == SOURCE ? a : a ^ 1;
        } else if (m->stamp <= n->stamp && m->depth > n->depth + 1) {
            m->parent = a ^ 1;
            m->stamp = n->stamp;
            m->depth = n->depth + 1;
        }
    }
    return NONE;
}

/* The arc that carries flow between a node and its parent. */
static uint32_t carrier(const node *n) { return n->tree == SOURCE ? n->parent ^ 1 : n->parent; }

static int64_t bottleneck(const mpc_cut *cut, uint32_t i, int64_t most) {
    const node *nodes = cut->nodes.data;
    for (; nodes[i].parent != TERMINAL; i = cut->arcs.data[nodes[i].parent].to) {
        int64_t left = cut->arcs.data[carrier(&nodes[i])].left;
        if (left < most) most = left;
    }
    int64_t terminal = nodes[i].terminal < 0 ? -nodes[i].terminal : nodes[i].terminal;
    return terminal < most ? terminal : most;
}

static void push(mpc_cut *cut, uint32_t i, int64_t flow) {
    node *nodes = cut->nodes.data;
    while (nodes[i].parent != TERMINAL) {
        uint32_t a = carrier(&nodes[i]), next = cut->arcs.data[nodes[i].parent].to;
        cut->arcs.data[a].left -= flow;
        cut->arcs.data[a ^ 1].left += flow;
        if (cut->arcs.data[a].left == 0) orphan(cut, i);
        i = next;
    }
    nodes[i].terminal += nodes[i].tree == SOURCE ? -flow : flow;
    if (nodes[i].terminal == 0) orphan(cut, i);
}

static void augment(mpc_cut *cut, uint32_t middle) {
    uint32_t from = tail_of(cut, middle), to = cut->arcs.data[middle].to;
    int64_t flow = bottleneck(cut, from, cut->arcs.data[middle].left);
    flow = bottleneck(cut, to, flow);
    cut->arcs.data[middle].left -= flow;
    cut->arcs.data[middle ^ 1].left += flow;
    push(cut, from, flow);
    push(cut, to, flow);
    cut->flow += flow;
}

/* --- repair --- */

/* Distance of a node to its terminal, NONE when its chain of parents ends at an orphan. Nodes on the way learn theirs. */
static uint32_t distance(mpc_cut *cut, uint32_t i) {
    node *nodes = cut->nodes.data;
    uint32_t steps = 0, at = i;
    for (;; at = cut->arcs.data[nodes[at].parent].to, steps++) {
        if (nodes[at].stamp == cut->now) break;
        if (nodes[at].parent == ORPHAN || nodes[at].parent == NONE) return NONE;
        if (nodes[at].parent != TERMINAL) continue;
        nodes[at].stamp = cut->now;
        nodes[at].depth = 1;
        break;
    }
    uint32_t all = steps + nodes[at].depth, depth = all;
    for (at = i; nodes[at].stamp != cut->now; at = cut->arcs.data[nodes[at].parent].to) {
        nodes[at].stamp = cut->now;
        nodes[at].depth = depth--;
    }
    return all;
}

/* A new parent in the same tree, the nearest to the terminal; NONE when there is none. */
static uint32_t find_parent(mpc_cut *cut, uint32_t i, uint32_t *depth) {
    const node *nodes = cut->nodes.data;
    uint32_t best = NONE, least = NONE;
    for (uint32_t k = cut->begin[i]; k < cut->begin[i + 1]; k++) {
        uint32_t a = cut->order[k], to = cut->arcs.data[a].to;
        if (nodes[to].tree != nodes[i].tree || nodes[to].parent == NONE) continue;
        if (outward(cut, a ^ 1, nodes[i].tree) == 0) continue;
        uint32_t d = distance(cut, to);
        if (d < least) {
            least = d;
            best = a;
        }
    }
    *depth = least;
    return best;
}

static void release(mpc_cut *cut, uint32_t i) {
    node *nodes = cut->nodes.data;
    for (uint32_t k = cut->begin[i]; k < cut->begin[i + 1]; k++) {
        uint32_t a = cut->order[k], to = cut->arcs.data[a].to;
        if (nodes[to].tree != nodes[i].tree || nodes[to].parent == NONE) continue;
        if (outward(cut, a ^ 1, nodes[i].tree) > 0) activate(cut, to);
        if (nodes[to].parent < ORPHAN && cut->arcs.data[nodes[to].parent].to == i) orphan(cut, to);
    }
    nodes[i].tree = FREE;
    nodes[i].parent = NONE;
}

static void adopt(mpc_cut *cut) {
    for (size_t at = 0; at < cut->orphans.count && !cut->failed; at++) {
        uint32_t i = cut->orphans.data[at], depth;
        uint32_t parent = find_parent(cut, i, &depth);
        if (parent == NONE) {
            release(cut, i);
            continue;
        }
        cut->nodes.data[i].parent = parent;
        cut->nodes.data[i].stamp = cut->now;
        cut->nodes.data[i].depth = depth + 1;
    }
    cut->orphans.count = 0;
}

/* --- all of it --- */

static bool sort_arcs(mpc_cut *cut) {
    uint32_t nodes = (uint32_t)cut->nodes.count, arcs = (uint32_t)cut->arcs.count;
    cut->room = nodes + 1;
    cut->begin = mpc_alloc(((size_t)nodes + 3) * sizeof *cut->begin);
    cut->order = mpc_alloc(((size_t)arcs + 1) * sizeof *cut->order);
    cut->queue = mpc_alloc((size_t)cut->room * sizeof *cut->queue);
    if (cut->begin == NULL || cut->order == NULL || cut->queue == NULL) return false;
    for (uint32_t i = 0; i < nodes + 3; i++) cut->begin[i] = 0;
    for (uint32_t a = 0; a < arcs; a++) cut->begin[tail_of(cut, a) + 2]++;
    for (uint32_t i = 2; i < nodes + 2; i++) cut->begin[i] += cut->begin[i - 1];
    for (uint32_t a = 0; a < arcs; a++) cut->order[cut->begin[tail_of(cut, a) + 1]++] = a;
    return true;
}

bool mpc_cut_solve(mpc_cut *cut, int64_t *value) {
    if (cut->failed || !sort_arcs(cut)) return false;
    node *nodes = cut->nodes.data;
    for (uint32_t i = 0; i < cut->nodes.count; i++) {
        if (nodes[i].terminal == 0) continue;
        nodes[i].tree = nodes[i].terminal > 0 ? SOURCE : SINK;
        nodes[i].parent = TERMINAL;
        nodes[i].depth = 1;
        activate(cut, i);
    }
    uint32_t i = next_active(cut);
    while (i != NONE && !cut->failed) {
        uint32_t middle = grow(cut, i);
        cut->now++;
        if (middle != NONE) {
            augment(cut, middle);
            adopt(cut);
        }
        if (middle == NONE || nodes[i].parent == NONE) i = next_active(cut);
    }
    *value = cut->flow;
    return !cut->failed;
}

bool mpc_cut_on_source(const mpc_cut *cut, uint32_t i) { return cut->nodes.data[i].tree == SOURCE; }
