/* Runs beside a session, on states of their own: steps in f32 whose every value and gradient is seen, and steps in f32
 * next to steps under the assignment from the same weights on the same rows, once more with the choices that the
 * assignment's step made. The session's store, assignment and data stay as they were, but data is bound again by
 * whoever trains. */
#include <math.h>
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

/* A step on states of its own, from those that the session starts with. */
typedef struct beside {
    mpc_session session;
    mpc_step *step;
} beside;

/* f32; the assignment; f32 on what the assignment's update left; f32 with the choices of the assignment's step, without
 * a step where there are none */
enum { WIDE, LOW, AFTER, GIVEN, BESIDE };

static bool open_beside(const mpc_session *s, const mpc_train_config *config, mpc_assignment *a, mpc_dataset *d,
                        bool given, beside *out) {
    out->session = mpc_session_beside(s, config, a);
    out->session.watch_choices = !given;
    out->session.given_choices = given;
    out->step = a ? mpc_step_create(&out->session, MPC_PHASE_TRAIN, mpc_session_batch(s, d)) : NULL;
    return out->step && mpc_session_start_states(s, out->session.store) && mpc_standardize(s, out->session.store, d) &&
           mpc_step_bind(out->step, d);
}

static void close_beside(beside *b) {
    mpc_step_destroy(b->step);
    mpc_store_destroy(b->session.store);
}

/* ---- choices: outputs choice:NAME of a step, inputs of that name of the step that is given them ---- */

static const char *choice_of(const mpc_step *step, uint32_t output) {
    static const char prefix[] = "choice:";
    const char *name = step->exec->outputs[output].name;
    return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : NULL;
}

static bool has_choices(const mpc_step *step) {
    for (uint32_t i = 0; i < step->exec->output_count; i++)
        if (choice_of(step, i)) return true;
    return false;
}

static void give_choices(mpc_step *from, mpc_step *to) {
    for (uint32_t i = 0; i < to->exec->input_count; i++) {
        uint32_t choice = mpc_step_output(from, to->exec->inputs[i].name);
        if (choice == MPC_NONE || strcmp(to->exec->inputs[i].source, "control:choice") != 0) continue;
        memcpy(to->exec->vtable->input(to->exec, i), from->exec->vtable->output(from->exec, choice),
               (size_t)mpc_type_bytes(&to->exec->input_types[i]));
    }
}

static int64_t count_unequal(const mpc_type *type, const char *a, const char *b) {
    int64_t elements = mpc_type_elements(type), unequal = 0;
    size_t bytes = elements > 0 ? (size_t)(mpc_type_bytes(type) / elements) : 0;
    for (int64_t i = 0; i < elements; i++) unequal += memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) != 0;
    return unequal;
}

/* Whether the last two steps chose otherwise. The first choice that differs is to blame, since later ones may only
 * follow from it (outputs are in the order of the graph): its elements are added to the count of that output of the f32
 * step. */
static bool chose_otherwise(const beside *b, int64_t *blamed) {
    mpc_step *wide = b[WIDE].step, *low = b[LOW].step;
    for (uint32_t i = 0; i < wide->exec->output_count; i++) {
        uint32_t same = choice_of(wide, i) ? mpc_step_output(low, wide->exec->outputs[i].name) : MPC_NONE;
        if (same == MPC_NONE) continue;
        int64_t unequal = count_unequal(&wide->exec->output_types[i], wide->exec->vtable->output(wide->exec, i),
                                        low->exec->vtable->output(low->exec, same));
        blamed[i] += unequal;
        if (unequal > 0) return true;
    }
    return false;
}

static void name_most_blamed(const mpc_step *wide, const int64_t *blamed, mpc_loss_check *out) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < wide->exec->output_count; i++)
        if (blamed[i] > blamed[most]) most = i;
    const char *name = choice_of(wide, most);
    if (!name || blamed[most] == 0) return;
    const mpc_graph *g = wide->graph;
    const mpc_node *n = mpc_producer(g, mpc_graph_find_output(g, wide->exec->outputs[most].name));
    out->other_choice = mpc_sym_text(g->ctx, mpc_intern(g->ctx, name));
    out->other_elements = blamed[most];
    if (n) out->other_place = n->loc;
}

/* ---- batches ---- */

typedef struct losses { /* of one batch, by step */
    double of[BESIDE];
} losses;

typedef struct batch {
    const mpc_dataset *d;
    uint32_t *rows;
    bool flush;
} batch;

