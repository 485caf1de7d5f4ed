/* Looks at every value that leaves a kernel (on `ref`, at every value) while a step runs. A buffer is looked at when
 * the last launch has written it: until then parts of it hold what the arena held before. Launches may write over what
 * they read, so such buffers are copied first; then a finding can be explained from the same operands. */
#include "driver/nonfinite_check.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/map.h"
#include "runtime/exec.h"
#include "runtime/watch.h"

#define MOST_WORK 2e9 /* multiply-adds that the reference evaluator may take to look inside a kernel: seconds */

typedef struct saved_buffer {
    uint32_t buffer;
    void *data;
} saved_buffer;

struct mpc_nonfinite_check {
    mpc_step *step;
    mpc_nonfinite_found *found;
    mpc_arena *arena;              /* everything that lives as long as the check */
    uint32_t *value_of;            /* by buffer; MPC_NONE */
    uint32_t *buffer_of;           /* by value */
    uint32_t *last_writer;         /* by buffer: launch */
    bool *scaled;                  /* by value: the loss scale has a part in it */
    bool *chosen;                  /* by value: only `where` reads it, and may leave it out */
    uint8_t *written;              /* by value: signs of infinities that the model wrote itself, in this step */
    mpc_value_id scale;            /* the state; MPC_NONE: no scale that adapts */
    MPC_ARRAY(saved_buffer) saved; /* before the launch that runs */
    const mpc_nonfinite_reader *reader;
    bool no_memory;
};

/* ---- what is let through ---- */

/* Sign of an infinite number that stands in the model. */
static unsigned sign_of_number(const mpc_graph *g, const mpc_node *n) {
    if (!n || (n->op != MPC_OP_const && n->op != MPC_OP_pad)) return 0;
    double number = mpc_attr_float(g, n, "value");
    if (!isinf((float)number)) return 0;
    return number > 0 ? MPC_SIGN_PLUS : MPC_SIGN_MINUS;
}

/* Infinities that may come of a node: those it reads and those it is told. */
static unsigned may_hold(const mpc_nonfinite_check *c, const mpc_graph *g, mpc_node_id id) {
    const mpc_node *n = &g->nodes[id];
    unsigned signs = sign_of_number(g, n);
    for (uint32_t i = 0; i < n->operand_count; i++) {
        mpc_value_id operand = mpc_operand(g, n, i);
        signs |= c->written[mpc_storage_owner(g, operand)] | c->written[operand];
        signs |= sign_of_number(g, mpc_producer(g, operand));
    }
    bool turns = n->op == MPC_OP_neg || n->op == MPC_OP_sub || n->op == MPC_OP_mul || n->op == MPC_OP_div;
    return turns && signs ? MPC_SIGN_PLUS | MPC_SIGN_MINUS : signs;
}

/* A division by zero that `where` replaces, as in the gradient of sqrt, is no fault: what `where` gives counts. */
static bool find_chosen(mpc_nonfinite_check *c) {
    const mpc_graph *g = c->step->graph;
    mpc_uses uses = mpc_graph_uses(g, c->arena);
    if (!uses.begin) return false;
    for (mpc_value_id v = 0; v < g->value_count; v++) {
        c->chosen[v] = uses.begin[v] < uses.begin[v + 1];
        for (uint32_t u = uses.begin[v]; u < uses.begin[v + 1]; u++)
            c->chosen[v] = c->chosen[v] && g->nodes[uses.users[u]].op == MPC_OP_where;
    }
    for (uint32_t i = 0; i < g->output_count; i++) c->chosen[g->outputs[i].value] = false;
    for (uint32_t i = 0; i < g->next_count; i++) c->chosen[g->nexts[i].value] = false;
    return true;
}

