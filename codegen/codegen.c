/* Scheduled, placed graph to program: buffers from places, one or more launches per group in their order, copies into
 * states that could not be written in place, then equal neighbours merged. The program owns all its memory; nothing
 * points into the graph. */
#include "codegen/codegen.h"

#include <string.h>

#include "base/alloc.h"
#include "codegen/cg.h"
#include "ir/space.h"

enum { ALIGNMENT = 64 };

/* --- buffers --- */

typedef struct role_class {
    const char *role;
    mpc_buffer_class cls;
} role_class;
static const role_class role_classes[] = {{"param", MPC_BUF_MASTER},
                                          {"moment", MPC_BUF_MOMENT},
                                          {"copy", MPC_BUF_COPY},
                                          {"stat", MPC_BUF_STAT},
                                          {"accum", MPC_BUF_ACCUM},
                                          {"ema", MPC_BUF_MOMENT}};

static mpc_buffer_class class_of_role(const char *role) {
    for (size_t i = 0; i < sizeof role_classes / sizeof *role_classes; i++)
        if (strcmp(role_classes[i].role, role) == 0) return role_classes[i].cls;
    return MPC_BUF_CONTROL;
}

static uint64_t align_up(uint64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void add_buffer(mpc_cg *cg, mpc_value_id v, mpc_buffer buffer) {
    buffer.name = mpc_arena_strdup(cg->arena, mpc_value_name(cg->g, v));
    buffer.type = *mpc_value_type(cg->g, v);
    buffer.bytes = (uint64_t)mpc_type_bytes(&buffer.type);
    cg->buffer_of[v] = (uint32_t)cg->buffers.count;
    if (buffer.name == NULL || !mpc_array_push(&cg->buffers, buffer)) mpc_cg_no_memory(cg);
}

static void add_state(mpc_cg *cg, const mpc_node *n) {
    mpc_value_id v = mpc_result(n, 0);
    mpc_buffer b = {.is_state = true, .offset = cg->p->state_bytes, .derived = mpc_attr_format(cg->g, n, "derived")};
    b.state = mpc_arena_strdup(cg->arena, mpc_attr_str(cg->g, n, "name"));
    b.cls = b.derived != MPC_FMT_none ? MPC_BUF_COPY : class_of_role(mpc_attr_str(cg->g, n, "role"));
    if (b.state == NULL) mpc_cg_no_memory(cg);
    add_buffer(cg, v, b);
    cg->p->state_bytes += align_up((uint64_t)mpc_type_bytes(mpc_value_type(cg->g, v)));
}

/* What the global norm reads are the gradients. */
static bool *find_gradients(mpc_cg *cg) {
    bool *is_gradient = mpc_arena_alloc(cg->scratch, (size_t)cg->g->value_count + 1);
    if (is_gradient == NULL) {
        mpc_cg_no_memory(cg);
        return NULL;
    }
    for (mpc_node_id id = 0; id < cg->g->node_count; id++) {
        const mpc_node *n = &cg->g->nodes[id];
        for (uint32_t i = 0; n->op == MPC_OP_global_norm && i < n->operand_count; i++)
            is_gradient[mpc_cg_owner(cg, mpc_operand(cg->g, n, i))] = true;
    }
    return is_gradient;
}

/* The state whose value before the step this is, if the step changes it; else MPC_NONE. */
static mpc_value_id old_value_of(const mpc_cg *cg, mpc_value_id v) {
    const mpc_node *n = mpc_producer(cg->g, v);
    while (n != NULL && mpc_strided_is_view(cg->g, n)) {
        v = mpc_operand(cg->g, n, 0);
        n = mpc_producer(cg->g, v);
    }
    mpc_value_id next = n != NULL && n->op == MPC_OP_state ? mpc_graph_next_of(cg->g, v) : MPC_NONE;
    return next != MPC_NONE && next != v ? v : MPC_NONE;
}

/* Outputs are read when the step has changed the states; an old value must be kept. Returns the end of the arena. */
static uint64_t add_output_copies(mpc_cg *cg) {
    const mpc_graph *g = cg->g;
    uint64_t end = align_up(g->arena_bytes);
    cg->output_buffer = mpc_arena_alloc(cg->scratch, (g->output_count + 1) * sizeof *cg->output_buffer);
    if (cg->output_buffer == NULL) mpc_cg_no_memory(cg);
    for (uint32_t i = 0; i < g->output_count && mpc_cg_ok(cg); i++) {
        mpc_value_id state = old_value_of(cg, g->outputs[i].value);
        cg->output_buffer[i] = MPC_NONE;
        if (state == MPC_NONE) continue;
        mpc_buffer b = {.name = mpc_arena_printf(cg->arena, "%s.before", mpc_value_name(g, g->outputs[i].value)),
                        .type = *mpc_value_type(g, g->outputs[i].value),
                        .cls = MPC_BUF_ACTIVATION,
                        .offset = end};
        b.bytes = (uint64_t)mpc_type_bytes(&b.type);
        cg->output_buffer[i] = (uint32_t)cg->buffers.count;
        if (b.name == NULL || !mpc_array_push(&cg->buffers, b)) mpc_cg_no_memory(cg);
        end += align_up(b.bytes);
    }
    return end;
}

static void add_buffers(mpc_cg *cg) {
    const mpc_graph *g = cg->g;
    const bool *is_gradient = find_gradients(cg);
    for (mpc_value_id v = 0; v < g->value_count && mpc_cg_ok(cg); v++) {
        const mpc_node *n = mpc_producer(g, v);
        if (n != NULL && n->op == MPC_OP_state) {
            add_state(cg, n);
        } else if (g->places[v].kind == MPC_PLACE_ARENA) {
            mpc_buffer b = {.offset = g->places[v].offset, .is_input = n == NULL};
            b.cls = n == NULL ? MPC_BUF_INPUT : is_gradient[v] ? MPC_BUF_GRADIENT : MPC_BUF_ACTIVATION;
            add_buffer(cg, v, b);
        }
    }
    uint64_t end = add_output_copies(cg);
    cg->workspace = (uint32_t)cg->buffers.count;
    mpc_buffer w = {
        .name = "workspace", .type = {.format = MPC_FMT_u8, .rank = 1}, .cls = MPC_BUF_ACTIVATION, .offset = end};
    if (mpc_cg_ok(cg) && !mpc_array_push(&cg->buffers, w)) mpc_cg_no_memory(cg);
}

/* --- launches --- */

typedef struct kind_rule {
    mpc_op_kind kind;
    void (*emit)(mpc_cg *cg, const mpc_node *n);
} kind_rule;
static const kind_rule kind_rules[] = {{MPC_KIND_STRUCT, mpc_cg_fill},   {MPC_KIND_VIEW, mpc_cg_copy},
                                       {MPC_KIND_MATMUL, mpc_cg_matmul}, {MPC_KIND_CONV, mpc_cg_conv},
                                       {MPC_KIND_POOL, mpc_cg_pool},     {MPC_KIND_GATHER, mpc_cg_gather},
                                       {MPC_KIND_NORM, mpc_cg_norm},     {MPC_KIND_REDUCE, mpc_cg_reduce}};

static const kind_rule cuda_rules[] = {{MPC_KIND_STRUCT, mpc_cuda_fill},  {MPC_KIND_VIEW, mpc_cuda_copy},
                                       {MPC_KIND_MATMUL, mpc_cg_matmul},  {MPC_KIND_CONV, mpc_cuda_conv},
                                       {MPC_KIND_POOL, mpc_cuda_pool},    {MPC_KIND_GATHER, mpc_cuda_gather},
                                       {MPC_KIND_NORM, mpc_cuda_norm},    {MPC_KIND_REDUCE, mpc_cuda_reduce},
                                       {MPC_KIND_COMPOSITE, mpc_cuda_attention}};
_Static_assert(sizeof cuda_rules == sizeof kind_rules + sizeof *kind_rules, "CUDA keeps attention, and has every rule of C");

/* Views that are other names, and results without elements. */
static bool needs_nothing(const mpc_cg *cg, const mpc_node *n) {
    if (mpc_cg_is_free_view(cg, n)) return true;
    for (uint32_t i = 0; i < n->result_count; i++)
        if (mpc_type_elements(mpc_value_type(cg->g, mpc_result(n, i))) > 0) return false;
    return true;
}

static void emit_node(mpc_cg *cg, mpc_node_id id) {
    const mpc_node *n = &cg->g->nodes[id];
    const mpc_op *op = mpc_node_op(cg->g, id);
    bool cuda = cg->target == MPC_TARGET_CUDA;
    const kind_rule *rules = cuda ? cuda_rules : kind_rules;
    size_t count = cuda ? sizeof cuda_rules / sizeof *cuda_rules : sizeof kind_rules / sizeof *kind_rules;
    if (needs_nothing(cg, n)) return;
    for (size_t i = 0; i < count; i++)
        if (rules[i].kind == op->kind) {
            rules[i].emit(cg, n);
            return;
        }
    mpc_cg_fail(cg, "no kernel for %s (value %s): expand the graph first", op->name,
                mpc_value_name(cg->g, mpc_result(n, 0)));
}

static bool none_needs_code(const mpc_cg *cg, const mpc_node_id *nodes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!needs_nothing(cg, &cg->g->nodes[nodes[i]])) return false;
    return true;
}

