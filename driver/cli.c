/* The table of commands and the way from argv to one of them. Nothing below this file reads argv or decides an exit
 * status other than through a command's return value. */
#include "driver/cli.h"

#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "driver/main_entry.h"
#include "runtime/data/dataset_impl.h"

static const mpc_command COMMANDS[] = {
    {"train", "FILE.mpg", "trains a model; results go to runs/NAME-001 or --out", MPC_OPT_MODEL | MPC_OPT_TRAIN, 1, 1,
     mpc_cmd_train},
    {"sweep", "FILE.mpg --over KEY=V1,V2", "trains for every combination of values; a table, the best first",
     MPC_OPT_MODEL | MPC_OPT_TRAIN | MPC_OPT_SWEEP, 1, 1, mpc_cmd_sweep},
    {"eval", "FILE.mpg --from DIR", "evaluates a checkpoint on the test split, or another",
     MPC_OPT_MODEL | MPC_OPT_FROM | MPC_OPT_EVAL, 1, 1, mpc_cmd_eval},
    {"predict", "FILE.mpg --from DIR", "writes what a trained model says about rows, or lets a text model write",
     MPC_OPT_MODEL | MPC_OPT_FROM | MPC_OPT_PREDICT | MPC_OPT_SEED, 1, 1, mpc_cmd_predict},
    {"dump-ir", "FILE.mpg", "the graph at a stage of compilation", MPC_OPT_MODEL | MPC_OPT_IR, 1, 1, mpc_cmd_dump_ir},
    {"explain", "FILE.mpg [VALUE]", "format and reason of every value; --memory: bytes",
     MPC_OPT_MODEL | MPC_OPT_EXPLAIN, 1, 2, mpc_cmd_explain},
    {"diff-ir", "A B", "what differs between two graphs, models or assignments; exit status 1 if anything does",
     MPC_OPT_MODEL | MPC_OPT_DIFF, 2, 2, mpc_cmd_diff_ir},
    {"compile", "FILE.mpg", "the generated kernels, without running them", MPC_OPT_MODEL | MPC_OPT_COMPILE, 1, 1,
     mpc_cmd_compile},
    {"lint", "FILE.mpg", "numbers that the precision can't hold: source line, what happens, what to write",
     MPC_OPT_MODEL, 1, 1, mpc_cmd_lint},
    {"profile", "FILE.mpg --steps N -o FILE", "exponents of every value over some steps, for --profile-data",
     MPC_OPT_MODEL | MPC_OPT_PROFILE | MPC_OPT_SEED, 1, 1, mpc_cmd_profile},
    {"summary", "FILE.mpg", "blocks with shapes, parameters, multiply-adds and formats; --params: every parameter",
     MPC_OPT_MODEL | MPC_OPT_SUMMARY, 1, 1, mpc_cmd_summary},
    {"check", "FILE.mpg",
     "one batch of every phase at full size, in seconds: data, training, evaluation, saving, prediction",
     MPC_OPT_MODEL | MPC_OPT_SEED | MPC_OPT_OUT | MPC_OPT_CHECK, 1, 1, mpc_cmd_check},
    {"config", "FILE.mpg", "the completed file, each line with its origin", MPC_OPT_MODEL, 1, 1, mpc_cmd_config},
    {"fmt", "FILE.mpg...", "the files in canonical layout; - is standard input to standard output", MPC_OPT_FMT, 1,
     INT_MAX, mpc_cmd_fmt},
    {"opt", "FILE.mpir --passes PIPELINE", "runs passes on a graph in text form", MPC_OPT_PASSES | MPC_OPT_OUT, 1, 1,
     mpc_cmd_opt},
    {"blocks", "[NAME]", "blocks of std/ that a model may use; NAME: the source of a file or block", MPC_OPT_ANY, 0, 1,
     mpc_cmd_blocks},
    {"ops", "[NAME]", "table of ops", MPC_OPT_PLUGIN, 0, 1, mpc_cmd_ops},
    {"passes", "[NAME]", "table of passes and pipelines with their options", MPC_OPT_PLUGIN, 0, 1, mpc_cmd_passes},
    {"calibrate", "", "measures this machine: a device profile for --cost-target", MPC_OPT_OUT, 0, 0,
     mpc_cmd_calibrate},
    {"info", "", "devices, libraries and versions found here", 0, 0, 0, mpc_cmd_info},
    {"help", "[COMMAND|CODE]", "a command, or a diagnostic code such as E201, explained", 0, 0, 2, mpc_cmd_help},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

uint32_t mpc_command_count(void) { return COMMAND_COUNT; }
const mpc_command *mpc_command_at(uint32_t index) { return &COMMANDS[index]; }

const mpc_command *mpc_command_find(const char *name) {
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(COMMANDS[i].name, name) == 0) return &COMMANDS[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *best = NULL;
    unsigned distance = 3;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        unsigned d = mpc_edit_distance(name, COMMANDS[i].name, 2);
        if (d < distance) distance = d, best = COMMANDS[i].name;
    }
    fprintf(stderr, "mpc: there is no command `%s`", name);
    if (best) fprintf(stderr, "; did you mean `%s`?", best);
    fprintf(stderr, "\nmpc help lists the commands\n");
    return MPC_EXIT_USAGE;
}

