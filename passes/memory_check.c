/* An independent look at a memory plan: it knows places, groups and who reads what, nothing of how the plan was made.
 * V60: a value is read but has no storage; V61: two live values overlap; V62: a state is overwritten before its last
 * reader. */
#include <stdlib.h>

#include "passes/pass.h"

typedef struct life {
    mpc_value_id value; /* the owner of the storage */
    uint32_t first, last;
    uint64_t begin, end;
} life;

typedef struct checker {
    const mpc_graph *g;
    mpc_arena *scratch;
    life *lives; /* by value id of the owner; first = UINT32_MAX: not in the arena or never made */
    uint32_t end;
    mpc_status status;
} checker;

static mpc_value_id owner(const mpc_graph *g, mpc_value_id v) {
    while (g->places[v].kind == MPC_PLACE_IN_VALUE) v = g->places[v].value;
    return v;
}

static bool is_state(const mpc_graph *g, mpc_value_id v) {
    const mpc_node *n = mpc_producer(g, v);
    return n != NULL && n->op == MPC_OP_state;
}

static bool has_storage(const mpc_graph *g, mpc_value_id v) {
    return g->places[v].kind == MPC_PLACE_ARENA || is_state(g, v);
}

static bool is_alias(const mpc_graph *g, const mpc_node *n) {
    return n->op == MPC_OP_reshape &&
           mpc_value_format(g, mpc_operand(g, n, 0)) == mpc_value_format(g, mpc_result(n, 0));
}

static uint32_t launch_of(const mpc_graph *g, mpc_value_id v) {
    mpc_node_id producer = g->values[v].producer;
    return producer == MPC_NONE ? 0 : g->groups[producer];
}

static void touch(checker *c, mpc_value_id v, uint32_t launch) {
    life *l = &c->lives[owner(c->g, v)];
    if (launch < l->first) l->first = launch;
    if (launch > l->last) l->last = launch;
}

static void fail(checker *c, const char *code, const char *what, mpc_value_id a, mpc_value_id b) {
    c->status = mpc_error(mpc_context_sink(c->g->ctx), code, "%s: %s, %s", what, mpc_value_name(c->g, a),
                          mpc_value_name(c->g, b));
}

static void read_value(checker *c, mpc_value_id v, uint32_t launch, mpc_node_id reader) {
    mpc_value_id o = owner(c->g, v);
    const mpc_node *n = mpc_producer(c->g, v);
    bool inlined = n != NULL && mpc_op_get(c->g->ctx, n->op)->kind == MPC_KIND_STRUCT && n->op != MPC_OP_state;
    while (n != NULL && is_alias(c->g, n) && !inlined) {
        v = mpc_operand(c->g, n, 0);
        n = mpc_producer(c->g, v);
        inlined = n != NULL && mpc_op_get(c->g->ctx, n->op)->kind == MPC_KIND_STRUCT && n->op != MPC_OP_state;
    }
    if (!has_storage(c->g, o)) {
        if (!inlined && launch_of(c->g, v) != launch)
            fail(c, "V60", "read but without storage", v, reader == MPC_NONE ? v : mpc_result(&c->g->nodes[reader], 0));
        return;
    }
    touch(c, o, launch);
}

static void find_lives(checker *c) {
    const mpc_graph *g = c->g;
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        c->lives[v] = (life){v, UINT32_MAX, 0, g->places[v].offset, g->places[v].offset + g->places[v].bytes};
    }
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        if (g->groups[id] + 1 > c->end) c->end = g->groups[id] + 1;
        bool view = n->result_count == 1 && g->places[mpc_result(n, 0)].kind == MPC_PLACE_IN_VALUE &&
                    mpc_node_op(g, id)->kind == MPC_KIND_VIEW && n->operand_count == 1 &&
                    owner(g, mpc_result(n, 0)) == owner(g, mpc_operand(g, n, 0));
        for (uint32_t r = 0; r < n->result_count; r++)
            if (n->op != MPC_OP_state && !view && has_storage(g, owner(g, mpc_result(n, r))))
                touch(c, mpc_result(n, r), g->groups[id]);
        for (uint32_t i = 0; i < n->operand_count && !view; i++)
            if (!is_alias(g, n)) read_value(c, mpc_operand(g, n, i), g->groups[id], id);
    }
    for (uint32_t i = 0; i < g->input_count; i++) touch(c, g->inputs[i].value, 0), touch(c, g->inputs[i].value, c->end);
    for (uint32_t i = 0; i < g->output_count; i++) read_value(c, g->outputs[i].value, c->end, MPC_NONE);
    for (uint32_t i = 0; i < g->next_count; i++)
        if (owner(g, g->nexts[i].value) != g->nexts[i].state) read_value(c, g->nexts[i].value, c->end, MPC_NONE);
}

