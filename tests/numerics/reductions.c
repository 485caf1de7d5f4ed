/* Reductions and orders at the ends of the range, on `ref` and on `cpu`: what a formula written out would lose, hide or
 * make a NaN of. */
#include <math.h>
#include <string.h>

#include "../check.h"
#include "graph_run.h"

static const char *const devices[] = {"ref", "cpu"};
#define nan_value ((double)NAN)

static void put(graph_run *r, const double *values, int64_t count) {
    memcpy(graph_input(r, "x"), values, (size_t)count * sizeof *values);
}

/* To `ulps` of f32 on both devices. */
static void expect(const graph_run *r, const char *output, const double *want, int64_t count, double ulps) {
    for (int d = 0; d < GRAPH_DEVICES; d++) {
        mpc_tensor t = graph_output(r, d, output);
        CHECK_MSG(t.data != NULL && mpc_type_elements(&t.type) == count, "%s on %s", output, devices[d]);
        for (int64_t i = 0; t.data != NULL && i < count; i++) {
            bool same = t.data[i] == want[i] || (isnan(t.data[i]) && isnan(want[i]));
            CHECK_MSG(same || fabs(t.data[i] - want[i]) <= ulps * 0x1p-23 * fabs(want[i]),
                      "%s on %s: element %lld is %.9g, not %.9g", output, devices[d], (long long)i, t.data[i], want[i]);
        }
    }
}

static void check(const char *text, const double *x, int64_t count, const double *want, int64_t results) {
    graph_run *r = graph_open(text, "");
    CHECK_MSG(r != NULL, "%s", text);
    if (r == NULL) return;
    put(r, x, count);
    CHECK(graph_step(r));
    expect(r, "y", want, results, 2);
    graph_close(r);
}

#define COUNT(a) (int64_t)(sizeof(a) / sizeof *(a))

static void squares_of_a_norm_neither_overflow_nor_vanish(void) {
    static const double x[] = {3e-30, 4e-30, 3e30, 4e30, 3e-44,     -4e-44,    0,         -0.0,
                               3,     -4,    3e19, 4e19, -HUGE_VAL, nan_value, -HUGE_VAL, 1};
    double tiny = hypot((double)(float)3e-44, (double)(float)4e-44);
    double want[] = {5e-30, 5e30, (double)(float)tiny, 0, 5, 5e19, nan_value, HUGE_VAL};
    check("mpir 1\ngraph @g(%x: f32[8,2]) {\n  %y = norm(%x) {axes=[1]} : f32[8]\n  return(\"y\": %y)\n}\n", x,
          COUNT(x), want, COUNT(want));
}

static void a_variance_far_from_zero_keeps_its_digits(void) {
    static const double x[] = {4096.25, 4095.75, 4096.25, 4095.75}; /* the mean of squares loses them */
    double biased = 0.0625, unbiased = 0.0625 * 4 / 3;
    check("mpir 1\ngraph @g(%x: f32[4]) {\n  %y = var(%x) {axes=[0]} : f32[]\n  return(\"y\": %y)\n}\n", x, COUNT(x),
          &biased, 1);
    check("mpir 1\ngraph @g(%x: f32[4]) {\n  %y = var(%x) {axes=[0] unbiased=true} : f32[]\n  return(\"y\": %y)\n}\n",
          x, COUNT(x), &unbiased, 1);
}

static void infinities_of_a_log_sum_exp(void) {
    static const double x[] = {-HUGE_VAL, -HUGE_VAL, 5,        -HUGE_VAL, HUGE_VAL,  1,
                               1e30,      1e30,      HUGE_VAL, -HUGE_VAL, nan_value, 1};
    static const double want[] = {-HUGE_VAL, 5, HUGE_VAL, 1e30, HUGE_VAL, nan_value};
    check("mpir 1\ngraph @g(%x: f32[6,2]) {\n  %y = logsumexp(%x) {axes=[1]} : f32[6]\n  return(\"y\": %y)\n}\n", x,
          COUNT(x), want, COUNT(want));
}

enum { LONG = 300 };

static void a_nan_spreads_along_the_running_sums_only(void) {
    double x[LONG], up[LONG], down[LONG];
    for (int i = 0; i < LONG; i++) {
        x[i] = i == 200 ? nan_value : 0.25;
        up[i] = i < 200 ? 0.25 * (i + 1) : nan_value;
        down[i] = i > 200 ? 0.25 * (LONG - i) : nan_value;
    }
    check("mpir 1\ngraph @g(%x: f32[300]) {\n  %y = cumsum(%x) {axis=0} : f32[300]\n  return(\"y\": %y)\n}\n", x, LONG,
          up, LONG);
    check("mpir 1\ngraph @g(%x: f32[300]) {\n  %y = cumsum(%x) {axis=0 reverse=true} : f32[300]\n  return(\"y\": "
          "%y)\n}\n",
          x, LONG, down, LONG);
}

static void the_k_largest_are_different_elements(void) {
    static const double x[] = {2, nan_value, 3, 3, -HUGE_VAL, -HUGE_VAL, 7, -HUGE_VAL};
    static const double values[] = {nan_value, 3, 3, 7, -HUGE_VAL, -HUGE_VAL}, indices[] = {1, 2, 3, 2, 0, 1};
    graph_run *r =
        graph_open("mpir 1\ngraph @g(%x: f32[2,4]) {\n  %y, %i = top_k(%x) {axis=1 k=3} : f32[2,3], i32[2,3]\n"
                   "  return(\"y\": %y, \"i\": %i)\n}\n",
                   "");
    CHECK(r != NULL);
    if (r == NULL) return;
    put(r, x, COUNT(x));
    CHECK(graph_step(r));
    expect(r, "y", values, COUNT(values), 0);
    expect(r, "i", indices, COUNT(indices), 0);
    graph_close(r);
}

/* Where 1 + x is 1, and where e^x is. */
static void what_is_next_to_one_is_kept(void) {
    static const double x[] = {1e-10, -1e-10, 0x1p-133, -0.0, -20, 50};
    static const double below[] = {1e-10, -1e-10, 0x1p-133, 0, -1 + 2.061153622438558e-9, 5.184705528587072e21};
    check("mpir 1\ngraph @g(%x: f32[6]) {\n  %y = expm1(%x) : f32[6]\n  return(\"y\": %y)\n}\n", x, COUNT(x), below,
          COUNT(below));
    static const double z[] = {1e-10, -1e-10, 0x1p-133, -1, -1.5, HUGE_VAL};
    static const double above[] = {1e-10, -1e-10, 0x1p-133, -HUGE_VAL, nan_value, HUGE_VAL};
    check("mpir 1\ngraph @g(%x: f32[6]) {\n  %y = log1p(%x) : f32[6]\n  return(\"y\": %y)\n}\n", z, COUNT(z), above,
          COUNT(above));
}

int main(void) {
    squares_of_a_norm_neither_overflow_nor_vanish();
    a_variance_far_from_zero_keeps_its_digits();
    infinities_of_a_log_sum_exp();
    a_nan_spreads_along_the_running_sums_only();
    the_k_largest_are_different_elements();
    what_is_next_to_one_is_kept();
    return check_result();
}
