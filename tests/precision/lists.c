/* The baseline solvers against the lists that the systems publish. The table below says for each op and system what the
 * documentation says, in letters; it is written down independently of passes/precision/published.def, and holds both
 * the data and the decisions of the solvers on graphs of one op with low and with f32 inputs. Painting (grappler)
 * depends on neighbours, so it has graphs of several ops besides. */
#include <stdlib.h>

#include "../check.h"
#include "base/str.h"
#include "passes/pass.h"
#include "passes/precision/hard_rules.h"
#include "passes/precision/precision.h"
#include "passes/precision/published.h"

typedef struct session {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
} session;

static session open_session(void) {
    session s = {.sources = mpc_sources_create(), .diags = mpc_diag_list_create()};
    s.sink = mpc_diag_list_sink(s.diags);
    return s;
}

static bool make_context(session *s) {
    s->ctx = mpc_context_create(&s->sink, s->sources);
    return s->ctx != NULL && mpc_passes_register(s->ctx) == MPC_OK;
}

static void close_session(session *s) {
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->diags);
    mpc_sources_destroy(s->sources);
}

static void print_diags(const session *s, const char *what) {
    for (size_t i = 0; i < mpc_diag_list_count(s->diags); i++)
        fprintf(stderr, "%s: %s %s\n", what, mpc_diag_list_get(s->diags, i)->code,
                mpc_diag_list_get(s->diags, i)->message);
}

static mpc_graph *run(session *s, const char *text, const char *pipeline) {
    mpc_graph *in = mpc_graph_parse(s->ctx, mpc_sources_add(s->sources, "test", text, strlen(text)));
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *out = in == NULL ? NULL : mpc_pipeline_run(in, pipeline, &env, &hooks);
    mpc_graph_destroy(in);
    if (out == NULL) print_diags(s, pipeline);
    return out;
}

/* --- what the systems say --- */

/* L low, F f32, P widest of the inputs, I low where neighbours are, C moves bits, U on no list, - we or they have no
 * such op. Columns: PyTorch CUDA, PyTorch CPU, Apex O1, grappler, Relay, Relax. */
typedef struct saying {
    const char *op, *letters;
} saying;

static const saying sayings[] = {
    {"matmul", "LLLLLL"},     {"linear", "LLLLLL"},      {"conv2d", "LLLLLL"},        {"attention", "LL-L-L"},
    {"softmax", "FUFIFF"},    {"log_softmax", "FUFI-F"}, {"cross_entropy", "FFFFFF"}, {"exp", "FUFFFI"},
    {"log", "FUFIUI"},        {"pow", "FUFFFI"},         {"sqrt", "UUUIII"},          {"rsqrt", "FUFUUI"},
    {"erf", "UUUIFI"},        {"gelu", "UUFIFI"},        {"sigmoid", "UUUIII"},       {"tanh", "UUUIII"},
    {"layer_norm", "FUFFFI"}, {"batch_norm", "UUFIIF"},  {"sum", "FUFFFF"},           {"mean", "UUUFFF"},
    {"mse", "FFFFFF"},        {"add", "UUPIII"},         {"mul", "UUPIII"},           {"concat", "UPPCII"},
    {"max_pool", "UUUCII"},   {"relu", "UUUCII"},        {"reshape", "UUUCII"},       {"avg_pool", "UUUIII"},
    {"embedding", "UUUCIF"},  {"where", "UUUCIF"},       {"max", "UUUCIF"},           {"div", "UUPIII"},
    {"sub", "UUUIII"},        {"neg", "UUUCU-"},         {"abs", "UUUCUI"},           {"cos", "UUUUUI"},
    {"transpose", "UUUCII"},  {"slice", "UUUCII"},       {"pad", "UUUCIF"},
    {"log1p", "FUUI-I"},      {"expm1", "FUFFFI"},       {"rms_norm", "FU---I"},      {"group_norm", "FUF--I"},
    {"var", "UUFFFF"},        {"norm", "FUFF--"},        {"logsumexp", "FUU---"},     {"cumsum", "FUF--F"},
    {"top_k", "UUUC--"},      {"argmax", "UUUCI-"},      {"lstm", "LLULLL"},          {"gru", "LLULLL"},
    {"l1", "FFF---"},         {"huber", "FFU---"},       {"kl", "FFF---"},            {"bce_with_logits", "FFF---"},
    {"sign", "UUUCUI"},       {"floor", "UUUCUI"},       {"ceil", "UUUCUI"},          {"round", "UUUCUI"},
    {"sin", "UUUUUI"},        {"maximum", "UUUCII"},     {"minimum", "UUUCII"},       {"min", "UUUCIF"},
    {"dropout", "UUU-II"},    {"expand", "UUUC-I"},      {"gather", "UUUC--"},        {"conv2d_grad_input", "LLLLLL"},
    {"soft_cross_entropy", "FFFFFF"},
};

