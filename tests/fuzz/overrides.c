/* Values of --set and --const over a small model. An input is lines KEY=VALUE; a line that begins with `!` is a
 * constant. */
#include "frontend/frontend.h"
#include "tests/fuzz/harness.h"

static const char MODEL[] =
    "const width = 4\n"
    "model m(x: f32[batch, 4], y: i32[batch]) {\n"
    "    h = linear(x, width)\n"
    "    loss ce = cross_entropy(linear(relu(h), 3), y)\n"
    "}\n"
    "data {\n    train = csv(\"x.csv\")\n    input x = columns[0:4]\n    input y = columns[4]\n}\n"
    "train {\n    batch = 4\n    length = 2 epochs\n}\n";
enum { MOST = 8 };

static size_t split_lines(char *text, mpc_override *out) {
    size_t count = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && count < MOST; line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = 0;
        bool is_const = *line == '!';
        out[count++] = (mpc_override){is_const, line + is_const, equals + 1, false};
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    text[size] = 0;
    mpc_override overrides[MOST];
    size_t count = split_lines(text, overrides);
    fuzz_diags d = fuzz_diags_open();
    mpc_context *ctx = mpc_context_create(&d.sink, d.sources);
    if (!ctx) abort();
    mpc_model *m = mpc_model_load(ctx, mpc_sources_add(d.sources, "m.mpg", MODEL, strlen(MODEL)), overrides, count);
    fuzz_require(m || fuzz_said_error(&d), "a model that isn't loaded is explained");
    mpc_graph *g = m ? mpc_model_elaborate(m, MPC_PHASE_TRAIN, 2, NULL) : NULL;
    fuzz_require(!m || g || fuzz_said_error(&d), "a graph that isn't made is explained");
    mpc_graph_destroy(g);
    mpc_model_destroy(m);
    mpc_context_destroy(ctx);
    fuzz_diags_close(&d);
    free(text);
    return 0;
}
