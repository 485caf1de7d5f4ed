/* Places: every value that leaves its group gets a range of one arena, a view shares storage, a state's next is written
 * into the state where that is legal. `mpc_place` says only where; what is a view of what, and that a state needs a
 * copy at the end of the step (its next value then has a place of its own), follows from it. Launches are numbered by
 * group: 1..count, inputs are there at 0, outputs and copies into states are read at count + 1. */
#include <string.h>

#include "ir/space.h"
#include "ir/strided.h"
#include "passes/memory.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { ALIGNMENT = 64 };

typedef struct planner {
    const mpc_graph *g;
    mpc_arena *scratch;
    mpc_uses uses;
    mpc_value_id *root;
    bool *stored;           /* by root: has storage */
    uint32_t *first, *last; /* by root: launches */
    mpc_value_id *in_state; /* by root: the state it is written into, MPC_NONE */
    uint32_t end;
} planner;

static bool begin(planner *p, const mpc_graph *g) {
    size_t values = (size_t)g->value_count + 1;
    *p = (planner){.g = g, .scratch = mpc_arena_create()};
    if (p->scratch == NULL) return false;
    p->uses = mpc_graph_uses(g, p->scratch);
    p->root = mpc_arena_alloc(p->scratch, values * sizeof *p->root);
    p->stored = mpc_arena_alloc(p->scratch, values * sizeof *p->stored);
    p->first = mpc_arena_alloc(p->scratch, values * sizeof *p->first);
    p->last = mpc_arena_alloc(p->scratch, values * sizeof *p->last);
    p->in_state = mpc_arena_alloc(p->scratch, values * sizeof *p->in_state);
    if (!p->uses.begin || !p->root || !p->stored || !p->first || !p->last || !p->in_state) return false;
    for (size_t v = 0; v < values; v++) p->in_state[v] = MPC_NONE;
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (g->groups[id] + 1 > p->end) p->end = g->groups[id] + 1;
    mpc_memory_find_roots(g, &p->uses, p->root);
    return true;
}

static uint32_t launch_of(const planner *p, mpc_value_id v) {
    mpc_node_id producer = p->g->values[v].producer;
    return producer == MPC_NONE ? 0 : p->g->groups[producer];
}

static bool is_op(const planner *p, mpc_value_id v, mpc_op_id op) {
    const mpc_node *n = mpc_producer(p->g, v);
    return n != NULL && n->op == op;
}

/* Constants and ranges are made inside the loops that read them. */
static bool is_inlined(const planner *p, mpc_value_id v) {
    return is_op(p, v, MPC_OP_const) || is_op(p, v, MPC_OP_range);
}

static bool is_view_node(const planner *p, const mpc_node *n) {
    return mpc_strided_may_share(p->g, n) && p->root[mpc_result(n, 0)] == p->root[mpc_operand(p->g, n, 0)];
}

static void read_at(planner *p, mpc_value_id root, uint32_t launch) {
    p->stored[root] = true;
    if (launch > p->last[root]) p->last[root] = launch;
}

static void find_lives(planner *p) {
    for (mpc_node_id id = 0; id < p->g->node_count; id++) {
        const mpc_node *n = &p->g->nodes[id];
        uint32_t launch = p->g->groups[id];
        bool loop = mpc_space_takes(p->g, id);
        for (uint32_t r = 0; r < n->result_count; r++) {
            mpc_value_id v = mpc_result(n, r), root = p->root[v];
            if (root > v && (p->first[root] == 0 || launch < p->first[root]))
                p->first[root] = launch; /* written by its maker */
            if (root == v && p->first[root] == 0) p->first[root] = launch;
            if (!loop && !is_inlined(p, v) && n->op != MPC_OP_state && root >= v) read_at(p, root, launch);
        }
        if (is_view_node(p, n)) continue;
        for (uint32_t i = 0; i < n->operand_count; i++) {
            mpc_value_id root = p->root[mpc_operand(p->g, n, i)];
            if (is_inlined(p, root) ? !loop : launch_of(p, root) != launch || !loop) read_at(p, root, launch);
        }
    }
    for (uint32_t i = 0; i < p->g->output_count; i++) read_at(p, p->root[p->g->outputs[i].value], p->end);
    for (uint32_t i = 0; i < p->g->input_count; i++) read_at(p, p->g->inputs[i].value, p->end);
}

/* --- states --- */

static int64_t elements(const planner *p, mpc_value_id v) { return mpc_type_elements(mpc_value_type(p->g, v)); }

/* Reads element i only to make element i: the loop loads before it stores. */
static bool reads_in_step(const planner *p, mpc_node_id user, mpc_value_id state) {
    const mpc_node *n = &p->g->nodes[user];
    return mpc_node_op(p->g, user)->kind == MPC_KIND_EWISE && elements(p, mpc_result(n, 0)) == elements(p, state);
}