/* From a `where` to the op that made what it chose, as far as values are known. */
static void follow_choice(const mpc_nonfinite_check *c, mpc_nonfinite_place *at) {
    bool moved = true;
    while (moved && at->g->nodes[at->node].op == MPC_OP_where) {
        const mpc_node *n = &at->g->nodes[at->node];
        moved = false;
        for (uint32_t i = 1; i < n->operand_count && !moved; i++) {
            mpc_value_id operand = mpc_operand(at->g, n, i);
            const mpc_node *maker = mpc_producer(at->g, operand);
            const mpc_tensor *t = &at->values[operand];
            moved = maker && maker->op != MPC_OP_const && c->chosen[operand] && t->data && mpc_nonfinite_signs(t);
            if (moved) at->node = at->g->values[operand].producer, at->result = at->g->values[operand].index;
        }
    }
}

/* At its floor the scale answers nothing more: the next overflow ends the run. */
static bool can_fall(const mpc_nonfinite_check *c, double scale) {
    const mpc_scale_config *config = &c->step->session->train->loss_scale;
    return scale * config->backoff >= config->min;
}

static mpc_value_id find_scale(const mpc_graph *g) {
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (g->nodes[id].op == MPC_OP_state && strcmp(mpc_attr_str(g, &g->nodes[id], "name"), "scaler.scale") == 0)
            return mpc_result(&g->nodes[id], 0);
    return MPC_NONE;
}

static void find_scaled(mpc_nonfinite_check *c) {
    const mpc_graph *g = c->step->graph;
    c->scale = find_scale(g);
    if (c->scale == MPC_NONE) return;
    c->scaled[c->scale] = true;
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        bool scaled = false;
        for (uint32_t i = 0; i < n->operand_count; i++) scaled = scaled || c->scaled[mpc_operand(g, n, i)];
        for (uint32_t i = 0; scaled && i < n->result_count; i++) c->scaled[mpc_result(n, i)] = true;
    }
}

/* ---- programs: before a launch ---- */

static void drop_saved(mpc_nonfinite_check *c) {
    for (size_t i = 0; i < c->saved.count; i++) mpc_free(c->saved.data[i].data);
    c->saved.count = 0;
}

