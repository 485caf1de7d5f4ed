/* Rules about whole steps that no single graph shows: accumulation equals the big batch, statistics stand still on a
 * skipped step, low copies follow their masters bit for bit, and the table of what a bad step does (N83). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../check.h"
#include "base/numfmt.h"
#include "step_sim.h"

static void step_with(step_sim *s, const char *input, double value) {
    sim_input1(s, input, value);
    CHECK(sim_step(s));
}

static step_sim *start(const char *text, const char *pipeline) {
    step_sim *s = sim_create(text, pipeline);
    CHECK_MSG(s != NULL, "%s", pipeline);
    return s;
}

#define W1(init_) "  %w = state() {name=w skip=keep trainable=true init=constant a=" init_ "} : f32[1]\n"
static const char product[] = "mpir 1\ngraph @step(%x: f32[1]) {\n" W1(
    "1.0") "  %p = mul(%w, %x) : f32[1]\n  %loss = sum(%p) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
/* a gradient that can be infinite while the loss is finite: loss = 0 * (w * x) in f32, through sqrt */
static const char steep[] =
    "mpir 1\ngraph @step(%x: f32[1]) {\n" W1("0.0") "  %a = mul(%w, %x) : f32[1]\n  %b = rsqrt(%x) : f32[1]\n  %c = "
                                                    "mul(%a, %b) : f32[1]\n  %loss = sum(%c) {axes=[0]} : f32[]\n"
                                                    "  return(\"loss\": %loss)\n}\n";

/* mean of (w * x_i) over masked rows: n of 4 rows count */
static const char masked[] = "mpir 1\ngraph @step(%x: f32[4], %m: bool[4]) {\n" W1(
    "0.25") "  %p = mul(%w, %x) : f32[4]\n  %q = mul(%p, %p) : f32[4]\n  %loss, %count = loss_mean(%q, %m) : f32[], "
            "f32[]\n"
            "  return(\"loss\": %loss, \"count\": %count)\n}\n";

static void feed(step_sim *s, const double *x, const double *mask) {
    sim_input(s, "x", x, 4);
    sim_input(s, "m", mask, 4);
    CHECK(sim_step(s));
}

static const double one_row[4] = {3, 0, 0, 0}, rows[4] = {1, 2, -1, 5}, all[4] = {1, 1, 1, 1}, first[4] = {1, 0, 0, 0},
                    none[4] = {0};

/* N61: micro-batches of 4 and 1 valid rows equal one batch of the 5. */
static void n61_weights_by_valid_share(void) {
    step_sim *s = start(
        masked,
        "@train{optimizer.kind=sgd optimizer.lr=0.1 optimizer.accumulate=2 optimizer.nominal=4 autocast.format=f32}");
    if (s == NULL) return;
    sim_input1(s, "control.flush", 0);
    feed(s, rows, all);
    CHECK(sim_state(s, "w", 0) == 0.25 && sim_output(s, "update") == 0);
    feed(s, one_row, first);
    /* gradient of the mean over the 5 rows: 2 w sum(x^2) / 5 */
    double g = 2 * 0.25 * (1 + 4 + 1 + 25 + 9) / 5;
    CHECK_MSG(fabs(sim_state(s, "w", 0) - (0.25 - 0.1 * g)) < 1e-6, "%.9g", sim_state(s, "w", 0));
    CHECK(fabs(sim_output(s, "grad_norm") - g) < 1e-5);
    sim_destroy(s);
}

/* The last window of an epoch may be shorter: the flush ends it, and its weights are its own. */
static void n61_flush_ends_a_window(void) {
    step_sim *s =
        start(masked, "@train{optimizer.kind=sgd optimizer.lr=0.1 optimizer.accumulate=8 autocast.format=f32}");
    if (s == NULL) return;
    sim_input1(s, "control.flush", 0);
    feed(s, rows, all);
    sim_input1(s, "control.flush", 1);
    feed(s, one_row, first);
    double g = 2 * 0.25 * (1 + 4 + 1 + 25 + 9) / 5;
    CHECK(fabs(sim_state(s, "w", 0) - (0.25 - 0.1 * g)) < 1e-6);
    CHECK(sim_state(s, "window.micro", 0) == 0 && sim_state(s, "w/acc", 0) == 0 &&
          sim_state(s, "step.applied", 0) == 1);
    sim_destroy(s);
}

