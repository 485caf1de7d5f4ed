/* Attention in 16 bits on `ref` and on `cpu`: masks select, rows without anything to see are zero, scores and sums are
 * f32. Shapes: q, k, v [b,t,h,d], mask [b,h,t,s]; the log-sum-exp is [b,h,t]. */
#include <math.h>

#include "../check.h"
#include "graph_run.h"

#define SHAPE1 "1,4,1,64"

typedef struct low_format {
    const char *name, *forward, *backward;
    double ulp; /* of 1 */
} low_format;

#define FORWARD(F) \
    "mpir 1\ngraph @g(%q: " F "[" SHAPE1 "], %k: " F "[" SHAPE1 "], %v: " F "[" SHAPE1 "], %m: bool[1,1,4,4]) {\n" \
    "  %y, %lse = attention(%q, %k, %v, %m) {causal=true scale=0.125} : " F "[" SHAPE1 "], f32[1,1,4]\n" \
    "  return(\"y\": %y, \"lse\": %lse)\n}\n"
#define BACKWARD(F) \
    "mpir 1\ngraph @g(%q: " F "[" SHAPE1 "], %k: " F "[" SHAPE1 "], %v: " F "[" SHAPE1 "], %dy: " F "[" SHAPE1 "], " \
    "%m: bool[1,1,4,4]) {\n" \
    "  %y, %lse = attention(%q, %k, %v, %m) {causal=true scale=0.125} : " F "[" SHAPE1 "], f32[1,1,4]\n" \
    "  %dq, %dk, %dv = attention_grad(%q, %k, %v, %y, %lse, %dy, %m) {causal=true scale=0.125} : " F "[" SHAPE1 \
    "], " F "[" SHAPE1 "], " F "[" SHAPE1 "]\n" \
    "  return(\"dq\": %dq, \"dk\": %dk, \"dv\": %dv)\n}\n"

static const low_format formats[] = {{"f16", FORWARD("f16"), BACKWARD("f16"), 0x1p-10},
                                     {"bf16", FORWARD("bf16"), BACKWARD("bf16"), 0x1p-7}};

static double at(const graph_run *r, int device, const char *output, int i) {
    mpc_tensor t = graph_output(r, device, output);
    return t.data == NULL ? NAN : t.data[i];
}

static void fill_row(double *to, int row, double value) {
    for (int i = 0; i < 64; i++) to[row * 64 + i] = value;
}

/* Key 0 is hidden by the mask and would win every softmax; keys to come are hidden by causality, some by both. */
static void n20_masks_select(const low_format *f) {
    graph_run *r = graph_open(f->forward, "");
    CHECK(r != NULL);
    if (r == NULL) return;
    for (int row = 0; row < 4; row++) {
        fill_row(graph_input(r, "q"), row, 64);
        fill_row(graph_input(r, "k"), row, row == 0 ? 512 : 0);
        fill_row(graph_input(r, "v"), row, row == 0 ? 1000 : row);
        for (int key = 1; key < 4; key++) graph_input(r, "m")[row * 4 + key] = 1;
    }
    CHECK(graph_step(r));
    for (int d = 0; d < GRAPH_DEVICES; d++) {
        CHECK(at(r, d, "y", 1 * 64) == 1 && at(r, d, "y", 2 * 64) == 1.5 && at(r, d, "y", 3 * 64) == 2);
        CHECK(fabs(at(r, d, "lse", 3) - log(3)) < 1e-6);
    }
    graph_close(r);
}

static void n21_a_row_that_sees_nothing_is_zero(const low_format *f) {
    static const char *const gradients[] = {"dq", "dk", "dv"};
    for (int backward = 0; backward < 2; backward++) { /* row 0 sees nothing, row 2 neither */
        graph_run *r = graph_open(backward ? f->backward : f->forward, "");
        CHECK(r != NULL);
        if (r == NULL) return;
        for (int row = 0; row < 4; row++) {
            fill_row(graph_input(r, "q"), row, 2);
            fill_row(graph_input(r, "k"), row, row);
            fill_row(graph_input(r, "v"), row, 1 + row);
            if (backward) fill_row(graph_input(r, "dy"), row, 1);
            graph_input(r, "m")[row * 4 + 1] = row == 1 || row == 3;
        }
        CHECK(graph_step(r));
        for (int d = 0; d < GRAPH_DEVICES; d++) {
            if (!backward) {
                CHECK(at(r, d, "y", 0) == 0 && at(r, d, "y", 2 * 64 + 5) == 0);
                CHECK(at(r, d, "y", 64) == 2 && at(r, d, "y", 3 * 64) == 2);
                continue;
            }
            CHECK(at(r, d, "dq", 0) == 0 && at(r, d, "dq", 2 * 64) == 0);
            CHECK(at(r, d, "dv", 0) == 0 && at(r, d, "dv", 64) == 2 && at(r, d, "dk", 2 * 64) == 0);
            for (int i = 0; i < 256; i++)
                for (int k = 0; k < 3; k++) CHECK(isfinite(at(r, d, gradients[k], i)));
        }
        graph_close(r);
    }
}

