/* mpc profile: runs steps of a training on `ref` and writes which numbers each value held. In f32 unless told
 * otherwise, since a format that is too narrow hides what it can't hold; the model is left as it was. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "driver/session.h"
#include "driver/standardize.h"
#include "ir/eval/eval.h"
#include "passes/precision/range.h"
#include "runtime/file_sync.h"

enum { DEFAULT_STEPS = 20 };

typedef struct watch {
    mpc_observations *seen;
    bool failed;
} watch;

static bool observe(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    watch *w = user;
    const mpc_node *n = &g->nodes[node];
    for (uint32_t i = 0; i < n->result_count; i++) {
        if (!results[i].data || !mpc_format_is_float(results[i].type.format)) continue;
        if (!mpc_observations_add(w->seen, mpc_value_name(g, mpc_result(n, i)), results[i].data,
                                  mpc_type_elements(&results[i].type)))
            w->failed = true;
    }
    return !w->failed;
}

/* Rows of step `index`, drawn by the seed. */
static void choose_rows(const mpc_session *s, int64_t rows, int64_t batch, int64_t index, uint32_t *out) {
    for (int64_t i = 0; i < batch; i++) {
        float u = mpc_random_uniform(s->train->seed, 7, (uint32_t)index, (uint64_t)i);
        out[i] = (uint32_t)((double)u * (double)rows);
    }
}

/* Inputs have no node that would be seen. */
static bool observe_inputs(mpc_exec *e, watch *w) {
    mpc_arena *arena = mpc_arena_create();
    bool ok = arena != NULL;
    for (uint32_t i = 0; ok && i < e->input_count; i++) {
        if (!mpc_format_is_float(e->input_types[i].format)) continue;
        mpc_tensor t = mpc_tensor_make(arena, &e->input_types[i]);
        if (t.data != NULL) mpc_tensor_from_bytes(&t, e->vtable->input(e, i));
        ok = t.data != NULL &&
             mpc_observations_add(w->seen, e->inputs[i].name, t.data, mpc_type_elements(&e->input_types[i]));
    }
    mpc_arena_destroy(arena);
    w->failed = w->failed || !ok;
    return ok;
}

static bool run_steps(mpc_session *s, mpc_step *step, mpc_dataset *d, int64_t steps, watch *w) {
    uint32_t *rows = mpc_alloc((size_t)step->batch * sizeof *rows);
    mpc_eval_options options = {.after = observe, .user = w};
    bool ok = rows != NULL;
    mpc_ref_observe(step->exec, &options);
    for (int64_t i = 0; ok && i < steps; i++) {
        choose_rows(s, mpc_dataset_rows(d), step->batch, i, rows);
        ok = mpc_step_feed(step, d, rows);
        mpc_step_set_flush(step, (i + 1) % s->train->accumulate == 0);
        ok = ok && observe_inputs(step->exec, w) && mpc_step_run(step) && !w->failed;
    }
    mpc_ref_observe(step->exec, NULL);
    if (rows == NULL || w->failed) mpc_error(s->sink, "E901", "out of memory");
    mpc_free(rows);
    return ok;
}

static bool write_profile(mpc_session *s, const mpc_observations *seen) {
    mpc_str text = {0};
    const char *path = s->cli->options->out;
    mpc_observations_print(seen, &text);
    bool ok = !text.failed;
    if (!ok) mpc_error(s->sink, "E901", "out of memory");
    else if (path) ok = mpc_file_replace(path, text.data, text.length, s->sink) == MPC_OK;
    else fputs(text.data, stdout);
    if (ok && path) printf("%s: %zu values\n", path, mpc_observations_count(seen));
    mpc_str_free(&text);
    return ok;
}

static int64_t steps_wanted(const mpc_session *s) {
    const mpc_options *o = s->cli->options;
    for (size_t i = 0; i < o->shorthand.count; i++)
        if (strncmp(o->shorthand.data[i], "length=", 7) == 0) return (int64_t)s->train->length.value;
    return DEFAULT_STEPS;
}

static bool profile(mpc_session *s) {
    bool missing = false;
    mpc_dataset *d = mpc_session_split(s, MPC_SPLIT_TRAIN, &missing);
    if (!d) {
        if (missing) mpc_error(s->sink, "E355", "the data section has no `train`: there is nothing to run on");
        return false;
    }
    mpc_session_learn_facts(s, d);
    if (!mpc_session_plan_length(s, d)) return false;
    mpc_step *step = mpc_step_create(s, MPC_PHASE_TRAIN, mpc_session_batch(s, d));
    watch w = {.seen = mpc_observations_create()};
    if (!w.seen) mpc_error(s->sink, "E901", "out of memory");
    bool ok = step && w.seen && mpc_session_start_states(s, s->store) && mpc_standardize(s, s->store, d) &&
              mpc_step_bind(step, d) && run_steps(s, step, d, steps_wanted(s), &w) && write_profile(s, w.seen);
    mpc_observations_destroy(w.seen);
    mpc_step_destroy(step);
    return ok;
}

static bool names_precision(const mpc_options *o) {
    const mpc_text_list *lists[] = {&o->set, &o->shorthand};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k]->count; i++)
            if (strncmp(lists[k]->data[i], "precision=", 10) == 0) return true;
    return false;
}

int mpc_cmd_profile(mpc_cli *cli) {
    mpc_session session;
    mpc_train_config config;
    bool ok = mpc_session_open(&session, cli);
    if (ok) {
        config = *session.train;
        if (!names_precision(cli->options)) config.precision = "f32";
        session.train = &config;
        session.device = MPC_DEVICE_REF;
        session.keep_composites = true;
        ok = profile(&session);
    }
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