static bool meets(const mpc_buffer *a, const mpc_buffer *b) {
    return !a->is_state && !b->is_state && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool is_overwritten(const mpc_program *p, const mpc_launch *l, uint32_t buffer) {
    for (uint32_t i = 0; i < l->result_count; i++)
        if (l->results[i] == buffer || meets(&p->buffers[l->results[i]], &p->buffers[buffer])) return true;
    return false;
}

static bool is_saved(const mpc_nonfinite_check *c, uint32_t buffer) {
    for (size_t i = 0; i < c->saved.count; i++)
        if (c->saved.data[i].buffer == buffer) return true;
    return false;
}

static void save(mpc_nonfinite_check *c, const mpc_nonfinite_reader *r, const mpc_launch *l, uint32_t buffer) {
    const mpc_buffer *b = &r->program->buffers[buffer];
    if (c->value_of[buffer] == MPC_NONE || !is_overwritten(r->program, l, buffer) || is_saved(c, buffer)) return;
    const void *data = r->data(r->user, buffer);
    saved_buffer s = {.buffer = buffer, .data = data ? mpc_alloc((size_t)b->bytes + 1) : NULL};
    if (s.data) memcpy(s.data, data, (size_t)b->bytes);
    if (s.data && mpc_array_push(&c->saved, s)) return;
    mpc_free(s.data);
    c->no_memory = data != NULL;
}

static bool before_launch(void *user, const mpc_nonfinite_reader *r, uint32_t launch) {
    mpc_nonfinite_check *c = user;
    const mpc_launch *l = &r->program->launches[launch];
    drop_saved(c);
    uint32_t pointers = l->kind == MPC_LAUNCH_KERNEL ? r->program->kernels[l->kernel].pointer_count : 0;
    for (uint32_t i = 0; i < l->instance_count; i++)
        for (uint32_t p = 0; p < pointers; p++) save(c, r, l, l->instances[i].pointers[p].buffer);
    const uint32_t matmul[] = {l->matmul.a.buffer, l->matmul.b.buffer, l->matmul.bias.buffer};
    const uint32_t conv[] = {l->conv.x.buffer, l->conv.w.buffer, l->conv.y.buffer};
    for (int i = 0; i < 3; i++) {
        if (l->kind == MPC_LAUNCH_MATMUL && (i < 2 || l->matmul.has_bias)) save(c, r, l, matmul[i]);
        if (l->kind == MPC_LAUNCH_CONV) save(c, r, l, conv[i]);
    }
    return !c->no_memory;
}

static const void *read_as_before(void *user, uint32_t buffer) {
    const mpc_nonfinite_check *c = user;
    for (size_t i = 0; i < c->saved.count; i++)
        if (c->saved.data[i].buffer == buffer) return c->saved.data[i].data;
    return c->reader->data(c->reader->user, buffer);
}

/* ---- programs: after a launch ---- */

/* The value that a launch has put into a result's buffer; MPC_NONE: a copy. */
static mpc_value_id made_value(const mpc_nonfinite_check *c, const mpc_launch *l, uint32_t buffer) {
    const mpc_graph *g = c->step->graph;
    mpc_value_id owner = c->value_of[buffer];
    if (owner == MPC_NONE || l->kind == MPC_LAUNCH_COPY) return MPC_NONE;
    mpc_value_id named = mpc_graph_find_value(g, l->name);
    if (named != MPC_NONE && mpc_storage_owner(g, named) == owner && mpc_producer(g, named)->op != MPC_OP_state)
        return named;
    const mpc_node *n = mpc_producer(g, owner);
    if (n && n->op == MPC_OP_state) return mpc_graph_next_of(g, owner);
    bool through = n && n->op == MPC_OP_transpose && mpc_storage_owner(g, mpc_operand(g, n, 0)) == owner;
    return through ? mpc_operand(g, n, 0) : owner;
}

/* The first op of the kernel whose result may not be, computed by the reference; false: all are as they should be. */
static bool look_inside(mpc_nonfinite_check *c, mpc_launch_values *v, mpc_node_id made, mpc_nonfinite_place *at) {
    mpc_node_id begin, end;
    mpc_group_of(v->g, made, &begin, &end);
    for (mpc_node_id id = begin; id < end; id++) {
        const mpc_node *n = &v->g->nodes[id];
        unsigned may = may_hold(c, v->g, id);
        if (n->op == MPC_OP_const || !mpc_launch_values_compute(v, id)) continue;
        for (uint32_t i = 0; i < n->result_count; i++) {
            const mpc_tensor *t = &v->values[mpc_result(n, i)];
            if (!mpc_format_is_float(t->type.format) || !(mpc_nonfinite_signs(t) & ~may)) continue;
            if (c->chosen[mpc_result(n, i)]) continue;
            at->node = id;
            at->result = i;
            follow_choice(c, at);
            return true;
        }
    }
    return false;
}

static bool explain(mpc_nonfinite_check *c, const mpc_launch *l, mpc_value_id made, const mpc_tensor *device) {
    const mpc_graph *g = c->step->graph;
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *values = arena ? mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values) : NULL;
    if (values) {
        mpc_launch_values v = {g, c->buffer_of, read_as_before, c, arena, values};
        mpc_node_id id = g->values[made].producer, begin, end;
        mpc_nonfinite_place at = {.g = g, .node = id, .result = g->values[made].index, .values = values};
        mpc_group_of(g, id, &begin, &end);
        if (end - begin > 1) at.kernel = mpc_value_name(g, made);
        if (end - begin == 1 || l->flops > MOST_WORK || !look_inside(c, &v, id, &at)) values[made] = *device;
        mpc_launch_values_read(&v, at.node);
        mpc_nonfinite_describe(c->found, c->step->phase, &at);
    }
    c->no_memory = !values;
    mpc_arena_destroy(arena);
    return false;
}

static bool is_scalers(const mpc_nonfinite_check *c, mpc_value_id value) {
    if (c->scale == MPC_NONE || !c->scaled[value]) return false;
    const void *scale = read_as_before((void *)(uintptr_t)c, c->buffer_of[c->scale]);
    float now = 0;
    if (scale) memcpy(&now, scale, sizeof now);
    return can_fall(c, (double)now);
}

