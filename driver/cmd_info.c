/* mpc info: version, devices and libraries found here. */
#include <jansson.h>
#include <string.h>

#include "driver/cli.h"
#include "driver/version.h"
#include "runtime/device.h"

static void print_json(const char *text) {
    json_t *found = json_array();
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");
        json_array_append_new(found, json_stringn(at, length));
        at += length + (at[length] == '\n');
    }
    json_t *all =
        json_pack("{s:s, s:[s, s, s], s:o}", "version", MPC_VERSION, "devices", "cpu", "cuda", "ref", "found", found);
    if (all) json_dumpf(all, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(all);
}

int mpc_cmd_info(mpc_cli *cli) {
    mpc_str text = {0};
    mpc_runtime_info(&text);
    if (cli->options->json) print_json(mpc_str_cstr(&text));
    else printf("mpc %s\ndevices: cpu, cuda, ref\n%s", MPC_VERSION, mpc_str_cstr(&text));
    mpc_str_free(&text);
    return MPC_EXIT_DONE;
}