/* Ops that we don't have, by the name each system gives them. */
static const struct {
    mpc_system system;
    const char *name;
    char letter;
} foreign[] = {
    {MPC_SYSTEM_pytorch_cuda, "softplus", 'F'},
    {MPC_SYSTEM_pytorch_cpu, "softplus", 'U'},
    {MPC_SYSTEM_apex, "softplus", 'F'},
    {MPC_SYSTEM_grappler, "Softplus", 'I'},
    {MPC_SYSTEM_relay, "nn.softplus", 'U'},
    {MPC_SYSTEM_relax, "nn.softplus", 'F'},
    {MPC_SYSTEM_apex, "std", 'F'},
    {MPC_SYSTEM_relay, "variance", 'F'},
    {MPC_SYSTEM_relax, "variance", 'F'},
    {MPC_SYSTEM_apex, "cumprod", 'F'},
    {MPC_SYSTEM_pytorch_cuda, "prod", 'F'},
    {MPC_SYSTEM_pytorch_cpu, "prod", 'F'},
    {MPC_SYSTEM_apex, "prod", 'F'},
    {MPC_SYSTEM_grappler, "Prod", 'I'},
    {MPC_SYSTEM_relax, "prod", 'F'},
    {MPC_SYSTEM_pytorch_cuda, "norm", 'F'},
    {MPC_SYSTEM_pytorch_cpu, "norm", 'U'},
    {MPC_SYSTEM_apex, "norm", 'F'},
    {MPC_SYSTEM_grappler, "L2Loss", 'F'},
    {MPC_SYSTEM_relay, "nn.l2_normalize", 'F'},
    {MPC_SYSTEM_grappler, "DepthwiseConv2dNative", 'L'},
    {MPC_SYSTEM_grappler, "Reciprocal", 'I'},
    {MPC_SYSTEM_pytorch_cuda, "reciprocal", 'F'},
    {MPC_SYSTEM_relay, "nn.adaptive_avg_pool2d", 'F'},
    {MPC_SYSTEM_relax, "nn.adaptive_avg_pool2d", 'I'},
    {MPC_SYSTEM_pytorch_cpu, "adaptive_avg_pool3d", 'F'},
    {MPC_SYSTEM_pytorch_cuda, "upsample_bilinear2d", 'F'},
    {MPC_SYSTEM_pytorch_cpu, "upsample_bilinear2d", 'U'},
    {MPC_SYSTEM_apex, "interpolate", 'F'},
    {MPC_SYSTEM_relay, "image.resize2d", 'I'},
    {MPC_SYSTEM_pytorch_cuda, "scatter_add", 'P'},
    {MPC_SYSTEM_pytorch_cpu, "scatter_add", 'U'},
    {MPC_SYSTEM_relay, "scatter", 'I'},
    {MPC_SYSTEM_relay, "arange", 'F'},
    {MPC_SYSTEM_relax, "arange", 'I'},
    {MPC_SYSTEM_pytorch_cpu, "stack", 'P'},
    {MPC_SYSTEM_pytorch_cuda, "stack", 'U'},
    {MPC_SYSTEM_pytorch_cpu, "max_pool3d", 'F'},
    {MPC_SYSTEM_pytorch_cuda, "conv_tbc", 'L'},
    {MPC_SYSTEM_apex, "relu", 'U'},
    {MPC_SYSTEM_apex, "eq", 'P'},
    {MPC_SYSTEM_grappler, "Rsqrt", 'U'},
    {MPC_SYSTEM_grappler, "TensorListGetItem", 'U'},
};