/* Scores of 8577 that differ by 1: their product before scaling is beyond f16, their difference below its steps. */
static void n22_scores_are_f32(const low_format *f) {
    graph_run *r = graph_open(f->forward, "");
    CHECK(r != NULL);
    if (r == NULL) return;
    for (int row = 0; row < 4; row++) {
        fill_row(graph_input(r, "q"), row, 33);
        fill_row(graph_input(r, "k"), row, 33);
        fill_row(graph_input(r, "v"), row, row == 0);
        graph_input(r, "q")[row * 64] = 1;
        graph_input(r, "k")[row * 64] = row == 0 ? 8 : 0;
        for (int key = 0; key < 2; key++) graph_input(r, "m")[row * 4 + key] = 1;
    }
    CHECK(graph_step(r));
    double score = (63.0 * 33 * 33 + 8) / 8;
    for (int d = 0; d < GRAPH_DEVICES; d++) {
        CHECK_MSG(fabs(at(r, d, "y", 64) - 1 / (1 + exp(-1))) < f->ulp, "%s: %g", f->name, at(r, d, "y", 64));
        CHECK_MSG(fabs(at(r, d, "lse", 1) - score - log1p(exp(-1))) < 2e-3, "%.9g", at(r, d, "lse", 1));
    }
    graph_close(r);
}

/* Queries 2 and 3 have no key within one place; two heads of queries share the keys. */
#define APART(F) \
    "mpir 1\ngraph @g(%q: " F "[1,4,2,16], %k: " F "[1,2,1,16], %v: " F "[1,2,1,16], %dy: " F "[1,4,2,16]) {\n" \
    "  %y, %lse = attention(%q, %k, %v) {window=1 scale=0.25} : " F "[1,4,2,16], f32[1,2,4]\n" \
    "  %dq, %dk, %dv = attention_grad(%q, %k, %v, %y, %lse, %dy) {window=1 scale=0.25} : " F "[1,4,2,16], " F \
    "[1,2,1,16], " F "[1,2,1,16]\n" \
    "  return(\"y\": %y, \"lse\": %lse, \"dq\": %dq, \"dk\": %dk, \"dv\": %dv)\n}\n"

static void n21_a_window_may_hide_all_keys(void) {
    static const char *const texts[] = {APART("f16"), APART("bf16"), APART("f32")};
    for (int f = 0; f < 3; f++) {
        graph_run *r = graph_open(texts[f], "");
        CHECK(r != NULL);
        if (r == NULL) return;
        for (int i = 0; i < 128; i++) graph_input(r, "q")[i] = 2, graph_input(r, "dy")[i] = 1;
        for (int i = 0; i < 32; i++) graph_input(r, "k")[i] = 3, graph_input(r, "v")[i] = 1 + i / 16;
        CHECK(graph_step(r));
        for (int d = 0; d < GRAPH_DEVICES; d++) {
            CHECK(at(r, d, "y", 0) == 1 && at(r, d, "y", 31) == 1 && at(r, d, "y", 32) == 2);
            for (int i = 64; i < 128; i++) CHECK(at(r, d, "y", i) == 0 && at(r, d, "dq", i) == 0);
            CHECK(at(r, d, "lse", 2) == -HUGE_VAL && at(r, d, "lse", 7) == -HUGE_VAL);
            for (int i = 0; i < 32; i++) CHECK(at(r, d, "dv", i) == 2 && at(r, d, "dk", i) == 0); /* of both heads */
        }
        graph_close(r);
    }
}

#define LONG(F) \
    "mpir 1\ngraph @g(%q: " F "[1,16,1,16], %k: " F "[1,4096,1,16], %v: " F "[1,4096,1,16]) {\n" \
    "  %y, %lse = attention(%q, %k, %v) {scale=0.25} : " F "[1,16,1,16], f32[1,1,16]\n" \
    "  return(\"y\": %y, \"lse\": %lse)\n}\n"

/* 4096 equal keys: probabilities of 2^-12 add up to 1 in f32, in bf16 to 1/16. */
static void n22_sums_are_f32(void) {
    static const char *const texts[] = {LONG("f16"), LONG("bf16")};
    for (int f = 0; f < 2; f++) {
        graph_run *r = graph_open(texts[f], "");
        CHECK(r != NULL);
        if (r == NULL) return;
        for (int i = 0; i < 4096 * 16; i++) graph_input(r, "v")[i] = 1;
        CHECK(graph_step(r));
        for (int d = 0; d < GRAPH_DEVICES; d++)
            CHECK_MSG(at(r, d, "y", 17) == 1 && fabs(at(r, d, "lse", 3) - log(4096)) < 1e-5, "%g %g", at(r, d, "y", 17),
                      at(r, d, "lse", 3));
        graph_close(r);
    }
}

int main(void) {
    for (int i = 0; i < 2; i++) {
        n20_masks_select(&formats[i]);
        n21_a_row_that_sees_nothing_is_zero(&formats[i]);
        n22_scores_are_f32(&formats[i]);
    }
    n21_a_window_may_hide_all_keys();
    n22_sums_are_f32();
    return check_result();
}
