/* Paths of parameters: label, then variable, then callee, numbered only among equals; loops; layers; and that they
 * don't depend on the phase, the batch, or what a branch does. */
#include "base/alloc.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static void check_paths(const char *what, const char *body, const char *expected) {
    mpc_str text = {0};
    mpc_str_printf(
        &text,
        "block pair(x, n: int) {\n    h = relu(linear(x, n) as up)\n    return linear(h, n) as down\n}\n"
        "block residual(x, f) { return x + f(x) }\n"
        "model m(x: f32[batch, 4], y: f32[batch, 4]) {\n%s\n    loss l = mse(x + h, y)\n    output h = h\n}\n",
        body);
    session s;
    open_text(&s, "names.mpg", mpc_str_cstr(&text), NULL, 0);
    for (int phase = 0; phase < 3; phase++) {
        mpc_graph *g = elaborate(&s, (mpc_phase)phase, phase == 0 ? 8 : 3);
        mpc_str names = {0};
        state_names(g, &names);
        if (!g || strcmp(mpc_str_cstr(&names), expected) != 0) show_diagnostics(s.diags, s.sources);
        CHECK_MSG(g && mpc_graph_verify(g) == MPC_OK, "%s", what);
        CHECK_STR(mpc_str_cstr(&names), expected);
        mpc_str_free(&names);
        mpc_graph_destroy(g);
    }
    close_session(&s);
    mpc_str_free(&text);
}

static void paths(void) {
    check_paths("a label", "h = linear(x, 4, bias = false) as head", "head.weight!");
    check_paths("the variable of a whole right side", "h = linear(x, 4, bias = false)", "h.weight!");
    check_paths("a variable that is assigned twice names nothing",
                "h = linear(x, 4, bias = false)\nh = linear(h, 4, bias = false)", "linear.0.weight! linear.1.weight!");
    check_paths("the callee, alone", "h = relu(linear(x, 4, bias = false))", "linear.weight!");
    check_paths("the callee, numbered, labels don't count",
                "h = linear(linear(linear(x, 4, bias = false), 4, bias = false) as mid, 4, bias = false) + 0.0",
                "linear.0.weight! mid.weight! linear.1.weight!");
    check_paths("a block", "h = pair(x, 4) as body", "body.up.weight! body.up.bias! body.down.weight! body.down.bias!");
    check_paths("a named loop", "h = x\nrepeat layer in 2 { h = linear(h, 4, bias = false) as fc }",
                "layer.0.fc.weight! layer.1.fc.weight!");
    check_paths("a loop over a list",
                "h = x\nrepeat stage, n in [4, 4] { repeat unit in 1 { h = linear(h, n, bias = false) as fc } }",
                "stage.0.unit.0.fc.weight! stage.1.unit.0.fc.weight!");
    check_paths("a bare loop", "h = x\nrepeat 2 { h = linear(h, 4, bias = false) as fc }", "fc.0.weight! fc.1.weight!");
    check_paths("a layer", "f = linear(_, 4, bias = false)\nh = f(f(x))", "f.weight!");
    check_paths("a layer that is a block, twice", "f = pair(_, 4)\nh = f(f(x))",
                "f.up.weight! f.up.bias! f.down.weight! f.down.bias!");
    check_paths("a layer handed to a block", "f = linear(_, 4, bias = false)\nh = residual(residual(x, f), f)",
                "f.weight!");
    check_paths("a label after an index", "h = linear(x, 5, bias = false)[:, 0:4] as cut", "cut.weight!");
    check_paths("an untaken branch changes no number",
                "h = relu(linear(x, 4, bias = false))\nif 1 > 2 { h = relu(linear(h, 4, bias = false)) }",
                "linear.0.weight!");
    check_paths("a plain parameter", "w = param([4], init = ones)\nh = x * w", "w!");
    check_paths("a normalisation", "h = batch_norm(x) as norm",
                "norm.weight! norm.bias! norm.running_mean norm.running_var");
    check_paths("letters of any alphabet", "grün = linear(x, 4, bias = false)\nh = grün", "grün.weight!");
}