/* false: this ends the step. */
static bool judge(mpc_nonfinite_check *c, const mpc_launch *l, uint32_t buffer, const void *data) {
    const mpc_graph *g = c->step->graph;
    mpc_value_id made = made_value(c, l, buffer);
    const mpc_node *maker = made == MPC_NONE ? NULL : mpc_producer(g, made);
    if (!maker || maker->op == MPC_OP_const || c->chosen[made]) return true;
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor t = arena ? mpc_tensor_make(arena, mpc_value_type(g, made)) : (mpc_tensor){0};
    bool go_on = false;
    c->no_memory = !t.data;
    if (t.data) {
        mpc_tensor_from_bytes(&t, data);
        unsigned signs = mpc_nonfinite_signs(&t), may = 0;
        mpc_node_id begin, end;
        mpc_group_of(g, g->values[made].producer, &begin, &end);
        for (mpc_node_id id = begin; id < end; id++) may |= may_hold(c, g, id);
        bool written = !(signs & ~may);
        if (written) c->written[mpc_storage_owner(g, made)] |= (uint8_t)signs;
        go_on = written || is_scalers(c, made) || explain(c, l, made, &t);
    }
    mpc_arena_destroy(arena);
    return go_on;
}

static bool after_launch(void *user, const mpc_nonfinite_reader *r, uint32_t launch) {
    mpc_nonfinite_check *c = user;
    const mpc_launch *l = &r->program->launches[launch];
    c->reader = r;
    for (uint32_t i = 0; i < l->result_count; i++) {
        uint32_t buffer = l->results[i];
        int64_t at;
        if (c->last_writer[buffer] != launch || c->value_of[buffer] == MPC_NONE) continue;
        const void *data = r->data(r->user, buffer);
        if (!data) return false;
        if (!mpc_find_nonfinite(&r->program->buffers[buffer].type, data, &at)) continue;
        if (!judge(c, l, buffer, data)) return false;
    }
    return true;
}

/* ---- ref ---- */

static bool after_node(void *user, const mpc_graph *g, mpc_node_id id, const mpc_tensor *results) {
    mpc_nonfinite_check *c = user;
    const mpc_node *n = &g->nodes[id];
    const mpc_tensor *values = results - n->result_begin;
    if (n->op == MPC_OP_const) return true; /* NaN as well: what a label out of range gives */
    if (n->op == MPC_OP_state) return true; /* its first reader tells */
    for (uint32_t i = 0; i < n->result_count; i++) {
        mpc_value_id value = mpc_result(n, i);
        unsigned signs = mpc_format_is_float(results[i].type.format) ? mpc_nonfinite_signs(&results[i]) : 0;
        if (!signs || c->chosen[value]) continue;
        bool written = !(signs & ~may_hold(c, g, id));
        if (written) c->written[value] |= (uint8_t)signs;
        if (written || (c->scaled[value] && can_fall(c, values[c->scale].data[0]))) continue;
        mpc_nonfinite_place at = {.g = g, .node = id, .result = i, .values = values};
        follow_choice(c, &at);
        mpc_nonfinite_describe(c->found, c->step->phase, &at);
        return false;
    }
    return true;
}

/* ---- a step ---- */

/* What is fed comes first: it explains everything after it. */
static bool look_at_inputs(mpc_nonfinite_check *c) {
    const mpc_exec *e = c->step->exec;
    for (uint32_t i = 0; i < e->input_count; i++) {
        const void *data = e->vtable->input(c->step->exec, i);
        int64_t at;
        if (!mpc_find_nonfinite(&e->input_types[i], data, &at)) continue;
        mpc_arena *arena = mpc_arena_create();
        mpc_tensor t = arena ? mpc_tensor_make(arena, &e->input_types[i]) : (mpc_tensor){0};
        if (t.data) mpc_tensor_from_bytes(&t, data);
        if (t.data) mpc_nonfinite_describe_input(c->found, c->step->phase, e->inputs[i].name, &t);
        c->no_memory = !t.data;
        mpc_arena_destroy(arena);
        return false;
    }
    return true;
}

