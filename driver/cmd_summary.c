/* mpc summary: what a model is made of, without running it. Data are opened when they are there, since columns and
 * vocabularies may decide sizes. */
#include "driver/summary.h"

int mpc_cmd_summary(mpc_cli *cli) {
    mpc_session session;
    mpc_summary summary = {0};
    bool params = cli->options->params;
    bool ok =
        mpc_session_open(&session, cli) && mpc_session_try_facts(&session) && mpc_summary_make(&summary, &session);
    if (ok && cli->options->json) ok = mpc_summary_print_json(&summary, params);
    else if (ok) ok = mpc_summary_print(&summary) && (!params || mpc_summary_print_params(&summary));
    mpc_summary_deinit(&summary);
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
