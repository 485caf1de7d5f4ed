/* Evaluation must not move training: the evaluation graph changes no state but the counter of random draws, which is
 * put back. */
#include "driver/runner.h"

#include <string.h>

#include "base/alloc.h"
#include "driver/flight.h"

static bool add_check(mpc_runner *r, mpc_nonfinite_found *found) {
    if (!r->step->session->cli->options->check_nonfinite) return true;
    r->check = mpc_nonfinite_check_create(r->step, found);
    return r->check != NULL;
}

static bool init_runner(mpc_runner *r, mpc_runners *runners, mpc_phase phase, int64_t batch) {
    mpc_session *s = runners->session;
    *r = (mpc_runner){.step = mpc_step_create(s, phase, batch)};
    if (!r->step) return false;
    if (!mpc_meter_init(&r->meter, r->step) || !add_check(r, &runners->found)) {
        mpc_error(s->sink, "E901", "out of memory");
        return false;
    }
    r->lr = mpc_step_output(r->step, "lr");
    r->grad_norm = mpc_step_output(r->step, "grad_norm");
    r->scale = mpc_step_output(r->step, "scale");
    r->skipped = mpc_step_output(r->step, "skipped");
    r->lost = mpc_step_output(r->step, "lost");
    r->applied = mpc_step_output(r->step, "applied");
    r->stop = mpc_step_output(r->step, "stop");
    return true;
}

static void destroy_runner(mpc_runner *r) {
    mpc_meter_deinit(&r->meter);
    mpc_nonfinite_check_destroy(r->check);
    mpc_step_destroy(r->step);
    mpc_free(r);
}

mpc_runner *mpc_runners_find(const mpc_runners *r, mpc_phase phase, int64_t batch) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->data[i]->step->phase == phase && r->data[i]->step->batch == batch) return r->data[i];
    return NULL;
}

mpc_runner *mpc_runners_get(mpc_runners *r, mpc_phase phase, int64_t batch) {
    mpc_runner *found = mpc_runners_find(r, phase, batch);
    if (found) return found;
    mpc_runner *made = r->count < sizeof r->data / sizeof *r->data ? mpc_alloc(sizeof *made) : NULL;
    if (!made) {
        mpc_error(r->session->sink, "E901", "out of memory");
        return NULL;
    }
    if (!init_runner(made, r, phase, batch)) {
        destroy_runner(made);
        return NULL;
    }
    r->data[r->count++] = made;
    return made;
}

void mpc_runners_deinit(mpc_runners *r) {
    while (r->count > 0) destroy_runner(r->data[--r->count]);
    mpc_nonfinite_deinit(&r->found);
}

/* Adds the figures of steps that are done, or, with `wait`, of all. */
static bool add_figures(mpc_flight *f, bool wait, mpc_totals *out) {
    mpc_batch batch;
    mpc_record_state state;
    while ((state = mpc_flight_take(f, wait, &batch)) == MPC_RECORD_READY)
        mpc_totals_add(out, &batch.runner->meter, batch.runner->step);
    return state != MPC_RECORD_FAILED;
}

/* The runner for a batch that may be fed now. */
static mpc_runner *free_runner(mpc_runners *r, mpc_flight *f, int64_t size, mpc_totals *out) {
    bool ok = mpc_runners_find(r, MPC_PHASE_EVAL, size) ||
              add_figures(f, true, out); /* nothing is loaded beside running steps */
    mpc_runner *runner = ok ? mpc_runners_get(r, MPC_PHASE_EVAL, size) : NULL;
    mpc_batch batch;
    while (runner && !mpc_flight_has_room(f, runner)) {
        if (mpc_flight_take(f, true, &batch) != MPC_RECORD_READY) return NULL;
        mpc_totals_add(out, &batch.runner->meter, batch.runner->step);
    }
    return runner;
}

static bool evaluate_rows(mpc_runners *r, const mpc_dataset *d, mpc_totals *out, uint32_t *rows) {
    int64_t n = mpc_dataset_rows(d), size = r->session->train->batch;
    mpc_flight flight = {.count = 0};
    for (int64_t at = 0; at < n; at += size) {
        if (n - at < size) size = n - at;
        mpc_runner *runner = free_runner(r, &flight, size, out);
        if (!runner) return false;
        for (int64_t i = 0; i < size; i++) rows[i] = (uint32_t)(at + i);
        if (!mpc_step_feed(runner->step, d, rows) ||
            !mpc_flight_begin(&flight, &(mpc_batch){.runner = runner, .rows = size}, NULL) ||
            !add_figures(&flight, false, out))
            return false;
    }
    return add_figures(&flight, true, out);
}

static bool has_state(const mpc_graph *g, const char *name) {
    for (mpc_node_id i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == MPC_OP_state && strcmp(mpc_attr_str(g, &g->nodes[i], "name"), name) == 0) return true;
    return false;
}

/* The counter of random draws, where evaluation moves it; NULL else. Sets *ok. */
static mpc_store_entry *moved_counter(mpc_runners *r, const mpc_dataset *d, bool *ok) {
    int64_t n = mpc_dataset_rows(d), batch = r->session->train->batch;
    mpc_store_entry *draws = mpc_store_find(r->session->store, "rng.step", MPC_FMT_none);
    *ok = true;
    if (!draws || n == 0) return NULL;
    const mpc_runner *runner = mpc_runners_get(r, MPC_PHASE_EVAL, n < batch ? n : batch);
    *ok = runner != NULL;
    return runner && has_state(runner->step->graph, draws->name) ? draws : NULL;
}

bool mpc_evaluate_split(mpc_runners *r, const mpc_dataset *d, mpc_totals *out) {
    mpc_store *store = r->session->store;
    bool ok;
    mpc_store_entry *draws = moved_counter(r, d, &ok);
    int32_t before = 0;
    if (!ok || (draws && mpc_store_to_host(store) != MPC_OK)) return false;
    if (draws) memcpy(&before, draws->data, sizeof before);
    uint32_t *rows = mpc_alloc((size_t)r->session->train->batch * sizeof *rows);
    if (!rows) {
        mpc_error(r->session->sink, "E901", "out of memory");
        return false;
    }
    mpc_totals_clear(out);
    ok = evaluate_rows(r, d, out, rows);
    mpc_free(rows);
    if (draws) memcpy(draws->data, &before, sizeof before);
    return (!draws || mpc_store_to_device(store) == MPC_OK) && ok;
}
