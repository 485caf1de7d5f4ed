/* Rules about single ops, on `ref` and on `cpu`: what is exact, what accumulates in f32, what is stored rounded. Every
 * expected value is one that 16-bit arithmetic in the wrong place cannot give. */
#include <math.h>
#include <string.h>

#include "../check.h"
#include "base/numfmt.h"
#include "graph_run.h"

static const char *const lows[] = {"f16", "bf16"};
static const char *const devices[] = {"ref", "cpu"};

/* `pattern` with each FMT replaced by the format's name. */
static graph_run *open_as(const char *pattern, const char *format, const char *pipeline) {
    mpc_str text = {0};
    for (const char *at = pattern; *at != '\0';) {
        bool hole = strncmp(at, "FMT", 3) == 0;
        if (hole) mpc_str_append(&text, format);
        else mpc_str_append_n(&text, at, 1);
        at += hole ? 3 : 1;
    }
    graph_run *r = graph_open(mpc_str_cstr(&text), pipeline);
    CHECK_MSG(r != NULL, "%s", mpc_str_cstr(&text));
    mpc_str_free(&text);
    return r;
}

static void fill(graph_run *r, const char *input, int64_t count, double value) {
    double *to = graph_input(r, input);
    for (int64_t i = 0; i < count; i++) to[i] = value;
}

/* All elements of an output on both devices. */
static void expect_all(graph_run *r, const char *output, double want, double tolerance) {
    for (int d = 0; d < GRAPH_DEVICES; d++) {
        mpc_tensor t = graph_output(r, d, output);
        int64_t count = t.data == NULL ? 0 : mpc_type_elements(&t.type), bad = 0;
        for (int64_t i = 0; i < count && !bad; i++) bad = fabs(t.data[i] - want) <= tolerance ? 0 : i + 1;
        CHECK_MSG(count > 0 && bad == 0, "%s on %s: element %lld is %.9g, not %.9g", output, devices[d],
                  (long long)bad - 1, count > 0 && bad > 0 ? t.data[bad - 1] : 0, want);
    }
}

static double at(const graph_run *r, int device, const char *output, int64_t i) {
    mpc_tensor t = graph_output(r, device, output);
    return t.data == NULL ? NAN : t.data[i];
}

/* --- matmul, convolution --- */

static void n01_sums_are_f32(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[8,4096], %w: FMT[4096,16]) {\n"
                               "  %y = matmul(%x, %w) : f32[8,16]\n  %z = matmul(%x, %w) : FMT[8,16]\n"
                               "  return(\"y\": %y, \"z\": %z)\n}\n";
    for (int f = 0; f < 2; f++) { /* a 16-bit sum of ones stands still at 2048 or 256 */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 8 * 4096, 1);
        fill(r, "w", 4096 * 16, 1);
        CHECK(graph_step(r));
        expect_all(r, "y", 4096, 0);
        expect_all(r, "z", 4096, 0);
        graph_close(r);
    }
}

static void n01_products_are_exact(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[8,32], %w: FMT[32,16]) {\n"
                               "  %y = matmul(%x, %w) : f32[8,16]\n  return(\"y\": %y)\n}\n";
    static const double ulp[] = {0x1p-10, 0x1p-7};
    for (int f = 0; f < 2; f++) { /* (1 + ulp)^2 = 1 + 2 ulp + ulp^2; a rounded product loses the last term */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        for (int i = 0; i < 8; i++) graph_input(r, "x")[i * 32] = 1 + ulp[f];
        for (int i = 0; i < 16; i++) graph_input(r, "w")[i] = 1 + ulp[f];
        CHECK(graph_step(r));
        expect_all(r, "y", 1 + 2 * ulp[f] + ulp[f] * ulp[f], 0);
        graph_close(r);
    }
}

