/* What the expressions of the language compute: each case is elaborated for prediction, evaluated in f64 by the
 * reference evaluator and compared with numbers worked out by hand or by a formula. Every builtin that makes a value
 * stands here at least once. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ir/eval/eval.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static const double x_values[8] = {-2, -0.5, 0.5, 3, 0.1, -1, 2, -0.25};
static const double ids_values[2] = {1, 3};

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    mpc_tensor t = mpc_tensor_make(user, mpc_value_type(g, mpc_result(state, 0)));
    const char *init = mpc_attr_str(g, state, "init");
    double fill = strcmp(init, "ones") == 0 ? 1 : strcmp(init, "constant") == 0 ? mpc_attr_float(g, state, "a") : 0;
    for (int64_t i = 0; i < mpc_type_elements(&t.type); i++) t.data[i] = fill;
    return t;
}

/* Evaluates output `v`; false when it has another size than `n`. */
static bool evaluate(const mpc_graph *g, double *out, size_t n) {
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor *inputs = mpc_arena_alloc(arena, (g->input_count + 1) * sizeof *inputs);
    mpc_tensor *values = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values);
    for (uint32_t i = 0; i < g->input_count; i++) {
        inputs[i] = mpc_tensor_make(arena, mpc_value_type(g, g->inputs[i].value));
        bool is_x = strcmp(mpc_value_name(g, g->inputs[i].value), "x") == 0;
        for (size_t k = 0; k < (is_x ? 8 : 2); k++) inputs[i].data[k] = is_x ? x_values[k] : ids_values[k];
    }
    mpc_eval_options options = {.f64 = true};
    bool ok = mpc_evaluate(g, inputs, no_state, arena, &options, arena, values) == MPC_OK;
    const mpc_tensor *t = ok ? &values[mpc_graph_find_output(g, "output.v")] : NULL;
    ok = ok && (size_t)mpc_type_elements(&t->type) == n;
    for (size_t i = 0; ok && i < n; i++) out[i] = t->data[i];
    mpc_arena_destroy(arena);
    return ok;
}

static void check_values(const char *code, const double *expected, size_t n) {
    mpc_str text = {0};
    mpc_str_printf(&text, "const k = 3\nmodel m(x: f32[batch, 4], ids: i32[batch]) {\n%s\noutput v = v\n}\n", code);
    session s;
    open_text(&s, "ops.mpg", mpc_str_cstr(&text), NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_PREDICT, 2);
    double got[64] = {0};
    bool ok = g && mpc_graph_verify(g) == MPC_OK && evaluate(g, got, n);
    CHECK_MSG(ok, "%s", code);
    if (!ok) show_diagnostics(s.diags, s.sources);
    for (size_t i = 0; ok && i < n; i++)
        CHECK_MSG(fabs(got[i] - expected[i]) <= 1e-9 * (1 + fabs(expected[i])), "%s: element %zu is %.12g, not %.12g",
                  code, i, got[i], expected[i]);
    mpc_graph_destroy(g);
    close_session(&s);
    mpc_str_free(&text);
}

typedef double (*formula)(double);

static void check_map(const char *code, formula f) {
    double expected[8];
    for (int i = 0; i < 8; i++) expected[i] = f(x_values[i]);
    check_values(code, expected, 8);
}

