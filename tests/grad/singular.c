/* Gradients where a slope is infinite or undefined: zero times infinity never becomes NaN, and a branch not taken has
 * no influence, in f64 and with the roundings of f32 and f16. The expected values are the known ones, not this
 * program's. */
#include "support.h"

typedef struct singular_case {
    const char *label, *text;
    const char *states[2];
    double values[2][8], expected[2][8];
} singular_case;

static void check_case(const singular_case *c, bool exact) {
    fixture *f = open_fixture();
    f->exact = exact;
    for (int k = 0; k < 2 && c->states[k] != NULL; k++) fix(f, c->states[k], c->values[k]);
    mpc_graph *g = parse(f, c->text), *dg = apply(f, mpc_pass_grad, g);
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *values = dg != NULL ? evaluate(f, dg, arena) : NULL;
    for (int k = 0; k < 2 && values != NULL && c->states[k] != NULL; k++) {
        char name[64];
        snprintf(name, sizeof name, "grad:%s", c->states[k]);
        mpc_tensor t = output_of(dg, values, name);
        if (t.data == NULL && k > 0) continue; /* a given input */
        CHECK_MSG(t.data != NULL, "%s: no %s", c->label, name);
        for (int64_t i = 0; t.data != NULL && i < mpc_type_elements(&t.type); i++)
            CHECK_MSG(close_to(t.data[i], c->expected[k][i], exact ? 1e-3 : 1e-7), "%s: %s[%lld] is %g, not %g",
                      c->label, name, (long long)i, t.data[i], c->expected[k][i]);
    }
    mpc_arena_destroy(arena);
    mpc_graph_destroy(dg);
    mpc_graph_destroy(g);
    close_fixture(f);
}

#define NORM(format) \
    PARAM("x", "2,3") \
    "  %h = cast(%x) {to=" format "} : " format "[2,3]\n  %sq = mul(%h, %h) : " format "[2,3]\n" \
    "  %s = sum(%sq) {axes=[1]} : " format "[2]\n  %n = sqrt(%s) : " format \
    "[2]\n  %y = cast(%n) {to=f32} : f32[2]\n" SUM("2", "0")

