/* Runs beside a session, on states of their own: steps in f32 whose every value and gradient is seen, and steps in f32 next to steps under the assignment from
 * the same weights on the same rows. The session's store, assignment and data stay as they were, but data is bound again by whoever trains. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "driver/loss_budget.h"
#include "driver/standardize.h"

enum { MEASURED_STEPS = 2, STREAM = 8 };

static void choose_rows(const mpc_session *s, const mpc_dataset *d, int64_t batch, int64_t index, uint32_t *out) {
    double rows = (double)mpc_dataset_rows(d);
    for (int64_t i = 0; i < batch; i++) {
        float u = mpc_random_uniform(s->train->seed, STREAM, (uint32_t)index, (uint64_t)i);
        out[i] = (uint32_t)((double)u * rows);
    }
}

static bool no_memory(const mpc_session *s) {
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

/* ---- sensitivities ---- */

typedef struct watch {
    mpc_sensitivity *out;
    mpc_tensor *values; /* by value of the graph; the step's own memory */
    bool failed;
} watch;

/* Tensors live until the step ends, so the last node is when all of them can be looked at. */
static bool observe(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    watch *w = user;
    const mpc_node *n = &g->nodes[node];
    for (uint32_t i = 0; i < n->result_count; i++) w->values[mpc_result(n, i)] = results[i];
    if (node + 1 < g->node_count) return true;
    w->failed = mpc_sensitivity_measure(w->out, g, w->values, 1.0 / MEASURED_STEPS) != MPC_OK;
    return !w->failed;
}

static bool take_inputs(mpc_step *step, watch *w, mpc_arena *arena) {
    const mpc_graph *g = step->graph;
    for (uint32_t i = 0; i < g->input_count; i++) {
        mpc_tensor t = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        if (!t.data) return false;
        mpc_tensor_from_bytes(&t, step->exec->vtable->input(step->exec, i));
        w->values[g->inputs[i].value] = t;
    }
    return true;
}

static bool measure_steps(mpc_step *step, mpc_dataset *d, mpc_sensitivity *out) {
    const mpc_session *s = step->session;
    mpc_arena *arena = mpc_arena_create();
    watch w = {.out = out};
    if (arena) w.values = mpc_arena_alloc(arena, ((size_t)step->graph->value_count + 1) * sizeof *w.values);
    uint32_t *rows = arena ? mpc_arena_alloc(arena, (size_t)step->batch * sizeof *rows) : NULL;
    mpc_eval_options options = {.after = observe, .user = &w};
    bool ok = (w.values && rows) || no_memory(s);
    mpc_ref_observe(step->exec, &options);
    for (int64_t i = 0; ok && i < MEASURED_STEPS; i++) {
        choose_rows(s, d, step->batch, i, rows);
        ok = mpc_step_feed(step, d, rows);
        mpc_step_set_flush(step, (i + 1) % s->train->accumulate == 0);
        ok = ok && (take_inputs(step, &w, arena) || no_memory(s));
        ok = ok && mpc_step_run(step) && !w.failed;
    }
    mpc_ref_observe(step->exec, NULL);
    mpc_arena_destroy(arena);
    return ok;
}

bool mpc_loss_measure(const mpc_session *s, mpc_dataset *d, mpc_sensitivity *out) {
    mpc_train_config config = *s->train;
    config.precision = "f32";
    mpc_session probe = mpc_session_beside(s, &config, mpc_assignment_create());
    probe.device = MPC_DEVICE_REF;
    probe.keep_composites = probe.each_gradient = true;
    mpc_step *step = probe.assignment ? mpc_step_create(&probe, MPC_PHASE_TRAIN, mpc_session_batch(s, d)) : NULL;
    bool ok = step && mpc_session_start_states(s, probe.store) && mpc_standardize(s, probe.store, d) &&
              mpc_step_bind(step, d) && measure_steps(step, d, out);
    mpc_step_destroy(step);
    mpc_store_destroy(probe.store);
    mpc_assignment_destroy(probe.assignment);
    return ok;
}

/* ---- the check ---- */

/* All states that both have; the low copies are made anew. */
static bool copy_states(mpc_store *from, mpc_store *to) {
    if (mpc_store_to_host(from) != MPC_OK || mpc_store_to_host(to) != MPC_OK) return false;
    for (uint32_t i = 0; i < mpc_store_count(to); i++) {
        mpc_store_entry *e = mpc_store_at(to, i);
        const mpc_store_entry *same = e->derived == MPC_FMT_none ? mpc_store_find(from, e->name, MPC_FMT_none) : NULL;
        if (same && same->bytes == e->bytes) memcpy(e->data, same->data, (size_t)e->bytes);
    }
    return mpc_store_derive(to) == MPC_OK;
}

