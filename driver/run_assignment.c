/* A resumed run must compute in the formats it began with: the assignment made now is compared with the run's
 * assignment.txt, by value, without the reasons, whose wording may change. */
#include <unistd.h>

#include "driver/lock.h"
#include "driver/run_folder.h"

bool mpc_run_folder_check_assignment(const mpc_run_folder *f, mpc_session *s) {
    mpc_str path = {0}, message = {0};
    mpc_str_printf(&path, "%s/assignment.txt", mpc_str_cstr(&f->path));
    mpc_str_printf(&message, "the precision assignment differs from %s (- before, + now)", mpc_str_cstr(&path));
    const mpc_assignment_refusal how = {.code = "E358",
                                        .message = mpc_str_cstr(&message),
                                        .help = "the model, a policy or the compiler has changed since; start a new "
                                                "run with --init from its weights, or say "
                                                "--change precision=... to go on in another precision"};
    bool ok = !path.failed && !message.failed && access(path.data, R_OK) == 0;
    if (!ok) mpc_error(s->sink, "E352", "can't read %s", mpc_str_cstr(&path));
    ok = ok && mpc_assignment_check_file(s, path.data, &how);
    mpc_str_free(&path);
    mpc_str_free(&message);
    return ok;
}