static char letter_of(mpc_listed listed) {
    static const char letters[] = {'U', 'L', 'F', 'F', 'I', 'C', 'P', 'B'};
    return letters[listed];
}

static void lists_say_what_the_systems_publish(void) {
    for (size_t i = 0; i < sizeof sayings / sizeof *sayings; i++)
        for (int system = 0; system < MPC_SYSTEM_COUNT; system++) {
            char wanted = sayings[i].letters[system];
            char found = letter_of(mpc_published_of((mpc_system)system, sayings[i].op));
            CHECK_MSG(wanted == '-' || found == wanted, "%s in %s: %c, not %c", sayings[i].op,
                      mpc_system_name((mpc_system)system), found, wanted);
        }
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        char found = letter_of(mpc_published_find(foreign[i].system, foreign[i].name));
        CHECK_MSG(found == foreign[i].letter, "%s in %s: %c", foreign[i].name, mpc_system_name(foreign[i].system),
                  found);
    }
    CHECK(letter_of(mpc_published_find(MPC_SYSTEM_pytorch_cuda, "binary_cross_entropy")) == 'B');
    CHECK(mpc_published_find(MPC_SYSTEM_pytorch_cuda, "conv") == MPC_LISTED_NOT); /* whole words only */
}

/* Every op that a precision can be decided for has names elsewhere, and every name in the table is an op. */
static void every_op_is_named(session *s) {
    for (uint32_t i = 0; mpc_published_op_at(i) != NULL; i++) {
        mpc_op_id id;
        CHECK_MSG(mpc_op_find(s->ctx, mpc_published_op_at(i), &id), "%s", mpc_published_op_at(i));
    }
    for (mpc_op_id id = 0; id < MPC_OP_builtin_count; id++) {
        const mpc_op *op = mpc_op_get(s->ctx, id);
        bool own =
            op->kind == MPC_KIND_STRUCT || op->cls == MPC_CLASS_NONE || id == MPC_OP_cast || id == MPC_OP_unscale;
        CHECK_MSG(own || mpc_published_names(MPC_SYSTEM_pytorch_cuda, op->name) != NULL, "%s", op->name);
    }
}

/* --- one op, low and f32 inputs --- */