static bool run(mpc_step *step, const mpc_dataset *d, const uint32_t *rows, bool flush, double *loss) {
    if (!mpc_step_feed(step, d, rows)) return false;
    mpc_step_set_flush(step, flush);
    if (!mpc_step_run(step)) return false;
    *loss = mpc_step_scalar(step, mpc_step_output(step, "loss"), 0);
    return true;
}

/* A step on states of its own, from those that the session starts with. */
typedef struct beside {
    mpc_session session;
    mpc_step *step;
} beside;

static bool open_beside(const mpc_session *s, const mpc_train_config *config, mpc_assignment *a, mpc_dataset *d,
                        beside *out) {
    out->session = mpc_session_beside(s, config, a);
    out->step = a ? mpc_step_create(&out->session, MPC_PHASE_TRAIN, mpc_session_batch(s, d)) : NULL;
    return out->step && mpc_session_start_states(s, out->session.store) && mpc_standardize(s, out->session.store, d) &&
           mpc_step_bind(out->step, d);
}

static void close_beside(beside *b) {
    mpc_step_destroy(b->step);
    mpc_store_destroy(b->session.store);
}

enum { WIDE, LOW, AFTER, BESIDE }; /* f32, the assignment, f32 on what the assignment's update left */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of a normal distribution's size is 0.6745 of its deviation. */
static double typical_of(double *sizes, int64_t count) {
    qsort(sizes, (size_t)count, sizeof *sizes, by_size);
    return (sizes[(count - 1) / 2] + sizes[count / 2]) / 2 / 0.6745;
}

/* One batch from the weights of the training in f32. `after`: the same loss with the weights of the assignment's last
 * update instead. */
static bool compare_batch(beside *b, mpc_dataset *d, const uint32_t *rows, bool flush, double *off, double *after) {
    mpc_store *wide = b[WIDE].session.store, *low = b[LOW].session.store;
    double f32 = 0, ours = 0, moved = 0;
    bool ok = copy_states(low, b[AFTER].session.store) && run(b[AFTER].step, d, rows, flush, &moved);
    ok = ok && copy_states(wide, low) && run(b[LOW].step, d, rows, flush, &ours) &&
         run(b[WIDE].step, d, rows, flush, &f32);
    *off = fabs(ours - f32);
    *after = moved - f32;
    return ok;
}

static double applied(mpc_step *step) { return mpc_step_scalar(step, mpc_step_output(step, "applied"), 0); }

/* An update that the loss scale refused has moved nothing, which isn't rounding. */
static bool both_moved(const beside *b, bool flush) { return flush && applied(b[LOW].step) == applied(b[WIDE].step); }

static bool compare_steps(beside *b, mpc_dataset *d, int64_t batches, mpc_loss_check *out) {
    const mpc_session *s = b[WIDE].step->session;
    int64_t size = b[WIDE].step->batch, updates = 0;
    uint32_t *rows = mpc_alloc((size_t)size * sizeof *rows);
    double *sizes = mpc_alloc((size_t)batches * sizeof *sizes), sum = 0, moved = 0;
    bool ok = (rows && sizes) || no_memory(s), counts = false;
    for (int64_t i = 0; ok && i < batches; i++) {
        bool flush = (i + 1) % s->train->accumulate == 0;
        double after;
        choose_rows(s, d, size, MEASURED_STEPS + i, rows);
        ok = compare_batch(b, d, rows, flush, &sizes[i], &after);
        sum += sizes[i] * sizes[i];
        if (counts) moved += after * after;
        updates += counts;
        counts = ok && both_moved(b, flush);
    }
    out->deviation = sqrt(sum / (double)batches);
    out->typical = ok ? typical_of(sizes, batches) : 0;
    out->after_update = updates > 0 ? sqrt(moved / (double)updates) : 0;
    mpc_free(rows);
    mpc_free(sizes);
    return ok;
}

bool mpc_loss_compare(const mpc_session *s, mpc_dataset *d, int64_t batches, mpc_loss_check *out) {
    mpc_train_config config = *s->train;
    config.precision = "f32";
    mpc_assignment *none = mpc_assignment_create();
    beside b[BESIDE] = {{.step = NULL}};
    bool ok = open_beside(s, &config, none, d, &b[WIDE]) && open_beside(s, s->train, s->assignment, d, &b[LOW]) &&
              open_beside(s, &config, none, d, &b[AFTER]) && compare_steps(b, d, batches, out);
    for (int i = BESIDE; i-- > 0;) close_beside(&b[i]);
    mpc_assignment_destroy(none);
    return ok;
}
