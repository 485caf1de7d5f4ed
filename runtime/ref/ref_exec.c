/* The `ref` device: one step is one evaluation of the expanded graph. All states are read before any is written, as a
 * pure step demands, so the next values are stored only after the whole graph has been evaluated. It may allocate
 * within a step; the fast devices may not. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "ir/eval/eval.h"
#include "runtime/exec.h"
#include "runtime/store_layout.h"

typedef struct ref_exec {
    mpc_exec base; /* first */
    const mpc_graph *graph;
    mpc_store *store;
    const mpc_sink *sink;
    mpc_arena *arena; /* everything that lives as long as the executor */
    void **inputs, **outputs;
    uint8_t *control; /* the control states before the last step, for running it again */
    uint64_t control_bytes;
    uint64_t io_bytes;
    const mpc_eval_options *observe; /* or NULL */
} ref_exec;

static mpc_store_entry *entry_of(const ref_exec *r, const mpc_node *state) {
    return mpc_store_find(r->store, mpc_attr_str(r->graph, state, "name"), mpc_attr_format(r->graph, state, "derived"));
}

typedef struct step_reader {
    const ref_exec *exec;
    mpc_arena *arena;
} step_reader;

static mpc_tensor read_state(void *user, const mpc_graph *g, const mpc_node *state) {
    step_reader *reader = user;
    mpc_tensor t = mpc_tensor_make(reader->arena, mpc_value_type(g, mpc_result(state, 0)));
    const mpc_store_entry *entry = entry_of(reader->exec, state);
    if (t.data && entry) mpc_tensor_from_bytes(&t, entry->data);
    return t;
}

static bool read_inputs(const ref_exec *r, mpc_arena *arena, mpc_tensor *tensors) {
    for (uint32_t i = 0; i < r->base.input_count; i++) {
        tensors[i] = mpc_tensor_make(arena, &r->base.input_types[i]);
        if (!tensors[i].data) return false;
        mpc_tensor_from_bytes(&tensors[i], r->inputs[i]);
    }
    return true;
}

static mpc_status evaluate(const ref_exec *r, const mpc_eval_options *options, mpc_arena *arena, mpc_tensor *values) {
    mpc_tensor *inputs = mpc_arena_alloc(arena, (r->base.input_count + 1) * sizeof *inputs);
    step_reader reader = {.exec = r, .arena = arena};
    if (!inputs || !read_inputs(r, arena, inputs))
        return mpc_error(r->sink, "E901", "there isn't enough memory for the reference evaluation");
    return mpc_evaluate(r->graph, inputs, read_state, &reader, options, arena, values);
}

static void store_results(const ref_exec *r, const mpc_tensor *values) {
    const mpc_graph *g = r->graph;
    for (uint32_t i = 0; i < g->next_count; i++) {
        const mpc_store_entry *entry = entry_of(r, mpc_producer(g, g->nexts[i].state));
        if (entry) mpc_tensor_to_bytes(&values[g->nexts[i].value], entry->data);
    }
    for (uint32_t i = 0; i < g->output_count; i++) mpc_tensor_to_bytes(&values[g->outputs[i].value], r->outputs[i]);
}

typedef struct observed_step { /* hands nodes on to who observes, and knows whether they went on */
    const mpc_eval_options *observer;
    bool ended;
} observed_step;

static bool observe_node(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    observed_step *o = user;
    o->ended = !o->observer->after(o->observer->user, g, node, results);
    return !o->ended;
}

/* A step that its observer ended stores nothing. */
static mpc_status run(const ref_exec *r, mpc_arena *arena, mpc_tensor *values) {
    observed_step o = {.observer = r->observe};
    mpc_eval_options options = {.user = &o};
    if (r->observe) options.f64 = r->observe->f64;
    if (r->observe && r->observe->after) options.after = observe_node;
    mpc_status status = evaluate(r, &options, arena, values);
    if (status == MPC_OK && !o.ended) store_results(r, values);
    return status;
}

static mpc_status ref_step(mpc_exec *e) {
    ref_exec *r = (ref_exec *)e;
    uint64_t bytes = 0;
    const void *control = mpc_store_control(r->store, &bytes);
    memcpy(r->control, control, (size_t)bytes);
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *values = arena ? mpc_arena_alloc(arena, (r->graph->value_count + 1) * sizeof *values) : NULL;
    mpc_status status = MPC_NO_MEMORY;
    if (values) status = run(r, arena, values);
    mpc_arena_destroy(arena);
    return status;
}