static bool run(mpc_step *step, const batch *x, mpc_step *chooser, double *loss) {
    if (!mpc_step_feed(step, x->d, x->rows)) return false;
    if (chooser) give_choices(chooser, step);
    mpc_step_set_flush(step, x->flush);
    if (!mpc_step_run(step)) return false;
    *loss = mpc_step_scalar(step, mpc_step_output(step, "loss"), 0);
    return true;
}

/* One batch from the weights of the training in f32; AFTER from those of the assignment's last update instead. */
static bool compare_batch(beside *b, const batch *x, losses *out) {
    mpc_store *wide = b[WIDE].session.store, *low = b[LOW].session.store, *given = b[GIVEN].session.store;
    bool ok = copy_states(low, b[AFTER].session.store) && run(b[AFTER].step, x, NULL, &out->of[AFTER]);
    ok = ok && copy_states(wide, low) && run(b[LOW].step, x, NULL, &out->of[LOW]);
    if (b[GIVEN].step) ok = ok && copy_states(wide, given) && run(b[GIVEN].step, x, b[LOW].step, &out->of[GIVEN]);
    ok = ok && run(b[WIDE].step, x, NULL, &out->of[WIDE]);
    if (!b[GIVEN].step) out->of[GIVEN] = out->of[WIDE];
    return ok;
}

static double applied(mpc_step *step) { return mpc_step_scalar(step, mpc_step_output(step, "applied"), 0); }

/* An update that the loss scale refused has moved nothing, which isn't rounding. */
static bool both_moved(const beside *b, bool flush) { return flush && applied(b[LOW].step) == applied(b[WIDE].step); }

static double squared(double x) { return x * x; }

/* Means of squares; compare_steps takes their roots. */
static bool compare_batches(beside *b, batch *x, int64_t batches, int64_t *blamed, mpc_loss_check *out) {
    int64_t updates = 0;
    bool moved = false;
    for (int64_t i = 0; i < batches; i++) {
        losses l;
        choose_rows(&b[WIDE].session, x->d, b[WIDE].step->batch, MEASURED_STEPS + i, x->rows);
        x->flush = (i + 1) % b[WIDE].session.train->accumulate == 0;
        if (!compare_batch(b, x, &l)) return false;
        out->other_batches += chose_otherwise(b, blamed);
        out->deviation += squared(l.of[LOW] - l.of[GIVEN]) / (double)batches;
        out->deviation_all += squared(l.of[LOW] - l.of[WIDE]) / (double)batches;
        out->deviation_choices += squared(l.of[GIVEN] - l.of[WIDE]) / (double)batches;
        if (moved) out->after_update += squared(l.of[AFTER] - l.of[WIDE]);
        updates += moved;
        moved = both_moved(b, x->flush);
    }
    if (updates > 0) out->after_update /= (double)updates;
    return true;
}

static bool compare_steps(beside *b, mpc_dataset *d, int64_t batches, mpc_loss_check *out) {
    const mpc_step *wide = b[WIDE].step;
    size_t counts = (wide->exec->output_count + 1) * sizeof(int64_t);
    uint32_t *rows = mpc_alloc((size_t)wide->batch * sizeof *rows);
    int64_t *blamed = mpc_alloc(counts);
    bool ok = (rows && blamed) || no_memory(wide->session);
    if (ok) memset(blamed, 0, counts);
    *out = (mpc_loss_check){0};
    ok = ok && compare_batches(b, &(batch){.d = d, .rows = rows}, batches, blamed, out);
    if (ok) name_most_blamed(wide, blamed, out);
    double *means[] = {&out->deviation, &out->deviation_all, &out->deviation_choices, &out->after_update};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) *means[i] = sqrt(*means[i]);
    mpc_free(rows);
    mpc_free(blamed);
    return ok;
}

bool mpc_loss_compare(const mpc_session *s, mpc_dataset *d, int64_t batches, mpc_loss_check *out) {
    mpc_train_config config = *s->train;
    config.precision = "f32";
    mpc_assignment *none = mpc_assignment_create();
    beside b[BESIDE] = {{.step = NULL}};
    bool ok = open_beside(s, &config, none, d, false, &b[WIDE]) &&
              open_beside(s, s->train, s->assignment, d, false, &b[LOW]) &&
              open_beside(s, &config, none, d, false, &b[AFTER]);
    if (ok && has_choices(b[WIDE].step)) ok = open_beside(s, &config, none, d, true, &b[GIVEN]);
    ok = ok && compare_steps(b, d, batches, out);
    for (int i = BESIDE; i-- > 0;) close_beside(&b[i]);
    mpc_assignment_destroy(none);
    return ok;
}
