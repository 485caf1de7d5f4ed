/* From a phase and a batch size to something that runs. The nominal training step comes first in a training session: it
 * fills the assignment and lays out the store; every other step reads both, so all elaborations agree on formats and
 * states. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "codegen/codegen.h"
#include "driver/format_choice.h"
#include "driver/session.h"
#include "driver/target_formats.h"
#include "runtime/cpu/jit.h"

static void print_time(void *user, const mpc_pass *pass, const mpc_graph *before, const mpc_graph *after,
                       double seconds) {
    (void)user;
    (void)before;
    fprintf(stderr, "%-16s %8.3f ms  %6u nodes\n", pass->name, seconds * 1e3, after ? after->node_count : 0);
}

mpc_graph *mpc_session_graph(mpc_session *s, mpc_phase phase, int64_t batch, mpc_stage stage) {
    bool decides = stage != MPC_STAGE_PARSED && stage != MPC_STAGE_GRAD;
    if (phase == MPC_PHASE_TRAIN && decides && !mpc_formats_settle(s)) return NULL;
    mpc_graph *parsed = mpc_model_elaborate(s->model, phase, batch, &s->facts);
    mpc_str text = {0};
    mpc_pipeline_text_for(s, phase, stage, &text);
    if (!parsed || text.failed || !text.length) {
        if (text.failed) mpc_error(s->sink, "E901", "out of memory");
        mpc_str_free(&text);
        return parsed;
    }
    mpc_pass_env env = {
        .ctx = s->ctx, .assignment = s->assignment, .observed = s->observed, .profile = s->profile, .choices = s->plan_choices,
        .sensitivity = s->sensitivity, .loss_budget = s->loss_budget, .dial = s->dial, .f32_seconds = s->f32_seconds};
    mpc_pipeline_hooks hooks = {.verify_each = s->verify_each, .after = s->time_passes ? print_time : NULL};
    mpc_graph *g = mpc_pipeline_run(parsed, text.data, &env, &hooks);
    mpc_graph_destroy(parsed);
    mpc_str_free(&text);
    if (!g || mpc_target_check(s, g)) return g;
    mpc_graph_destroy(g);
    return NULL;
}

static bool is_control(const char *source) { return strncmp(source, "control:", 8) == 0; }

static mpc_data_field field_of_input(const mpc_graph *g, const mpc_input *in) {
    mpc_data_field f = {.source = mpc_input_attr_str(g, in, "source"), .where = mpc_input_attr_str(g, in, "where")};
    const mpc_type *type = mpc_value_type(g, in->value);
    f.row_type.format = type->format;
    f.row_type.rank = type->rank ? type->rank - 1 : 0;
    for (uint32_t i = 1; i < type->rank; i++) f.row_type.dims[i - 1] = type->dims[i];
    if (!mpc_input_attr_int(g, in, "lo", &f.lo)) f.lo = 0;
    if (!mpc_input_attr_int(g, in, "hi", &f.hi)) f.hi = 0;
    return f;
}

static bool list_fields(mpc_step *step) {
    const mpc_graph *g = step->graph;
    step->fields = mpc_alloc((g->input_count + 1) * sizeof *step->fields);
    if (!step->fields) return false;
    for (uint32_t i = 0; i < g->input_count; i++)
        if (!is_control(mpc_input_attr_str(g, &g->inputs[i], "source")))
            step->fields[step->field_count++] = field_of_input(g, &g->inputs[i]);
    return true;
}

/* Which field an executor's input takes: the graph's inputs and the executor's have the same names. */
static uint32_t find_field(const mpc_step *step, const mpc_program_input *input) {
    const mpc_graph *g = step->graph;
    for (uint32_t i = 0, field = 0; i < g->input_count; i++) {
        const char *source = mpc_input_attr_str(g, &g->inputs[i], "source");
        if (strcmp(mpc_value_name(g, g->inputs[i].value), input->name) == 0)
            return is_control(source) ? MPC_NONE : field;
        field += !is_control(source);
    }
    return MPC_NONE;
}

