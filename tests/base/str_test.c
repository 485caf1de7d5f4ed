/* Strings: the builder's sticky failure, the hash that may never change, path globs, edit distance, shortest digits. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "base/str.h"
#include "tests/check.h"

static void builder_appends_and_fails_stickily(void) {
    mpc_str s = {0};
    CHECK_STR(mpc_str_cstr(&s), "");
    for (int i = 0; i < 300; i++) mpc_str_printf(&s, "%d,", i);
    CHECK(s.length == strlen(s.data) && !strncmp(s.data, "0,1,2,", 6));
    mpc_str_clear(&s);
    mpc_str_append(&s, "ab");
    mpc_str_append_n(&s, "cdef", 2);
    CHECK_STR(mpc_str_cstr(&s), "abcd");
    mpc_str_free(&s);
    mpc_alloc_fail_after(1);
    mpc_str_append(&s, "x");
    mpc_alloc_fail_after(0);
    mpc_str_append(&s, "y");
    CHECK(s.failed && s.length == 0);
    mpc_str_free(&s);
}

static void printf_fits_exactly_at_every_length(void) {
    for (int n = 0; n < 200; n++) {
        mpc_str s = {0};
        mpc_str_append(&s, "begin:");
        mpc_str_printf(&s, "%*s", n, "");
        mpc_str_append(&s, "end");
        CHECK(s.length == (size_t)n + 9 && strlen(s.data) == s.length);
        mpc_str_free(&s);
    }
}

/* Published FNV-1a 64 values. */
static void hash_is_fnv1a(void) {
    CHECK(mpc_hash_str("") == 0xcbf29ce484222325u);
    CHECK(mpc_hash_str("a") == 0xaf63dc4c8601ec8cu);
    CHECK(mpc_hash_str("foobar") == 0x85944171f73967e8u);
}

static void edit_distance_counts_and_gives_up_early(void) {
    CHECK(mpc_edit_distance("linear", "linear", 2) == 0);
    CHECK(mpc_edit_distance("linaer", "linear", 3) == 2);
    CHECK(mpc_edit_distance("kitten", "sitting", 5) == 3);
    CHECK(mpc_edit_distance("kitten", "sitting", 2) == 3);
    CHECK(mpc_edit_distance("", "abc", 3) == 3);
    CHECK(mpc_edit_distance("abc", "a", 1) == 2);
}

static void globs_match_paths_by_segments(void) {
    static const struct {
        const char *glob, *path;
        bool matches;
    } rows[] = {
        {"stem.conv.weight", "stem.conv.weight", true},
        {"stem.*", "stem.conv", true},
        {"stem.*", "stem.conv.weight", false},
        {"stem.**", "stem.conv.weight", true},
        {"stem.**", "stem", true},
        {"**.weight", "a.b.c.weight", true},
        {"**.weight", "weight", true},
        {"**.weight", "a.weights", false},
        {"layer.*.**.down.weight", "layer.3.mlp.down.weight", true},
        {"layer.*.**.down.weight", "layer.3.down.weight", true},
        {"layer.*.**.down.weight", "layer.down.weight", false},
        {"**.norm*.*", "layer.1.norm2.scale", true},
        {"**.norm*.*", "layer.1.norm2", false},
        {"**", "anything.at.all", true},
        {"*", "one", true},
        {"*", "one.two", false},
        {"fc*", "fc1", true},
        {"f*1", "fc1", true},
        {"f*1*", "fc21x", true},
        {"f*1", "fc2", false},
        {"**.a.**.b", "x.a.y.a.z.b", true},
        {"**.a.**.b", "x.a.y.a.z.c", false},
        {"a.**.**", "a", true},
        {"", "a", false},
        {"a.b", "a", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECK_MSG(mpc_glob_match(rows[i].glob, rows[i].path) == rows[i].matches, "%s on %s", rows[i].glob,
                  rows[i].path);
}

static void numbers_print_short_and_come_back(void) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.0, "0.0"},
        {-0.0, "-0.0"},
        {1.0, "1.0"},
        {0.1, "0.1"},
        {1e-5, "1e-05"},
        {65536.0, "65536.0"},
        {1.0 / 3, "0.3333333333333333"},
        {5e-324, "5e-324"},
        {DBL_MAX, "1.7976931348623157e+308"},
        {HUGE_VAL, "inf"},
        {-HUGE_VAL, "-inf"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mpc_str s = {0};
        mpc_str_append_double(&s, rows[i].value);
        CHECK_STR(mpc_str_cstr(&s), rows[i].text);
        mpc_str_free(&s);
    }
    mpc_str s = {0};
    mpc_str_append_double(&s, (double)NAN);
    mpc_str_append(&s, " ");
    mpc_str_append_float(&s, 0.1f);
    mpc_str_append(&s, " ");
    mpc_str_append_float(&s, 1e-45f);
    CHECK_STR(mpc_str_cstr(&s), "nan 0.1 1e-45");
    mpc_str_free(&s);
}

static void random_numbers_come_back(void) {
    mpc_str s = {0};
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t high = mpc_random_bits(1, 0, 0, 2 * i), low = mpc_random_bits(1, 0, 0, 2 * i + 1);
        uint64_t bits = (uint64_t)high << 32 | low;
        double d;
        float f;
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &low, sizeof f);
        mpc_str_clear(&s);
        mpc_str_append_double(&s, d);
        double back = strtod(mpc_str_cstr(&s), NULL);
        CHECK_MSG(isnan(d) ? isnan(back) : !memcmp(&back, &d, sizeof d), "%a", d);
        mpc_str_clear(&s);
        mpc_str_append_float(&s, f);
        float fback = strtof(mpc_str_cstr(&s), NULL);
        CHECK_MSG(isnan(f) ? isnan(fback) : !memcmp(&fback, &f, sizeof f), "%a", (double)f);
    }
    mpc_str_free(&s);
}

int main(void) {
    builder_appends_and_fails_stickily();
    printf_fits_exactly_at_every_length();
    hash_is_fnv1a();
    edit_distance_counts_and_gives_up_early();
    globs_match_paths_by_segments();
    numbers_print_short_and_come_back();
    random_numbers_come_back();
    return check_result();
}