static void n01_convolutions_too(void) {
    static const char text[] =
        "mpir 1\ngraph @g(%x: FMT[2,3,3,512], %w: FMT[3,3,512,16], %p: FMT[2,1,1,16], %v: FMT[1,1,16,16]) {\n"
        "  %y = conv2d(%x, %w) : f32[2,1,1,16]\n  %z = conv2d(%p, %v) : f32[2,1,1,16]\n"
        "  return(\"y\": %y, \"z\": %z)\n}\n";
    static const double ulp[] = {0x1p-10, 0x1p-7};
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 2 * 9 * 512, 1);
        fill(r, "w", 9 * 512 * 16, 1);
        for (int i = 0; i < 2; i++) graph_input(r, "p")[i * 16] = 1 + ulp[f];
        for (int i = 0; i < 16; i++) graph_input(r, "v")[i] = 1 + ulp[f];
        CHECK(graph_step(r));
        expect_all(r, "y", 9 * 512, 0);
        expect_all(r, "z", 1 + 2 * ulp[f] + ulp[f] * ulp[f], 0);
        graph_close(r);
    }
}

static void n01_gradients_of_convolutions_too(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[4,32,32,16], %dy: FMT[4,32,32,16]) {\n"
                               "  %dw = conv2d_grad_weight(%x, %dy) {kh=1 kw=1} : f32[1,1,16,16]\n"
                               "  return(\"dw\": %dw)\n}\n";
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 4 * 1024 * 16, 1);
        fill(r, "dy", 4 * 1024 * 16, 1);
        CHECK(graph_step(r));
        expect_all(r, "dw", 4096, 0);
        graph_close(r);
    }
}

static void n02_bias_and_activation_see_the_accumulator(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[8,16], %w: FMT[16,16], %b: f32[16]) {\n"
                               "  %y = linear(%x, %w, %b) {act=relu} : FMT[8,16]\n  return(\"y\": %y)\n}\n";
    static const double big[] = {2048, 256}; /* big + 1 is no value of the format, big + 1 - big is */
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        for (int i = 0; i < 8; i++) graph_input(r, "x")[i * 16] = big[f], graph_input(r, "x")[i * 16 + 1] = 1;
        fill(r, "w", 16 * 16, 1);
        fill(r, "b", 16, -big[f]);
        CHECK(graph_step(r));
        expect_all(r, "y", 1, 0);
        graph_close(r);
    }
}

static void n03_f32_is_f32(void) {
    graph_run *r = open_as("mpir 1\ngraph @g(%x: f32[8,16], %w: f32[16,16]) {\n  %y = matmul(%x, %w) : f32[8,16]\n"
                           "  return(\"y\": %y)\n}\n",
                           "", "autocast{format=f32},insert-casts");
    if (r == NULL) return;
    for (int i = 0; i < 8; i++) graph_input(r, "x")[i * 16] = 1 + 0x1p-20; /* tf32 has 10 bits */
    for (int i = 0; i < 16; i++) graph_input(r, "w")[i] = 1;
    CHECK(graph_step(r));
    expect_all(r, "y", 1 + 0x1p-20, 0);
    graph_close(r);
}

/* --- softmax, losses --- */

static void n10_softmax_subtracts_the_maximum(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[4,4096]) {\n  %y = softmax(%x) {axis=1} : f32[4,4096]\n"
                               "  %l = log_softmax(%x) {axis=1} : f32[4,4096]\n  return(\"y\": %y, \"l\": %l)\n}\n";
    for (int f = 0; f < 2; f++) { /* exp(60000) and, in f16, a sum of 4096 ones would overflow or stall */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 4 * 4096, 60000);
        CHECK(graph_step(r));
        expect_all(r, "y", 1.0 / 4096, 0);
        expect_all(r, "l", -log(4096), 1e-6);
        graph_close(r);
    }
}