static bool map_inputs(mpc_step *step) {
    const mpc_exec *e = step->exec;
    step->flush = MPC_NONE;
    step->field_of = mpc_alloc((e->input_count + 1) * sizeof *step->field_of);
    if (!step->field_of) return false;
    for (uint32_t i = 0; i < e->input_count; i++) {
        step->field_of[i] = find_field(step, &e->inputs[i]);
        if (step->field_of[i] != MPC_NONE) continue;
        if (strcmp(e->inputs[i].source, "control:flush") == 0) step->flush = i;
        memset(e->vtable->input(step->exec, i), 0, (size_t)mpc_type_bytes(&e->input_types[i]));
    }
    return true;
}

mpc_program *mpc_device_program(mpc_device_kind device, const mpc_graph *final) {
    mpc_codegen_options options = {.target = device == MPC_DEVICE_CUDA ? MPC_TARGET_CUDA : MPC_TARGET_C};
    return mpc_codegen(final, &options);
}

bool mpc_session_assign(mpc_session *s) {
    mpc_data_facts facts = s->facts;
    s->facts.known = facts.vocabulary > 0; /* rows to predict may lack the columns of labels */
    mpc_graph *g = mpc_session_graph(s, MPC_PHASE_TRAIN, s->train->batch, MPC_STAGE_DECIDED);
    s->facts = facts;
    mpc_graph_destroy(g);
    return g != NULL;
}

static bool load_device(mpc_step *step) {
    mpc_session *s = step->session;
    if (s->device == MPC_DEVICE_REF) {
        step->exec = mpc_ref_load(step->graph, s->store, s->sink);
        return step->exec != NULL;
    }
    step->program = mpc_device_program(s->device, step->graph);
    if (!step->program) return false;
    step->exec = s->device == MPC_DEVICE_CUDA ? mpc_cuda_load(step->program, s->store, &s->exec_options, s->sink)
                                              : mpc_cpu_load(step->program, s->store, &s->exec_options, s->sink);
    return step->exec != NULL;
}

static bool has_master(const mpc_graph *g, const char *name) {
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (n->op == MPC_OP_state && mpc_attr_format(g, n, "derived") == MPC_FMT_none &&
            strcmp(mpc_attr_str(g, n, "name"), name) == 0)
            return true;
    }
    return false;
}

/* Some low copy without its master: of a frozen parameter, which no update reads. */
static bool lacks_a_master(const mpc_graph *g) {
    for (mpc_node_id i = 0; i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (n->op != MPC_OP_state || mpc_attr_format(g, n, "derived") == MPC_FMT_none) continue;
        if (!has_master(g, mpc_attr_str(g, n, "name"))) return true;
    }
    return false;
}

/* The update reads every master but those of frozen parameters; in graphs without update nobody reads the master of a
 * low copy. Yet copies are made from masters, and checkpoints hold them: then the store is laid out before the clean-up
 * that drops what isn't read. */
static mpc_store *make_store(const mpc_step *step) {
    mpc_session *s = step->session;
    if (step->phase == MPC_PHASE_TRAIN && !lacks_a_master(step->graph)) return mpc_store_create(step->graph, s->sink);
    mpc_graph *g = mpc_session_graph(s, step->phase, step->batch, MPC_STAGE_AUTOCAST);
    mpc_store *store = g ? mpc_store_create(g, s->sink) : NULL;
    mpc_graph_destroy(g);
    return store;
}

/* Without a compiler the cpu device can't run: everything is interpreted then, said once and before the first step is
 * lowered, since `ref` takes another form of the graph. Who asked for a GPU gets it or an error. */
static bool settle_device(mpc_session *s) {
    if (s->device_settled) return true;
    if (s->device == MPC_DEVICE_CUDA && !mpc_cuda_available(s->sink)) return false;
    s->device_settled = true;
    const char *compiler = s->exec_options.compiler;
    mpc_str version = {0};
    if (s->device == MPC_DEVICE_CPU && !mpc_compiler_version(compiler, &version)) {
        if (s->cli->options->strict) {
            mpc_str_free(&version);
            return mpc_error(
                       s->sink, "E378",
                       "no C compiler: `%s` can't be run, and --strict refuses to interpret everything (--device ref)",
                       mpc_compiler_command(compiler)) == MPC_OK;
        }
        s->device = MPC_DEVICE_REF;
        mpc_warn(s->sink, "W161", (mpc_span){0},
                 "no C compiler: `%s` can't be run, so everything is interpreted (device ref), which is slow; set "
                 "MPC_CC to a compiler",
                 mpc_compiler_command(compiler));
    }
    mpc_str_free(&version);
    return true;
}

