/* --set and --const: replacements first, then arguments, in any order; unknown ones are errors with a hint. The printed
 * configuration loads again and says the same. */
#include "base/alloc.h"
#include "tests/check.h"
#include "tests/lang/elaborate.h"

static const char text[] =
    "const width = 8\n"
    "model m(x: f32[batch, 4], y: f32[batch, 4]) {\n"
    "    h = relu(linear(x, width) as fc1)\n"
    "    loss l = mse(linear(h, 4) as head, y)\n"
    "}\n"
    "data {\n    train = csv(\"a.csv\")\n    input x = columns[0:4]\n    input y = columns[4:8]\n}\n"
    "params { \"head.*\" { decay = 0 } }\n"
    "train {\n    optimizer = adamw(lr = 1e-3, betas = [0.8, 0.99])\n    length = 3 epochs # short\n"
    "    schedule = cosine(warmup = 100 steps)\n}\n";

static void replacements(void) {
    static const mpc_override o[] = {
        {false, "optimizer.lr", "3e-4", false},
        {false, "optimizer", "sgd(momentum = 0.9)", false},
        {false, "train.batch", "2 * 8", false},
        {true, "width", "5", false},
        {false, "length", "20epochs", false},
        {false, "schedule.final", "0.1", false},
        {false, "params.\"fc1.**\".lr", "10x", false},
        {false, "loss_scale.init", "1024", false},
        {false, "data.train", "csv(\"b.csv\", header = false)", false},
    };
    session s;
    open_text(&s, "dir/m.mpg", text, o, sizeof o / sizeof *o);
    if (!s.model) show_diagnostics(s.diags, s.sources);
    CHECK(s.model != NULL);
    if (!s.model) return;
    const mpc_train_config *t = mpc_model_train(s.model);
    CHECK_STR(t->optimizer.kind, "sgd");
    CHECK(t->optimizer.lr == 3e-4 && t->optimizer.momentum == 0.9 && t->optimizer.weight_decay == 0);
    CHECK(t->batch == 16 && t->accumulate == 1);
    CHECK(t->length.value == 20 && t->length.unit == MPC_UNIT_EPOCHS);
    CHECK(t->schedule.warmup.value == 100 && t->schedule.warmup.unit == MPC_UNIT_STEPS && t->schedule.final == 0.1);
    CHECK(t->loss_scale.dynamic && t->loss_scale.init == 1024 && t->loss_scale.interval == 2000);
    CHECK_STR(mpc_model_source(s.model, 0)->path, "dir/b.csv");
    CHECK(mpc_model_source(s.model, 0)->header == 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 2);
    const mpc_node *w = find_state(g, "fc1.weight");
    CHECK(w && mpc_value_type(g, mpc_result(w, 0))->dims[1] == 5 && mpc_attr_float(g, w, "lr") == 10);
    mpc_graph_destroy(g);
    close_session(&s);
}

/* Policies from the command line come after those of the file; a level is a solver, and --solver is nearer. */
static void policies(void) {
    static const mpc_override o[] = {{false, "policy.\"h\"", "f32", false},
                                     {false, "policy.linear", "bf16", false},
                                     {false, "policy.agree", "[\"fc1\", \"h*\"]", false},
                                     {false, "policy.level", "O2", false}};
    session s;
    open_text(&s, "m.mpg", text, o, sizeof o / sizeof *o);
    if (!s.model) show_diagnostics(s.diags, s.sources);
    CHECK(s.model != NULL);
    if (!s.model) return;
    CHECK_STR(mpc_model_train(s.model)->solver, "O2");
    CHECK(strncmp(mpc_model_agreements(s.model), "fc1|h*@", 7) == 0);
    mpc_graph *g = elaborate(&s, MPC_PHASE_TRAIN, 2);
    CHECK(g != NULL);
    for (mpc_node_id i = 0; g && i < g->node_count; i++) {
        const mpc_node *n = &g->nodes[i];
        if (n->op == MPC_OP_linear) CHECK(mpc_attr_format(g, n, "prec") == MPC_FMT_bf16);
        if (n->op == MPC_OP_relu) CHECK(mpc_attr_format(g, n, "prec") == MPC_FMT_f32);
    }
    mpc_graph_destroy(g);
    mpc_str out = {0};
    mpc_model_print_config(s.model, true, &out);
    CHECK(strstr(mpc_str_cstr(&out), "    agree = [\"fc1\", \"h*\"]") && strstr(mpc_str_cstr(&out), "    solver = O2  # --set policy.level=O2\n"));
    mpc_str_free(&out);
    close_session(&s);
    static const mpc_override nearer[] = {{false, "solver", "list", false}};
    static const char level[] = "model m(x: f32[batch, 4]) { loss l = mse(linear(x, 4) as fc, x) }\npolicy { level = O1 }\n";
    open_text(&s, "m.mpg", level, nearer, 1);
    CHECK(s.model && strcmp(mpc_model_train(s.model)->solver, "list") == 0);
    close_session(&s);
    open_text(&s, "m.mpg", level, NULL, 0);
    CHECK(s.model && strcmp(mpc_model_train(s.model)->solver, "O1") == 0);
    close_session(&s);
}