/* Groups of losses (`trains`): each parameter gets the gradient of its own group only, and counts what counted there.
 * The loss of v reads w too. With clipping the norm is that of both. */
static void n61_groups_count_their_own(void) {
    static const char text[] =
        "mpir 1\ngraph @step(%x: f32[4], %m: bool[4]) {\n"
        "  %w = state() {name=w skip=keep trainable=true init=constant a=0.25 group=1} : f32[1]\n"
        "  %v = state() {name=v skip=keep trainable=true init=constant a=0.5 group=2} : f32[1]\n"
        "  %wx = mul(%w, %x) : f32[4]\n  %a = mul(%wx, %wx) : f32[4]\n  %vwx = mul(%v, %wx) : f32[4]\n"
        "  %one, %n = loss_mean(%a, %m) : f32[], f32[]\n  %two, %k = loss_mean(%vwx) : f32[], f32[]\n"
        "  %loss = add(%one, %two) : f32[]\n"
        "  return(\"loss\": %loss, \"count\": %n, \"group.1\": %one, \"group.1.count\": %n, \"group.2\": %two, "
        "\"group.2.count\": %k)\n}\n";
    static const char options[] =
        "@train{optimizer.kind=sgd optimizer.lr=0.1 optimizer.accumulate=2 optimizer.nominal=4 "
        "%s autocast.format=%s}";
    for (int kind = 0; kind < 2; kind++) {
        char pipeline[256];
        snprintf(pipeline, sizeof pipeline, options, kind ? "optimizer.clip=0.5 loss-scale.mode=dynamic" : "",
                 kind ? "f16" : "f32");
        step_sim *s = start(text, pipeline);
        if (s == NULL) return;
        sim_input1(s, "control.flush", 0);
        feed(s, rows, all);
        CHECK(sim_state(s, "w", 0) == 0.25 && sim_state(s, "v", 0) == 0.5 && sim_output(s, "update") == 0);
        feed(s, one_row, first);
        double w = 2 * 0.25 * (1 + 4 + 1 + 25 + 9) / 5, v = 0;
        for (int i = 0; i < 4; i++) v += 0.25 * (rows[i] + one_row[i]) / 8;
        double norm = sqrt(w * w + v * v), factor = kind ? 0.5 / norm : 1;
        CHECK_MSG(fabs(sim_state(s, "w", 0) - (0.25 - 0.1 * factor * w)) < 1e-6, "%.9g", sim_state(s, "w", 0));
        CHECK_MSG(fabs(sim_state(s, "v", 0) - (0.5 - 0.1 * factor * v)) < 1e-6, "%.9g", sim_state(s, "v", 0));
        CHECK_MSG(fabs(sim_output(s, "grad_norm") - norm) < 1e-5, "%.9g", sim_output(s, "grad_norm"));
        CHECK(sim_state(s, "window.count.1", 0) == 0 && sim_state(s, "w/acc", 0) == 0 &&
              sim_state(s, "step.applied", 0) == 1);
        sim_destroy(s);
    }
}