static bool read_before(const planner *p, mpc_value_id v, mpc_value_id state, uint32_t writer, bool in_step) {
    for (uint32_t u = p->uses.begin[v]; u < p->uses.begin[v + 1]; u++) {
        mpc_node_id user = p->uses.users[u];
        const mpc_node *n = &p->g->nodes[user];
        bool view = is_view_node(p, n);
        if (view && !read_before(p, mpc_result(n, 0), state, writer, in_step)) return false;
        if (view || p->g->groups[user] < writer) continue;
        if (p->g->groups[user] > writer || !in_step || !reads_in_step(p, user, state)) return false;
    }
    return true;
}

/* The state's old value is another state's next: read after the step. (Of an old value that is an output code
 * generation keeps a copy.) */
static bool outlives(const planner *p, mpc_value_id state) {
    for (uint32_t i = 0; i < p->g->next_count; i++)
        if (p->root[p->g->nexts[i].value] == state) return true;
    return false;
}

static bool can_write_in_place(const planner *p, mpc_value_id state, mpc_value_id root) {
    uint32_t writer = launch_of(p, root);
    if (writer == 0 || p->in_state[root] != MPC_NONE || outlives(p, state)) return false;
    if (p->first[root] < writer) writer = p->first[root];
    bool in_step = mpc_node_op(p->g, p->g->values[root].producer)->kind == MPC_KIND_EWISE;
    return read_before(p, state, state, writer, in_step);
}

static void place_states(planner *p) {
    for (uint32_t i = 0; i < p->g->next_count; i++) {
        mpc_value_id state = p->g->nexts[i].state, root = p->root[p->g->nexts[i].value];
        if (root == state) continue;
        if (can_write_in_place(p, state, root)) {
            p->stored[root] = true;
            p->in_state[root] = state;
        } else {
            read_at(p, root, p->end);
        }
    }
}

/* --- arena --- */

static bool in_arena(const planner *p, mpc_value_id v) {
    return p->root[v] == v && p->stored[v] && p->in_state[v] == MPC_NONE && !is_op(p, v, MPC_OP_state);
}

static bool pack(planner *p, mpc_graph *out) {
    uint32_t count = 0;
    for (mpc_value_id v = 0; v < p->g->value_count; v++) count += in_arena(p, v);
    mpc_memory_item *items = mpc_arena_alloc(p->scratch, (count + 1) * sizeof *items);
    if (items == NULL) return false;
    count = 0;
    for (mpc_value_id v = 0; v < p->g->value_count; v++) {
        if (!in_arena(p, v)) continue;
        uint64_t bytes = (uint64_t)mpc_type_bytes(mpc_value_type(p->g, v));
        uint32_t last = p->last[v] > p->first[v] ? p->last[v] : p->first[v];
        items[count++] = (mpc_memory_item){v, p->first[v], last, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, 0};
    }
    out->arena_bytes = mpc_memory_pack(items, count);
    for (uint32_t i = 0; i < count; i++)
        out->places[items[i].id] = (mpc_place){MPC_PLACE_ARENA, items[i].offset,
                                               (uint64_t)mpc_type_bytes(mpc_value_type(p->g, items[i].id)), MPC_NONE};
    return out->arena_bytes != UINT64_MAX;
}

/* A view whose storage nobody reads outside its own loop has no place either. */
static bool set_places(planner *p, mpc_graph *out) {
    out->places = mpc_arena_alloc(out->arena, ((size_t)p->g->value_count + 1) * sizeof *out->places);
    if (out->places == NULL || !pack(p, out)) return false;
    for (mpc_value_id v = 0; v < p->g->value_count; v++) {
        mpc_value_id root = p->root[v];
        bool real = p->stored[root] || is_op(p, root, MPC_OP_state);
        if (root == v && p->in_state[v] != MPC_NONE)
            out->places[v] = (mpc_place){MPC_PLACE_IN_VALUE, 0, 0, p->in_state[v]};
        if (root != v && real) out->places[v] = (mpc_place){MPC_PLACE_IN_VALUE, 0, 0, root};
    }
    return true;
}

static mpc_graph *copy_graph(const mpc_graph *in) {
    mpc_rewrite rw;
    if (!mpc_rewrite_begin(&rw, in)) return NULL;
    for (mpc_node_id id = 0; id < in->node_count; id++) mpc_rewrite_copy_node(&rw, id);
    mpc_graph *out = mpc_rewrite_finish(&rw);
    if (out == NULL) return NULL;
    out->groups = mpc_arena_alloc(out->arena, ((size_t)in->node_count + 1) * sizeof *out->groups);
    if (out->groups == NULL) return mpc_graph_destroy(out), NULL;
    memcpy(out->groups, in->groups, in->node_count * sizeof *out->groups);
    return out;
}

mpc_graph *mpc_pass_memory(const mpc_graph *in, const mpc_pass_options *options, mpc_pass_env *env) {
    (void)options;
    (void)env;
    mpc_graph *out = copy_graph(in);
    planner p = {0};
    bool ok = out != NULL && begin(&p, out);
    if (ok) {
        find_lives(&p);
        place_states(&p);
        ok = set_places(&p, out);
    }
    mpc_arena_destroy(p.scratch);
    if (ok) return out;
    mpc_graph_destroy(out);
    mpc_error(mpc_context_sink(in->ctx), "E901", "out of memory in pass memory");
    return NULL;
}