static double twice_plus_one(double x) { return 2 * x + 1; }
static double from_three(double x) { return 3 - x; }
static double square(double x) { return x * x; }
static double minus_square(double x) { return -(x * x); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double softplus(double x) { return log1p(exp(x)); }
static double leaky(double x) { return x > 0 ? x : 0.2 * x; }
static double clamped(double x) { return x < -1 ? -1 : x > 1 ? 1 : x; }
static double at_most(double x) { return x < 0.3 ? x : 0.3; }
static double chosen(double x) { return x > 0 ? x : 7; }
static double positive(double x) { return x > 0; }
static double inside(double x) { return x > -1 && x <= 2; }
static double third(double x) { return x / 3; }
static double gelu(double x) { return x * (1 + erf(x / sqrt(2))) / 2; }
static double huber_zero(double x) { return fabs(x) < 1 ? x * x / 2 : fabs(x) - 0.5; }
static double huber_half(double x) { return fabs(x) < 0.5 ? x * x / 2 : fabs(x) / 2 - 0.125; }
static double size_of(double x) { return fabs(x); }
static double kl_half(double x) { return 0.5 * (log(0.5) - x); }
static double is_negative(double x) { return x <= 0; }
static double bce_one(double x) { return log1p(exp(x)) - x; }
static double relu_of(double x) { return x > 0 ? x : 0; }
static double root(double x) { return sqrt(fabs(x)); }
static double identity(double x) { return x; }
static double sine(double x) { return sin(x); }

static double gelu_tanh(double x) { return x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))) / 2; }
static double elu(double x) { return x > 0 ? x : 0.5 * expm1(x); }
static double reciprocal(double x) { return 1 / x; }
static double sign(double x) { return x > 0 ? 1 : -1; }
static double log1p_of_abs(double x) { return log1p(fabs(x)); }

static void maps(void) {
    check_map("v = 2 * x + 1", twice_plus_one);
    check_map("v = k - x", from_three);
    check_map("v = x ** 2", square);
    check_map("v = -x ** 2", minus_square);
    check_map("v = square(x)", square);
    check_map("v = silu(x)", silu);
    check_map("v = softplus(x)", softplus);
    check_map("v = leaky_relu(x, 0.2)", leaky);
    check_map("v = clamp(x, min = -1, max = 1)", clamped);
    check_map("v = minimum(x, 0.3)", at_most);
    check_map("v = where(x > 0, x, 7)", chosen);
    check_map("v = cast(x > 0, f32)", positive);
    check_map("v = cast(x > -1 and not (x > 2), f32)", inside);
    check_map("v = x / k", third);
    check_map("v = gelu(x)", gelu);
    check_map("v = gelu(x, tanh = true)", gelu_tanh);
    check_map("v = elu(x, 0.5)", elu);
    check_map("v = reciprocal(x)", reciprocal);
    check_map("v = sign(x)", sign);
    check_map("v = log1p(abs(x))", log1p_of_abs);
    check_map("v = expm1(x)", expm1);
    check_map("v = floor(x)", floor);
    check_map("v = ceil(x)", ceil);
    check_map("v = round(x)", rint);
    check_map("v = roll(roll(x, 1), 3)", identity);
    check_map("v = flip(flip(x, axis = 0), axis = 0)", identity);
    check_map("v = pad(x, axis = 1, before = 1, after = 2)[:, 1:5]", identity);
    check_map("a, i = top_k(x, 4)\nv = x + sum(a, axis = 1, keep = true) - sum(x, axis = 1, keep = true)", identity);
    check_map("v = huber(x, zeros([batch, 4]))", huber_zero);
    check_map("v = huber(x, zeros([batch, 4]), delta = 0.5, reduce = none)", huber_half);
    check_map("v = bce_with_logits(x, ones([2, 4]))", bce_one);
    check_map("v = l1(x, zeros([2, 4]))", size_of);
    check_map("v = kl(x, ones([2, 4]) * 0.5)", kl_half);
    check_map("v = binary_accuracy(x, zeros([2, 4]))", is_negative);
    check_map("v = maximum(relu(x), 0)", relu_of);
    check_map("v = sqrt(abs(x))", root);
    check_map("v = stop(x) + 0", identity);
    check_map("v = sin(x)", sine);
    check_map("v = div(mul(sub(add(x, 1), 1), 2), 2)", identity);
    check_map("v = log(exp(x))", identity);
    check_map("v = float(x)", identity);
    check_map("a, b = split(x, parts = 2)\nv = concat([a, b])", identity);
    check_map("a, b, c, d = unstack(x, axis = 1)\nv = stack([a, b, c, d], axis = 1)", identity);
    check_map("v = transpose(transpose(x))", identity);
    check_map("v = reshape(flatten(reshape(x, [batch, 2, 2])), [-1, 4])", identity);
    check_map("v = x[:, 0:4][..., :]", identity);
    check_map("v = mae(x, x) + x", identity);
    check_map("v = dropout(x, 0.5)", identity);
    check_map("v = matmul(x, one_hot(range(4), 4))", identity);
    check_map("v = embedding(ids, 5, 4, init = zeros) + x", identity);
    check_map("v = linear(x, 4, init = constant(0), bias = false) + x", identity);
    check_map("repeat 2 { x = x + 1 }\nv = x - 2", identity);
    check_map("xs = []\nrepeat i in 4 { xs = xs + [x[:, i]] }\nv = stack(xs, axis = -1)", identity);
    check_map("if len([1, 2]) == 2 and k != 4 { v = x } else { v = x * 0 }", identity);
}