/* Losses that don't count alike: each is divided by what counted of it in the window, whichever parameters they share. */
static void n61_shares_have_their_own_sums(void) {
    static const char text[] =
        "mpir 1\ngraph @step(%x: f32[4], %m: bool[4]) {\n"
        "  %w = state() {name=w skip=keep trainable=true init=constant a=0.25} : f32[1]\n"
        "  %v = state() {name=v skip=keep trainable=true init=constant a=0.5} : f32[1]\n"
        "  %wx = mul(%w, %x) : f32[4]\n  %a = mul(%wx, %wx) : f32[4]\n  %vwx = mul(%v, %wx) : f32[4]\n"
        "  %one, %n = loss_mean(%a, %m) : f32[], f32[]\n  %two, %k = loss_mean(%vwx) : f32[], f32[]\n"
        "  %loss = add(%one, %two) : f32[]\n"
        "  return(\"loss\": %loss, \"count\": %n, \"share.0.1\": %one, \"share.0.1.count\": %n, \"share.0.2\": %two, "
        "\"share.0.2.count\": %k)\n}\n";
    for (int kind = 0; kind < 3; kind++) {
        char pipeline[256];
        bool single = kind == 2; /* both micro-batches make a step of their own */
        snprintf(pipeline, sizeof pipeline, "@train{optimizer.kind=sgd optimizer.lr=%s %s autocast.format=%s}",
                 single ? "0" : "0.1", single ? "" : "optimizer.accumulate=2 optimizer.nominal=4",
                 kind == 1 ? "f16 loss-scale.mode=dynamic" : "f32");
        step_sim *s = start(text, pipeline);
        if (s == NULL) return;
        if (!single) sim_input1(s, "control.flush", 0);
        feed(s, rows, all);
        CHECK(sim_state(s, "w", 0) == 0.25 && sim_state(s, "v", 0) == 0.5 && sim_output(s, "update") == single);
        feed(s, one_row, first);
        double w = single ? 2 * 0.25 * 9 : 2 * 0.25 * (1 + 4 + 1 + 25 + 9) / 5, v = 0, count = single ? 4 : 8;
        for (int i = 0; i < 4; i++) v += ((single ? 0 : rows[i]) + one_row[i]) / count;
        w += 0.5 * v, v *= 0.25;
        CHECK_MSG(fabs(sim_output(s, "grad_norm") - sqrt(w * w + v * v)) < 1e-5, "%.9g", sim_output(s, "grad_norm"));
        if (!single) {
            CHECK_MSG(fabs(sim_state(s, "w", 0) - (0.25 - 0.1 * w)) < 1e-6, "%.9g", sim_state(s, "w", 0));
            CHECK_MSG(fabs(sim_state(s, "v", 0) - (0.5 - 0.1 * v)) < 1e-6, "%.9g", sim_state(s, "v", 0));
            CHECK(sim_has_state(s, "w/acc.1") && sim_has_state(s, "w/acc.2") && sim_has_state(s, "v/acc.2"));
            CHECK(!sim_has_state(s, "v/acc.1") && !sim_has_state(s, "w/acc") && sim_state(s, "w/acc.1", 0) == 0);
        }
        sim_destroy(s);
    }
}

/* N60, FC-029: the sum over 64 micro-batches is f32 whatever the precision of the pass. */
static void n60_accumulates_f32(void) {
    step_sim *s = start(product, "@train{optimizer.kind=sgd optimizer.lr=0.0009765625 optimizer.accumulate=64 "
                                 "autocast.format=f16 loss-scale.mode=static "
                                 "loss-scale.init=1}");
    if (s == NULL) return;
    sim_input1(s, "control.flush", 0);
    for (int i = 0; i < 64; i++) step_with(s, "x", 2048);
    CHECK(sim_state(s, "w", 0) == 1 - 2 && sim_output(s, "grad_norm") == 2048);
    sim_destroy(s);
}

/* FC-125: no element counts: no step, no decay, no skip, the scale stands still. */
static void fc125_nothing_counts(void) {
    step_sim *s =
        start(masked, "@train{optimizer.kind=sgd optimizer.lr=0.1 autocast.format=f16 loss-scale.mode=dynamic}");
    if (s == NULL) return;
    feed(s, rows, none);
    CHECK(sim_output(s, "loss") == 0 && sim_output(s, "finite") == 1);
    CHECK(sim_state(s, "w", 0) == 0.25 && sim_state(s, "step.applied", 0) == 0 && sim_state(s, "step.skipped", 0) == 0);
    CHECK(sim_state(s, "scaler.scale", 0) == 65536 && sim_state(s, "scaler.clean", 0) == 0 &&
          sim_state(s, "step.attempts", 0) == 1);
    feed(s, rows, all);
    CHECK(sim_state(s, "step.applied", 0) == 1);
    sim_destroy(s);
    s = start(masked, "@train{optimizer.kind=sgd optimizer.lr=0.1 optimizer.accumulate=2 autocast.format=f32}");
    if (s == NULL) return;
    sim_input1(s, "control.flush", 0);
    feed(s, rows, none);
    feed(s, rows, none);
    CHECK(sim_state(s, "step.applied", 0) == 0 && sim_output(s, "grad_norm") == 0 && sim_state(s, "stop", 0) == 0);
    sim_destroy(s);
}

