/* Processor name and features, read from /proc/cpuinfo: the same for every architecture of Linux. Only the lines that
 * describe the model go into the key, since others (clock, core number) change from read to read. */
#include "runtime/cpu/cpu_model.h"

#include <stdio.h>
#include <string.h>

static const char *const key_lines[] = {"vendor_id", "cpu family",      "model",    "stepping",    "model name",
                                        "flags",     "CPU implementer", "CPU part", "CPU variant", "Features",
                                        "isa"};

static bool is_key_line(const char *line) {
    size_t length = strcspn(line, "\t:");
    for (size_t i = 0; i < sizeof key_lines / sizeof key_lines[0]; i++)
        if (strlen(key_lines[i]) == length && memcmp(line, key_lines[i], length) == 0) return true;
    return false;
}

/* Lines of the first processor that tell what it is; `out` gets "name: value\n" lines. */
static void read_description(mpc_str *out) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file) return;
    char line[8192];
    while (fgets(line, sizeof line, file) && line[0] != '\n')
        if (is_key_line(line)) mpc_str_append(out, line);
    fclose(file);
}

void mpc_cpu_name(mpc_str *out) {
    mpc_str description = {0};
    read_description(&description);
    const char *name = strstr(mpc_str_cstr(&description), "model name");
    const char *colon = name ? strchr(name, ':') : NULL;
    if (colon) {
        colon += strspn(colon, ": \t");
        mpc_str_append_n(out, colon, strcspn(colon, "\n"));
    } else {
        mpc_str_append(out, "unknown cpu");
    }
    mpc_str_free(&description);
}

uint64_t mpc_cpu_key(void) {
    mpc_str description = {0};
    read_description(&description);
    uint64_t key = mpc_hash_bytes(mpc_str_cstr(&description), description.length);
    mpc_str_free(&description);
    return key;
}

const char *mpc_cpu_features(void) {
#if defined(__x86_64__)
    bool bf16 = __builtin_cpu_supports("avx512bf16");
    mpc_str description = {0};
    read_description(&description);
    bool amx = strstr(mpc_str_cstr(&description), "amx_bf16") != NULL;
    mpc_str_free(&description);
    if (bf16) return amx ? "avx512_bf16+amx" : "avx512_bf16";
    if (__builtin_cpu_supports("avx512f")) return "avx512";
    if (__builtin_cpu_supports("avx2")) return "avx2";
#endif
    return "baseline";
}

bool mpc_cpu_is_intel(void) {
    mpc_str description = {0};
    read_description(&description);
    bool found = strstr(mpc_str_cstr(&description), "GenuineIntel") != NULL;
    mpc_str_free(&description);
    return found;
}