static int by_offset(const void *a, const void *b) {
    const life *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static void check_overlaps(checker *c, const life *list, uint32_t count) {
    uint32_t open = 0; /* first entry that may still reach over the current one */
    uint64_t reach = 0;
    for (uint32_t i = 0; i < count && c->status == MPC_OK; i++) {
        if (list[i].begin >= reach) open = i;
        for (uint32_t j = open; j < i; j++)
            if (list[j].end > list[i].begin && list[j].first <= list[i].last && list[i].first <= list[j].last)
                fail(c, "V61", "live values overlap", list[j].value, list[i].value);
        if (list[i].end > reach) reach = list[i].end;
    }
}

/* Launch that overwrites each state, then: nobody reads what was the old value after it. */
static void check_states(checker *c) {
    const mpc_graph *g = c->g;
    uint32_t *written = mpc_arena_alloc(c->scratch, ((size_t)g->value_count + 1) * sizeof *written);
    if (written == NULL) {
        c->status = MPC_NO_MEMORY;
        return;
    }
    for (uint32_t i = 0; i < g->next_count; i++)
        if (owner(g, g->nexts[i].value) == g->nexts[i].state && g->nexts[i].value != g->nexts[i].state)
            written[g->nexts[i].state] = launch_of(g, g->nexts[i].value);
    for (mpc_node_id id = 0; id < g->node_count && c->status == MPC_OK; id++)
        for (uint32_t i = 0; i < g->nodes[id].operand_count; i++) {
            mpc_value_id v = mpc_operand(g, &g->nodes[id], i), o = v;
            while (!is_state(g, o) && mpc_producer(g, o) != NULL &&
                   mpc_op_get(g->ctx, mpc_producer(g, o)->op)->kind == MPC_KIND_VIEW &&
                   mpc_producer(g, o)->operand_count == 1 && g->places[o].kind == MPC_PLACE_IN_VALUE)
                o = mpc_operand(g, mpc_producer(g, o), 0);
            if (is_state(g, o) && written[o] != 0 && g->groups[id] > written[o] &&
                mpc_node_op(g, id)->kind != MPC_KIND_VIEW)
                fail(c, "V62", "state overwritten before its last reader", o, mpc_result(&g->nodes[id], 0));
        }
}

static mpc_status find_lower_bound(checker *c, const life *list, uint32_t count, uint64_t *bound) {
    uint64_t *change = mpc_arena_alloc(c->scratch, ((size_t)c->end + 2) * sizeof *change), live = 0;
    *bound = 0;
    if (change == NULL) return MPC_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        change[list[i].first] += list[i].end - list[i].begin;
        change[list[i].last + 1] -= list[i].end - list[i].begin; /* wraps; the running sum doesn't */
    }
    for (uint32_t t = 0; t <= c->end; t++) {
        live += change[t];
        if (live > *bound) *bound = live;
    }
    return MPC_OK;
}

mpc_status mpc_memory_check(const mpc_graph *g, uint64_t *lower_bound) {
    checker c = {.g = g, .scratch = mpc_arena_create(), .status = MPC_OK};
    if (c.scratch == NULL) return MPC_NO_MEMORY;
    c.lives = mpc_arena_alloc(c.scratch, ((size_t)g->value_count + 1) * sizeof *c.lives);
    uint32_t count = 0;
    if (c.lives == NULL) c.status = MPC_NO_MEMORY;
    if (c.status == MPC_OK) find_lives(&c);
    for (mpc_value_id v = 0; v < g->value_count && c.status == MPC_OK; v++)
        if (g->places[v].kind == MPC_PLACE_ARENA && c.lives[v].first != UINT32_MAX) c.lives[count++] = c.lives[v];
    uint64_t bound = 0;
    if (c.status == MPC_OK) c.status = find_lower_bound(&c, c.lives, count, &bound);
    if (c.status == MPC_OK && count > 0) qsort(c.lives, count, sizeof *c.lives, by_offset);
    if (c.status == MPC_OK) check_overlaps(&c, c.lives, count);
    if (c.status == MPC_OK) check_states(&c);
    if (lower_bound != NULL) *lower_bound = bound;
    mpc_arena_destroy(c.scratch);
    return c.status;
}