/* FC-118, N31: the statistics of an overflowing batch are not taken. */
static void n31_statistics_stand_still(void) {
    static const char text[] =
        "mpir 1\ngraph @step(%x: f32[2,1]) {\n"
        "  %g = state() {name=g skip=keep trainable=true init=ones} : f32[1]\n  %b = state() {name=b skip=keep "
        "trainable=true} : f32[1]\n"
        "  %rm = state() {name=mean skip=keep role=stat} : f32[1]\n  %rv = state() {name=var skip=keep role=stat "
        "init=ones} : f32[1]\n"
        "  %y, %m, %r, %nm, %nv = batch_norm(%x, %g, %b, %rm, %rv) : f32[2,1], f32[1], f32[1], f32[1], f32[1]\n"
        "  %loss, %count = loss_mean(%y) : f32[], f32[]\n  next %rm, %nm\n  next %rv, %nv\n  return(\"loss\": %loss, "
        "\"count\": %count)\n}\n";
    static const double bad[2] = {INFINITY, 1}, good[2] = {1 - 0.70710678118654752, 1 + 0.70710678118654752};
    step_sim *s =
        start(text, "@train{optimizer.kind=sgd guard.on_nonfinite=skip autocast.format=f16 loss-scale.mode=static}");
    if (s == NULL) return;
    sim_input(s, "x", bad, 2);
    CHECK(sim_step(s));
    CHECK(sim_state(s, "mean", 0) == 0 && sim_state(s, "var", 0) == 1 && sim_state(s, "step.skipped", 0) == 1);
    sim_input(s, "x", good, 2);
    CHECK(sim_step(s));
    CHECK(fabs(sim_state(s, "mean", 0) - 0.1) < 1e-6 && fabs(sim_state(s, "var", 0) - 1) < 1e-6);
    sim_destroy(s);
}

/* N75 over a run, skipped steps included; FC-072: the f32 master moves where a bf16 weight would stand still. */
static void n75_copy_is_the_cast_of_its_master(void) {
    static const char text[] =
        "mpir 1\ngraph @step(%x: f32[1,1]) {\n"
        "  %w = state() {name=w skip=keep trainable=true init=ones} : f32[1,1]\n  %y = matmul(%x, %w) : f32[1,1]\n"
        "  %loss = sum(%y) {axes=[0,1]} : f32[]\n  return(\"loss\": %loss)\n}\n";
    step_sim *s =
        start(text, "@train{optimizer.kind=sgd optimizer.lr=6e-4 guard.on_nonfinite=skip autocast.format=bf16}");
    if (s == NULL) return;
    for (int i = 0; i < 101; i++) {
        step_with(s, "x", i == 50 ? INFINITY : 1);
        float master = (float)sim_state(s, "w", 0);
        CHECK(sim_copy(s, "w", MPC_FMT_bf16, 0) == (double)mpc_bf16_to_f32(mpc_f32_to_bf16(master)));
    }
    CHECK_MSG(fabs(sim_state(s, "w", 0) - 0.94) < 1e-5, "%.9g", sim_state(s, "w", 0));
    CHECK(sim_copy(s, "w", MPC_FMT_bf16, 0) == 0.94140625);
    sim_destroy(s);
}

