/* mpc eval: a checkpoint on a split. The assignment is that of the training graph, so that the figures are those of the
 * training's own evaluation, bit for bit. */
#include <string.h>

#include "base/alloc.h"
#include "driver/trainer.h"

/* Says which splits there are. */
static bool no_split(const mpc_session *s, const char *wanted) {
    mpc_str there = {0};
    for (int i = 0; i < MPC_SPLIT_COUNT; i++)
        if (mpc_session_has_split(s, (mpc_split)i))
            mpc_str_printf(&there, "%s--split %s", there.length ? " or " : "", mpc_split_name((mpc_split)i));
    mpc_error(s->sink, "E355", "the data section has no split `%s`%s%s", wanted, there.length ? "; say " : "",
              mpc_str_cstr(&there));
    mpc_str_free(&there);
    return false;
}

static bool choose_split(mpc_session *s, mpc_split *split) {
    const char *name = s->cli->options->split;
    *split = mpc_session_has_split(s, MPC_SPLIT_TEST) ? MPC_SPLIT_TEST : MPC_SPLIT_VALID;
    if ((!name || mpc_split_find(name, split)) && mpc_session_has_split(s, *split)) return true;
    return no_split(s, name ? name : mpc_split_name(*split));
}

static bool load_checkpoint(mpc_session *s) {
    mpc_str path = {0};
    bool ok = mpc_find_checkpoint(s->cli->options->from, s->cli->options->which, &path, s->sink) &&
              mpc_load_weights(s, path.data, MPC_LOAD_WEIGHTS);
    mpc_str_free(&path);
    return ok;
}

static bool evaluate(mpc_session *s, mpc_runners *runners, mpc_totals *totals) {
    mpc_split split;
    if (!choose_split(s, &split)) return false;
    bool missing;
    mpc_dataset *d = mpc_session_split(s, split, &missing);
    if (!d) return false;
    mpc_session_learn_facts(s, d);
    if (!mpc_session_load_choices(s) || !mpc_session_assign(s)) return false;
    mpc_runner *r = mpc_runners_get(runners, MPC_PHASE_EVAL, mpc_session_batch(s, d));
    if (!r || mpc_store_init(s->store, s->train->seed) != MPC_OK || !load_checkpoint(s) || !mpc_step_bind(r->step, d))
        return false;
    if (!mpc_evaluate_split(runners, d, totals)) {
        if (runners->found.is) mpc_nonfinite_say(&runners->found, s->sink);
        return false;
    }
    mpc_print_figures(s->cli, split, totals, mpc_dataset_rows(d));
    return true;
}

int mpc_cmd_eval(mpc_cli *cli) {
    if (!cli->options->from) {
        fprintf(stderr, "mpc eval: --from DIR says which checkpoint: a run folder or a checkpoint in it\n");
        return MPC_EXIT_USAGE;
    }
    mpc_session session;
    bool ok = false;
    if (mpc_session_open(&session, cli)) {
        mpc_runners runners = {.session = &session};
        mpc_totals totals;
        if (mpc_totals_init(&totals, session.model)) ok = evaluate(&session, &runners, &totals);
        mpc_totals_deinit(&totals);
        mpc_runners_deinit(&runners);
    }
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
