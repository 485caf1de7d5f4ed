/* mpc train: opens everything, so that a mistake in any file is found before the first step, then trains. */
#include <string.h>

#include "driver/interrupt.h"
#include "driver/lock.h"
#include "driver/run_options.h"
#include "driver/trainer.h"

/* An event file for TensorBoard, unless told otherwise; `step` -1: of a new run. */
static bool open_events(mpc_trainer *t, int64_t step) {
    return t->session->cli->options->no_tensorboard ||
           mpc_log_open_events(&t->log, t->folder.path.data, step) == MPC_OK;
}

static bool start_fresh(mpc_trainer *t) {
    mpc_session *s = t->session;
    if (s->cli->options->init && !mpc_init_weights(s)) return false;
    return mpc_run_folder_create(&t->folder, s) && mpc_run_folder_describe(&t->folder, s) &&
           mpc_session_save_choices(s, t->folder.path.data) &&
           mpc_log_open(&t->log, t->folder.log.data, -1, s->sink) == MPC_OK && open_events(t, -1);
}

static bool start_resumed(mpc_trainer *t) {
    mpc_session *s = t->session;
    return mpc_run_folder_open(&t->folder, s->cli->options->resume, s->sink) && mpc_trainer_resume(t) &&
           mpc_log_open(&t->log, t->folder.log.data, (int64_t)t->cursor.step, s->sink) == MPC_OK &&
           open_events(t, (int64_t)t->cursor.step) &&
           ((s->cli->options->changes.count == 0 && !s->plugins_changed) || mpc_run_folder_describe(&t->folder, s));
}

static bool check_options(const mpc_cli *cli) {
    const mpc_options *o = cli->options;
    const char *problem = NULL;
    if (o->resume && o->out) problem = "--resume goes on in the run's own folder: leave --out out";
    if (o->resume && o->init) problem = "--resume has weights already: leave --init out";
    if ((o->renames.count || o->allow_missing.count) && !o->init)
        problem = "--rename and --allow-missing are about the weights of --init FILE";
    if (o->changes.count && !o->resume) problem = "--change is for --resume; a new run takes --set";
    if (problem) fprintf(stderr, "mpc train: %s\n", problem);
    return problem == NULL;
}

static int train(mpc_cli *cli) {
    mpc_session session;
    int status = MPC_EXIT_FAILED;
    if (mpc_session_open(&session, cli)) {
        mpc_trainer trainer;
        if (mpc_trainer_init(&trainer, &session) && mpc_lock_check(&session) &&
            (cli->options->resume ? start_resumed(&trainer) : start_fresh(&trainer)))
            status = mpc_trainer_run(&trainer);
        mpc_trainer_deinit(&trainer);
    }
    mpc_session_close(&session);
    return status;
}

int mpc_cmd_train(mpc_cli *cli) {
    if (!check_options(cli)) return MPC_EXIT_USAGE;
    mpc_interrupt_follow_sweep();
    mpc_repeat repeat;
    int status = mpc_repeat_prepare(&repeat, cli) ? train(&repeat.cli) : MPC_EXIT_FAILED;
    mpc_repeat_finish(&repeat);
    return status;
}