static void emit_group(mpc_cg *cg, const mpc_node_id *nodes, uint32_t count) {
    mpc_space space;
    if (none_needs_code(cg, nodes, count)) return;
    bool loop = mpc_space_takes(cg->g, nodes[0]) && (count > 1 || mpc_space_build(cg->g, nodes, count, &space));
    if (loop) {
        mpc_cg_loop(cg, nodes, count);
        return;
    }
    for (uint32_t i = 0; i < count && mpc_cg_ok(cg); i++) emit_node(cg, nodes[i]);
}

static void emit_groups(mpc_cg *cg) {
    const mpc_graph *g = cg->g;
    mpc_node_id *nodes = mpc_arena_alloc(cg->scratch, ((size_t)g->node_count + 1) * sizeof *nodes);
    if (nodes == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    for (mpc_node_id id = 0; id < g->node_count && mpc_cg_ok(cg); id++) { /* constants that need storage */
        const mpc_node *n = &g->nodes[id];
        bool fills = n->op == MPC_OP_const || n->op == MPC_OP_range;
        if (fills && g->places[mpc_result(n, 0)].kind == MPC_PLACE_ARENA) emit_node(cg, id);
    }
    for (mpc_node_id id = 0; id < g->node_count && mpc_cg_ok(cg);) {
        uint32_t group = g->groups[id], count = 0;
        while (id < g->node_count && g->groups[id] == group) nodes[count++] = id++;
        if (group != 0) emit_group(cg, nodes, count);
    }
}

/* --- states whose next lies elsewhere, old values that are outputs --- */

static void keep_old_values(mpc_cg *cg) {
    const mpc_graph *g = cg->g;
    for (uint32_t i = 0; i < g->output_count && mpc_cg_ok(cg); i++) {
        if (cg->output_buffer[i] == MPC_NONE) continue;
        mpc_value_id state = old_value_of(cg, g->outputs[i].value);
        mpc_launch *l = mpc_cg_new_launch(cg, mpc_producer(g, state), state, MPC_LAUNCH_COPY);
        if (l == NULL) return;
        l->op = "copy";
        l->results[0] = cg->output_buffer[i];
        l->copy_to = (mpc_pointer){cg->output_buffer[i], 0};
        l->copy_from = mpc_cg_pointer(cg, state);
        l->copy_bytes = cg->buffers.data[cg->output_buffer[i]].bytes;
        l->bytes = 2.0 * (double)l->copy_bytes;
    }
}

static bool needs_copy(const mpc_cg *cg, const mpc_next *next) { return mpc_cg_owner(cg, next->value) != next->state; }

static void copy_state(mpc_cg *cg, const mpc_next *next) {
    mpc_launch *l = mpc_cg_new_launch(cg, mpc_producer(cg->g, next->state), next->state, MPC_LAUNCH_COPY);
    if (l == NULL) return;
    l->op = "copy";
    l->copy_to = mpc_cg_pointer(cg, next->state);
    l->copy_from = mpc_cg_pointer(cg, next->value);
    l->copy_bytes = (uint64_t)mpc_type_bytes(mpc_value_type(cg->g, next->state));
    l->bytes = 2.0 * (double)l->copy_bytes;
}

/* A state that another copy still reads waits. */
static bool is_awaited(const mpc_cg *cg, const bool *done, mpc_value_id state) {
    for (uint32_t i = 0; i < cg->g->next_count; i++)
        if (!done[i] && cg->g->nexts[i].state != state && mpc_cg_owner(cg, cg->g->nexts[i].value) == state) return true;
    return false;
}

static void copy_states(mpc_cg *cg) {
    const mpc_graph *g = cg->g;
    bool *done = mpc_arena_alloc(cg->scratch, (size_t)g->next_count + 1), moved = true;
    if (done == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < g->next_count; i++) {
        done[i] = !needs_copy(cg, &g->nexts[i]);
        left += !done[i];
    }
    while (left > 0 && moved && mpc_cg_ok(cg)) {
        moved = false;
        for (uint32_t i = 0; i < g->next_count; i++) {
            if (done[i] || is_awaited(cg, done, g->nexts[i].state)) continue;
            copy_state(cg, &g->nexts[i]);
            done[i] = moved = true;
            left--;
        }
    }
    if (left > 0) mpc_cg_fail(cg, "states exchange their values in a circle; bind one of them to a computed copy");
}

/* --- program --- */

static void *keep(mpc_cg *cg, const void *data, size_t count, size_t size) {
    void *copy = mpc_arena_alloc(cg->arena, count * size + 1);
    if (copy == NULL) mpc_cg_no_memory(cg);
    else if (count > 0) memcpy(copy, data, count * size);
    return copy;
}

static void name_ends(mpc_cg *cg) {
    const mpc_graph *g = cg->g;
    mpc_program *p = cg->p;
    p->inputs = mpc_arena_alloc(cg->arena, (g->input_count + 1) * sizeof *p->inputs);
    p->outputs = mpc_arena_alloc(cg->arena, (g->output_count + 1) * sizeof *p->outputs);
    if (p->inputs == NULL || p->outputs == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    for (uint32_t i = 0; i < g->input_count && mpc_cg_ok(cg); i++) {
        mpc_program_input *in = &p->inputs[p->input_count++];
        in->name = mpc_arena_strdup(cg->arena, mpc_value_name(g, g->inputs[i].value));
        in->source = mpc_arena_strdup(cg->arena, mpc_input_attr_str(g, &g->inputs[i], "source"));
        in->buffer = mpc_cg_pointer(cg, g->inputs[i].value).buffer;
        if (in->name == NULL || in->source == NULL) mpc_cg_no_memory(cg);
    }
    for (uint32_t i = 0; i < g->output_count && mpc_cg_ok(cg); i++) {
        mpc_program_output *out = &p->outputs[p->output_count++];
        out->name = mpc_arena_strdup(cg->arena, mpc_sym_text(g->ctx, g->outputs[i].name));
        out->buffer =
            cg->output_buffer[i] != MPC_NONE ? cg->output_buffer[i] : mpc_cg_pointer(cg, g->outputs[i].value).buffer;
        if (out->name == NULL) mpc_cg_no_memory(cg);
    }
}

static void touch(uint32_t *first, uint32_t *last, uint32_t buffer, uint32_t launch) {
    if (launch < first[buffer]) first[buffer] = launch;
    if (launch > last[buffer]) last[buffer] = launch;
}

static void touch_launch(const mpc_program *p, const mpc_launch *l, uint32_t at, uint32_t *first, uint32_t *last) {
    for (uint32_t i = 0; i < l->result_count; i++) touch(first, last, l->results[i], at);
    for (uint32_t i = 0; i < l->instance_count; i++)
        for (uint32_t j = 0; j < p->kernels[l->kernel].pointer_count; j++)
            touch(first, last, l->instances[i].pointers[j].buffer, at);
    const mpc_pointer matmul[] = {l->matmul.a, l->matmul.b, l->matmul.c}, conv[] = {l->conv.x, l->conv.w, l->conv.y};
    for (int i = 0; i < 3; i++) {
        if (l->kind == MPC_LAUNCH_MATMUL) touch(first, last, matmul[i].buffer, at);
        if (l->kind == MPC_LAUNCH_CONV) touch(first, last, conv[i].buffer, at);
    }
    if (l->kind == MPC_LAUNCH_COPY) touch(first, last, l->copy_from.buffer, at);
}

/* Largest sum of bytes between first and last touch; inputs and outputs live for the whole step. */
static void find_lower_bound(mpc_cg *cg) {
    mpc_program *p = cg->p;
    uint32_t *first = mpc_arena_alloc(cg->scratch, (p->buffer_count + 1) * sizeof *first);
    uint32_t *last = mpc_arena_alloc(cg->scratch, (p->buffer_count + 1) * sizeof *last);
    uint64_t *change = mpc_arena_alloc(cg->scratch, ((size_t)p->launch_count + 2) * sizeof *change), live = 0;
    if (first == NULL || last == NULL || change == NULL) {
        mpc_cg_no_memory(cg);
        return;
    }
    for (uint32_t i = 0; i < p->buffer_count; i++) first[i] = p->buffers[i].is_input ? 0 : UINT32_MAX;
    for (uint32_t i = 0; i < p->launch_count; i++) touch_launch(p, &p->launches[i], i, first, last);
    for (uint32_t i = 0; i < p->buffer_count; i++)
        if (p->buffers[i].is_input) last[i] = p->launch_count;
    for (uint32_t i = 0; i < p->output_count; i++) last[p->outputs[i].buffer] = p->launch_count;
    for (uint32_t i = 0; i < p->buffer_count; i++) {
        if (p->buffers[i].is_state || first[i] == UINT32_MAX) continue;
        change[first[i]] += p->buffers[i].bytes;
        change[last[i] + 1] -= p->buffers[i].bytes;
    }
    for (uint32_t i = 0; i <= p->launch_count; i++) {
        live += change[i];
        if (live > p->arena_lower_bound) p->arena_lower_bound = live;
    }
}

/* The CUDA prelude and, after it, the templates that this program's kernels instantiate. */
static const char *cuda_prelude(mpc_cg *cg) {
    mpc_str text = {0};
    mpc_str_append(&text, mpc_text_cuda_prelude_h);
    if (cg->parts & MPC_CG_PART_CONV) mpc_str_append(&text, mpc_text_cuda_conv_h);
    if (cg->parts & MPC_CG_PART_ATTENTION) mpc_str_append(&text, mpc_text_cuda_attention_h);
    const char *copy = text.failed ? NULL : mpc_arena_strdup(cg->arena, mpc_str_cstr(&text));
    if (copy == NULL) mpc_cg_no_memory(cg);
    mpc_str_free(&text);
    return copy;
}

static void finish(mpc_cg *cg) {
    mpc_program *p = cg->p;
    mpc_buffer *w = &cg->buffers.data[cg->workspace];
    w->bytes = cg->workspace_bytes;
    w->type.dims[0] = (int64_t)cg->workspace_bytes;
    p->arena_bytes = w->offset + align_up(cg->workspace_bytes);
    mpc_cg_merge_launches(cg);
    mpc_cg_finish_kernels(cg);
    p->buffers = keep(cg, cg->buffers.data, cg->buffers.count, sizeof *p->buffers);
    p->kernels = keep(cg, cg->kernels.data, cg->kernels.count, sizeof *p->kernels);
    p->launches = keep(cg, cg->launches.data, cg->launches.count, sizeof *p->launches);
    p->buffer_count = (uint32_t)cg->buffers.count;
    p->kernel_count = (uint32_t)cg->kernels.count;
    p->launch_count = (uint32_t)cg->launches.count;
    p->prelude = cg->target == MPC_TARGET_C ? mpc_cg_user_prelude(cg) : cuda_prelude(cg);
    p->device_header = cg->target == MPC_TARGET_C ? NULL : mpc_text_cuda_device_h;
    p->name = mpc_arena_strdup(cg->arena, mpc_sym_text(cg->g->ctx, cg->g->name));
    if (p->name == NULL) mpc_cg_no_memory(cg);
    if (mpc_cg_ok(cg)) name_ends(cg);
    if (mpc_cg_ok(cg)) find_lower_bound(cg);
}

static mpc_program *create_program(mpc_context *ctx) {
    mpc_arena *arena = mpc_arena_create();
    mpc_program *p = arena != NULL ? mpc_arena_alloc(arena, sizeof *p) : NULL;
    if (p == NULL) {
        mpc_arena_destroy(arena);
        return NULL;
    }
    p->arena = arena;
    p->ctx = ctx;
    return p;
}

static bool begin(mpc_cg *cg, const mpc_graph *g) {
    *cg = (mpc_cg){.g = g, .p = create_program(g->ctx), .scratch = mpc_arena_create(), .kernel_ids = mpc_map_create()};
    if (cg->p == NULL || cg->scratch == NULL || cg->kernel_ids == NULL) return false;
    cg->arena = cg->p->arena;
    cg->buffer_of = mpc_arena_alloc(cg->scratch, ((size_t)g->value_count + 1) * sizeof *cg->buffer_of);
    for (uint32_t i = 0; cg->buffer_of != NULL && i < g->value_count; i++) cg->buffer_of[i] = MPC_NONE;
    return cg->buffer_of != NULL;
}

mpc_program *mpc_codegen(const mpc_graph *g, const mpc_codegen_options *options) {
    mpc_cg cg;
    if (!begin(&cg, g)) mpc_cg_no_memory(&cg);
    cg.target = options != NULL ? options->target : MPC_TARGET_C;
    if (mpc_cg_ok(&cg) && (g->groups == NULL || g->places == NULL))
        mpc_cg_fail(&cg, "graph %s has no groups or places; run @lower first", mpc_sym_text(g->ctx, g->name));
    if (mpc_cg_ok(&cg) && cg.target != MPC_TARGET_C && mpc_cg_has_user_formats(g))
        mpc_cg_fail(&cg, "formats of plugins are simulated on the devices cpu and ref only");
    if (mpc_cg_ok(&cg)) add_buffers(&cg);
    if (mpc_cg_ok(&cg)) keep_old_values(&cg);
    if (mpc_cg_ok(&cg)) emit_groups(&cg);
    if (mpc_cg_ok(&cg)) copy_states(&cg);
    if (mpc_cg_ok(&cg)) finish(&cg);
    mpc_program *p = cg.p;
    if (!mpc_cg_ok(&cg)) mpc_program_destroy(p), p = NULL;
    mpc_array_free(&cg.buffers);
    mpc_array_free(&cg.kernels);
    mpc_array_free(&cg.launches);
    mpc_map_destroy(cg.kernel_ids);
    mpc_arena_destroy(cg.scratch);
    return p;
}

void mpc_program_source(const mpc_program *program, mpc_str *out) {
    mpc_str_append(out, program->prelude);
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        mpc_str_append(out, "\n");
        mpc_str_append(out, program->kernels[i].text);
    }
}
