/* --profile-data: what an earlier `mpc profile` saw, for the precision pass and for lint. */
#include "base/alloc.h"
#include "driver/run_options.h"
#include "passes/precision/range.h"
#include "runtime/data/dataset_impl.h"

bool mpc_session_load_observed(mpc_session *s) {
    const char *path;
    if (!mpc_run_file_option(s, "profile_data", s->cli->options->profile_data, &path)) return false;
    if (path == NULL) return true;
    char *text;
    size_t length;
    if (mpc_data_read_file(path, s->sink, &text, &length) != MPC_OK) return false;
    s->observed = mpc_observations_create();
    bool ok = s->observed != NULL && mpc_observations_parse(s->observed, text, path, s->sink) == MPC_OK;
    if (s->observed == NULL) mpc_error(s->sink, "E901", "out of memory");
    mpc_free(text);
    return ok;
}