/* F stands for the format of the inputs. */
static const saying snippets[] = {
    {"matmul", "matmul(%a, %b) : F[8,8]"},
    {"linear", "linear(%a, %b) : F[8,8]"},
    {"conv2d", "conv2d(%p, %w) : F[1,8,8,8]"},
    {"softmax", "softmax(%a) {axis=1} : F[8,8]"},
    {"log_softmax", "log_softmax(%a) {axis=1} : F[8,8]"},
    {"exp", "exp(%a) : F[8,8]"},
    {"log", "log(%a) : F[8,8]"},
    {"pow", "pow(%a, %b) : F[8,8]"},
    {"expm1", "expm1(%a) : F[8,8]"},
    {"log1p", "log1p(%a) : F[8,8]"},
    {"norm", "norm(%a) {axes=[1]} : F[8]"},
    {"var", "var(%a) {axes=[1]} : F[8]"},
    {"logsumexp", "logsumexp(%a) {axes=[1]} : F[8]"},
    {"cumsum", "cumsum(%a) {axis=1} : F[8,8]"},
    {"sin", "sin(%a) : F[8,8]"},
    {"maximum", "maximum(%a, %b) : F[8,8]"},
    {"sqrt", "sqrt(%a) : F[8,8]"},
    {"rsqrt", "rsqrt(%a) : F[8,8]"},
    {"erf", "erf(%a) : F[8,8]"},
    {"cos", "cos(%a) : F[8,8]"},
    {"gelu", "gelu(%a) : F[8,8]"},
    {"sigmoid", "sigmoid(%a) : F[8,8]"},
    {"tanh", "tanh(%a) : F[8,8]"},
    {"sum", "sum(%a) {axes=[1]} : F[8]"},
    {"mean", "mean(%a) {axes=[1]} : F[8]"},
    {"add", "add(%a, %b) : F[8,8]"},
    {"sub", "sub(%a, %b) : F[8,8]"},
    {"mul", "mul(%a, %b) : F[8,8]"},
    {"div", "div(%a, %b) : F[8,8]"},
    {"neg", "neg(%a) : F[8,8]"},
    {"abs", "abs(%a) : F[8,8]"},
    {"concat", "concat(%a, %b) {axis=0} : F[16,8]"},
    {"max_pool", "max_pool(%p) {kernel=[2,2] stride=[2,2]} : F[1,4,4,8]"},
    {"avg_pool", "avg_pool(%p) {kernel=[2,2] stride=[2,2]} : F[1,4,4,8]"},
    {"relu", "relu(%a) : F[8,8]"},
    {"max", "max(%a) {axes=[1]} : F[8]"},
    {"reshape", "reshape(%a) {shape=[64]} : F[64]"},
    {"transpose", "transpose(%a) {perm=[1,0]} : F[8,8]"},
    {"slice", "slice(%a) {start=[0,0] stop=[4,8]} : F[4,8]"},
    {"pad", "pad(%a) {before=[0,0] after=[1,0]} : F[9,8]"},
    {"where", "where(%c, %a, %b) : F[8,8]"},
    {"embedding", "embedding(%a, %ids) : F[8,8]"},
};

static void replace_format(mpc_str *out, const char *text, const char *format) {
    for (; *text; text++)
        if (text[0] == 'F' && text[1] == '[') mpc_str_append(out, format);
        else mpc_str_append_n(out, text, 1);
}

static void write_graph(mpc_str *out, const char *snippet, const char *format) {
    mpc_str_printf(out, "mpir 1\ngraph @g(%%a0: f32[8,8], %%b0: f32[8,8], %%p0: f32[1,8,8,8], %%w0: f32[1,1,8,8], "
                        "%%ids: i32[8]) {\n  %%c = lt(%%a0, %%b0) : bool[8,8]\n");
    static const char *const inputs[] = {"a", "b", "p", "w"}, *const dims[] = {"8,8", "8,8", "1,8,8,8", "1,1,8,8"};
    for (int i = 0; i < 4; i++)
        mpc_str_printf(out, "  %%%s = cast(%%%s0) {to=%s} : %s[%s]\n", inputs[i], inputs[i], format, format, dims[i]);
    mpc_str_append(out, "  %y = ");
    replace_format(out, snippet, format);
    mpc_str_append(out, "\n  return(\"y\": %y)\n}\n");
}

typedef struct solver_row {
    const char *solver;
    mpc_system system;
} solver_row;

static const solver_row solvers[] = {
    {"list-pytorch", MPC_SYSTEM_pytorch_cuda},
    {"list-pytorch-cpu", MPC_SYSTEM_pytorch_cpu},
    {"O1", MPC_SYSTEM_apex},
    {"list-tf", MPC_SYSTEM_grappler},
    {"list-tvm", MPC_SYSTEM_relay},
    {"list-relax", MPC_SYSTEM_relax},
};

/* What the result must be stored in, from the letter alone. */
static mpc_format wanted_result(mpc_system system, char letter, mpc_format input) {
    if (letter == 'L') return MPC_FMT_bf16;
    if (letter == 'F') return MPC_FMT_f32;
    if (system == MPC_SYSTEM_grappler) return MPC_FMT_f32; /* alone it touches nothing that is allowed */
    if (system == MPC_SYSTEM_relax && letter == 'U') return MPC_FMT_f32;
    return input;
}

static mpc_decision decision_of(const mpc_graph *g, const char *value) {
    mpc_value_id v = mpc_graph_find_value(g, value);
    return v == MPC_NONE ? (mpc_decision){0} : g->decisions[g->values[v].producer];
}

