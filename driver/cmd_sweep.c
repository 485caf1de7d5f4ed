/* mpc sweep: one training for every combination of the values of --over. Everything is tried before the first one
 * starts; one that fails is named and doesn't stop the others. */
#include <unistd.h>

#include "driver/interrupt.h"
#include "driver/sweep.h"

static bool check_options(const mpc_cli *cli) {
    const mpc_options *o = cli->options;
    const char *problem = NULL;
    if (o->over.count == 0) problem = "--over KEY=V1,V2,... says what the runs differ in";
    if (o->resume || o->changes.count)
        problem = "a sweep goes on by itself, given the --out it had: leave --resume and --change out";
    if (o->overwrite) problem = "--overwrite isn't for a sweep: take another --out";
    if (o->profile) problem = "--profile FILE would be written by every run: leave it out";
    if (o->jobs < 1 || o->jobs > 1024) problem = "--jobs takes a number from 1 to 1024";
    if (problem) fprintf(stderr, "mpc sweep: %s\n", problem);
    return problem == NULL;
}

static unsigned threads_of_each(const mpc_options *o) {
    long cores = o->threads > 0 ? (long)o->threads : sysconf(_SC_NPROCESSORS_ONLN);
    return (unsigned)(cores > o->jobs ? cores / o->jobs : 1);
}

static int report(mpc_sweep *s) {
    if (!mpc_sweep_print(s)) return MPC_EXIT_FAILED;
    if (mpc_interrupt_signal()) {
        fprintf(stderr, "stopped by a signal; the same command with --out %s goes on\n", s->folder.data);
        return MPC_EXIT_SIGNAL + mpc_interrupt_signal();
    }
    uint32_t failures = mpc_sweep_failures(s);
    if (failures) fprintf(stderr, "mpc sweep: %u of %u runs failed\n", failures, s->run_count);
    return failures ? MPC_EXIT_FAILED : MPC_EXIT_DONE;
}

static int sweep(mpc_sweep *s) {
    int status = mpc_sweep_plan(s);
    if (status != MPC_EXIT_DONE) return status;
    s->threads = threads_of_each(s->cli->options);
    if (!mpc_sweep_try(s) || !mpc_sweep_open_folder(s)) return MPC_EXIT_FAILED;
    fprintf(stderr, "%u runs, %d at a time with %u threads each, in %s\n", s->run_count, (int)s->cli->options->jobs,
            s->threads, s->folder.data);
    return mpc_sweep_run_all(s) ? report(s) : MPC_EXIT_FAILED;
}

int mpc_cmd_sweep(mpc_cli *cli) {
    if (!check_options(cli)) return MPC_EXIT_USAGE;
    mpc_session session;
    mpc_sweep s = {.cli = cli, .session = &session, .arena = mpc_arena_create()};
    int status = MPC_EXIT_FAILED;
    if (!s.arena) mpc_error(&cli->sink, "E901", "out of memory");
    if (mpc_session_open(&session, cli) && s.arena) status = sweep(&s);
    mpc_sweep_release(&s);
    mpc_session_close(&session);
    return status;
}