/* FC-052: no gradient, no update, in any precision: eps is f32 (N71). */
static void n71_zero_gradient_moves_nothing(void) {
    static const char text[] =
        "mpir 1\ngraph @step() {\n" W1("0.3") "  %z = const() {value=0.0} : f32[]\n  %p = mul(%w, %z) : f32[1]\n"
                                              "  %loss = sum(%p) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
    step_sim *s = start(text, "@train{optimizer.lr=1e-3 autocast.format=f16 loss-scale.mode=dynamic}");
    if (s == NULL) return;
    for (int i = 0; i < 3; i++) CHECK(sim_step(s));
    CHECK(sim_state(s, "w", 0) == (double)0.3f && sim_state(s, "step.applied", 0) == 3);
    sim_destroy(s);
}

/* N82: an overflow resets the count of clean steps; N81: the scale doubles after the interval and not above its limit.
 */
static void n82_growth(void) {
    step_sim *s = start(product, "@train{optimizer.kind=sgd optimizer.lr=0 autocast.format=f16 loss-scale.mode=dynamic "
                                 "loss-scale.init=8 loss-scale.interval=3 "
                                 "loss-scale.max=16}");
    static const double expected[] = {8, 8, 16, 16, 16, 16, 8, 8, 8, 16};
    if (s == NULL) return;
    for (int i = 0; i < 10; i++) {
        step_with(s, "x", i == 6 ? INFINITY : 1);
        CHECK_MSG(sim_output(s, "scale") == expected[i], "step %d: %g", i, sim_output(s, "scale"));
    }
    sim_destroy(s);
}

typedef struct bad_step {
    const char *what, *options;
    double x;
    double scale, stop, skipped; /* after one bad step */
} bad_step;

/* N83: what a step does whose loss is NaN, whose loss is infinite, whose gradient alone is not finite. Scale starts at
 * 1024. */
