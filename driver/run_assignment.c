/* A resumed run must compute in the formats it began with: the assignment made now is compared with the run's assignment.txt, line by
 * line, without the reasons, whose wording may change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/run_folder.h"

/* Length of a line of an assignment up to its reason, the last field. */
static size_t without_reason(const char *line) {
    size_t length = strcspn(line, "\n");
    for (size_t i = length; i > 0; i--)
        if (line[i - 1] == '\t') return i - 1;
    return length;
}

static bool same_decision(const char *a, const char *b) {
    size_t n = without_reason(a);
    return *a == '#' || (n == without_reason(b) && memcmp(a, b, n) == 0);
}

static bool refuse(const mpc_session *s, const char *path, const char *before, const char *now) {
    mpc_str message = {0};
    mpc_str_printf(&message, "the precision assignment differs from %s\n  before  %.*s\n  now     %.*s", path,
                   (int)without_reason(before), before, (int)without_reason(now), now);
    mpc_diag diag = {.severity = MPC_SEV_ERROR,
                     .code = "E358",
                     .message = mpc_str_cstr(&message),
                     .help = "the model, a policy or the compiler has changed since; start a new run with --init from its weights, "
                             "or say --change precision=... to go on in another precision"};
    s->sink->emit(s->sink->user, &diag);
    mpc_str_free(&message);
    return false;
}

static bool compare(FILE *file, const char *now, const mpc_session *s, const char *path) {
    char *line = NULL;
    size_t capacity = 0;
    bool ok = true;
    for (ssize_t n; ok && (n = getline(&line, &capacity, file)) >= 0; now += strcspn(now, "\n") + (*now != '\0'))
        ok = same_decision(line, now) || refuse(s, path, line, now);
    if (ok && *now) ok = refuse(s, path, "", now);
    free(line);
    return ok;
}

bool mpc_run_folder_check_assignment(const mpc_run_folder *f, mpc_session *s) {
    mpc_str path = {0}, now = {0};
    mpc_str_printf(&path, "%s/assignment.txt", mpc_str_cstr(&f->path));
    mpc_assignment_print(s->assignment, &now);
    FILE *file = path.failed || now.failed ? NULL : fopen(path.data, "r");
    bool ok = false;
    if (file) ok = compare(file, now.data, s, path.data);
    else mpc_error(s->sink, "E352", "can't read %s", mpc_str_cstr(&path));
    if (file) fclose(file);
    mpc_str_free(&path);
    mpc_str_free(&now);
    return ok;
}
