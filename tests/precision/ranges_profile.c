/* A profile counts what it was shown, reads back from its text to the same numbers, and refuses text that isn't one. */
#include <math.h>

#include "../check.h"
#include "passes/precision/range.h"

static uint64_t at(const mpc_observed *o, int exponent) { return o->exponents[exponent - MPC_EXPONENT_MIN]; }

static bool same(const mpc_observed *a, const mpc_observed *b) {
    return a != NULL && b != NULL && a->count == b->count && a->zeros == b->zeros && a->infinite == b->infinite &&
           a->nan == b->nan && a->subnormal_f16 == b->subnormal_f16 && a->smallest == b->smallest &&
           a->largest == b->largest && memcmp(a->exponents, b->exponents, sizeof a->exponents) == 0;
}

static void elements_are_counted(mpc_observations *o) {
    static const double first[] = {0, -0.0, 1, -1.5, 65504, 0x1p-20, INFINITY, -INFINITY, NAN};
    static const double second[] = {0x1p-149, 3.4e38, -3};
    CHECK(mpc_observations_add(o, "a", first, 9) && mpc_observations_add(o, "layer.0.b", second, 3));
    CHECK(mpc_observations_add(o, "a", second, 3) && mpc_observations_count(o) == 2);
    const mpc_observed *a = mpc_observations_find(o, "a");
    CHECK(a != NULL && mpc_observations_find(o, "c") == NULL);
    if (a == NULL) return;
    CHECK(a->count == 12 && a->zeros == 2 && a->infinite == 2 && a->nan == 1 && a->subnormal_f16 == 2);
    CHECK(a->smallest == 0x1p-149 && a->largest == 3.4e38);
    CHECK(at(a, 0) == 2 && at(a, 1) == 1 && at(a, 15) == 1 && at(a, -20) == 1 && at(a, -149) == 1 && at(a, 127) == 1);
}

static void text_reads_back(const mpc_observations *o) {
    mpc_str text = {0}, again = {0};
    mpc_observations *other = mpc_observations_create();
    mpc_observations_print(o, &text);
    CHECK(mpc_observations_parse(other, mpc_str_cstr(&text), "p", NULL) == MPC_OK);
    CHECK(same(mpc_observations_find(o, "a"), mpc_observations_find(other, "a")));
    CHECK(same(mpc_observations_find(o, "layer.0.b"), mpc_observations_find(other, "layer.0.b")));
    mpc_observations_print(other, &again);
    CHECK_STR(mpc_str_cstr(&again), mpc_str_cstr(&text));
    mpc_observations_destroy(other);
    mpc_str_free(&text);
    mpc_str_free(&again);
}

static void other_text_is_refused(void) {
    static const char *const texts[] = {
        "", "mpc-profile 2\nvalue\n", "{}", "mpc-profile 1\nvalue\na\n", "mpc-profile 1\nvalue\na\t1\t0\t0\t0\n",
        "mpc-profile 1\nvalue\na\t1\t0\t0\t0\t0\t1\t1\t999:1\n", "mpc-profile 1\nvalue\na\t1\t0\t0\t0\t0\t-1\t1\t0:1\n",
        "mpc-profile 1\nvalue\na\t1\t0\t0\t0\t0\tnan\t1\t0:1\n", "mpc-profile 1\nvalue\n\t1\t0\t0\t0\t0\t1\t1\t0:1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        mpc_diag_list *list = mpc_diag_list_create();
        mpc_sink sink = mpc_diag_list_sink(list);
        mpc_observations *o = mpc_observations_create();
        CHECK_MSG(mpc_observations_parse(o, texts[i], "p", &sink) != MPC_OK, "%s", texts[i]);
        CHECK(mpc_diag_list_count(list) == 1 && strcmp(mpc_diag_list_get(list, 0)->code, "E155") == 0);
        mpc_observations_destroy(o);
        mpc_diag_list_destroy(list);
    }
}

int main(void) {
    mpc_observations *o = mpc_observations_create();
    if (o == NULL) return 1;
    elements_are_counted(o);
    text_reads_back(o);
    mpc_observations_destroy(o);
    other_text_is_refused();
    return check_result();
}
