/* mpc check: everything that a training does, once and at full size, before hours are spent on it. A line per phase
 * says what it took; whatever happens, nothing is left behind. */
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "driver/check.h"
#include "driver/interrupt.h"
#include "driver/number_text.h"
#include "driver/run_options.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

static void remove_folder(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

/* Bytes: the most that the process has had resident. */
static double peak_memory(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (double)usage.ru_maxrss * 1024 : 0;
}

static void print_head(const mpc_check *c) {
    if (!c->cli->options->json) printf("%-9s %9s %10s\n", "phase", "time", "peak");
}

static void print_text(const mpc_check *c, const char *phase, bool ok, double seconds) {
    char bytes[32];
    mpc_bytes_text(peak_memory(), bytes);
    printf("%-9s %7.2f s %10s  %s%s\n", phase, seconds, bytes, ok ? "" : "FAILED ", mpc_str_cstr(&c->detail));
    fflush(stdout);
}

static void print_json(mpc_check *c, const char *phase, bool ok, double seconds) {
    json_t *line = json_pack("{s:s, s:b, s:f, s:I}", "phase", phase, "ok", ok, "seconds", seconds, "peak_bytes",
                             (json_int_t)peak_memory());
    if (line && c->facts) json_object_update(line, c->facts);
    if (line) json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

static bool run_phase(mpc_check *c, const mpc_check_phase *phase) {
    mpc_str_clear(&c->detail);
    json_object_clear(c->facts);
    double begin = mpc_now();
    bool ok = phase->run(c);
    if (c->cli->options->json) print_json(c, phase->name, ok, mpc_now() - begin);
    else print_text(c, phase->name, ok, mpc_now() - begin);
    return ok;
}

static int run_phases(mpc_check *c) {
    const mpc_check_phase *phase;
    double begin = mpc_now();
    print_head(c);
    for (size_t i = 0; (phase = mpc_check_phase_at(i)) != NULL; i++) {
        if (phase->applies && !phase->applies(c)) continue;
        if (!run_phase(c, phase)) {
            fprintf(stderr, "mpc check: the phase `%s` failed\n", phase->name);
            return MPC_EXIT_FAILED;
        }
        if (mpc_interrupt_signal()) return MPC_EXIT_SIGNAL + mpc_interrupt_signal();
    }
    if (!c->cli->options->json) printf("all phases passed in %.2f s\n", mpc_now() - begin);
    return MPC_EXIT_DONE;
}

static int check_in(mpc_cli *cli, char *folder) {
    mpc_session session;
    mpc_trainer trainer;
    mpc_options options = *cli->options;
    mpc_cli inner = *cli;
    options.out = folder;
    inner.options = &options;
    mpc_check c = {
        .cli = &inner, .session = &session, .trainer = &trainer, .wanted = cli->options->out, .facts = json_object()};
    int status = MPC_EXIT_FAILED;
    if (c.facts) status = run_phases(&c);
    else mpc_error(&cli->sink, "E901", "out of memory");
    if (c.prepared) mpc_trainer_deinit(&trainer);
    if (c.opened) mpc_session_close(&session);
    json_decref(c.facts);
    mpc_str_free(&c.detail);
    return status;
}

int mpc_cmd_check(mpc_cli *cli) {
    const char *base = getenv("TMPDIR");
    mpc_str folder = {0};
    mpc_str_printf(&folder, "%s/mpc-check-XXXXXX", base && *base ? base : "/tmp");
    if (folder.failed || !mkdtemp(folder.data)) {
        mpc_error(&cli->sink, "E420", "can't make a temporary folder %s: %s", mpc_str_cstr(&folder),
                  folder.failed ? "out of memory" : strerror(errno));
        mpc_str_free(&folder);
        return MPC_EXIT_FAILED;
    }
    mpc_interrupt_install();
    mpc_repeat repeat;
    int status = mpc_repeat_prepare(&repeat, cli) ? check_in(&repeat.cli, folder.data) : MPC_EXIT_FAILED;
    mpc_repeat_finish(&repeat);
    remove_folder(folder.data);
    mpc_str_free(&folder);
    return status;
}
