/* mpc config: the completed model file, each line with its origin. */
#include "driver/session.h"

int mpc_cmd_config(mpc_cli *cli) {
    mpc_session session;
    bool ok = mpc_session_open(&session, cli);
    if (ok) {
        mpc_str text = {0};
        mpc_model_print_config(session.model, true, &text);
        ok = !text.failed;
        fputs(mpc_str_cstr(&text), stdout);
        mpc_str_free(&text);
    }
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