static bool build_step(mpc_step *step) {
    mpc_session *s = step->session;
    if (!settle_device(s)) return false;
    mpc_stage stage = s->device == MPC_DEVICE_REF ? MPC_STAGE_LOWERED : MPC_STAGE_FINAL;
    if (s->keep_composites) stage = MPC_STAGE_AUTOCAST;
    step->graph = mpc_session_graph(s, step->phase, step->batch, stage);
    if (!step->graph) return false;
    if (!s->store) s->store = make_store(step);
    if (!s->store || !load_device(step)) return false;
    if (list_fields(step) && map_inputs(step)) return true;
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

mpc_step *mpc_step_create(mpc_session *s, mpc_phase phase, int64_t batch) {
    mpc_step *step = mpc_alloc(sizeof *step);
    if (!step) {
        mpc_error(s->sink, "E901", "out of memory");
        return NULL;
    }
    *step = (mpc_step){.session = s, .phase = phase, .batch = batch};
    if (build_step(step)) return step;
    mpc_step_destroy(step);
    return NULL;
}

void mpc_step_destroy(mpc_step *step) {
    if (!step) return;
    if (step->exec) step->exec->vtable->destroy(step->exec);
    mpc_program_destroy(step->program);
    mpc_graph_destroy(step->graph);
    mpc_free(step->fields);
    mpc_free(step->field_of);
    mpc_free(step);
}

bool mpc_step_bind(mpc_step *step, mpc_dataset *d) {
    return mpc_dataset_bind(d, step->fields, step->field_count) == MPC_OK;
}

bool mpc_step_feed(mpc_step *step, const mpc_dataset *d, const uint32_t *rows) {
    mpc_exec *e = step->exec;
    for (uint32_t i = 0; i < e->input_count; i++) {
        void *input = e->vtable->input(e, i);
        if (step->field_of[i] == MPC_NONE) memset(input, 0, (size_t)mpc_type_bytes(&e->input_types[i]));
        else if (mpc_dataset_gather(d, step->field_of[i], rows, step->batch, input) != MPC_OK) return false;
    }
    return true;
}

bool mpc_step_profile(mpc_step *step, mpc_launch_time *times) {
    uint32_t count = step->program->launch_count;
    bool cuda = step->session->device == MPC_DEVICE_CUDA;
    return (cuda ? mpc_cuda_profile(step->exec, times, count) : mpc_cpu_profile(step->exec, times, count)) == MPC_OK;
}

bool mpc_step_run(mpc_step *step) {
    return mpc_exec_step(step->exec) == MPC_OK && mpc_exec_record(step->exec, true) == MPC_RECORD_READY;
}

void mpc_step_set_flush(mpc_step *step, bool flush) {
    if (step->flush == MPC_NONE) return;
    *(uint8_t *)step->exec->vtable->input(step->exec, step->flush) = flush;
}

uint32_t mpc_step_output(const mpc_step *step, const char *name) {
    for (uint32_t i = 0; i < step->exec->output_count; i++)
        if (strcmp(step->exec->outputs[i].name, name) == 0) return i;
    return MPC_NONE;
}

double mpc_step_scalar(mpc_step *step, uint32_t index, double fallback) {
    if (index == MPC_NONE) return fallback;
    const void *p = step->exec->vtable->output(step->exec, index);
    float f;
    int32_t i32;
    int64_t i64;
    double d;
    switch (step->exec->output_types[index].format) {
    case MPC_FMT_f32:
        memcpy(&f, p, sizeof f);
        return (double)f;
    case MPC_FMT_f64:
        memcpy(&d, p, sizeof d);
        return d;
    case MPC_FMT_i32:
        memcpy(&i32, p, sizeof i32);
        return (double)i32;
    case MPC_FMT_i64:
        memcpy(&i64, p, sizeof i64);
        return (double)i64;
    case MPC_FMT_bool:
    case MPC_FMT_u8:
        return (double)*(const uint8_t *)p;
    default:
        return fallback;
    }
}
