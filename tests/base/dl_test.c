/* Libraries opened by name: the first that works wins, a missing symbol or library says so. */
#include <stddef.h>

#include "base/alloc.h"
#include "base/dl.h"
#include "tests/check.h"

typedef struct math_table {
    double (*cosine)(double);
    void (*absent)(void);
} math_table;

static void second_name_opens_and_fills_the_table(void) {
    static const char *const names[] = {"libno-such-library.so.9", "libm.so.6", NULL};
    static const mpc_dl_symbol symbols[] = {{"cos", offsetof(math_table, cosine), false},
                                            {"no_such_function", offsetof(math_table, absent), true}};
    math_table table = {0};
    mpc_dl *dl = mpc_dl_open(names, symbols, 2, &table, NULL, 0);
    CHECK(dl);
    if (!dl) return;
    CHECK(table.cosine && table.cosine(0.0) == 1.0 && !table.absent);
    CHECK_STR(mpc_dl_path(dl), "libm.so.6");
    CHECK(mpc_dl_symbol_address(dl, "sin") && !mpc_dl_symbol_address(dl, "no_such_function"));
    mpc_dl_close(dl);
    mpc_dl_close(NULL);
}

static void a_missing_symbol_or_library_gives_the_reason(void) {
    static const char *const names[] = {"libm.so.6", NULL}, *const nothing[] = {"libno-such-library.so.9", NULL};
    static const mpc_dl_symbol symbols[] = {{"no_such_function", offsetof(math_table, absent), false}};
    math_table table = {0};
    char reason[200] = "";
    CHECK(!mpc_dl_open(names, symbols, 1, &table, reason, sizeof reason));
    CHECK(strstr(reason, "no_such_function") != NULL);
    CHECK(!mpc_dl_open(nothing, NULL, 0, &table, reason, sizeof reason));
    CHECK(strstr(reason, "libno-such-library") != NULL);
    mpc_alloc_fail_after(1);
    CHECK(!mpc_dl_open(names, NULL, 0, &table, reason, sizeof reason));
    mpc_alloc_fail_after(0);
    CHECK(strstr(reason, "memory") != NULL);
}

int main(void) {
    second_name_opens_and_fills_the_table();
    a_missing_symbol_or_library_gives_the_reason();
    return check_result();
}