static void n11_log_sum_exp_is_f32_and_what_the_gradient_uses(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[2,4], %y: i32[2], %d: f32[2]) {\n"
                               "  %l, %lse = cross_entropy(%x, %y) : f32[2], f32[2]\n"
                               "  %dx = cross_entropy_grad(%x, %y, %lse, %d) : f32[2,4]\n"
                               "  return(\"l\": %l, \"lse\": %lse, \"dx\": %dx)\n}\n";
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 8, 4096); /* the neighbours of 4096 are 4 or 32 away: a rounded log-sum-exp would be 4096 */
        fill(r, "d", 2, 1);
        CHECK(graph_step(r));
        expect_all(r, "lse", 4096 + log(4), 5e-4);
        expect_all(r, "l", log(4), 5e-4);
        for (int d = 0; d < GRAPH_DEVICES; d++)
            CHECK_MSG(fabs(at(r, d, "dx", 0) + 0.75) < 5e-4 && fabs(at(r, d, "dx", 1) - 0.25) < 5e-4, "%g %g",
                      at(r, d, "dx", 0), at(r, d, "dx", 1));
        graph_close(r);
    }
}

static void n12_mean_divides_in_f32(void) {
    graph_run *r = open_as("mpir 1\ngraph @g(%x: f16[4096]) {\n  %l, %n = loss_mean(%x) : f32[], f32[]\n"
                           "  return(\"l\": %l, \"n\": %n)\n}\n",
                           "", "");
    if (r == NULL) return;
    fill(r, "x", 4096, 1000);
    CHECK(graph_step(r));
    expect_all(r, "l", 1000, 0);
    expect_all(r, "n", 4096, 0);
    graph_close(r);
}

/* --- norms --- */

static void n30_statistics_are_f32(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[4,512], %g: f32[512], %b: f32[512]) {\n"
                               "  %y, %m, %r = layer_norm(%x, %g, %b) : FMT[4,512], f32[4], f32[4]\n"
                               "  return(\"y\": %y, \"m\": %m, \"r\": %r)\n}\n";
    for (int f = 0; f < 2; f++) { /* sum 512 * 24576 and squares of 8192 are far beyond f16 */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        for (int i = 0; i < 4 * 512; i++) graph_input(r, "x")[i] = i % 2 ? 32768 : 16384;
        fill(r, "g", 512, 1);
        CHECK(graph_step(r));
        expect_all(r, "m", 24576, 0);
        expect_all(r, "r", 1.0 / 8192, 1e-10);
        for (int d = 0; d < GRAPH_DEVICES; d++) CHECK(at(r, d, "y", 0) == -1 && at(r, d, "y", 1) == 1);
        graph_close(r);
    }
}

static void n30_batch_statistics_are_f32(void) {
    static const char text[] =
        "mpir 1\ngraph @g(%x: FMT[4096,4], %g: f32[4], %b: f32[4], %rm: f32[4], %rv: f32[4]) {\n"
        "  %y, %m, %r, %nm, %nv = batch_norm(%x, %g, %b, %rm, %rv) : FMT[4096,4], f32[4], f32[4], f32[4], f32[4]\n"
        "  return(\"m\": %m, \"nm\": %nm)\n}\n";
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        for (int i = 0; i < 4096 * 4; i++) graph_input(r, "x")[i] = i / 4 % 2 ? 96 : 32;
        fill(r, "g", 4, 1);
        fill(r, "rv", 4, 1);
        CHECK(graph_step(r));
        expect_all(r, "m", 64, 0);
        expect_all(r, "nm", 6.4, 1e-6);
        graph_close(r);
    }
}

static void n32_eps_is_f32_and_inside_the_root(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[2,16], %g: f32[16], %b: f32[16]) {\n"
                               "  %y, %m, %r = layer_norm(%x, %g, %b) {eps=1e-8} : FMT[2,16], f32[2], f32[2]\n"
                               "  return(\"y\": %y, \"r\": %r)\n}\n";
    for (int f = 0; f < 2; f++) { /* 1e-8 is 0 in f16; outside of the root it would give 1e8 */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 32, 3);
        fill(r, "g", 16, 1);
        CHECK(graph_step(r));
        expect_all(r, "r", 1e4, 1e-2);
        expect_all(r, "y", 0, 0);
        graph_close(r);
    }
}