/* ---- replay ---- */

typedef struct search {
    const mpc_tensor *values;
    mpc_str *what;
    mpc_loc *loc;
    bool found;
} search;

static double largest_operand(const search *s, const mpc_graph *g, const mpc_node *n) {
    double largest = 0;
    for (uint32_t i = 0; i < n->operand_count; i++) {
        const mpc_tensor *t = &s->values[mpc_operand(g, n, i)];
        if (!t->data || !mpc_format_is_float(t->type.format)) continue;
        int64_t count = mpc_type_elements(&t->type);
        for (int64_t k = 0; k < count; k++)
            if (isfinite(t->data[k]) && fabs(t->data[k]) > largest) largest = fabs(t->data[k]);
    }
    return largest;
}

static void report(search *s, const mpc_graph *g, const mpc_node *n, uint32_t result, int64_t element, double value) {
    s->found = true;
    *s->loc = n->loc;
    mpc_str_printf(s->what, "%s: %s gives %s at element %lld", mpc_value_name(g, mpc_result(n, result)),
                   mpc_op_get(g->ctx, n->op)->name, mpc_nonfinite_word(value), (long long)element);
    if (n->operand_count > 0) mpc_str_printf(s->what, "; its inputs reach %.3g", largest_operand(s, g, n));
}

static bool look_at_node(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    search *s = user;
    const mpc_node *n = &g->nodes[node];
    for (uint32_t r = 0; r < n->result_count; r++) {
        if (!results[r].data || !mpc_format_is_float(results[r].type.format)) continue;
        int64_t count = mpc_type_elements(&results[r].type);
        for (int64_t i = 0; i < count; i++) {
            if (isfinite(results[r].data[i])) continue;
            report(s, g, n, r, i, results[r].data[i]);
            return false;
        }
    }
    return true;
}

static bool look_at_inputs(const ref_exec *r, mpc_str *what) {
    for (uint32_t i = 0; i < r->base.input_count; i++) {
        int64_t at = 0;
        const mpc_type *type = &r->base.input_types[i];
        if (!mpc_find_nonfinite(type, r->inputs[i], &at)) continue;
        double value = mpc_element_get(type->format, r->inputs[i], at);
        mpc_str_printf(what, "input %s holds %s at element %lld", r->base.inputs[i].name, mpc_nonfinite_word(value),
                       (long long)at);
        return true;
    }
    return false;
}

static mpc_status ref_find_nonfinite(mpc_exec *e, mpc_str *what, mpc_loc *loc) {
    ref_exec *r = (ref_exec *)e;
    if (look_at_inputs(r, what)) return MPC_OK;
    uint64_t bytes = 0;
    void *control = mpc_store_control(r->store, &bytes);
    mpc_arena *arena = mpc_arena_create();
    if (!arena) return MPC_NO_MEMORY;
    mpc_tensor *values = mpc_arena_alloc(arena, (r->graph->value_count + 1) * sizeof *values);
    void *now = mpc_arena_alloc(arena, (size_t)bytes + 1);
    mpc_status status = MPC_NO_MEMORY;
    if (values && now) {
        search s = {.values = values, .what = what, .loc = loc};
        memcpy(now, control, (size_t)bytes);
        memcpy(control, r->control, (size_t)bytes);
        status = evaluate(r, &(mpc_eval_options){.after = look_at_node, .user = &s}, arena, values);
        memcpy(control, now, (size_t)bytes);
        if (s.found) status = MPC_OK; /* stopping early is not a failure */
    }
    mpc_arena_destroy(arena);
    return status;
}

/* ---- life ---- */

static void *ref_input(mpc_exec *e, uint32_t index) { return ((ref_exec *)e)->inputs[index]; }
static const void *ref_output(mpc_exec *e, uint32_t index) { return ((ref_exec *)e)->outputs[index]; }

static void ref_destroy(mpc_exec *e) {
    ref_exec *r = (ref_exec *)e;
    mpc_arena_destroy(r->arena);
    mpc_free(r);
}

static void ref_memory(const mpc_exec *e, mpc_memory_report *m) {
    const ref_exec *r = (const ref_exec *)e;
    m->state_bytes = mpc_store_bytes(r->store);
    m->arena_bytes = r->io_bytes;
    for (uint32_t i = 0; i < mpc_store_count(r->store); i++) {
        const mpc_store_entry *entry = mpc_store_at(r->store, i);
        m->by_class[mpc_state_class(entry->role, entry->derived)][entry->type.format] += entry->bytes;
    }
    for (uint32_t i = 0; i < e->input_count; i++)
        m->by_class[MPC_BUF_INPUT][e->input_types[i].format] += (uint64_t)mpc_type_bytes(&e->input_types[i]);
}

