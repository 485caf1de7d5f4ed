/* Rules about parameters, gradients and accumulation over whole training steps, through the driver's session on both
 * devices. Rows are chosen by the test; a window of micro-batches sees the same rows as one large batch. */
#include <math.h>
#include <string.h>

#include "../check.h"
#include "base/numfmt.h"
#include "train_run.h"

#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static train_run *open_or_fail(const char *device, const char *model, const char *rows, const char *const *settings) {
    train_run *t = train_open(device, model, rows, settings);
    CHECK_MSG(t != NULL, "%s", device);
    return t;
}

/* Largest difference of a state's elements between two trainings. */
static double distance(train_run *a, train_run *b, const char *state, uint32_t count) {
    double most = 0;
    for (uint32_t i = 0; i < count; i++) most = fmax(most, fabs(train_state(a, state, i) - train_state(b, state, i)));
    return most;
}

static const char classes[] =
    "model m(x: f32[batch, 4], y: i32[batch]) {\n    h = gelu(linear(x, 16) as fc)\n    logits = linear(h, 3) as head\n"
    "    loss ce = cross_entropy(logits, y) where y >= 0\n}\n"
    "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:4]\n    input y = columns[4]\n}\n"
    "train {\n    precision = f32\n    optimizer = sgd(lr = 0.5, momentum = 0.9)\n    batch = 8\n    length = 100 "
    "steps\n}\n";
/* of every two rows 2, 1, 0, 2 count; then four that all do */
static const char class_rows[] =
    "1,0,0,0,0\n0,1,0,0,1\n1,1,0,0,2\n0,0,1,0,-1\n0,0,0,1,-1\n1,0,1,0,-1\n0,1,0,1,0\n1,1,1,0,1\n"
    "1,0,0,1,2\n0,1,1,0,1\n0,0,1,1,0\n1,1,1,1,2\n";

/* 8 rows at once against micro-batches of 2, with 2, 1, 0 and 2 valid targets, and a window that a flush ends early. */
static void n61_micro_batches_equal_one_batch(const char *device) {
    static const char *const precisions[] = {"precision=f32", "precision=bf16", "precision=f16"};
    static const double tolerances[] = {2e-7, 4e-3, 5e-4}; /* low: gradients are rounded before they are weighted */
    for (int p = 0; p < 3; p++) {
        train_run *big =
            open_or_fail(device, classes, class_rows, SETTINGS(precisions[p], "loss_scale=static(scale = 1024)"));
        train_run *small =
            open_or_fail(device, classes, class_rows,
                         SETTINGS(precisions[p], "loss_scale=static(scale = 1024)", "batch=2", "accumulate=4"));
        for (int k = 0; big != NULL && small != NULL && k < 3; k++) {
            CHECK(train_step(big, 0, 8, false));
            for (uint32_t i = 0; i < 4; i++) CHECK(train_step(small, 2 * i, 2, false));
            CHECK(fabs(train_output(small, "grad_norm") / train_output(big, "grad_norm") - 1) < 100 * tolerances[p]);
            CHECK(train_step(big, 8, 4, false));
            for (uint32_t i = 0; i < 2; i++) CHECK(train_step(small, 8 + 2 * i, 2, i == 1));
            CHECK(train_output(small, "applied") == 2 * k + 2 && train_output(big, "applied") == 2 * k + 2);
        }
        if (big != NULL && small != NULL) {
            double weight = distance(big, small, "fc.weight", 64), head = distance(big, small, "head.bias", 3);
            CHECK_MSG(weight <= 4 * tolerances[p] && head <= 4 * tolerances[p], "%s on %s: %g %g", precisions[p],
                      device, weight, head);
        }
        train_close(big);
        train_close(small);
    }
}

