/* Loss scaling and skipped steps through the driver's session on both devices: rules N62 to N64, N71, N74 and N80 to
 * N86. A bad step is judged by all states of the store, not only by the parameters. */
#include <math.h>
#include <string.h>

#include "../check.h"
#include "train_run.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* loss = w * x, a row a step */
static const char product[] =
    "model m(x: f32[batch]) {\n    w = param([1], init = constant(1))\n    loss l = w * x\n}\n"
    "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0]\n}\n"
    "train {\n    precision = f16\n    optimizer = sgd(lr = 1)\n    batch = 1\n"
    "    length = 100 steps\n    nonfinite = keep\n    loss_scale = dynamic(init = 1024)\n}\n";
/* row 0, 1, 2 ... of the numbers that cases want */
static const char numbers[] = "1\nnan\ninf\n2\n0.1\n0\n";
enum { ONE, NOT_A_NUMBER, INFINITE, TWO, TENTH, NOTHING };

/* everything that keeps: weights, statistics, moments, counters, a schedule; dropout draws advance. Rows 0 to 3 are
 * harmless, 4 to 7 have targets whose scaled gradient is beyond f16 while their loss is finite. */
static const char network[] =
    "model m(x: f32[batch, 2], y: f32[batch]) {\n    h = relu(batch_norm(linear(x, 8) as fc) as norm)\n"
    "    h = dropout(h, 0.1)\n    p = linear(h, 1)[:, 0] as head\n    loss fit = mse(p, y)\n}\n"
    "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:2]\n    input y = columns[2]\n}\n"
    "train {\n    precision = f16\n    optimizer = adamw(lr = 1e-2)\n    schedule = cosine(warmup = 10 steps)\n"
    "    batch = 4\n    length = 100 steps\n    clip_norm = 1.0\n}\n";
static const char network_rows[] =
    "0,1,1\n1,0,2\n1,1,3\n0,0,0\n0,1,60000\n1,0,60000\n1,1,60000\n0,0,60000\n0.5,1,1.5\n1,0.5,2.5\n0,0.5,0.5\n1,1,3\n";

static train_run *open_or_fail(const char *device, const char *model, const char *rows, const char *const *settings) {
    train_run *t = train_open(device, model, rows, settings);
    CHECK_MSG(t != NULL, "%s", device);
    return t;
}

static void n80_small_gradients_need_a_scale(const char *device) {
    static const char tiny[] =
        "model m(x: f32[batch, 2], y: f32[batch]) {\n    h = relu(linear(x, 8, bias = false) as fc)\n"
        "    p = linear(h, 1, bias = false)[:, 0] as head\n    loss fit = mse(p, y) weight 1e-8\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:2]\n    input y = "
        "columns[2]\n}\n"
        "train {\n    precision = f16\n    optimizer = sgd(lr = 1e7)\n    batch = 4\n    length = 100 steps\n}\n";
    static const char *const scales[] = {"loss_scale=static(scale = 1)", "loss_scale=dynamic()"};
    for (int i = 0; i < 2; i++) { /* the gradient of an activation is about 5e-9; f16 ends at 6e-8 */
        train_run *t = open_or_fail(device, tiny, network_rows, SETTINGS(scales[i]));
        if (t == NULL) return;
        train_remember(t);
        CHECK(train_step(t, 0, 4, false));
        double first = train_output(t, "loss"), last = 0;
        for (int k = 0; k < 80; k++) {
            CHECK(train_step(t, 0, 4, false));
            last = train_output(t, "loss");
        }
        double weight = train_state(t, "fc.weight", 0);
        train_remember(t);
        CHECK(train_step(t, 0, 4, false));
        if (i == 0) CHECK_MSG(last == first && weight == train_state(t, "fc.weight", 0), "%g %g", first, last);
        else CHECK_MSG(last < 0.05 * first, "%s: loss %g after %g", device, last, first);
        train_close(t);
    }
}