/* Several losses, a metric with a mask, ranges, tied weights, selectors. */
static const char text[] =
    "const classes = 10\n"
    "model m(x: f32[batch, 6], digit: i32[batch], ids: i32[batch, 3]) {\n"
    "    wte = embedding(_, 7, 6)\n"
    "    h = batch_norm(mean(wte(ids), axis = 1) + x) as norm\n"
    "    if training { h = dropout(h, 0.25) }\n"
    "    logits = linear(h, classes) as head\n"
    "    loss ce = cross_entropy(logits, digit)\n"
    "    loss tie = mse(matmul(h, transpose(wte.weight)), matmul(x, transpose(wte.weight))) weight 0.5\n"
    "    metric acc = accuracy(logits, digit) where digit > 0\n"
    "    metric ppl = perplexity(logits, digit)\n"
    "    output p = softmax(logits)\n"
    "}\n"
    "data {\n"
    "    train = csv(\"a.csv\")\n"
    "    input x = columns[0:6] / 16\n"
    "    input digit = columns[6] - 1\n"
    "    input ids = cast(columns[7:10], i32)\n"
    "}\n"
    "params {\n"
    "    \"**.weight\" { init = normal(std = 0.5) }\n"
    "    \"head.*\" { lr = 10 x\n decay = 0.25 }\n"
    "    \"norm.*\" { freeze = true }\n"
    "}\n"
    "policy {\n"
    "    softmax = f32\n"
    "    \"head\" = f32\n"
    "}\n"
    "train { batch = 8\n monitor = valid.acc }\n";

static void check_training(session *s, const mpc_graph *g) {
    mpc_str out = {0};
    output_names(g, &out);
    CHECK_STR(
        mpc_str_cstr(&out),
        "metric.acc.num metric.acc.den metric.ppl.num metric.ppl.den loss.ce count.ce loss.tie count.tie weight.tie loss count");
    mpc_str_free(&out);
    const mpc_node *head = find_state(g, "head.weight"), *gamma = find_state(g, "norm.weight");
    CHECK(head && gamma);
    if (!head || !gamma) return;
    CHECK(mpc_attr_float(g, head, "lr") == 10 && mpc_attr_float(g, head, "decay") == 0.25);
    CHECK_STR(mpc_attr_str(g, head, "init"), "normal");
    CHECK(mpc_attr_float(g, head, "b") == 0.5);
    CHECK(!mpc_attr_bool(g, gamma, "trainable"));
    CHECK(count_op(g, MPC_OP_batch_norm) == 0 && count_op(g, MPC_OP_batch_norm_eval) == 1); /* frozen */
    CHECK(count_op(g, MPC_OP_dropout) == 1);
    const mpc_node *step = find_state(g, "rng.step");
    CHECK(step && mpc_graph_next_of(g, mpc_result(step, 0)) != MPC_NONE);
    const mpc_node *linear = mpc_producer(g, mpc_graph_find_value(g, "head"));
    CHECK(linear && mpc_attr_format(g, linear, "prec") == MPC_FMT_f32);
    if (linear) CHECK_STR(mpc_sym_text(s->ctx, linear->why), "policy m.mpg:27");
}

static void check_input(const mpc_graph *g, uint32_t i, const char *name, const char *source, int64_t lo, int64_t hi) {
    CHECK_MSG(i < g->input_count, "%s", name);
    if (i >= g->input_count) return;
    const mpc_input *in = &g->inputs[i];
    int64_t a = 0, b = 0;
    bool ranged = mpc_input_attr_int(g, in, "hi", &b) && b != 0;
    mpc_input_attr_int(g, in, "lo", &a);
    CHECK_STR(mpc_value_name(g, in->value), name);
    CHECK_STR(mpc_input_attr_str(g, in, "source"), source);
    CHECK_MSG(ranged ? a == lo && b == hi : hi == 0, "%s: [%lld, %lld)", name, (long long)a, (long long)b);
}