static void check_one(const saying *said, const solver_row *row, mpc_format input) {
    const char *snippet = NULL;
    char pipeline[96], letter = said->letters[row->system];
    for (size_t i = 0; i < sizeof snippets / sizeof *snippets; i++)
        if (strcmp(snippets[i].op, said->op) == 0) snippet = snippets[i].letters;
    if (snippet == NULL || letter == '-') return;
    session s = open_session();
    mpc_str text = {0};
    write_graph(&text, snippet, mpc_format_get(input)->name);
    snprintf(pipeline, sizeof pipeline, "autocast{format=bf16 solver=%s}", row->solver);
    mpc_graph *g = make_context(&s) ? run(&s, mpc_str_cstr(&text), pipeline) : NULL;
    CHECK_MSG(g != NULL, "%s, %s", said->op, row->solver);
    if (g != NULL) {
        mpc_decision d = decision_of(g, "y");
        CHECK_MSG(d.present && d.result == wanted_result(row->system, letter, input), "%s of %s in %s stores %s",
                  said->op, mpc_format_get(input)->name, row->solver, mpc_format_get(d.result)->name);
        if (letter == 'L') CHECK_MSG(d.operand == MPC_FMT_bf16, "%s in %s", said->op, row->solver);
    }
    mpc_graph_destroy(g);
    mpc_str_free(&text);
    close_session(&s);
}

static void one_op_is_decided_as_listed(void) {
    for (size_t i = 0; i < sizeof sayings / sizeof *sayings; i++)
        for (size_t k = 0; k < sizeof solvers / sizeof *solvers; k++) {
            check_one(&sayings[i], &solvers[k], MPC_FMT_bf16);
            check_one(&sayings[i], &solvers[k], MPC_FMT_f32);
        }
}

/* --- several ops --- */

typedef struct chain { /* a graph's body, from %x: f32[8,8] and %w: state; values that must be low, and f32 */
    const char *solver, *body, *low, *wide;
} chain;

