/* mpc info: version, devices and libraries found here. */
#include "driver/cli.h"
#include "driver/version.h"
#include "runtime/device.h"

int mpc_cmd_info(mpc_cli *cli) {
    (void)cli;
    mpc_str text = {0};
    mpc_runtime_info(&text);
    printf("mpc %s\n%s", MPC_VERSION, mpc_str_cstr(&text));
    if (text.length && text.data[text.length - 1] != '\n') putchar('\n');
    mpc_str_free(&text);
    return MPC_EXIT_DONE;
}