static void n81_overflow_halves_the_scale_and_moves_nothing(const char *device) {
    train_run *t = open_or_fail(device, network, network_rows, SETTINGS("loss_scale=dynamic(init = 4096)"));
    if (t == NULL) return;
    CHECK(train_step(t, 0, 4, false));
    CHECK(train_step(t, 8, 4, false));
    CHECK(train_output(t, "applied") == 2 && train_output(t, "scale") == 4096);
    train_remember(t);
    CHECK(train_step(t, 4, 4, false));
    CHECK(isfinite(train_output(t, "loss")) && train_output(t, "finite") == 0);
    CHECK_MSG(train_unmoved(t, "keep"), "on %s", device);
    CHECK(train_output(t, "scale") == 2048 && train_output(t, "skipped") == 1 && train_output(t, "applied") == 2);
    CHECK(train_state(t, "scaler.clean", 0) == 0 && train_state(t, "rng.step", 0) == 3);
    CHECK(train_state(t, "step.attempts", 0) == 3 && train_output(t, "stop") == 0);
    train_remember(t);
    CHECK(train_step(t, 0, 4, false));
    CHECK(train_output(t, "applied") == 3 && train_output(t, "scale") == 2048);
    train_close(t);
}

static void n82_growth_starts_again_after_an_overflow(const char *device) {
    static const double scales[] = {8, 8, 16, 16, 8, 8, 8, 16, 16, 16, 32, 32, 32, 32};
    train_run *t =
        open_or_fail(device, product, numbers, SETTINGS("loss_scale=dynamic(init = 8, interval = 3, max = 32)"));
    if (t == NULL) return;
    for (int i = 0; i < 14; i++) {
        CHECK(train_step(t, i == 4 ? INFINITE : ONE, 1, false));
        CHECK_MSG(train_output(t, "scale") == scales[i], "step %d: %g", i, train_output(t, "scale"));
    }
    train_close(t);
}

typedef struct bad_step {
    const char *precision, *answer;
    uint32_t row;
    double scale, stop; /* afterwards; scale 0: there is none */
} bad_step;

