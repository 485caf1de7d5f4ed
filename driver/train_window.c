/* A window is what one update takes: `accumulate` micro-batches, fewer at the end of an epoch. Steps may run ahead of
 * the host: a window is *begun* when its last step is, and *accounted for* when that step's record was read. `begun`
 * and `cursor` are the two places; totals, log, progress and checkpoints know the second one only. */
#include "driver/trainer.h"

/* The next `size` rows of the epoch into the step. */
static bool feed(mpc_trainer *t, mpc_step *step, int64_t size) {
    mpc_dataset *d = t->data[MPC_SPLIT_TRAIN];
    return mpc_dataset_order(d, t->cursor.seed, (uint32_t)t->begun.epoch, (int64_t)t->begun.row, size, t->rows) ==
               MPC_OK &&
           mpc_step_feed(step, d, t->rows);
}

static bool end_window(mpc_trainer *t, const mpc_batch *b) {
    t->cursor.step = b->after.step;
    t->cursor.epoch = b->after.epoch;
    t->cursor.row = b->after.row;
    t->windows_run++;
    t->all_step_seconds += t->step_seconds;
    t->all_wait_seconds += t->wait_seconds;
    if (mpc_step_scalar(b->runner->step, b->runner->stop, 0) != 0) t->stopped = b->runner;
    return mpc_report_step(t, b->runner);
}

/* The current record is this batch's. */
static bool account_for(mpc_trainer *t, const mpc_batch *b) {
    if (b->first) {
        mpc_totals_clear(&t->window);
        t->step_seconds = t->wait_seconds = 0;
        t->window_rows = 0;
    }
    t->step_seconds += b->step_seconds;
    t->wait_seconds += b->feed_seconds;
    t->window_rows += b->rows;
    mpc_totals_add(&t->window, &b->runner->meter, b->runner->step);
    mpc_totals_add(&t->since_eval, &b->runner->meter, b->runner->step);
    return !b->last || end_window(t, b);
}

bool mpc_trainer_account(mpc_trainer *t, bool wait) {
    mpc_batch batch;
    mpc_record_state state = MPC_RECORD_READY;
    while (!t->stopped && (state = mpc_flight_take(&t->flight, wait, &batch)) == MPC_RECORD_READY)
        if (!account_for(t, &batch)) return false;
    return state != MPC_RECORD_FAILED;
}

/* The runner whose step may be fed now; NULL after a failure, or when a step was found that stopped the training. */
static mpc_runner *free_runner(mpc_trainer *t, int64_t size) {
    bool made = mpc_runners_find(&t->runners, MPC_PHASE_TRAIN, size) != NULL;
    if (!made && !mpc_trainer_account(t, true)) return NULL; /* nothing is loaded beside running steps */
    mpc_runner *r = t->stopped ? NULL : mpc_runners_get(&t->runners, MPC_PHASE_TRAIN, size);
    mpc_batch oldest;
    while (r && !mpc_flight_has_room(&t->flight, r)) {
        if (mpc_flight_take(&t->flight, true, &oldest) != MPC_RECORD_READY || !account_for(t, &oldest)) return NULL;
        if (t->stopped) return NULL;
    }
    return r;
}

/* One micro-batch from `begun` on. *ended: it was the window's last. */
static bool begin_batch(mpc_trainer *t, int64_t micro, bool *ended) {
    const mpc_dataset *d = t->data[MPC_SPLIT_TRAIN];
    int64_t left = mpc_session_epoch_rows(t->session, d) - (int64_t)t->begun.row;
    int64_t size = left < t->train->batch ? left : t->train->batch;
    mpc_runner *r = free_runner(t, size);
    if (!r) return false;
    t->runners.found.step = t->begun.step + 1;
    double begin = mpc_now();
    if (!feed(t, r->step, size)) return false;
    mpc_step_set_flush(r->step, size == left);
    bool profiles = micro == 0 && mpc_profile_is_due(t);
    *ended = micro + 1 == t->train->accumulate || size == left;
    t->begun.row += (uint64_t)size;
    if (*ended) t->begun.step++;
    if (size == left) t->begun = (mpc_position){.step = t->begun.step, .epoch = t->begun.epoch + 1};
    mpc_batch batch = {.runner = r,
                       .rows = size,
                       .first = micro == 0,
                       .last = *ended,
                       .after = t->begun,
                       .feed_seconds = mpc_now() - begin};
    return profiles ? mpc_profile_begin(t, &batch) : mpc_flight_begin(&t->flight, &batch, NULL);
}

bool mpc_trainer_begin_window(mpc_trainer *t) {
    bool ended = false;
    for (int64_t micro = 0; !ended && !t->stopped; micro++)
        if ((!begin_batch(t, micro, &ended) || !mpc_trainer_account(t, false)) && !t->stopped) return false;
    return true;
}