static void phases(void) {
    session s;
    open_text(&s, "m.mpg", text, NULL, 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 8);
    if (!g) show_diagnostics(s.diags, s.sources);
    CHECK(g && mpc_graph_verify(g) == MPC_OK);
    if (g) {
        check_training(&s, g);
        check_input(g, 0, "x.field", "columns[0:6]", 0, 0);
        check_input(g, 1, "digit.field", "columns[6]", 1, 11); /* classes 0 to 9 after the - 1 */
        check_input(g, 2, "ids.field", "columns[7:10]", 0, 7);
        CHECK_STR(mpc_input_attr_str(g, &g->inputs[1], "where"),
                  "digit -> cross_entropy(logits, digit), logits is [batch, 10] (m.mpg:7)");
    }
    mpc_graph_destroy(g);
    g = elaborate(&s, MPC_PHASE_EVAL, 5);
    CHECK(g && g->next_count == 0 && count_op(g, MPC_OP_dropout) == 0 && g->input_count == 3);
    mpc_graph_destroy(g);
    g = elaborate(&s, MPC_PHASE_PREDICT, 1);
    CHECK(g && g->input_count == 2 && g->output_count == 1); /* no labels */
    if (g) CHECK_STR(mpc_sym_text(s.ctx, g->outputs[0].name), "output.p");
    mpc_graph_destroy(g);
    CHECK(mpc_model_metric_count(s.model) == 2 && mpc_model_metric(s.model, 0)->higher_is_better);
    CHECK(!mpc_model_metric(s.model, 1)->higher_is_better && mpc_model_metric(s.model, 1)->exponential);
    CHECK(mpc_model_loss_count(s.model) == 2);
    CHECK_MSG(mpc_diag_list_count(s.diags) == 0, "no warnings");
    close_session(&s);
}

static void labels(void) {
    session s;
    open_text(&s, "m.mpg",
              "block b(x) {\n if training { inner = linear(x, 4) as in_if } else { inner = x }\n return inner }\n"
              "model m(x: f32[batch, 4]) {\n logits = linear(x, 4) as head\n bare = relu(logits)\n"
              " repeat i in 2 { turn = b(bare) as step }\n loss fit = mean(bare) }\n",
              NULL, 0);
    CHECK(s.model != NULL);
    if (s.model) {
        CHECK_STR(mpc_model_label(s.model, "logits"), "head");
        CHECK_STR(mpc_model_label(s.model, "turn"), "step");
        CHECK_STR(mpc_model_label(s.model, "inner"), "in_if");
        CHECK(!mpc_model_label(s.model, "bare") && !mpc_model_label(s.model, "other"));
    }
    close_session(&s);
}

/* Which way is up, by what the metric calls. */
static void check_directions(void) {
    static const struct {
        const char *metric;
        bool rising;
    } cases[] = {{"accuracy(x, i)", true},        {"top_k(x, i, k = 2)", true}, {"top_k_accuracy(x, i, k = 2)", true},
                 {"binary_accuracy(x, x)", true}, {"mae(x, x)", false},         {"abs(x)", false},
                 {"perplexity(x, i)", false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        mpc_str code = {0};
        mpc_str_printf(
            &code, "model m(x: f32[batch, 4], i: i32[batch]) {\n loss l = mse(linear(x, 4), x)\n metric a = %s\n}\n",
            cases[k].metric);
        session s;
        open_text(&s, "m.mpg", mpc_str_cstr(&code), NULL, 0);
        mpc_graph *g = elaborate(&s, MPC_PHASE_EVAL, 8);
        CHECK_MSG(g != NULL && mpc_model_metric(s.model, 0)->higher_is_better == cases[k].rising, "%s",
                  cases[k].metric);
        mpc_graph_destroy(g);
        close_session(&s);
        mpc_str_free(&code);
    }
}

int main(void) {
    labels();
    paths();
    phases();
    check_directions();
    return check_result();
}
