/* The loss scale and the step's state machine over several steps: field cases of class S with their right values. Every
 * case runs on the graph before and after expansion. */
#include <math.h>
#include <stdio.h>

#include "../check.h"
#include "step_sim.h"

static const char *const tails[] = {"", ",expand,fold,cse,dce"};

/* A step pipeline: `options` go to @train. */
static step_sim *start(const char *text, const char *options, int tail) {
    mpc_str pipeline = {0};
    mpc_str_printf(&pipeline, "@train{%s}%s", options, tails[tail]);
    step_sim *s = sim_create(text, mpc_str_cstr(&pipeline));
    CHECK_MSG(s != NULL, "%s", mpc_str_cstr(&pipeline));
    mpc_str_free(&pipeline);
    return s;
}

static void steps(step_sim *s, int count) {
    for (int i = 0; i < count; i++) CHECK(sim_step(s));
}

static void step_with(step_sim *s, const char *input, double value) {
    sim_input1(s, input, value);
    CHECK(sim_step(s));
}

#define W1(init_) "  %w = state() {name=w skip=keep trainable=true init=constant a=" init_ "} : f32[1]\n"
/* loss = sum(w * x), no mean */
static const char product[] = "mpir 1\ngraph @step(%x: f32[1]) {\n" W1(
    "1.0") "  %p = mul(%w, %x) : f32[1]\n  %loss = sum(%p) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
static const char product10[] = "mpir 1\ngraph @step(%x: f32[1]) {\n" W1(
    "10.0") "  %p = mul(%w, %x) : f32[1]\n  %loss = sum(%p) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";

static void fc001_floor_ends_the_run(int tail) {
    static const char text[] = "mpir 1\ngraph @step() {\n" W1(
        "1.0") "  %big = const() {value=1e30} : f32[]\n  %a = mul(%w, %big) : f32[1]\n  %b = mul(%a, %big) : f32[1]\n"
               "  %loss = sum(%b) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
    step_sim *s = start(text, "loss-scale.mode=dynamic optimizer.kind=sgd autocast.format=f16", tail);
    if (s == NULL) return;
    steps(s, 16);
    CHECK(sim_state(s, "scaler.scale", 0) == 1);
    CHECK(sim_state(s, "stop", 0) == 0);
    steps(s, 14);
    CHECK(sim_state(s, "scaler.scale", 0) == 0x1p-14 && sim_state(s, "stop", 0) == 0);
    steps(s, 1);
    CHECK(sim_output(s, "stop") == 1 && sim_state(s, "step.skipped", 0) == 31);
    steps(s, 200);
    CHECK(sim_state(s, "scaler.scale", 0) == 0x1p-15); /* nothing moves after stop, so no zero and no division by it */
    CHECK(sim_state(s, "step.skipped", 0) == 31 && sim_state(s, "step.attempts", 0) == 31);
    CHECK(sim_state(s, "w", 0) == 1);
    sim_destroy(s);
}

static void fc003_scale_below_one(int tail) {
    /* the gradient that arrives at y is 1e5 * scale, in f16 */
    static const char text[] =
        "mpir 1\ngraph @step() {\n" W1("1.0") "  %one = const() {value=1.0} : f32[]\n  %wc = cast(%w) {to=f16 by=user} "
                                              ": f16[1]\n  %y = mul(%wc, %one) {prec=f16} : f16[1]\n"
                                              "  %k = const() {value=100000.0} : f32[]\n  %z = mul(%y, %k) {prec=f32} "
                                              ": f32[1]\n  %loss = sum(%z) {axes=[0]} : f32[]\n"
                                              "  return(\"loss\": %loss)\n}\n";
    step_sim *s = start(
        text, "loss-scale.mode=dynamic loss-scale.init=4 optimizer.kind=sgd optimizer.lr=1e-9 autocast.format=f16",
        tail);
    if (s == NULL) return;
    for (int i = 0; i < 3; i++) {
        steps(s, 1);
        CHECK(sim_output(s, "finite") == 0 && sim_state(s, "w", 0) == 1);
    }
    CHECK(sim_state(s, "scaler.scale", 0) == 0.5);
    steps(s, 1);
    CHECK_MSG(sim_output(s, "grad_norm") == 99968, "%g", sim_output(s, "grad_norm"));
    CHECK(sim_state(s, "w", 0) == (double)(1.0f - 1e-9f * 99968.0f) && sim_state(s, "step.applied", 0) == 1);
    sim_destroy(s);
}