static mpc_status run(mpc_nonfinite_check *c) {
    mpc_exec *e = c->step->exec;
    const mpc_watch watch = {.before = before_launch, .after = after_launch, .user = c};
    if (c->step->session->device == MPC_DEVICE_CUDA) return mpc_cuda_step_watched(e, &watch);
    if (c->step->session->device == MPC_DEVICE_CPU) return mpc_cpu_step_watched(e, &watch);
    const mpc_eval_options options = {.after = after_node, .user = c};
    mpc_ref_observe(e, &options);
    mpc_status status = mpc_exec_step(e);
    mpc_ref_observe(e, NULL);
    return status;
}

bool mpc_nonfinite_check_run(mpc_nonfinite_check *c) {
    memset(c->written, 0, c->step->graph->value_count);
    c->no_memory = false;
    bool ok = look_at_inputs(c) && run(c) == MPC_OK;
    drop_saved(c);
    if (c->no_memory) mpc_error(c->step->session->sink, "E901", "not enough memory to look at a step");
    return ok && !c->no_memory && !c->found->is;
}

/* ---- life ---- */

/* Names of values are unique, and buffers have those of the values that they hold. */
static bool match_buffers(mpc_nonfinite_check *c) {
    const mpc_graph *g = c->step->graph;
    const mpc_program *p = c->step->program;
    mpc_map *ids = mpc_map_create();
    bool ok = ids != NULL;
    for (mpc_value_id v = 0; ok && v < g->value_count; v++) {
        c->buffer_of[v] = MPC_NONE;
        ok = mpc_map_set(ids, mpc_value_name(g, v), v);
    }
    for (uint32_t i = 0; ok && p && i < p->buffer_count; i++) {
        if (!mpc_map_get(ids, p->buffers[i].name, &c->value_of[i])) c->value_of[i] = MPC_NONE;
        else c->buffer_of[c->value_of[i]] = i;
    }
    mpc_map_destroy(ids);
    for (uint32_t i = 0; ok && p && i < p->launch_count; i++)
        for (uint32_t k = 0; k < p->launches[i].result_count; k++) c->last_writer[p->launches[i].results[k]] = i;
    return ok;
}

static bool make_tables(mpc_nonfinite_check *c) {
    size_t values = c->step->graph->value_count + 1,
           buffers = c->step->program ? c->step->program->buffer_count + 1 : 1;
    c->arena = mpc_arena_create();
    if (!c->arena) return false;
    c->value_of = mpc_arena_alloc(c->arena, buffers * sizeof *c->value_of);
    c->last_writer = mpc_arena_alloc(c->arena, buffers * sizeof *c->last_writer);
    c->buffer_of = mpc_arena_alloc(c->arena, values * sizeof *c->buffer_of);
    c->scaled = mpc_arena_alloc(c->arena, values * sizeof *c->scaled);
    c->written = mpc_arena_alloc(c->arena, values * sizeof *c->written);
    c->chosen = mpc_arena_alloc(c->arena, values * sizeof *c->chosen);
    if (!c->value_of || !c->last_writer || !c->buffer_of || !c->scaled || !c->written || !c->chosen) return false;
    find_scaled(c);
    return match_buffers(c) && find_chosen(c);
}

mpc_nonfinite_check *mpc_nonfinite_check_create(mpc_step *step, mpc_nonfinite_found *found) {
    mpc_nonfinite_check *c = mpc_alloc(sizeof *c);
    if (!c) return NULL;
    *c = (mpc_nonfinite_check){.step = step, .found = found};
    if (make_tables(c)) return c;
    mpc_nonfinite_check_destroy(c);
    return NULL;
}

void mpc_nonfinite_check_destroy(mpc_nonfinite_check *c) {
    if (!c) return;
    drop_saved(c);
    mpc_array_free(&c->saved);
    mpc_arena_destroy(c->arena);
    mpc_free(c);
}
