/* train --lock FILE. The file is an assignment.txt; what counts in it are values, ops and formats, not the order of
 * lines nor the reasons, so that a compiler that words its reasons otherwise doesn't break a lock. It is never
 * rewritten: who accepts another assignment removes it. */
#include "driver/lock.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/ir_diff.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/file_sync.h"

static bool no_memory(const mpc_session *s) {
    mpc_error(s->sink, "E901", "out of memory");
    return false;
}

static void find_path(const mpc_session *s, mpc_str *out) {
    const char *lock = s->cli->options->lock, *model = s->cli->options->file, *slash = strrchr(model, '/');
    if (slash && !strchr(lock, '/')) mpc_str_append_n(out, model, (size_t)(slash - model) + 1);
    mpc_str_append(out, lock);
}

static bool write_lock(const mpc_session *s, const char *path) {
    mpc_str text = {0};
    mpc_assignment_print(s->assignment, &text);
    bool ok = text.failed ? no_memory(s) : mpc_file_replace(path, text.data, text.length, s->sink) == MPC_OK;
    mpc_str_free(&text);
    if (ok) fprintf(stderr, "the precision assignment is locked in %s\n", path);
    return ok;
}

static bool refuse(const mpc_session *s, const mpc_assignment_refusal *how, const json_t *diff) {
    enum { SHOWN = 12 };
    mpc_str text = {0};
    mpc_str_printf(&text, "%s\n", how->message);
    mpc_diff_print(diff, SHOWN, &text);
    while (text.length && text.data[text.length - 1] == '\n') text.data[--text.length] = '\0';
    mpc_error_help(s->sink, how->code, NULL, how->help, "%s", mpc_str_cstr(&text));
    mpc_str_free(&text);
    return false;
}

static bool compare(const mpc_session *s, const mpc_assignment *before, const mpc_assignment_refusal *how) {
    json_t *a = mpc_diff_side_of_assignment(before), *b = mpc_diff_side_of_assignment(s->assignment);
    json_t *diff = a && b ? mpc_diff_sides(a, b) : NULL;
    bool ok = diff ? mpc_diff_is_equal(diff) || refuse(s, how, diff) : no_memory(s);
    json_decref(a);
    json_decref(b);
    json_decref(diff);
    return ok;
}

bool mpc_assignment_check_file(const mpc_session *s, const char *path, const mpc_assignment_refusal *how) {
    char *text = NULL;
    size_t size;
    mpc_assignment *before = mpc_assignment_create();
    bool ok = before ? mpc_data_read_file(path, s->sink, &text, &size) == MPC_OK : no_memory(s);
    ok = ok && mpc_assignment_parse(before, text, s->sink) == MPC_OK && compare(s, before, how);
    mpc_free(text);
    mpc_assignment_destroy(before);
    return ok;
}

static bool check_lock(const mpc_session *s, const char *path) {
    mpc_str message = {0};
    mpc_str_printf(&message, "the precision assignment is not the one that %s locks (- is the lock's, + this one's)",
                   path);
    const mpc_assignment_refusal how = {.code = "E366",
                                        .message = mpc_str_cstr(&message),
                                        .help = "the model, a policy, the solver, the device or the compiler has "
                                                "changed; remove the file to accept this assignment"};
    bool ok = mpc_assignment_check_file(s, path, &how);
    mpc_str_free(&message);
    return ok;
}

bool mpc_lock_check(mpc_session *s) {
    if (!s->cli->options->lock) return true;
    mpc_str path = {0};
    find_path(s, &path);
    bool ok = !path.failed;
    if (!ok) no_memory(s);
    else if (access(path.data, F_OK) == 0) ok = check_lock(s, path.data);
    else ok = write_lock(s, path.data);
    mpc_str_free(&path);
    return ok;
}