static void fc005_unscaled_once(int tail) {
    step_sim *s = start(product,
                        "loss-scale.mode=static loss-scale.init=1024 optimizer.kind=sgd optimizer.lr=1 "
                        "optimizer.clip=10 guard.on_nonfinite=skip "
                        "autocast.format=f16",
                        tail);
    if (s == NULL) return;
    step_with(s, "x", INFINITY); /* a skip in between leaves nothing behind */
    CHECK(sim_state(s, "w", 0) == 1 && sim_state(s, "step.skipped", 0) == 1);
    step_with(s, "x", 1);
    CHECK(sim_state(s, "w", 0) == 0 && sim_output(s, "grad_norm") == 1);
    sim_destroy(s);
}

static void fc006_clips_true_gradients(int tail) {
    static const char text[] =
        "mpir 1\ngraph @step(%x: f32[2]) {\n  %w = state() {name=w skip=keep trainable=true} : f32[2]\n"
        "  %p = mul(%w, %x) : f32[2]\n  %loss = sum(%p) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
    static const char *const scales[] = {"1", "1024", "8192"};
    static const double x[2] = {3, 4};
    for (int i = 0; i < 3; i++) {
        mpc_str options = {0};
        mpc_str_printf(&options,
                       "loss-scale.mode=static loss-scale.init=%s optimizer.kind=sgd optimizer.lr=1 optimizer.clip=1 "
                       "autocast.format=f16",
                       scales[i]);
        step_sim *s = start(text, mpc_str_cstr(&options), tail);
        mpc_str_free(&options);
        if (s == NULL) return;
        sim_input(s, "x", x, 2);
        steps(s, 1);
        CHECK(fabs(sim_state(s, "w", 0) + 0.6) <= 0x1p-24 && fabs(sim_state(s, "w", 1) + 0.8) <= 0x1p-24);
        CHECK(sim_output(s, "grad_norm") == 5);
        sim_destroy(s);
    }
}

static void fc008_one_bad_micro_batch(int tail) {
    /* the sum-reduction of the case: lr 3, since a window's gradient is the mean over its micro-batches */
    step_sim *s =
        start(product10,
              "loss-scale.mode=dynamic loss-scale.init=1024 optimizer.kind=sgd optimizer.lr=3 optimizer.accumulate=3 "
              "autocast.format=f16",
              tail);
    if (s == NULL) return;
    sim_input1(s, "control.flush", 0);
    step_with(s, "x", 1);
    step_with(s, "x", INFINITY);
    CHECK(sim_state(s, "scaler.scale", 0) == 1024 && sim_output(s, "update") == 0);
    step_with(s, "x", 4);
    CHECK(sim_state(s, "w", 0) == 10 && sim_state(s, "scaler.scale", 0) == 512 && sim_state(s, "step.skipped", 0) == 1);
    CHECK(sim_state(s, "w/acc", 0) == 0 && sim_state(s, "window.bad", 0) == 0 && sim_state(s, "window.micro", 0) == 0);
    step_with(s, "x", 1);
    step_with(s, "x", 2);
    CHECK(sim_state(s, "w", 0) == 10);
    step_with(s, "x", 4);
    CHECK_MSG(fabs(sim_state(s, "w", 0) - 3) < 1e-6, "%.9g", sim_state(s, "w", 0));
    CHECK(sim_state(s, "step.skipped", 0) == 1 && sim_state(s, "step.applied", 0) == 1 &&
          sim_state(s, "scaler.scale", 0) == 512);
    sim_destroy(s);
}