static const char product[] =
    "model m(x: f32[batch]) {\n    w = param([1], init = constant(1))\n    loss l = w * x\n}\n"
    "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0]\n}\n"
    "train {\n    precision = f16\n    optimizer = sgd(lr = 1)\n    batch = 1\n"
    "    length = 100 steps\n    loss_scale = static(scale = 1)\n}\n";

/* 64 times 2048 is no f16, and the first 1 would be lost beside 2048 in one. */
static void n60_sums_over_micro_batches_are_f32(const char *device) {
    train_run *t = open_or_fail(device, product, "2048\n1\n", SETTINGS("accumulate=64"));
    if (t == NULL) return;
    for (uint32_t i = 0; i < 64; i++) CHECK(train_step(t, i % 2, 1, false));
    CHECK_MSG(train_state(t, "w", 0) == 1 - 1024.5, "%.9g", train_state(t, "w", 0));
    train_close(t);
}

/* Gradients of 256 rows are added up by one matmul: a 16-bit result or sum would give 256. */
static void n60_weight_gradients_are_f32(const char *device) {
    static const char model[] =
        "model m(x: f32[batch, 2]) {\n    y = linear(x, 1, bias = false, init = zeros) as fc\n"
        "    loss l = y[:, 0]\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:2]\n}\n"
        "train {\n    precision = bf16\n    optimizer = sgd(lr = 1)\n    batch = 2\n    length = 100 steps\n}\n";
    train_run *t = open_or_fail(device, model, "256,1\n1,1\n", NULL);
    if (t == NULL) return;
    CHECK(train_step(t, 0, 2, false));
    CHECK_MSG(train_state(t, "fc.weight", 0) == -128.5, "%.9g", train_state(t, "fc.weight", 0));
    train_close(t);
}

static void n31_statistics_move_on_applied_steps_only(const char *device) {
    static const char model[] =
        "model m(x: f32[batch, 1]) {\n    y = batch_norm(x) as norm\n    loss l = y[:, 0] * y[:, 0]\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:1]\n}\n"
        "train {\n    precision = f16\n    optimizer = sgd(lr = 0.1)\n    batch = 2\n    length = 100 steps\n"
        "    nonfinite = keep\n    on_nonfinite = skip\n}\n";
    train_run *t = open_or_fail(device, model, "inf\n1\n1\n3\n", NULL);
    if (t == NULL) return;
    CHECK(train_step(t, 0, 2, false));
    CHECK(train_output(t, "skipped") == 1);
    CHECK(train_state(t, "norm.running_mean", 0) == 0 && train_state(t, "norm.running_var", 0) == 1);
    CHECK(train_step(t, 2, 2, false));
    CHECK(fabs(train_state(t, "norm.running_mean", 0) - 0.2) < 1e-6);
    CHECK(fabs(train_state(t, "norm.running_var", 0) - (0.9 + 0.1 * 2)) < 1e-6);
    CHECK(mpc_store_find(train_store(t), "norm.running_var", MPC_FMT_none)->type.format == MPC_FMT_f32);
    train_close(t);
}

/* Ids beyond 2048 have no f16, beyond 256 no bf16: a rounded id would move another row. */
static void n44_ids_stay_integers(const char *device) {
    static const char model[] = "model m(id: i32[batch]) {\n    e = embedding(id, 5000, 4, init = zeros) as table\n"
                                "    y = linear(e, 1, bias = false, init = ones) as head\n    loss l = y[:, 0]\n}\n"
                                "data {\n    train = csv(\"rows.csv\", header = false)\n    input id = columns[0]\n}\n"
                                "params {\n    \"head.*\" { freeze = true }\n}\n"
                                "train {\n    optimizer = sgd(lr = 1)\n    batch = 2\n    length = 100 steps\n    "
                                "loss_scale = static(scale = 1)\n}\n";
    static const char *const precisions[] = {"precision=f16", "precision=bf16"};
    for (int i = 0; i < 2; i++) {
        train_run *t = open_or_fail(device, model, "4097\n3001\n", SETTINGS(precisions[i]));
        if (t == NULL) return;
        CHECK(train_step(t, 0, 2, false));
        for (uint32_t row = 0; row < 5000; row++) {
            double want = row == 4097 || row == 3001 ? -0.5 : 0, got = train_state(t, "table.weight", 4 * row);
            if (got != want) CHECK_MSG(false, "row %u: %g", row, got);
        }
        train_close(t);
    }
}