static void n33_gamma_and_beta_gradients_are_f32(void) {
    static const char text[] =
        "mpir 1\ngraph @g(%x: FMT[4096,2], %g: f32[2], %m: f32[4096], %r: f32[4096], %dy: FMT[4096,2]) {\n"
        "  %dx, %dg, %db = layer_norm_grad(%x, %g, %m, %r, %dy) : FMT[4096,2], f32[2], f32[2]\n"
        "  return(\"dg\": %dg, \"db\": %db)\n}\n";
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 4096 * 2, 1);
        fill(r, "g", 2, 1);
        fill(r, "r", 4096, 1);
        fill(r, "dy", 4096 * 2, 1);
        CHECK(graph_step(r));
        expect_all(r, "db", 4096, 0);
        expect_all(r, "dg", 4096, 0);
        graph_close(r);
    }
}

/* --- reductions, elementwise --- */

static void n40_reductions_accumulate_in_f32(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: FMT[4,8192]) {\n  %s = sum(%x) {axes=[1]} : f32[4]\n"
                               "  %m = mean(%x) {axes=[1]} : FMT[4]\n  %c = sum(%x) {axes=[0]} : f32[8192]\n"
                               "  return(\"s\": %s, \"m\": %m, \"c\": %c)\n}\n";
    for (int f = 0; f < 2; f++) { /* the sum is beyond f16, its mean isn't; bf16 would stall at 256 times 16 */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 4 * 8192, 16);
        CHECK(graph_step(r));
        expect_all(r, "s", 131072, 0);
        expect_all(r, "m", 16, 0);
        expect_all(r, "c", 64, 0);
        graph_close(r);
    }
}

static void n41_exponentials_are_f32_inside_and_out(void) {
    static const char text[] = "mpir 1\ngraph @g(%x: f32[8,16], %w: f32[16,16]) {\n  %h = matmul(%x, %w) : f32[8,16]\n"
                               "  %e = exp(%h) : f32[8,16]\n  %l = log(%e) : f32[8,16]\n  %s = rsqrt(%e) : f32[8,16]\n"
                               "  return(\"e\": %e, \"l\": %l, \"s\": %s)\n}\n";
    for (int f = 0; f < 2; f++) { /* exp(12) = 162755 is no f16 */
        graph_run *r =
            open_as(text, "", f ? "autocast{format=bf16},insert-casts" : "autocast{format=f16},insert-casts");
        if (r == NULL) return;
        for (int i = 0; i < 8; i++) graph_input(r, "x")[i * 16] = 12;
        fill(r, "w", 256, 1);
        CHECK(graph_step(r));
        expect_all(r, "e", exp(12), 0.1);
        expect_all(r, "l", 12, 1e-5);
        expect_all(r, "s", exp(-6), 1e-8);
        graph_close(r);
    }
}

static void n45_constants_survive(void) {
    static const char text[] =
        "mpir 1\ngraph @g(%x: f32[8,16], %w: f32[16,16]) {\n  %h = matmul(%x, %w) : f32[8,16]\n"
        "  %c = const() {value=1e-8} : f32[]\n  %d = const() {value=1e8} : f32[]\n  %t = mul(%h, %c) : f32[8,16]\n"
        "  %y = mul(%t, %d) : f32[8,16]\n  %z = matmul(%y, %w) : f32[8,16]\n  return(\"z\": %z)\n}\n";
    graph_run *r = open_as(text, "", "autocast{format=f16},insert-casts");
    if (r == NULL) return;
    for (int i = 0; i < 8; i++) graph_input(r, "x")[i * 16] = 2;
    fill(r, "w", 256, 0.25);
    CHECK(graph_step(r));
    expect_all(r, "z", 2, 2e-3);
    graph_close(r);
}

