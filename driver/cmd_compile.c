/* mpc compile: the kernels of the training and evaluation steps as source text, without running anything. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "codegen/codegen.h"
#include "driver/session.h"
#include "runtime/file_sync.h"

typedef struct program_text {
    const char *name;
    mpc_phase phase;
} program_text;

static bool put(const mpc_session *s, const char *folder, const char *name, const char *ending, const mpc_str *text) {
    mpc_str path = {0};
    mpc_str_printf(&path, "%s/%s%s", folder, name, ending);
    bool ok = !path.failed && !text->failed &&
              mpc_file_replace(path.data, mpc_str_cstr(text), text->length, s->sink) == MPC_OK;
    mpc_str_free(&path);
    return ok;
}

static bool emit(mpc_session *s, const program_text *t) {
    mpc_graph *g = mpc_session_graph(s, t->phase, s->train->batch, MPC_STAGE_FINAL);
    mpc_program *program = g ? mpc_device_program(s->device, g) : NULL;
    bool ok = program != NULL;
    if (ok) {
        mpc_str source = {0}, listing = {0};
        mpc_program_source(program, &source);
        mpc_program_print(program, &listing);
        const char *folder = s->cli->options->out;
        if (folder) ok = put(s, folder, t->name, ".c", &source) && put(s, folder, t->name, ".txt", &listing);
        else fputs(mpc_str_cstr(&source), stdout);
        mpc_str_free(&source);
        mpc_str_free(&listing);
    }
    mpc_program_destroy(program);
    mpc_graph_destroy(g);
    return ok;
}

static bool compile(mpc_session *s) {
    static const program_text TEXTS[] = {{"train", MPC_PHASE_TRAIN}, {"eval", MPC_PHASE_EVAL}};
    const char *folder = s->cli->options->out;
    if (!mpc_session_try_facts(s)) return false;
    if (folder && mkdir(folder, 0777) != 0 && errno != EEXIST) {
        mpc_error(s->sink, "E420", "can't make %s: %s", folder, strerror(errno));
        return false;
    }
    for (size_t i = 0; i < (folder ? 2 : 1); i++)
        if (!emit(s, &TEXTS[i])) return false;
    return true;
}

int mpc_cmd_compile(mpc_cli *cli) {
    const char *form = cli->options->emit ? cli->options->emit : "c";
    if (strcmp(form, "c") != 0 || cli->options->arch) {
        fprintf(stderr, "mpc compile: this build emits C for the CPU (--emit c)\n");
        return MPC_EXIT_USAGE;
    }
    mpc_session session;
    bool ok = mpc_session_open(&session, cli) && compile(&session);
    mpc_session_close(&session);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