static bool wants_color(void) {
    const char *no = getenv("NO_COLOR");
    return isatty(STDERR_FILENO) && !(no && *no);
}

static int run_command(const mpc_command *command, int argc, char **argv) {
    mpc_options options;
    if (!mpc_options_parse(&options, command, argc, argv)) {
        mpc_options_free(&options);
        return MPC_EXIT_USAGE;
    }
    mpc_sources *sources = mpc_sources_create();
    mpc_diag_printer printer = {.sources = sources,
                                .json = options.json,
                                .short_form = options.short_form,
                                .color = wants_color(),
                                .to = stderr};
    mpc_cli cli = {
        .options = &options, .sources = sources, .sink = mpc_diag_printer_sink(&printer), .argc = argc, .argv = argv};
    int status = MPC_EXIT_FAILED;
    if (sources) status = command->run(&cli);
    else fprintf(stderr, "mpc: out of memory\n");
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == MPC_EXIT_DONE) {
        fprintf(stderr, "mpc: can't write to standard output\n");
        status = MPC_EXIT_FAILED;
    }
    mpc_sources_destroy(sources);
    mpc_options_free(&options);
    return status;
}

uint32_t mpc_cli_read_source(mpc_cli *cli, const char *path, const char *name) {
    char *text;
    size_t length;
    if (mpc_data_read_file(path, &cli->sink, &text, &length) != MPC_OK) return 0;
    uint32_t file = mpc_sources_add(cli->sources, name, text, length);
    mpc_free(text);
    if (!file) mpc_error(&cli->sink, "E901", "not enough memory for %s", name);
    return file;
}

/* The model of `mpc train FILE.mpg --help`, or NULL. */
static char *model_file(const mpc_command *command, int argc, char **argv) {
    for (int i = 2; i < argc && command->group & MPC_OPT_MODEL; i++) {
        size_t n = strlen(argv[i]);
        if (argv[i][0] != '-' && n > 4 && strcmp(argv[i] + n - 4, ".mpg") == 0) return argv[i];
    }
    return NULL;
}

int mpc_main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error of write() then */
    json_set_alloc_funcs(mpc_alloc, mpc_free);
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    if (strcmp(name, "--version") == 0) name = "info";
    const mpc_command *command = mpc_command_find(name);
    if (!command) return unknown_command(name);
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0) {
            char *topic[] = {argv[1], model_file(command, argc, argv)};
            return run_command(mpc_command_find("help"), topic[1] ? 2 : 1, topic);
        }
    return run_command(command, argc > 2 ? argc - 2 : 0, argc > 2 ? argv + 2 : NULL);
}