/* A level is the same wherever it is said, also in what it says of masters. */
static void levels(void) {
    static const char in_policy[] =
        "model m(x: f32[batch, 4]) { loss l = mse(linear(x, 4) as fc, x) }\npolicy { level = O%d }\n%s";
    static const char *const sections[] = {"", "train { weights = master }\n"};
    static const char *const stored[][2] = {
        {"master", "master"}, {"master", "master"}, {"master", "master"}, {"none", "master"}};
    for (int level = 0; level < 4; level++)
        for (int k = 0; k < 2; k++) {
            char file[200], name[] = "O0";
            name[1] = (char)('0' + level);
            snprintf(file, sizeof file, in_policy, level, sections[k]);
            session s;
            open_text(&s, "m.mpg", file, NULL, 0);
            CHECK_STR(s.model ? mpc_model_train(s.model)->solver : "", name);
            CHECK_STR(s.model ? mpc_model_train(s.model)->weights : "", stored[level][k]);
            close_session(&s);
        }
}

static void defaults(void) {
    session s;
    open_text(&s, "m.mpg", "model m(x: f32[batch, 4]) { loss l = mse(linear(x, 4) as fc, x) }", NULL, 0);
    CHECK(s.model != NULL);
    if (!s.model) return;
    const mpc_train_config *t = mpc_model_train(s.model);
    CHECK(!t->present && t->batch == 32 && t->accumulate == 1 && t->keep == 2 && t->seed == 0 && t->clip_norm == 0);
    CHECK_STR(t->precision, "bf16");
    CHECK_STR(t->optimizer.kind, "adamw");
    CHECK(t->optimizer.lr == 1e-3 && t->optimizer.beta1 == 0.9 && t->optimizer.beta2 == 0.999);
    CHECK(t->optimizer.eps == 1e-8 && t->optimizer.weight_decay == 0.01);
    CHECK_STR(t->schedule.kind, "constant");
    CHECK(t->loss_scale.dynamic && t->loss_scale.init == 65536 && t->loss_scale.max == 16777216);
    CHECK(t->length.value == 10 && t->length.unit == MPC_UNIT_EPOCHS && t->eval_every.value == 1);
    CHECK_STR(t->monitor, "");
    CHECK_STR(t->on_nonfinite, "stop");
    CHECK_STR(t->nonfinite, "reject");
    close_session(&s);
}

static void refused(bool is_const, const char *key, const char *value, const char *expected) {
    mpc_override o = {is_const, key, value, false};
    session s;
    open_text(&s, "m.mpg", text, &o, 1);
    CHECK_MSG(s.model == NULL, "%s", key);
    mpc_str out = {0};
    for (size_t i = 0; i < mpc_diag_list_count(s.diags); i++)
        mpc_diag_render(mpc_diag_list_get(s.diags, i), s.sources, false, false, &out);
    if (!strstr(mpc_str_cstr(&out), expected)) CHECK_STR(mpc_str_cstr(&out), expected);
    CHECK(strstr(mpc_str_cstr(&out), expected) != NULL);
    mpc_str_free(&out);
    close_session(&s);
}

static void config(void) {
    session s, again;
    mpc_override o = {false, "optimizer.lr", "0.5", false};
    open_text(&s, "m.mpg", text, &o, 1);
    mpc_str out = {0}, second = {0};
    CHECK(s.model != NULL);
    if (s.model) mpc_model_print_config(s.model, true, &out);
    CHECK(strstr(mpc_str_cstr(&out), "optimizer = adamw(lr = 0.5, betas = [0.8, 0.99])  # --set optimizer.lr=0.5\n"));
    CHECK(strstr(mpc_str_cstr(&out), "    batch = 32  # default\n"));
    CHECK(strstr(mpc_str_cstr(&out), "const width = 8  # m.mpg:1\n"));
    CHECK(strstr(mpc_str_cstr(&out), "length = 3 epochs  # m.mpg:14\n"));
    mpc_str_clear(&out);
    if (s.model) mpc_model_print_config(s.model, false, &out);
    open_text(&again, "m.mpg", mpc_str_cstr(&out), NULL, 0);
    if (!again.model) show_diagnostics(again.diags, again.sources);
    CHECK(again.model != NULL);
    if (again.model) mpc_model_print_config(again.model, false, &second);
    CHECK_STR(mpc_str_cstr(&second), mpc_str_cstr(&out));
    mpc_str_free(&out);
    mpc_str_free(&second);
    close_session(&s);
    close_session(&again);
}

int main(void) {
    replacements();
    defaults();
    levels();
    config();
    policies();
    refused(false, "learning_rate", "3e-4",
            "error[E301]: train has no key `learning_rate`\n  --> --set learning_rate=3e-4\n"
            "help: the learning rate is an argument of the optimizer: --set optimizer.lr=3e-4\n");
    refused(false, "optimizer.lrr", "1", "adamw has no argument `lrr`");
    refused(false, "optimizer", "rprop(lr = 1)", "`optimizer` needs one of: adamw, adam, sgd, nesterov, lion");
    refused(false, "batch", "3.5", "`batch` needs a whole number");
    refused(false, "batch", "3 +", "E002");
    refused(false, "batchh", "3", "did you mean --set batch=3?");
    refused(true, "widht", "3", "did you mean --const width=3?");
    refused(false, "monitor", "valid.accuracy", "the model has no metric or loss `accuracy`");
    refused(false, "policy.lineer", "f32", "did you mean `linear`?");
    refused(false, "policy.linear", "f64", "E014");
    refused(false, "policy.level", "O7", "`level` is O0");
    refused(false, "policy.\"h", "f32", "--set 'policy.\"head.**\"=f32'");
    return check_result();
}
