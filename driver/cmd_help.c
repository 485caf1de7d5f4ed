/* mpc help: the commands, one command's options, or a diagnostic code explained. */
#include <ctype.h>
#include <string.h>

#include "driver/cli.h"

static void print_commands(void) {
    printf("mpc trains models described in .mpg files.\n\n");
    for (uint32_t i = 0; i < mpc_command_count(); i++) {
        const mpc_command *c = mpc_command_at(i);
        printf("  mpc %-8s %-30s %s\n", c->name, c->arguments, c->doc);
    }
    printf("\nmpc help COMMAND lists a command's options; mpc help E201 explains a message.\n"
           "Exit status: 0 done, 1 failed, 2 wrong usage, 3 stopped by divergence, 128+n by a signal.\n");
}

static int explain_code(const char *given) {
    char code[16] = "";
    for (size_t i = 0; given[i] && i < sizeof code - 1; i++) code[i] = (char)toupper((unsigned char)given[i]);
    const char *title = mpc_diag_code_title(code);
    if (!title) {
        fprintf(stderr, "mpc: there is no command and no message code `%s`\n", given);
        return MPC_EXIT_USAGE;
    }
    printf("%s: %s\n\n%s\n", code, title, mpc_diag_code_text(code));
    return MPC_EXIT_DONE;
}

/* What the model file brings of its own comes before what every model has. */
static bool print_file(mpc_cli *cli, const char *path) {
    uint32_t file = mpc_cli_read_source(cli, path, path);
    if (!file) return false;
    mpc_context *ctx = mpc_context_create(&cli->sink, cli->sources);
    if (!ctx) mpc_error(&cli->sink, "E901", "not enough memory for %s", path);
    mpc_str text = {0};
    bool ok = ctx && mpc_describe_file(ctx, file, &text);
    if (ok) printf("%s%s%s\noptions\n", path, *mpc_str_cstr(&text) == '\n' ? "\n" : ": ", mpc_str_cstr(&text));
    mpc_str_free(&text);
    mpc_context_destroy(ctx);
    return ok;
}

int mpc_cmd_help(mpc_cli *cli) {
    const char *topic = cli->options->file;
    if (!topic) {
        print_commands();
        return MPC_EXIT_DONE;
    }
    const mpc_command *command = mpc_command_find(topic);
    if (!command) return explain_code(topic);
    mpc_str text = {0};
    mpc_options_describe(command, &text);
    printf("mpc %s %s\n  %s\n\n", command->name, command->arguments, command->doc);
    bool ok = !cli->options->argument || print_file(cli, cli->options->argument);
    if (ok) fputs(mpc_str_cstr(&text), stdout);
    mpc_str_free(&text);
    return ok ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
}