static void n83_table(void) {
    static const bad_step cases[] = {
        {"NaN loss, dynamic, stop", "loss-scale.mode=dynamic loss-scale.init=1024", NAN, 1024, 1, 1},
        {"NaN loss, dynamic, skip", "loss-scale.mode=dynamic loss-scale.init=1024 guard.on_nonfinite=skip", NAN, 1024,
         0, 1},
        {"infinite loss, dynamic, stop", "loss-scale.mode=dynamic loss-scale.init=1024", INFINITY, 512, 0, 1},
        {"infinite loss, dynamic, skip", "loss-scale.mode=dynamic loss-scale.init=1024 guard.on_nonfinite=skip",
         INFINITY, 512, 0, 1},
        {"NaN loss, static, stop", "loss-scale.mode=static loss-scale.init=1024", NAN, 1024, 1, 1},
        {"infinite loss, static, stop", "loss-scale.mode=static loss-scale.init=1024", INFINITY, 1024, 1, 1},
        {"infinite loss, static, skip", "loss-scale.mode=static loss-scale.init=1024 guard.on_nonfinite=skip", INFINITY,
         1024, 0, 1},
        {"NaN loss, none, stop", "", NAN, 0, 1, 1},
        {"NaN loss, none, skip", "guard.on_nonfinite=skip", NAN, 0, 0, 1},
        {"infinite loss, none, stop", "", INFINITY, 0, 1, 1},
        {"infinite loss, none, skip", "guard.on_nonfinite=skip", INFINITY, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mpc_str pipeline = {0};
        mpc_str_printf(&pipeline, "@train{optimizer.kind=sgd autocast.format=bf16 %s}", cases[i].options);
        step_sim *s = start(product, mpc_str_cstr(&pipeline));
        mpc_str_free(&pipeline);
        if (s == NULL) return;
        step_with(s, "x", cases[i].x);
        CHECK_MSG(sim_output(s, "stop") == cases[i].stop, "%s", cases[i].what);
        CHECK_MSG(sim_output(s, "skipped") == cases[i].skipped, "%s", cases[i].what);
        CHECK_MSG(cases[i].scale == 0 || sim_output(s, "scale") == cases[i].scale, "%s: %g", cases[i].what,
                  sim_output(s, "scale"));
        CHECK_MSG(sim_state(s, "w", 0) == 1 && sim_state(s, "step.applied", 0) == 0, "%s", cases[i].what);
        sim_destroy(s);
    }
}

/* A gradient that is infinite under a finite loss is an overflow. */
static void n83_infinite_gradient(void) {
    step_sim *s = start(steep, "@train{optimizer.kind=sgd autocast.format=f32 loss-scale.mode=dynamic "
                               "loss-scale.init=1024 guard.on_nonfinite=stop}");
    if (s == NULL) return;
    step_with(s, "x", 1e-46); /* 0 in f32: rsqrt is infinite, w * x * inf is NaN: the loss itself */
    CHECK(sim_output(s, "stop") == 1 && sim_output(s, "scale") == 1024);
    sim_destroy(s);
    s = start("mpir 1\ngraph @step(%x: f32[1]) {\n" W1(
                  "0.0") "  %a = mul(%w, %x) : f32[1]\n  %b = mul(%a, %x) : f32[1]\n"
                         "  %loss = sum(%b) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n",
              "@train{optimizer.kind=sgd autocast.format=f32 loss-scale.mode=dynamic loss-scale.init=1024}");
    if (s == NULL) return;
    step_with(s, "x", 1e30); /* loss 0, gradient 1e60 */
    CHECK(sim_output(s, "loss") == 0 && sim_output(s, "finite") == 0 && sim_output(s, "stop") == 0 &&
          sim_output(s, "scale") == 512);
    sim_destroy(s);
}

/* The first bad micro-step of a window says what it was; a NaN loss later in an overflowed window doesn't undo the
 * halving. */
static void n83_in_a_window(void) {
    static const char options[] = "@train{optimizer.kind=sgd optimizer.accumulate=2 autocast.format=f16 "
                                  "loss-scale.mode=dynamic loss-scale.init=1024 "
                                  "guard.on_nonfinite=skip}";
    static const double inputs[4][2] = {{NAN, INFINITY}, {NAN, 1}, {INFINITY, NAN}, {1, INFINITY}};
    static const double scales[4] = {1024, 1024, 512, 512};
    for (int i = 0; i < 4; i++) {
        step_sim *s = start(product, options);
        if (s == NULL) return;
        sim_input1(s, "control.flush", 0);
        step_with(s, "x", inputs[i][0]);
        step_with(s, "x", inputs[i][1]);
        CHECK_MSG(sim_output(s, "scale") == scales[i], "window %d: %g", i, sim_output(s, "scale"));
        CHECK(sim_output(s, "skipped") == 1 && sim_state(s, "w", 0) == 1);
        step_with(s, "x", 1);
        step_with(s, "x", 1);
        CHECK(sim_output(s, "applied") == 1 && sim_output(s, "skipped") == 1);
        sim_destroy(s);
    }
}

/* After a stop nothing moves, in the middle of a window too. */
static void stop_is_sticky(void) {
    step_sim *s =
        start(product, "@train{optimizer.kind=sgd optimizer.momentum=0.9 optimizer.accumulate=3 autocast.format=f32}");
    step_sim *before =
        start(product, "@train{optimizer.kind=sgd optimizer.momentum=0.9 optimizer.accumulate=3 autocast.format=f32}");
    if (s == NULL || before == NULL) return;
    sim_input1(s, "control.flush", 0);
    step_with(s, "x", 1);
    step_with(s, "x", NAN);
    CHECK(sim_output(s, "stop") == 1);
    sim_restore(before, s);
    for (int i = 0; i < 7; i++) step_with(s, "x", i);
    CHECK(sim_same_states(s, before));
    sim_destroy(s);
    sim_destroy(before);
}

int main(void) {
    n61_weights_by_valid_share();
    n61_flush_ends_a_window();
    n61_groups_count_their_own();
    n61_shares_have_their_own_sums();
    n60_accumulates_f32();
    fc125_nothing_counts();
    n31_statistics_stand_still();
    n75_copy_is_the_cast_of_its_master();
    n71_zero_gradient_moves_nothing();
    n82_growth();
    n83_table();
    n83_infinite_gradient();
    n83_in_a_window();
    stop_is_sticky();
    return check_result();
}