static void n46_narrowing_overflows_to_infinity(void) {
    static const double in[] = {65519, 65520, -70000, 1e38, 3.3895e38, 3.4e38, -3.4028e38, 1e-8};
    static const char text[] = "mpir 1\ngraph @g(%x: f32[8]) {\n  %h = cast(%x) {to=f16} : f16[8]\n"
                               "  %b = cast(%x) {to=bf16} : bf16[8]\n  return(\"h\": %h, \"b\": %b)\n}\n";
    graph_run *r = open_as(text, "", "");
    if (r == NULL) return;
    memcpy(graph_input(r, "x"), in, sizeof in);
    CHECK(graph_step(r));
    for (int d = 0; d < GRAPH_DEVICES; d++) {
        CHECK(at(r, d, "h", 0) == 65504 && at(r, d, "h", 1) == INFINITY && at(r, d, "h", 2) == -INFINITY);
        CHECK(at(r, d, "h", 3) == INFINITY && at(r, d, "h", 7) == 0);
        CHECK(isfinite(at(r, d, "b", 0)) && isfinite(at(r, d, "b", 3)) && isfinite(at(r, d, "b", 4)));
        CHECK(at(r, d, "b", 5) == INFINITY && at(r, d, "b", 6) == -INFINITY && at(r, d, "b", 7) > 0);
    }
    graph_close(r);
}

/* Every 16-bit pattern through a widening, every rounding back, and elementwise ops that give it back. */
static void n47_every_value_survives(void) {
    static const char text[] =
        "mpir 1\ngraph @g(%x: FMT[65536], %no: bool[65536]) {\n  %one = const() {value=1.0} : f32[]\n"
        "  %zero = const() {value=0.0} : f32[]\n  %w = cast(%x) {to=f32} : f32[65536]\n"
        "  %n = cast(%w) {to=FMT} : FMT[65536]\n  %m = mul(%x, %one) : FMT[65536]\n  %a = add(%x, %zero) : FMT[65536]\n"
        "  %s = where(%no, %m, %x) : FMT[65536]\n  %g = neg(%x) : FMT[65536]\n  %u = maximum(%x, %x) : FMT[65536]\n"
        "  %r = relu(%x) : FMT[65536]\n"
        "  return(\"n\": %n, \"m\": %m, \"a\": %a, \"s\": %s, \"g\": %g, \"u\": %u, \"r\": %r, \"w\": %w)\n}\n";
    static const char *const same[] = {"n", "m", "a", "s", "u", "w"};
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        double *x = graph_input(r, "x");
        for (uint32_t i = 0; i < 65536; i++)
            x[i] = (double)(f ? mpc_bf16_to_f32((uint16_t)i) : mpc_f16_to_f32((uint16_t)i));
        CHECK(graph_step(r));
        for (int d = 0; d < GRAPH_DEVICES; d++) {
            int wrong = 0;
            for (int i = 0; i < 65536; i++) {
                double relu = at(r, d, "r", i), neg = at(r, d, "g", i);
                for (int k = 0; k < 6; k++) {
                    double y = at(r, d, same[k], i);
                    wrong += isnan(x[i]) ? !isnan(y) : y != x[i];
                }
                wrong += isnan(x[i]) ? !isnan(relu) || !isnan(neg) : relu != (x[i] > 0 ? x[i] : 0) || neg != -x[i];
            }
            CHECK_MSG(wrong == 0, "%s on %s: %d values changed", lows[f], devices[d], wrong);
        }
        graph_close(r);
    }
}

/* f32 subnormals, and values that become subnormal in the narrow format. */
static void n47_subnormals_are_kept(void) {
    static const double in[] = {0x1p-149, 0x1p-140, 0x1p-133, 0x1p-127, 0x1.8p-133, 0x1p-24, 0x1.8p-24, 0x1p-25};
    static const double half[] = {0, 0, 0, 0, 0, 0x1p-24, 0x1p-23, 0};
    static const double brain[] = {0, 0, 0x1p-133, 0x1p-127, 0x1p-132, 0x1p-24, 0x1.8p-24, 0x1p-25};
    static const char text[] =
        "mpir 1\ngraph @g(%x: f32[8]) {\n  %one = const() {value=1.0} : f32[]\n  %h = mul(%x, %one) : f16[8]\n"
        "  %b = mul(%x, %one) : bf16[8]\n  %y = mul(%x, %one) : f32[8]\n  return(\"h\": %h, \"b\": %b, \"y\": %y)\n}\n";
    graph_run *r = open_as(text, "", "");
    if (r == NULL) return;
    memcpy(graph_input(r, "x"), in, sizeof in);
    CHECK(graph_step(r));
    for (int d = 0; d < GRAPH_DEVICES; d++)
        for (int i = 0; i < 8; i++) {
            CHECK_MSG(at(r, d, "h", i) == half[i], "%s: f16 of %a is %a", devices[d], in[i], at(r, d, "h", i));
            CHECK_MSG(at(r, d, "b", i) == brain[i], "%s: bf16 of %a is %a", devices[d], in[i], at(r, d, "b", i));
            CHECK(at(r, d, "y", i) == in[i]);
        }
    graph_close(r);
}