static void n51_a_tied_weight_has_one_master_and_one_gradient(const char *device) {
    static const char model[] =
        "model m(x: f32[batch, 1]) {\n    f = linear(_, 1, bias = false, init = constant(2))\n    y = f(x)\n    z = "
        "f(y)\n"
        "    loss l = z[:, 0]\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:1]\n}\n"
        "train {\n    precision = bf16\n    optimizer = sgd(lr = 0.125)\n    batch = 1\n    length = 100 steps\n}\n";
    train_run *t = open_or_fail(device, model, "3\n", NULL);
    if (t == NULL) return;
    uint32_t masters = 0, copies = 0;
    for (uint32_t i = 0; i < mpc_store_count(train_store(t)); i++) {
        const mpc_store_entry *e = mpc_store_at(train_store(t), i);
        masters += strcmp(e->role, "param") == 0;
        copies += e->derived != MPC_FMT_none;
    }
    CHECK_MSG(masters == 1 && copies == 1, "%u masters, %u copies", masters, copies);
    CHECK(train_step(t, 0, 1, false)); /* d(w w x) = 2 w x */
    CHECK_MSG(train_output(t, "grad_norm") == 12, "%g", train_output(t, "grad_norm"));
    CHECK(train_state(t, "f.weight", 0) == 0.5);
    train_close(t);
}

/* At 0 the branch not taken has an infinite slope: its product with 0 must not get in. */
static void n52_the_branch_not_taken_has_no_say(const char *device) {
    static const char model[] =
        "model m(x: f32[batch]) {\n    w = param([1], init = zeros)\n    v = param([1], init = zeros)\n"
        "    s = where(w > 0, sqrt(w), w)\n    l = where(v > 0, log(v), 2 * v)\n    loss a = s * x\n    loss b = l * "
        "x\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0]\n}\n"
        "train {\n    optimizer = sgd(lr = 1)\n    batch = 1\n    length = 100 steps\n}\n";
    static const char *const precisions[] = {"precision=f32", "precision=bf16", "precision=f16"};
    for (int i = 0; i < 3; i++) {
        train_run *t = open_or_fail(device, model, "1\n", SETTINGS(precisions[i], "loss_scale=static(scale = 1024)"));
        if (t == NULL) return;
        CHECK(train_step(t, 0, 1, false));
        CHECK_MSG(train_state(t, "w", 0) == -1 && train_state(t, "v", 0) == -2, "%g %g", train_state(t, "w", 0),
                  train_state(t, "v", 0));
        train_close(t);
    }
}

/* Roots, norms and logarithms at 0: the documented subgradient, a number. */
static void n52_roots_at_zero(const char *device) {
    static const char model[] =
        "model m(x: f32[batch, 2]) {\n    w = param([2], init = zeros)\n    v = l2_normalize(w * x)\n"
        "    loss l = sum(v, axis = 1)\n    loss r = sum(sqrt(w * w), axis = 0) + 0 * x[:, 0]\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0:2]\n}\n"
        "train {\n    precision = f32\n    optimizer = sgd(lr = 1)\n    batch = 1\n    length = 100 steps\n}\n";
    train_run *t = open_or_fail(device, model, "1,1\n", NULL);
    if (t == NULL) return;
    CHECK(train_step(t, 0, 1, false));
    CHECK_MSG(isfinite(train_output(t, "grad_norm")) && train_output(t, "applied") == 1, "%g",
              train_output(t, "grad_norm"));
    train_close(t);
}