static const chain chains[] = {
    /* infer between two allowed ops; behind the last one it isn't */
    {"list-tf",
     "%a = matmul(%x, %w) : f32[8,8]\n%b = tanh(%a) : f32[8,8]\n%c = matmul(%b, %w) : f32[8,8]\n%d = tanh(%c) : "
     "f32[8,8]",
     "a b c", "d"},
    /* clear ops that touch an allowed one, before and behind it; an infer op stops them */
    {"list-tf",
     "%a = relu(%x) : f32[8,8]\n%b = matmul(%a, %w) : f32[8,8]\n%c = relu(%b) : f32[8,8]\n%d = sigmoid(%c) : "
     "f32[8,8]\n%e = relu(%d) : f32[8,8]",
     "a b c", "d e"},
    /* deny spreads forward through clear and infer to an infer op, not through an allowed one */
    {"list-tf",
     "%a = exp(%x) : f32[8,8]\n%b = tanh(%a) : f32[8,8]\n%c = relu(%b) : f32[8,8]\n%d = tanh(%c) : f32[8,8]\n%e = "
     "relu(%d) : f32[8,8]\n%f = matmul(%e, %w) : f32[8,8]\n%g = tanh(%f) : f32[8,8]\n%h = matmul(%g, %w) : f32[8,8]",
     "e f g h", "a b c d"},
    /* denied although it lies between two matmuls */
    {"list-tf",
     "%a = matmul(%x, %w) : f32[8,8]\n%b = exp(%a) : f32[8,8]\n%c = tanh(%b) : f32[8,8]\n%d = matmul(%c, %w) : "
     "f32[8,8]",
     "a d", "b c"},
    /* denied although it reads a matmul's result too */
    {"list-tf",
     "%a = matmul(%x, %w) : f32[8,8]\n%b = exp(%x) : f32[8,8]\n%c = mul(%a, %b) : f32[8,8]\n%d = matmul(%c, %w) : "
     "f32[8,8]",
     "a d", "b c"},
    /* an infer op that reads an allowed and an unlisted op's result is low all the same */
    {"list-tf",
     "%a = matmul(%x, %w) : f32[8,8]\n%r = rsqrt(%x) : f32[8,8]\n%b = mul(%a, %r) : f32[8,8]\n%c = matmul(%b, %w) : "
     "f32[8,8]",
     "a b c", "r"},
    /* PyTorch: f32 ops between low ones; an add of low and f32 is f32 */
    {"list-pytorch",
     "%a = matmul(%x, %w) : f32[8,8]\n%b = softmax(%a) {axis=1} : f32[8,8]\n%c = matmul(%b, %w) : f32[8,8]\n%d = "
     "add(%c, %x) : f32[8,8]\n%e = tanh(%c) : f32[8,8]",
     "a c e", "b d"},
    /* a scalar doesn't promote, an f32 parameter of the same rank does */
    {"list-pytorch",
     "%k = const() {value=2} : f32[]\n%a = matmul(%x, %w) : f32[8,8]\n%b = mul(%a, %k) : f32[8,8]\n%c = mul(%a, %w) : "
     "f32[8,8]",
     "a b", "c"},
    {"list-pytorch-cpu",
     "%a = matmul(%x, %w) : f32[8,8]\n%b = softmax(%a) {axis=1} : f32[8,8]\n%c = exp(%b) : f32[8,8]", "a b c", ""},
    /* Relay: parameters and inputs are made low for a follower, a computed f32 keeps it wide */
    {"list-tvm",
     "%a = add(%x, %w) : f32[8,8]\n%b = exp(%a) : f32[8,8]\n%c = add(%a, %b) : f32[8,8]\n%d = matmul(%c, %w) : "
     "f32[8,8]",
     "a d", "b c"},
    {"list-relax", "%a = matmul(%x, %w) : f32[8,8]\n%b = exp(%a) : f32[8,8]\n%c = softmax(%b) {axis=1} : f32[8,8]",
     "a b", "c"},
    {"O0", "%a = matmul(%x, %w) : f32[8,8]\n%b = relu(%a) : f32[8,8]", "", "a b"},
    {"O2", "%a = matmul(%x, %w) : f32[8,8]\n%b = softmax(%a) {axis=1} : f32[8,8]\n%c = exp(%b) : f32[8,8]", "a b c",
     ""},
};

static void check_words(const mpc_graph *g, const chain *c, const char *names, mpc_format wanted) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = strtok(copy, " "); name != NULL; name = strtok(NULL, " "))
        CHECK_MSG(decision_of(g, name).result == wanted, "%s: %%%s of\n%s", c->solver, name, c->body);
}

static void chains_are_painted(void) {
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        session s = open_session();
        mpc_str text = {0};
        char pipeline[96];
        mpc_str_printf(
            &text,
            "mpir 1\ngraph @g(%%x: f32[8,8]) {\n%%w = state() {name=w skip=keep trainable=true} : f32[8,8]\n%s\n",
            chains[i].body);
        const char *last = strrchr(chains[i].body, '\n'), *at = last != NULL ? last + 1 : chains[i].body;
        mpc_str_printf(&text, "return(\"y\": %.*s)\n}\n", (int)strcspn(at, " "), at);
        snprintf(pipeline, sizeof pipeline, "autocast{format=bf16 solver=%s}", chains[i].solver);
        mpc_graph *g = make_context(&s) ? run(&s, mpc_str_cstr(&text), pipeline) : NULL;
        CHECK_MSG(g != NULL, "%s", chains[i].body);
        if (g != NULL) check_words(g, &chains[i], chains[i].low, MPC_FMT_bf16);
        if (g != NULL) check_words(g, &chains[i], chains[i].wide, MPC_FMT_f32);
        mpc_graph_destroy(g);
        mpc_str_free(&text);
        close_session(&s);
    }
}

int main(void) {
    session s = open_session();
    if (!make_context(&s)) return 1;
    lists_say_what_the_systems_publish();
    every_op_is_named(&s);
    one_op_is_decided_as_listed();
    chains_are_painted();
    close_session(&s);
    return check_result();
}