static void n83_what_a_bad_step_does(const char *device) {
    static const bad_step cases[] = {
        {"f16", "stop", NOT_A_NUMBER, 1024, 1}, {"f16", "skip", NOT_A_NUMBER, 1024, 0},
        {"f16", "stop", INFINITE, 512, 0},      {"f16", "skip", INFINITE, 512, 0},
        {"bf16", "stop", NOT_A_NUMBER, 0, 1},   {"bf16", "skip", NOT_A_NUMBER, 0, 0},
        {"bf16", "stop", INFINITE, 0, 1},       {"f32", "skip", INFINITE, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bad_step *c = &cases[i];
        char precision[32], answer[32];
        snprintf(precision, sizeof precision, "precision=%s", c->precision);
        snprintf(answer, sizeof answer, "on_nonfinite=%s", c->answer);
        train_run *t = open_or_fail(device, product, numbers, SETTINGS(precision, answer));
        if (t == NULL) return;
        train_remember(t);
        CHECK(train_step(t, c->row, 1, false));
        CHECK_MSG(train_unmoved(t, "keep"), "%s %s", c->precision, c->answer);
        CHECK_MSG(train_output(t, "stop") == c->stop && train_output(t, "skipped") == 1, "%s %s", c->precision,
                  c->answer);
        CHECK(c->scale == 0 || train_output(t, "scale") == c->scale);
        train_remember(t);
        CHECK(train_step(t, ONE, 1, false));
        if (c->stop != 0) CHECK(train_unmoved(t, "keep") && train_unmoved(t, "advance"));
        else CHECK(train_state(t, "w", 0) == 0);
        train_close(t);
    }
}

static void n84_one_decision_for_all(const char *device) {
    static const char two[] = "model m(x: f32[batch]) {\n    a = param([1], init = constant(1))\n"
                              "    b = param([1], init = constant(1))\n    loss one = a ** 2 + 0 * x\n"
                              "    loss two = b * x\n}\n"
                              "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0]\n}\n"
                              "train {\n    precision = f16\n    optimizer = sgd(lr = 0.25)\n    batch = 1\n"
                              "    length = 100 steps\n    nonfinite = keep\n    on_nonfinite = skip\n}\n";
    train_run *t = open_or_fail(device, two, numbers, NULL); /* 0 * inf is NaN: both losses count as bad */
    if (t == NULL) return;
    train_remember(t);
    CHECK(train_step(t, INFINITE, 1, false));
    CHECK(train_unmoved(t, "keep") && train_state(t, "a", 0) == 1);
    CHECK(train_step(t, TWO, 1, false));
    CHECK(train_state(t, "a", 0) == 0.5 && train_state(t, "b", 0) == 0.5);
    train_close(t);
}

static void n85_unscaled_by_the_scale_that_was_used(const char *device) {
    train_run *t = open_or_fail(device, product, numbers, SETTINGS("loss_scale=dynamic(init = 2, interval = 1)"));
    if (t == NULL) return;
    for (int i = 0; i < 6; i++) {
        CHECK(train_step(t, ONE, 1, false));
        CHECK(train_output(t, "grad_norm") == 1 && train_output(t, "scale") == ldexp(4, i));
        CHECK(train_state(t, "w", 0) == -i);
    }
    train_close(t);
}

/* What a checkpoint holds, in another session: the same bits from there on. */
static void n86_the_scaler_is_state(const char *device) {
    const char *const *settings = SETTINGS("loss_scale=dynamic(init = 256, interval = 4)", "seed=3");
    train_run *straight = open_or_fail(device, network, network_rows, settings);
    train_run *resumed = open_or_fail(device, network, network_rows, settings);
    for (int i = 0; straight != NULL && resumed != NULL && i < 12; i++) {
        CHECK(train_step(straight, i % 2 ? 8 : 0, 4, false));
        if (i >= 6) CHECK(train_step(resumed, i % 2 ? 8 : 0, 4, false));
        if (i != 5) continue;
        CHECK(train_state(straight, "scaler.scale", 0) == 512 && train_state(straight, "scaler.clean", 0) == 2);
        train_remember(straight);
        train_restore(resumed, straight);
    }
    if (straight != NULL && resumed != NULL) {
        CHECK(train_state(straight, "scaler.scale", 0) == 2048);
        CHECK(train_same_states(straight, resumed));
    }
    train_close(straight);
    train_close(resumed);
}

static void n12_loss_and_norm_are_reported_without_scale(const char *device) {
    static const char *const scales[] = {"loss_scale=static(scale = 128)", "loss_scale=dynamic(init = 65536)"};
    for (int i = 0; i < 2; i++) {
        train_run *t = open_or_fail(device, product, "2.5\n", SETTINGS(scales[i]));
        if (t == NULL) return;
        CHECK(train_step(t, 0, 1, false));
        CHECK(train_output(t, "loss") == 2.5 && train_output(t, "grad_norm") == 2.5);
        train_close(t);
    }
}

static const char two_weights[] =
    "model m(x: f32[batch, 2]) {\n    w = param([2], init = zeros)\n    loss l = sum(w * x, axis = 1)\n}\n"
    "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:2]\n}\n"
    "train {\n    precision = f16\n    optimizer = sgd(lr = 1)\n    batch = 1\n    clip_norm = 1.0\n    length = 100 "
    "steps\n}\n";

static void n62_clips_true_gradients(const char *device) {
    static const char *const scales[] = {"loss_scale=static(scale = 1)", "loss_scale=static(scale = 1024)",
                                         "loss_scale=static(scale = 8192)"};
    for (int i = 0; i < 3; i++) {
        train_run *t = open_or_fail(device, two_weights, "3,4\n", SETTINGS(scales[i]));
        if (t == NULL) return;
        CHECK(train_step(t, 0, 1, false));
        CHECK(train_output(t, "grad_norm") == 5);
        CHECK(fabs(train_state(t, "w", 0) + 0.6) <= 0x1p-23 && fabs(train_state(t, "w", 1) + 0.8) <= 0x1p-23);
        train_close(t);
    }
}

/* The squares are 9e60 and 1.6e61: no f32. */
static void n63_huge_gradients_have_a_norm(const char *device) {
    train_run *t = open_or_fail(device, two_weights, "3e30,4e30\n", SETTINGS("precision=f32"));
    if (t == NULL) return;
    CHECK(train_step(t, 0, 1, false));
    CHECK(fabs(train_output(t, "grad_norm") / 5e30 - 1) < 1e-6 && train_output(t, "applied") == 1);
    CHECK_MSG(fabs(train_state(t, "w", 0) + 0.6) <= 0x1p-22 && fabs(train_state(t, "w", 1) + 0.8) <= 0x1p-22, "%g %g",
              train_state(t, "w", 0), train_state(t, "w", 1));
    train_close(t);
}

/* Of two finite gradients the norm itself is beyond f32: refused in every precision. */
static void n63_an_infinite_norm_skips(const char *device) {
    static const char *const precisions[] = {"precision=f32", "precision=bf16"};
    for (int i = 0; i < 2; i++) {
        train_run *t =
            open_or_fail(device, two_weights, "3e38,3e38\n1,1\n", SETTINGS(precisions[i], "on_nonfinite=skip"));
        if (t == NULL) return;
        train_remember(t);
        CHECK(train_step(t, 0, 1, false));
        CHECK(isinf(train_output(t, "grad_norm")) && train_unmoved(t, "keep") && train_output(t, "skipped") == 1);
        CHECK(train_step(t, 1, 1, false));
        CHECK(train_output(t, "applied") == 1);
        train_close(t);
    }
}

static void n64_scales_are_powers_of_two(const char *device) {
    train_run *t = train_open(device, product, numbers, SETTINGS("loss_scale=static(scale = 1000)"));
    CHECK(t == NULL);
    CHECK_STR(train_refusal(), "E109");
    train_close(t);
}

/* w = 1, g = 1e-8, eps = 1e-8: half a step; with eps rounded to f16 it would be a whole one, inside the root less. */
static void n71_eps_is_f32_and_outside_the_root(const char *device) {
    static const char *const precisions[] = {"precision=f32", "precision=bf16", "precision=f16"};
    for (int i = 0; i < 3; i++) {
        train_run *t = open_or_fail(device, product, "1e-8\n0\n",
                                    SETTINGS("optimizer=adamw(lr = 0.1, weight_decay = 0)", precisions[i]));
        if (t == NULL) return;
        CHECK(train_step(t, 0, 1, false));
        CHECK_MSG(fabs(train_state(t, "w", 0) - 0.95) < 1e-6, "%.9g", train_state(t, "w", 0));
        train_close(t);
        t = open_or_fail(device, product, "1e-8\n0\n",
                         SETTINGS("optimizer=adamw(lr = 0.1, weight_decay = 0)", precisions[i]));
        if (t == NULL) return;
        CHECK(train_step(t, 1, 1, false));
        CHECK(train_state(t, "w", 0) == 1 && train_output(t, "applied") == 1);
        train_close(t);
    }
}

static void n74_skips_move_no_schedule_and_no_bias_correction(const char *device) {
    train_run *t =
        open_or_fail(device, product, numbers,
                     SETTINGS("optimizer=adamw(lr = 0.1, weight_decay = 0)", "schedule=constant(warmup = 10 steps)"));
    if (t == NULL) return;
    for (int i = 0; i < 3; i++) {
        train_remember(t);
        CHECK(train_step(t, INFINITE, 1, false));
        CHECK(train_unmoved(t, "keep"));
    }
    CHECK(train_output(t, "skipped") == 3 && train_output(t, "applied") == 0);
    CHECK(train_step(t, TENTH, 1, false));
    CHECK(fabs(train_output(t, "lr") - 0.01) < 1e-8);
    CHECK_MSG(fabs(train_state(t, "w", 0) - 0.99) < 1e-6, "%.9g", train_state(t, "w", 0));
    train_close(t);
}

int main(void) {
    static const char *const devices[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        n80_small_gradients_need_a_scale(devices[i]);
        n81_overflow_halves_the_scale_and_moves_nothing(devices[i]);
        n82_growth_starts_again_after_an_overflow(devices[i]);
        n83_what_a_bad_step_does(devices[i]);
        n84_one_decision_for_all(devices[i]);
        n85_unscaled_by_the_scale_that_was_used(devices[i]);
        n86_the_scaler_is_state(devices[i]);
        n12_loss_and_norm_are_reported_without_scale(devices[i]);
        n62_clips_true_gradients(devices[i]);
        n63_huge_gradients_have_a_norm(devices[i]);
        n63_an_infinite_norm_skips(devices[i]);
        n64_scales_are_powers_of_two(devices[i]);
        n71_eps_is_f32_and_outside_the_root(devices[i]);
        n74_skips_move_no_schedule_and_no_bias_correction(devices[i]);
    }
    return check_result();
}
