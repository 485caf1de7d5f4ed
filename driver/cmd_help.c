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
    printf("mpc %s %s\n  %s\n\n%s", command->name, command->arguments, command->doc, mpc_str_cstr(&text));
    mpc_str_free(&text);
    return MPC_EXIT_DONE;
}
