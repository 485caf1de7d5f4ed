/* The smallest test support: CHECK prints what was wrong and counts; `return check_result();` ends main. */
#ifndef MPC_TESTS_CHECK_H
#define MPC_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

static int check_failures;
static int check_count;

#define CHECK(cond) \
    (check_count++, (cond) ? (void)0 : (void)(check_failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond)))
/* With a printf-style explanation. */
#define CHECK_MSG(cond, ...) \
    (check_count++, (cond) ? (void)0 \
                           : (void)(check_failures++, fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond), \
                                    fprintf(stderr, __VA_ARGS__), fputc('\n', stderr)))
#define CHECK_STR(a, b) check_str(__FILE__, __LINE__, (a), (b))

static inline void check_str(const char *file, int line, const char *a, const char *b) {
    check_count++;
    if (strcmp(a, b) == 0) return;
    check_failures++;
    fprintf(stderr, "%s:%d: strings differ\n--- got\n%s\n--- expected\n%s\n", file, line, a, b);
}

static inline int check_result(void) {
    fprintf(stderr, "%d checks, %d failed\n", check_count, check_failures);
    return check_failures != 0 || check_count == 0;
}

#endif