static void fc010_group_without_gradient(int tail) {
    static const char text[] =
        "mpir 1\ngraph @step() {\n  %a = state() {name=a skip=keep trainable=true init=ones} : f32[1]\n"
        "  %b = state() {name=b skip=keep trainable=false init=constant a=0.3} : f32[1]\n"
        "  %q = mul(%a, %a) : f32[1]\n  %loss = sum(%q) {axes=[0]} : f32[]\n  return(\"loss\": %loss, \"b\": %b)\n}\n";
    step_sim *s = start(text, "loss-scale.mode=dynamic loss-scale.init=1024 autocast.format=f16", tail);
    if (s == NULL) return;
    steps(s, 3);
    CHECK(sim_state(s, "a", 0) < 1 && sim_state(s, "b", 0) == (double)0.3f && sim_state(s, "step.applied", 0) == 3);
    sim_destroy(s);
}

static void fc011_skips_move_no_schedule(int tail) {
    step_sim *s = start(product, "loss-scale.mode=dynamic optimizer.lr=0.1 autocast.format=f16", tail);
    if (s == NULL) return;
    step_with(s, "x", INFINITY);
    CHECK(sim_state(s, "w", 0) == 1 && sim_state(s, "step.applied", 0) == 0);
    step_with(s, "x", 0.1);
    CHECK_MSG(fabs(sim_state(s, "w", 0) - 0.9) < 1e-6, "%.9g",
              sim_state(s, "w", 0)); /* t = 1; with t = 2 it would be 0.9256 */
    sim_destroy(s);
    s = start(product,
              "loss-scale.mode=dynamic optimizer.kind=sgd optimizer.lr=0.1 optimizer.warmup=10 autocast.format=f16",
              tail);
    if (s == NULL) return;
    for (int i = 0; i < 3; i++) step_with(s, "x", INFINITY);
    step_with(s, "x", 0.1);
    CHECK(fabs(sim_output(s, "lr") - 0.01) < 1e-9); /* not 0.04 */
    CHECK(sim_output(s, "applied") == 1 && sim_output(s, "skipped") == 3);
    sim_destroy(s);
}

static void fc013_state_is_complete(int tail) {
    static const char options[] =
        "loss-scale.mode=dynamic loss-scale.interval=10 loss-scale.init=1024 optimizer.lr=0.01 autocast.format=f16";
    step_sim *straight = start(product, options, tail), *first = start(product, options, tail),
             *resumed = start(product, options, tail);
    if (straight == NULL || first == NULL || resumed == NULL) return;
    for (int i = 0; i < 30; i++) step_with(straight, "x", i == 3 ? INFINITY : 0.1 * i);
    for (int i = 0; i < 7; i++) step_with(first, "x", i == 3 ? INFINITY : 0.1 * i);
    sim_restore(resumed, first);
    for (int i = 7; i < 30; i++) step_with(resumed, "x", 0.1 * i);
    CHECK(sim_same_states(straight, resumed));
    CHECK(sim_state(straight, "scaler.scale", 0) == 512 * 4); /* doubles after 10 clean steps: at steps 14 and 24 */
    CHECK(sim_state(straight, "scaler.clean", 0) == 6);
    sim_destroy(straight);
    sim_destroy(first);
    sim_destroy(resumed);
}

