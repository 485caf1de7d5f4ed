/* Evaluation must not move training: the evaluation graph changes no state but the counter of random draws, which is
 * put back. */
#include "driver/runner.h"

#include <string.h>

#include "base/alloc.h"

static bool init_runner(mpc_runner *r, mpc_session *s, mpc_phase phase, int64_t batch) {
    *r = (mpc_runner){.step = mpc_step_create(s, phase, batch)};
    if (!r->step) return false;
    if (!mpc_meter_init(&r->meter, r->step)) {
        mpc_error(s->sink, "E901", "out of memory");
        return false;
    }
    r->lr = mpc_step_output(r->step, "lr");
    r->grad_norm = mpc_step_output(r->step, "grad_norm");
    r->scale = mpc_step_output(r->step, "scale");
    r->skipped = mpc_step_output(r->step, "skipped");
    r->applied = mpc_step_output(r->step, "applied");
    r->stop = mpc_step_output(r->step, "stop");
    return true;
}

static void destroy_runner(mpc_runner *r) {
    mpc_meter_deinit(&r->meter);
    mpc_step_destroy(r->step);
    mpc_free(r);
}

mpc_runner *mpc_runners_get(mpc_runners *r, mpc_phase phase, int64_t batch) {
    for (uint32_t i = 0; i < r->count; i++)
        if (r->data[i]->step->phase == phase && r->data[i]->step->batch == batch) return r->data[i];
    mpc_runner *made = r->count < sizeof r->data / sizeof *r->data ? mpc_alloc(sizeof *made) : NULL;
    if (!made) {
        mpc_error(r->session->sink, "E901", "out of memory");
        return NULL;
    }
    if (!init_runner(made, r->session, phase, batch)) {
        destroy_runner(made);
        return NULL;
    }
    r->data[r->count++] = made;
    return made;
}

void mpc_runners_deinit(mpc_runners *r) {
    while (r->count > 0) destroy_runner(r->data[--r->count]);
}

static bool evaluate_rows(mpc_runners *r, const mpc_dataset *d, mpc_totals *out, uint32_t *rows) {
    int64_t n = mpc_dataset_rows(d), batch = r->session->train->batch;
    for (int64_t at = 0; at < n; at += batch) {
        int64_t size = n - at < batch ? n - at : batch;
        mpc_runner *runner = mpc_runners_get(r, MPC_PHASE_EVAL, size);
        if (!runner) return false;
        for (int64_t i = 0; i < size; i++) rows[i] = (uint32_t)(at + i);
        mpc_step_feed(runner->step, d, rows);
        if (runner->step->exec->vtable->step(runner->step->exec) != MPC_OK) return false;
        mpc_totals_add(out, &runner->meter, runner->step);
    }
    return true;
}

bool mpc_evaluate_split(mpc_runners *r, const mpc_dataset *d, mpc_totals *out) {
    mpc_store_entry *draws = mpc_store_find(r->session->store, "rng.step", MPC_FMT_none);
    int32_t before = 0;
    if (draws) memcpy(&before, draws->data, sizeof before);
    uint32_t *rows = mpc_alloc((size_t)r->session->train->batch * sizeof *rows);
    if (!rows) {
        mpc_error(r->session->sink, "E901", "out of memory");
        return false;
    }
    mpc_totals_clear(out);
    bool ok = evaluate_rows(r, d, out, rows);
    mpc_free(rows);
    if (draws) memcpy(draws->data, &before, sizeof before);
    return ok;
}
