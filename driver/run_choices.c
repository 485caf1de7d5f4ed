/* choices.txt of a run: which GEMM algorithms were the fastest when it began. Another algorithm gives other bits, so
 * whoever goes on with a run, or wants its own figures again, takes the same ones. */
#include "driver/session.h"
#include "runtime/choices.h"

static bool no_memory(const mpc_session *s) {
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

bool mpc_session_load_choices(mpc_session *s) {
    mpc_str path = {0};
    if (!s->exec_options.choices || s->run_folder.length == 0)
        return true; /* a checkpoint without its run: everything is timed anew */
    mpc_str_printf(&path, "%schoices.txt", s->run_folder.data);
    bool ok = path.failed ? no_memory(s) : mpc_choices_load(s->exec_options.choices, path.data, s->sink) == MPC_OK;
    mpc_str_free(&path);
    return ok;
}

bool mpc_session_save_choices(mpc_session *s, const char *folder) {
    mpc_choices *choices = s->exec_options.choices;
    bool elsewhere = s->cli->options->repeats; /* taken from another run, and so not in this folder yet */
    if (!choices || !(elsewhere || mpc_choices_changed(choices))) return true;
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/choices.txt", folder);
    bool ok = path.failed ? no_memory(s) : mpc_choices_save(choices, path.data, s->sink) == MPC_OK;
    mpc_str_free(&path);
    return ok;
}