static void n48_compares_see_what_is_stored(void) {
    static const char text[] =
        "mpir 1\ngraph @g(%x: FMT[16], %y: FMT[16]) {\n  %s = add(%x, %y) : FMT[16]\n  %gt = gt(%s, %x) : bool[16]\n"
        "  %eq = eq(%s, %x) : bool[16]\n  return(\"gt\": %gt, \"eq\": %eq)\n}\n";
    for (int f = 0; f < 2; f++) { /* 1 + 2^-12 is 1 once it is stored */
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "x", 16, 1);
        fill(r, "y", 16, 0x1p-12);
        CHECK(graph_step(r));
        expect_all(r, "gt", 0, 0);
        expect_all(r, "eq", 1, 0);
        graph_close(r);
    }
}

static void n50_embedding_gradients_accumulate_in_f32(void) {
    static const char text[] = "mpir 1\ngraph @g(%d: FMT[4096,8], %ids: i32[4096]) {\n"
                               "  %g = embedding_grad(%d, %ids) {rows=3} : f32[3,8]\n  return(\"g\": %g)\n}\n";
    for (int f = 0; f < 2; f++) {
        graph_run *r = open_as(text, lows[f], "");
        if (r == NULL) return;
        fill(r, "d", 4096 * 8, 1);
        fill(r, "ids", 4096, 1);
        CHECK(graph_step(r));
        for (int d = 0; d < GRAPH_DEVICES; d++)
            CHECK(at(r, d, "g", 0) == 0 && at(r, d, "g", 8) == 4096 && at(r, d, "g", 16) == 0);
        graph_close(r);
    }
}

static void n99_written_casts_round(void) {
    graph_run *r = open_as("mpir 1\ngraph @g(%x: f32[16]) {\n  %b = cast(%x) {to=bf16 by=user} : bf16[16]\n"
                           "  %w = cast(%b) {to=f32 by=user} : f32[16]\n  return(\"w\": %w)\n}\n",
                           "", "autocast{format=f32},insert-casts,fold-casts,@clean,fold-casts");
    if (r == NULL) return;
    fill(r, "x", 16, 1 + 0x1p-12);
    CHECK(graph_step(r));
    expect_all(r, "w", 1, 0);
    graph_close(r);
}

int main(void) {
    n01_sums_are_f32();
    n01_products_are_exact();
    n01_convolutions_too();
    n01_gradients_of_convolutions_too();
    n02_bias_and_activation_see_the_accumulator();
    n03_f32_is_f32();
    n10_softmax_subtracts_the_maximum();
    n11_log_sum_exp_is_f32_and_what_the_gradient_uses();
    n12_mean_divides_in_f32();
    n30_statistics_are_f32();
    n30_batch_statistics_are_f32();
    n32_eps_is_f32_and_inside_the_root();
    n33_gamma_and_beta_gradients_are_f32();
    n40_reductions_accumulate_in_f32();
    n41_exponentials_are_f32_inside_and_out();
    n45_constants_survive();
    n46_narrowing_overflows_to_infinity();
    n47_every_value_survives();
    n47_subnormals_are_kept();
    n48_compares_see_what_is_stored();
    n50_embedding_gradients_accumulate_in_f32();
    n99_written_casts_round();
    return check_result();
}