static void n70_masters_and_moments_are_f32(const char *device) {
    train_run *t =
        open_or_fail(device, classes, class_rows, SETTINGS("precision=bf16", "optimizer=adamw()", "accumulate=2"));
    if (t == NULL) return;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < mpc_store_count(train_store(t)); i++) {
        const mpc_store_entry *e = mpc_store_at(train_store(t), i);
        bool wide = strcmp(e->role, "param") == 0 || strcmp(e->role, "moment") == 0 || strcmp(e->role, "accum") == 0;
        if (!wide || e->derived != MPC_FMT_none) continue;
        CHECK_MSG(e->type.format == MPC_FMT_f32, "%s", e->name);
        seen++;
    }
    CHECK_MSG(seen == 4 * 4, "%u", seen);
    train_close(t);
}

static void n72_decay_is_decoupled_and_by_rank(const char *device) {
    static const char model[] =
        "model m(x: f32[batch]) {\n    a = param([2, 2], init = ones)\n    b = param([2], init = ones)\n"
        "    loss l = 0 * sum(a) + 0 * sum(b) + 0 * x\n}\n"
        "data {\n    train = csv(\"rows.csv\", header = false)\n    input x = columns[0]\n}\n"
        "train {\n    precision = bf16\n    optimizer = adamw(lr = 0.5, weight_decay = 0.25)\n    batch = 1\n    "
        "length = 100 steps\n}\n";
    train_run *t = open_or_fail(device, model, "1\n", NULL);
    if (t == NULL) return;
    CHECK(train_step(t, 0, 1, false));
    CHECK_MSG(train_state(t, "a", 3) == 0.875 && train_state(t, "b", 0) == 1, "%g", train_state(t, "a", 3));
    CHECK(train_state(t, "a/m", 0) == 0); /* nothing of it went through the moments */
    train_close(t);
}

/* Over good and refused steps. */
static void n75_copies_are_casts_of_their_masters(const char *device) {
    static const char *const precisions[] = {"precision=f16", "precision=bf16"};
    for (int p = 0; p < 2; p++) {
        mpc_format format = p == 0 ? MPC_FMT_f16 : MPC_FMT_bf16;
        train_run *t = open_or_fail(device, classes, class_rows, SETTINGS(precisions[p], "optimizer=adamw(lr = 1e-2)"));
        if (t == NULL) return;
        for (int k = 0; k < 8; k++) {
            CHECK(train_step(t, k % 2 ? 4 : 0, 8, false));
            int wrong = 0;
            for (uint32_t i = 0; i < 64; i++) {
                float master = (float)train_state(t, "fc.weight", i);
                float cast = p == 0 ? mpc_f16_to_f32(mpc_f32_to_f16(master)) : mpc_bf16_to_f32(mpc_f32_to_bf16(master));
                wrong += (double)cast != train_copy(t, "fc.weight", format, i);
            }
            CHECK_MSG(wrong == 0, "step %d: %d copies differ", k, wrong);
        }
        CHECK(train_output(t, "applied") > 0);
        train_close(t);
    }
}

int main(void) {
    static const char *const devices[] = {"ref", "cpu"};
    for (int i = 0; i < 2; i++) {
        n61_micro_batches_equal_one_batch(devices[i]);
        n60_sums_over_micro_batches_are_f32(devices[i]);
        n60_weight_gradients_are_f32(devices[i]);
        n31_statistics_move_on_applied_steps_only(devices[i]);
        n44_ids_stay_integers(devices[i]);
        n51_a_tied_weight_has_one_master_and_one_gradient(devices[i]);
        n52_the_branch_not_taken_has_no_say(devices[i]);
        n52_roots_at_zero(devices[i]);
        n70_masters_and_moments_are_f32(devices[i]);
        n72_decay_is_decoupled_and_by_rank(devices[i]);
        n75_copies_are_casts_of_their_masters(devices[i]);
    }
    return check_result();
}