static void fc016_reports_without_scale(int tail) {
    static const char text[] =
        "mpir 1\ngraph @step() {\n" W1("1.0") "  %c = const() {value=1.5} : f32[]\n  %s = sum(%w) {axes=[0]} : f32[]\n "
                                              " %loss = add(%s, %c) : f32[]\n  return(\"loss\": %loss)\n}\n";
    static const char *const options[] = {
        "loss-scale.mode=static loss-scale.init=128 optimizer.kind=sgd autocast.format=f16 optimizer.lr=0",
        "loss-scale.mode=dynamic optimizer.kind=sgd autocast.format=f16 optimizer.lr=0",
        "loss-scale.mode=dynamic optimizer.kind=sgd autocast.format=f16 optimizer.lr=0 optimizer.accumulate=4"};
    for (int i = 0; i < 3; i++) {
        step_sim *s = start(text, options[i], tail);
        if (s == NULL) return;
        steps(s, 1);
        CHECK(sim_output(s, "loss") == 2.5 && sim_output(s, "grad_norm") == 1);
        sim_destroy(s);
    }
}

static void fc017_guard_without_scale(int tail) {
    step_sim *s =
        start(product, "optimizer.kind=sgd optimizer.lr=0.1 guard.on_nonfinite=skip autocast.format=bf16", tail);
    if (s == NULL) return;
    step_with(s, "x", 1);
    step_with(s, "x", NAN);
    CHECK(sim_output(s, "finite") == 0 && sim_state(s, "step.skipped", 0) == 1);
    step_with(s, "x", 1);
    CHECK_MSG(fabs(sim_state(s, "w", 0) - 0.8) < 1e-7, "%.9g", sim_state(s, "w", 0));
    CHECK(sim_state(s, "step.applied", 0) == 2 && !sim_has_state(s, "scaler.scale"));
    sim_destroy(s);
}

static void fc019_nan_data_is_no_overflow(int tail) {
    static const char text[] = "mpir 1\ngraph @step(%x: f32[1]) {\n" W1(
        "0.5") "  %one = const() {value=1.0} : f32[]\n  %p = mul(%w, %x) : f32[1]\n  %e = sub(%p, %one) : f32[1]\n  %q "
               "= mul(%e, %e) : f32[1]\n"
               "  %loss = sum(%q) {axes=[0]} : f32[]\n  return(\"loss\": %loss)\n}\n";
    step_sim *s = start(text,
                        "loss-scale.mode=dynamic loss-scale.init=1024 optimizer.kind=sgd optimizer.lr=0.1 "
                        "guard.on_nonfinite=skip autocast.format=f16",
                        tail);
    if (s == NULL) return;
    for (int i = 0; i < 8; i++) step_with(s, "x", i == 5 ? NAN : 1);
    CHECK(sim_state(s, "step.skipped", 0) == 1 && sim_state(s, "scaler.scale", 0) == 1024 &&
          sim_state(s, "stop", 0) == 0);
    CHECK(sim_state(s, "scaler.clean", 0) == 7); /* neither good nor bad: the counter isn't reset either */
    sim_destroy(s);
    s = start(text,
              "loss-scale.mode=dynamic loss-scale.init=1024 optimizer.kind=sgd optimizer.lr=0.1 autocast.format=f16",
              tail);
    if (s == NULL) return;
    step_with(s, "x", NAN);
    CHECK(sim_output(s, "stop") == 1 && sim_state(s, "scaler.scale", 0) == 1024);
    step_with(s, "x", 1);
    CHECK(sim_output(s, "stop") == 1 && sim_state(s, "w", 0) == 0.5 && sim_state(s, "step.attempts", 0) == 1);
    sim_destroy(s);
}

int main(void) {
    for (int tail = 0; tail < 2; tail++) {
        fc001_floor_ends_the_run(tail);
        fc003_scale_below_one(tail);
        fc005_unscaled_once(tail);
        fc006_clips_true_gradients(tail);
        fc008_one_bad_micro_batch(tail);
        fc010_group_without_gradient(tail);
        fc011_skips_move_no_schedule(tail);
        fc013_state_is_complete(tail);
        fc016_reports_without_scale(tail);
        fc017_guard_without_scale(tail);
        fc019_nan_data_is_no_overflow(tail);
    }
    return check_result();
}
