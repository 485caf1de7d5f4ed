/* What a training needs before its first step: data, the monitored figure, the nominal step, states. The nominal
 * training step comes before every other one, since it decides the formats. */
#include <string.h>

#include "base/alloc.h"
#include "driver/format_choice.h"
#include "driver/loss_budget.h"
#include "driver/standardize.h"
#include "driver/trainer.h"

static bool out_of_memory(const mpc_trainer *t) {
    mpc_error(t->session->sink, "E901", "out of memory");
    return false;
}

static bool open_splits(mpc_trainer *t) {
    for (int i = 0; i <= MPC_SPLIT_TEST; i++) {
        bool missing;
        t->data[i] = mpc_session_split(t->session, (mpc_split)i, &missing);
        if (!t->data[i] && !missing) return false;
        if (t->data[i] || i != MPC_SPLIT_TRAIN) continue;
        mpc_error(t->session->sink, "E355", "the data section has no `train`: there is nothing to train on");
        return false;
    }
    mpc_session_learn_facts(t->session, t->data[MPC_SPLIT_TRAIN]);
    return mpc_session_plan_length(t->session, t->data[MPC_SPLIT_TRAIN]);
}

static bool known_figure(const mpc_trainer *t, const char *name) {
    double value;
    bool higher;
    return mpc_totals_find(&t->window, name, &value, &higher);
}

/* "valid.accuracy" -> split and figure. */
static bool choose_monitor(mpc_trainer *t) {
    const char *text = t->train->monitor;
    t->monitor_split = t->data[MPC_SPLIT_VALID] ? MPC_SPLIT_VALID : MPC_SPLIT_TRAIN;
    t->monitor = "loss";
    if (!text[0]) return true;
    const char *dot = strchr(text, '.');
    char split[16] = "";
    if (dot && dot - text < (int)sizeof split) memcpy(split, text, (size_t)(dot - text));
    mpc_split found = MPC_SPLIT_PREDICT;
    bool ok =
        dot && mpc_split_find(split, &found) && found <= MPC_SPLIT_VALID && t->data[found] && known_figure(t, dot + 1);
    if (!ok) {
        mpc_error(t->session->sink, "E354", "monitor = %s names no figure of the training or valid split", text);
        return false;
    }
    t->monitor_split = found;
    t->monitor = dot + 1;
    return true;
}

bool mpc_trainer_prepare(mpc_trainer *t) {
    mpc_session *s = t->session;
    const char *resumed = s->cli->options->resume;
    if ((resumed || s->cli->options->repeats) && !mpc_session_load_choices(s)) return false;
    mpc_dataset *d = t->data[MPC_SPLIT_TRAIN];
    if (!mpc_loss_budget_apply(s, d, stderr)) return false;
    mpc_runner *nominal = mpc_runners_get(&t->runners, MPC_PHASE_TRAIN, mpc_session_batch(s, d));
    if (!nominal || !mpc_profile_check(t)) return false;
    bool started = resumed ? mpc_store_init(s->store, s->train->seed) == MPC_OK : mpc_session_start_states(s, s->store);
    if (!started) return false;
    t->rows = mpc_alloc((size_t)t->train->batch * sizeof *t->rows);
    return t->rows || out_of_memory(t);
}

bool mpc_trainer_bind(mpc_trainer *t) {
    mpc_session *s = t->session;
    if (!s->cli->options->resume && !mpc_standardize(s, s->store, t->data[MPC_SPLIT_TRAIN])) return false;
    for (int i = 0; i <= MPC_SPLIT_TEST; i++)
        if (t->data[i] && !mpc_step_bind(t->runners.data[0]->step, t->data[i])) return false;
    return true;
}

bool mpc_trainer_open(mpc_trainer *t, mpc_session *s) {
    *t = (mpc_trainer){.session = s,
                       .train = s->train,
                       .runners = {.session = s},
                       .log = {.fd = -1, .events.fd = -1},
                       .reason = "length",
                       .saved_step = UINT64_MAX};
    t->cursor.seed = s->train->seed;
    if (!mpc_totals_init(&t->window, s->model) || !mpc_totals_init(&t->since_eval, s->model) ||
        !mpc_totals_init(&t->evaluated, s->model))
        return out_of_memory(t);
    return open_splits(t) && choose_monitor(t) && mpc_formats_settle(s);
}

bool mpc_trainer_init(mpc_trainer *t, mpc_session *s) {
    double begin = mpc_now();
    if (!mpc_trainer_open(t, s) || !mpc_trainer_prepare(t) || !mpc_trainer_bind(t)) return false;
    t->prepare_seconds = mpc_now() - begin;
    return true;
}

void mpc_trainer_deinit(mpc_trainer *t) {
    mpc_runners_deinit(&t->runners);
    mpc_log_close(&t->log);
    mpc_run_folder_free(&t->folder);
    mpc_totals_deinit(&t->window);
    mpc_totals_deinit(&t->since_eval);
    mpc_totals_deinit(&t->evaluated);
    mpc_free(t->rows);
    mpc_free((void *)(uintptr_t)t->cursor.extra);
}