static const mpc_exec_vtable ref_vtable = {
    .input = ref_input,
    .output = ref_output,
    .step = ref_step,
    .destroy = ref_destroy,
    .find_nonfinite = ref_find_nonfinite,
    .memory = ref_memory,
};

static bool make_buffers(ref_exec *r, const mpc_type *types, uint32_t count, void ***buffers) {
    *buffers = mpc_arena_alloc(r->arena, (count + 1) * sizeof **buffers);
    if (!*buffers) return false;
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = (size_t)mpc_type_bytes(&types[i]);
        (*buffers)[i] = mpc_arena_alloc(r->arena, bytes + 1);
        if (!(*buffers)[i]) return false;
        r->io_bytes += bytes;
    }
    return true;
}

static bool describe_ends(ref_exec *r) {
    const mpc_graph *g = r->graph;
    mpc_program_input *inputs = mpc_arena_alloc(r->arena, (g->input_count + 1) * sizeof *inputs);
    mpc_program_output *outputs = mpc_arena_alloc(r->arena, (g->output_count + 1) * sizeof *outputs);
    mpc_type *types = mpc_arena_alloc(r->arena, (g->input_count + g->output_count + 1) * sizeof *types);
    if (!inputs || !outputs || !types) return false;
    for (uint32_t i = 0; i < g->input_count; i++) {
        const mpc_input *in = &g->inputs[i];
        inputs[i] =
            (mpc_program_input){.name = mpc_value_name(g, in->value), .source = mpc_input_attr_str(g, in, "source")};
        types[i] = *mpc_value_type(g, in->value);
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        outputs[i] = (mpc_program_output){.name = mpc_sym_text(g->ctx, g->outputs[i].name)};
        types[g->input_count + i] = *mpc_value_type(g, g->outputs[i].value);
    }
    r->base.ahead = 1;
    r->base.fetched = true;
    r->base.input_count = g->input_count;
    r->base.output_count = g->output_count;
    r->base.inputs = inputs;
    r->base.outputs = outputs;
    r->base.input_types = types;
    r->base.output_types = types + g->input_count;
    uint64_t control_bytes = 0;
    mpc_store_control(r->store, &control_bytes);
    r->control = mpc_arena_alloc(r->arena, (size_t)control_bytes + 1);
    r->control_bytes = control_bytes;
    if (r->control) memcpy(r->control, mpc_store_control(r->store, &control_bytes), (size_t)control_bytes);
    return r->control && make_buffers(r, r->base.input_types, g->input_count, &r->inputs) &&
           make_buffers(r, r->base.output_types, g->output_count, &r->outputs);
}

static mpc_status check_states(const ref_exec *r) {
    for (uint32_t i = 0; i < r->graph->node_count; i++) {
        const mpc_node *n = &r->graph->nodes[i];
        if (n->op != MPC_OP_state) continue;
        const mpc_store_entry *entry = entry_of(r, n);
        const mpc_type *type = mpc_value_type(r->graph, mpc_result(n, 0));
        if (entry && entry->bytes == (uint64_t)mpc_type_bytes(type) && entry->type.format == type->format) continue;
        return mpc_error(r->sink, "E651",
                         "state `%s` of this graph is not among the states of the session, or has another shape there",
                         mpc_attr_str(r->graph, n, "name"));
    }
    return MPC_OK;
}

mpc_exec *mpc_ref_load(const mpc_graph *g, mpc_store *store, const mpc_sink *sink) {
    ref_exec *r = mpc_alloc(sizeof *r);
    if (r) {
        *r = (ref_exec){
            .base.vtable = &ref_vtable, .graph = g, .store = store, .sink = sink, .arena = mpc_arena_create()};
        bool ready = r->arena && describe_ends(r);
        if (ready && check_states(r) == MPC_OK) return &r->base;
        ref_destroy(&r->base);
        if (ready) return NULL; /* check_states has told */
    }
    mpc_error(sink, "E901", "there isn't enough memory for the reference device");
    return NULL;
}

void mpc_ref_observe(mpc_exec *e, const struct mpc_eval_options *options) { ((ref_exec *)e)->observe = options; }