#define VALUES(code, ...) \
    check_values((code), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static void numbers(void) {
    VALUES("v = sum(x)", 1.85);
    VALUES("v = sum(x, axis = 1)", 1, 0.85);
    VALUES("v = mean(x, axis = -1)", 0.25, 0.2125);
    VALUES("v = max(x, axis = [0])", 0.1, -0.5, 2, 3);
    VALUES("v = min(x, axis = 1, keep = true)[:, 0]", -2, -1);
    VALUES("v = argmax(x)", 3, 2);
    VALUES("v = argmin(x)", 0, 1);
    VALUES("v = var(x, axis = 1)", 3.3125, 1.22296875);
    VALUES("v = var(x[:, 0:2], axis = [0, 1], unbiased = true)", (5.26 - 3.4 * 3.4 / 4) / 3);
    VALUES("v = norm(x[:, 0:2], axis = 1)", sqrt(4.25), sqrt(1.01));
    VALUES("v = norm(x[:, 0:2], keep = true)", sqrt(5.26));
    VALUES("v = logsumexp(x[:, 0:2], axis = -1)", log(exp(-2) + exp(-0.5)), log(exp(0.1) + exp(-1)));
    VALUES("v = cumsum(x)", -2, -2.5, -2, 1, 0.1, -0.9, 1.1, 0.85);
    VALUES("v = cumsum(x, axis = 0, reverse = true)", -1.9, -1.5, 2.5, 2.75, 0.1, -1, 2, -0.25);
    VALUES("a, i = top_k(x, 2)\nv = a + i", 6, 2.5, 4, 0.1);
    VALUES("a, i = top_k(x, 1, axis = 0)\nv = a * 0 + i", 1, 0, 1, 0);
    VALUES("v = any(x > 1, axis = 0)", 0, 0, 1, 1);
    VALUES("v = all(x > -1, axis = 1)", 0, 0);
    VALUES("v = all(x > -3)", 1);
    VALUES("v = pad(x[:, 0], before = 1, value = 9)", 9, -2, 0.1);
    VALUES("v = pad(x[:, 0:1], axis = [1, 0], before = [1, 0], after = [0, 1])", 0, -2, 0, 0.1, 0, 0);
    VALUES("v = roll(x, 1)", 3, -2, -0.5, 0.5, -0.25, 0.1, -1, 2);
    VALUES("v = roll(x, -1, axis = 0)", 0.1, -1, 2, -0.25, -2, -0.5, 0.5, 3);
    VALUES("v = flip(x)", 3, 0.5, -0.5, -2, -0.25, 2, -1, 0.1);
    VALUES("v = upsample(reshape(x, [batch, 2, 2, 1]), [1, 2])[0, :, :, 0]", -2, -2, -0.5, -0.5, 0.5, 0.5, 3, 3);
    VALUES("v = upsample(reshape(x, [batch, 2, 2, 1]), 2)[1, 1:3, :, 0]", 0.1, 0.1, -1, -1, 2, 2, -0.25, -0.25);
    VALUES("v = range(-1, 3)", -1, 0, 1, 2);
    VALUES("v = sum(one_hot(reshape(ids, [1, 2, 1]), 4), axis = [0, 1, 2])", 0, 1, 0, 1);
    VALUES("v = mean(one_hot(reshape(ids, [1, 2, 1]), 4), axis = [0, 3])", 0.25, 0.25);
    VALUES("v = gather(x, ids[0] * 0 + range(4) * 0, axis = 0)", -2, -0.5, 0.5, 3);
    VALUES("v = ones([1]) * (round(2.5) + floor(-0.5) + ceil(0.5) + sign(-3) + log1p(0) + gelu(0) + reciprocal(4))",
           1.25);
    VALUES("v = x[:, -1]", 3, -0.25);
    VALUES("v = x[1, 1:3]", -1, 2);
    VALUES("v = x[1, 2]", 2);
    VALUES("v = gather(x, ids)", -0.5, -0.25);
    VALUES("v = accuracy(x, ids + 2)", 1, 0);
    VALUES("v = accuracy(x, ids - ids + 2)", 0, 1);
    VALUES("v = ids / 2", 0.5, 1.5);
    VALUES("v = cast(ids == 3, i32)", 0, 1);
    VALUES("v = range(4) * 2", 0, 2, 4, 6);
    VALUES("v = expand(range(2), [2, 2])", 0, 1, 0, 1);
    VALUES("v = ones([2]) * (7 % 4) * 2 ** 3", 24, 24);
    VALUES("v = ones([1]) * (-7 % 4 + int(2.9) + len(x.shape) + k / 3)", 6);
    VALUES("[n, c] = shape(x)\nv = ones([n]) * c", 4, 4);
    VALUES("v = x[:, 0] * x[:, 1] + mse(x[:, 0], x[:, 1])", 3.25, 1.11);
    VALUES("v = is_nan(x[:, 0] / 0 * 0)", 1, 1);
}

static void norms_and_losses(void) {
    VALUES("v = l2_normalize(x[:, 0:2])[:, 0]", -2 / sqrt(4.25), 0.1 / sqrt(1.01));
    VALUES("v = rms_norm(x[:, 0:2], eps = 0)[:, 0]", -2 / sqrt(4.25 / 2), 0.1 / sqrt(1.01 / 2));
    VALUES("v = batch_norm(x, eps = 0)[:, 0]", -2, 0.1); /* running statistics 0 and 1 */
    VALUES("mu = mean(x, axis = 1)\nvar = mean(x * x, axis = 1) - mu * mu\n"
           "v = group_norm(reshape(x, [batch, 2, 2]), groups = 1, eps = 0)[:, 0, 0] * sqrt(var) + mu",
           -2, 0.1);
    VALUES("v = group_norm(x, groups = 2, eps = 0)[:, 1]", 1, -1);
    VALUES("v = layer_norm(x[:, 0:2], eps = 0)[:, 0]", -1, 1);
    VALUES("v = softmax(x[:, 0:2])[:, 0]", 1 / (1 + exp(1.5)), 1 / (1 + exp(-1.1)));
    VALUES("v = log_softmax(x[:, 0:2], axis = 1)[:, 0]", -log1p(exp(1.5)), -log1p(exp(-1.1)));
    VALUES("v = cross_entropy(x[:, 0:2], ids - 1 - ids + 1)", log1p(exp(1.5)), log1p(exp(-1.1)));
    VALUES("v = cross_entropy(x[:, 0:2], ids - ids, smooth = 0.5)",
           0.5 * log1p(exp(1.5)) + 0.25 * (log1p(exp(1.5)) + log1p(exp(-1.5))),
           0.5 * log1p(exp(-1.1)) + 0.25 * (log1p(exp(1.1)) + log1p(exp(-1.1))));
    VALUES("v = cross_entropy(x[:, 0:2], softmax(x[:, 0:2] * 0))", 0.5 * (log1p(exp(1.5)) + log1p(exp(-1.5))),
           0.5 * (log1p(exp(1.1)) + log1p(exp(-1.1))));
    VALUES("v = top_k(x, ids - 1, k = 2)", 0, 1);
    VALUES("v = top_k_accuracy(x, ids - 1, k = 4)", 1, 1);
}

static void images_layers_and_draws(void) {
    VALUES("v = max_pool(reshape(x, [batch, 2, 2, 1]), 2)[:, 0, 0, 0]", 3, 2);
    VALUES("v = avg_pool(reshape(x, [batch, 2, 2, 1]), 2)[:, 0, 0, 0]", 0.25, 0.2125);
    VALUES("v = global_avg_pool(reshape(x, [batch, 2, 2, 1]))[:, 0]", 0.25, 0.2125);
    VALUES("v = conv2d(reshape(x, [batch, 2, 2, 1]), 1, kernel = 2, init = ones, bias = false)[:, 0, 0, 0]", 1, 0.85);
    VALUES("v = global_max_pool(reshape(x, [batch, 2, 2, 1]))[:, 0]", 3, 2);
    VALUES("v = conv2d(reshape(x, [batch, 2, 2, 1]), 1, kernel = 3, pad = same, init = ones)[:, 1, 1, 0]", 1, 0.85);
    VALUES("same = 1\nv = conv2d(reshape(x, [batch, 2, 2, 1]), 1, kernel = 2, pad = same, init = ones)[:, 0, 0, 0]", -2,
           0.1);
    VALUES("v = conv1d(reshape(x, [batch, 4, 1]), 1, kernel = 3, dilation = 1, pad = same, init = ones)[:, 0:2, 0]",
           -2.5, -2, -0.9, 1.1);
    VALUES("v = conv1d(reshape(x, [batch, 2, 2]), 2, kernel = 2, groups = 2, init = ones)[:, 0, 1]", 2.5, -1.25);
    VALUES("y = conv2d_transpose(reshape(x, [batch, 2, 2, 1]), 1, kernel = 2, stride = 2, init = ones)\n"
           "v = y[:, 3, 2, 0] + y.shape[1] + y.shape[2]",
           11, 7.75);
    VALUES("y = conv2d_transpose(reshape(x, [batch, 2, 2, 1]), 3, kernel = 3, pad = 1, init = ones, bias = false)\n"
           "v = y[:, 0, 0, 2]",
           1, 0.85);
    VALUES("y = conv2d_transpose(reshape(x, [batch, 1, 1, 4]), 6, kernel = 1, stride = 2, output_pad = 1, groups = 2, "
           "init = ones)\nv = y[:, 0, 0, 5] + y[:, 1, 1, 5] + y.shape[3]",
           9.5, 7.75);
    VALUES("v = param([2], init = constant(3)) * 2", 6, 6);
    VALUES("v = layer_norm(x[:, 0:2], eps = 0, scale_init = constant(2))[:, 1]", 2, -2);
    VALUES("v = rms_norm(x[:, 0:2], eps = 0, scale_init = zeros)[:, 0]", 0, 0);
    VALUES("v = group_norm(x, groups = 2, eps = 0, scale_init = constant(3))[:, 1]", 3, -3);
    VALUES("v = param([], init = constant(1.5)) * ones([2])", 1.5, 1.5);
    VALUES("q = reshape(x, [batch, 2, 1, 2])\nv = attention(q, q, q, causal = true)[:, 0, 0, 0]", -2, 0.1);
    VALUES("q = reshape(x, [batch, 1, 4, 1])\nr = q[:, :, 0:2]\nv = attention(q, r, r)[:, 0, :, 0]", -2, -2, -0.5, -0.5,
           0.1, 0.1, -1, -1);
    VALUES("q = reshape(x, [batch, 4, 1, 1])\nv = attention(0 * q, q, q, causal = true, window = 2)[:, 0:3, 0, 0]", -2,
           -1.25, 0, 0.1, -0.45, 0.5);
    VALUES("v = drop_path(x, 0.5)[:, 0]", -2, 0.1);
    VALUES("v = mean(random_uniform([64]) >= 1) + mean(random_normal([4]) > 100)", 0);
    VALUES("u = random_uniform([64], low = 2, high = 5)\nv = mean(u < 2) + mean(u >= 5) + mean(u < 3.5 or u >= 3.5)",
           1);
    VALUES("v = mean(bernoulli([8], 1)) + mean(bernoulli([8], 0))", 1);
    VALUES("b = bernoulli([64], 0.5)\nv = mean(b * (1 - b))", 0);
}

int main(void) {
    maps();
    numbers();
    norms_and_losses();
    images_layers_and_draws();
    return check_result();
}
