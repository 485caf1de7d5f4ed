/* A device profile survives its text, a broken one is refused with its line, and a format that multiplies no faster gains nothing. */
#include "../check.h"
#include "base/str.h"
#include "passes/precision/cost.h"

static char last[256];

static void keep(void *user, const mpc_diag *d) {
    (void)user;
    snprintf(last, sizeof last, "%s %s", d->code, d->message);
}

static void survives_its_text(const mpc_device_profile *p, const mpc_sink *sink) {
    mpc_str one = {0}, two = {0};
    mpc_device_profile back;
    mpc_device_profile_print(p, &one);
    CHECK(mpc_device_profile_parse(mpc_str_cstr(&one), "p", sink, &back) == MPC_OK);
    mpc_device_profile_print(&back, &two);
    CHECK_STR(mpc_str_cstr(&two), mpc_str_cstr(&one));
    mpc_str_free(&one);
    mpc_str_free(&two);
}

static void is_refused(const char *text, const char *words, const mpc_sink *sink) {
    mpc_device_profile p;
    last[0] = '\0';
    CHECK(mpc_device_profile_parse(text, "p", sink, &p) != MPC_OK);
    CHECK_MSG(strstr(last, words) != NULL, "`%s` lacks `%s`", last, words);
}

int main(void) {
    mpc_sink sink = {.emit = keep};
    for (uint32_t i = 0; i < mpc_device_profile_count(); i++) survives_its_text(mpc_device_profile_at(i), &sink);
    is_refused("name x\n", "E150 p:1:", &sink);
    is_refused("mpc device profile 1\nname x\nspeed 3\n", "E150 p:3:", &sink);
    is_refused("mpc device profile 1\nbandwidth -1\n", "E150 p:2:", &sink);
    is_refused("mpc device profile 1\nbandwidth 1e9\n", "cache_bandwidth", &sink);
    CHECK(mpc_device_gains(mpc_device_profile_find("cpu-amx"), MPC_FMT_bf16));
    CHECK(!mpc_device_gains(mpc_device_profile_find("cpu-amx"), MPC_FMT_f16));
    CHECK(!mpc_device_gains(mpc_device_profile_find("cpu-plain"), MPC_FMT_bf16));
    CHECK(mpc_device_gains(mpc_device_profile_find("h200"), MPC_FMT_f16));
    CHECK(mpc_device_profile_find("none") == NULL);
    return check_result();
}