static const singular_case cases[] = {
    {"a norm at zero is flat",
     HEAD("") NORM("f32"),
     {"x"},
     {{0, 0, 0, 1, 2, 2}},
     {{0, 0, 0, 1.0 / 3, 2.0 / 3, 2.0 / 3}}},
    {"a norm of tiny elements", HEAD("") NORM("f32"), {"x"}, {{1e-19, 0, 0, 3, 4, 0}}, {{1, 0, 0, 0.6, 0.8, 0}}},
    {"an f16 norm at zero is flat",
     HEAD("") NORM("f16"),
     {"x"},
     {{0, 0, 0, 1, 2, 2}},
     {{0, 0, 0, 1.0 / 3, 2.0 / 3, 2.0 / 3}}},
    {"a root of a negative number in the branch not taken",
     HEAD("") PARAM(
         "x", "2") "  %zero = const() {value=0} : f32[]\n  %c = gt(%x, %zero) : bool[2]\n  %r = sqrt(%x) : f32[2]\n"
                   "  %y = where(%c, %r, %x) : f32[2]\n" SUM("2", "0"),
     {"x"},
     {{-1, -4}},
     {{1, 1}}},
    {"an exponential that overflows in the branch not taken",
     HEAD("") PARAM(
         "x", "3") "  %ten = const() {value=10} : f32[]\n  %one = const() {value=1} : f32[]\n"
                   "  %c = le(%x, %ten) : bool[3]\n  %r = exp(%x) : f32[3]\n  %y = where(%c, %r, %one) : f32[3]\n" SUM(
                       "3", "0"),
     {"x"},
     {{1, (double)NAN, 1e10}},
     {{2.718281828459045, 0, 0}}},
    {"a product with infinity in the branch not taken",
     HEAD("") PARAM("x", "2")
         PARAM("w", "2") "  %ten = const() {value=10} : f32[]\n  %one = const() {value=1} : f32[]\n"
                         "  %c = le(%x, %ten) : bool[2]\n  %r = exp(%x) : f32[2]\n  %q = mul(%r, %w) : f32[2]\n  "
                         "%z = mul(%q, %x) : f32[2]\n"
                         "  %y = where(%c, %z, %one) : f32[2]\n" SUM("2", "0"),
     {"x", "w"},
     {{0, 1e10}, {2, 3}},
     {{2, 0}, {0, 0}}},
    {"a division by zero in the branch not taken",
     HEAD("") PARAM("a", "2")
         PARAM("b", "2") "  %zero = const() {value=0} : f32[]\n  %c = ne(%b, %zero) : bool[2]\n"
                         "  %r = div(%a, %b) : f32[2]\n  %y = where(%c, %r, %a) : f32[2]\n" SUM("2", "0"),
     {"a", "b"},
     {{3, 3}, {2, 0}},
     {{0.5, 1}, {-0.75, 0}}},
    {"a logarithm of zero under relu",
     HEAD("") PARAM("x", "2") "  %r = log(%x) : f32[2]\n  %y = relu(%r) : f32[2]\n" SUM("2", "0"),
     {"x"},
     {{0, 4}},
     {{0, 0.25}}},
    {"exponents of base zero",
     HEAD("") PARAM("a", "4") PARAM("b", "4") "  %y = pow(%a, %b) : f32[4]\n" SUM("4", "0"),
     {"a", "b"},
     {{0, 0, 0, 0}, {2, 1, 0, 0.5}},
     {{0, 1, 0, HUGE_VAL}, {0, 0, 0, 0}}},
    {"a learnable exponent",
     HEAD("") PARAM("a", "2") PARAM("b", "2") "  %y = pow(%a, %b) : f32[2]\n" SUM("2", "0"),
     {"a", "b"},
     {{0, 2}, {1, 1}},
     {{1, 1}, {0, 1.3862943611198906}}},
    {"power 0.5 of zero with nothing upstream",
     HEAD("") PARAM("a", "2") "  %zero = const() {value=0} : f32[]\n  %half = const() {value=0.5} : f32[]\n"
                              "  %r = pow(%a, %half) : f32[2]\n  %y = mul(%r, %zero) : f32[2]\n" SUM("2", "0"),
     {"a"},
     {{0, 4}},
     {{0, 0}}},
    {"infinite logits of a binary loss",
     HEAD("") PARAM("z", "3") PARAM("t", "3") "  %y = bce_with_logits(%z, %t) : f32[3]\n" SUM("3", "0"),
     {"z", "t"},
     {{-HUGE_VAL, HUGE_VAL, -HUGE_VAL}, {0, 1, 1}},
     {{0, 0, -1}, {HUGE_VAL, -HUGE_VAL, HUGE_VAL}}},
    {"no weight on an impossible class",
     HEAD("") PARAM("x", "1,2")
         PARAM("t", "1,2") "  %y, %l = soft_cross_entropy(%x, %t) : f32[1], f32[1]\n" SUM("1", "0"),
     {"x", "t"},
     {{-HUGE_VAL, 0}, {0, 1}},
     {{0, 0}, {HUGE_VAL, 0}}},
    {"no weight in a divergence",
     HEAD("") PARAM("x", "2") PARAM("q", "2") "  %y = kl(%x, %q) : f32[2]\n" SUM("2", "0"),
     {"x", "q"},
     {{-HUGE_VAL, -1}, {0, 1}},
     {{0, -1}, {0, 2}}},
    {"power 0.5 of zero is steep",
     HEAD("") PARAM("a", "2") "  %half = const() {value=0.5} : f32[]\n"
                              "  %y = pow(%a, %half) : f32[2]\n" SUM("2", "0"),
     {"a"},
     {{0, 4}},
     {{HUGE_VAL, 0.25}}},
    {"powers 1 and 0 of zero",
     HEAD("") PARAM(
         "a", "1") "  %one = const() {value=1} : f32[]\n  %nil = const() {value=0} : f32[]\n"
                   "  %u = pow(%a, %one) : f32[1]\n  %v = pow(%a, %nil) : f32[1]\n  %y = add(%u, %v) : f32[1]\n" SUM(
                       "1", "0"),
     {"a"},
     {{0}},
     {{1}}},
    {"a guard that protects the value protects the slope",
     HEAD("") PARAM("x", "3") "  %top = const() {value=1000} : f32[]\n  %sq = mul(%x, %x) : f32[3]\n"
                              "  %s = sum(%sq) {axes=[0]} : f32[]\n  %r = rsqrt(%s) : f32[]\n  %m = minimum(%r, "
                              "%top) : f32[]\n  %y = mul(%x, %m) : f32[3]\n" SUM("3", "0"),
     {"x"},
     {{0, 0, 0}},
     {{1000, 1000, 1000}}},
    {"a division by the larger of norm and eps",
     HEAD("") PARAM("x", "3") "  %eps = const() {value=1e-3} : f32[]\n  %sq = mul(%x, %x) : f32[3]\n"
                              "  %s = sum(%sq) {axes=[0]} : f32[]\n  %r = sqrt(%s) : f32[]\n  %m = maximum(%r, "
                              "%eps) : f32[]\n  %y = div(%x, %m) : f32[3]\n" SUM("3", "0"),
     {"x"},
     {{0, 0, 0}},
     {{1000, 1000, 1000}}},
    {"an infinite loss under the mask",
     HEAD("%m: bool[3]")
         PARAM("x", "3") "  %r = log(%x) : f32[3]\n  %y, %n = loss_mean(%r, %m) : f32[], f32[]\n" SUM("", ""),
     {"x", "m"},
     {{0, 2, 4}, {0, 1, 1}},
     {{0, 0.25, 0.125}}},
    {"an infinite divergence under the mask",
     HEAD("%m: bool[2]")
         PARAM("q", "2") "  %one = const() {value=-1} : f32[]\n  %u = expand(%one) {shape=[2]} : f32[2]\n"
                         "  %r = kl(%u, %q) : f32[2]\n  %y, %n = loss_mean(%r, %m) : f32[], f32[]\n" SUM("", ""),
     {"q", "m"},
     {{HUGE_VAL, 1}, {0, 1}},
     {{0, 2}}},
    {"an impossible class under the mask",
     HEAD("%m: bool[2]")
         PARAM("t", "2,2") "  %f = cast(%m) {to=f32} : f32[2]\n  %r = log(%f) : f32[2]\n"
                           "  %c = reshape(%r) {shape=[2,1]} : f32[2,1]\n  %x = expand(%c) {shape=[2,2]} : f32[2,2]\n"
                           "  %l, %s = soft_cross_entropy(%x, %t) : f32[2], f32[2]\n"
                           "  %y, %n = loss_mean(%l, %m) : f32[], f32[]\n" SUM("", ""),
     {"t", "m"},
     {{0.5, 0.5, 0.25, 0.75}, {0, 1}},
     {{0, 0, 0.69314718055994531, 0.69314718055994531}}},
    {"NaN in the branch not taken of smooth functions",
     HEAD("%c: bool[2]")
         PARAM("x", "2") "  %t = tanh(%x) : f32[2]\n  %s = sigmoid(%t) : f32[2]\n  %e = erf(%s) : f32[2]\n"
                         "  %g = gelu(%e) : f32[2]\n  %k = cos(%g) : f32[2]\n  %y = where(%c, %k, %x) : f32[2]\n" SUM(
                             "2", "0"),
     {"x", "c"},
     {{(double)NAN, 3}, {0, 0}},
     {{1, 1}}},
    {"an infinity that is not looked up",
     HEAD("%i: i32[1]")
         PARAM("x", "1,2") "  %r = log(%x) : f32[1,2]\n  %y = gather(%r, %i) {axis=1} : f32[1]\n" SUM("1", "0"),
     {"x", "i"},
     {{0, 2}, {1}},
     {{0, 0.5}}},
    {"an infinity that is sliced away",
     HEAD("") PARAM("x", "2") "  %r = log(%x) : f32[2]\n  %y = slice(%r) {start=[1] stop=[2]} : f32[1]\n" SUM("1", "0"),
     {"x"},
     {{0, 2}},
     {{0, 0.5}}},
    {"an infinity that is dropped",
     HEAD("%seed: i64[], %step: i32[]")
         PARAM("x", "8") "  %r = rsqrt(%x) : f32[8]\n"
                         "  %y = dropout(%r, %seed, %step) {rate=0.999999 stream=3} : f32[8]\n" SUM("8", "0"),
     {"x"},
     {{0}},
     {{0}}},
    {"kinks",
     HEAD("") PARAM("x", "2") "  %u = abs(%x) : f32[2]\n  %v = relu(%x) : f32[2]\n  %y = add(%u, %v) : f32[2]\n" SUM(
         "2", "0"),
     {"x"},
     {{0, -1}},
     {{0, -1}}},
    {"a tie of two is shared",
     HEAD("") PARAM("a", "2") PARAM("b", "2") "  %y = maximum(%a, %b) : f32[2]\n" SUM("2", "0"),
     {"a", "b"},
     {{1, 2}, {1, 1}},
     {{0.5, 1}, {0.5, 0}}},
    {"equal maxima share",
     HEAD("") PARAM("a", "2,3") "  %y = max(%a) {axes=[1]} : f32[2]\n" SUM("2", "0"),
     {"a"},
     {{1, 1, 0, 2, 3, 1}},
     {{0.5, 0.5, 0, 0, 1, 0}}},
    {"the first maximum of a window",
     HEAD("") PARAM("x", "1,2,2,1") "  %y = max_pool(%x) {kernel=[2,2] stride=[2,2]} : f32[1,1,1,1]\n" SUM("1,1,1,1",
                                                                                                           "0,1,2,3"),
     {"x"},
     {{5, 5, 5, 1}},
     {{1, 0, 0, 0}}},
};

int main(void) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_case(&cases[i], false);
        check_case(&cases[i], true);
    }
    return check_result();
}
