/* A graph in text form: parse, verify, print, parse again (the two are equal), and the named pipelines with the
 * verifier after every pass. The parser is only the first guard: the passes may rely on what the verifier checks, and
 * on nothing else. */
#include "passes/pass.h"
#include "tests/fuzz/harness.h"

static void round_trip(mpc_context *ctx, const mpc_graph *g) {
    mpc_str text = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &text);
    uint32_t file = mpc_sources_add(mpc_context_sources(ctx), "again.mpir", mpc_str_cstr(&text), text.length);
    mpc_graph *again = mpc_graph_parse(ctx, file);
    fuzz_require(again != NULL, "what is printed can be parsed");
    fuzz_require(mpc_graph_equal(g, again), "what is printed and parsed is the same graph");
    mpc_graph_destroy(again);
    mpc_str_free(&text);
}

static void run_pipelines(mpc_context *ctx, const fuzz_diags *d, const mpc_graph *g) {
    static const char *const pipelines[] = {"@clean", "@lower", "@eval,@lower", "@train,@lower"};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        mpc_pass_env env = {.ctx = ctx};
        const mpc_pipeline_hooks hooks = {.verify_each = true};
        mpc_graph *out = mpc_pipeline_run(g, pipelines[i], &env, &hooks);
        fuzz_require(out || fuzz_said_error(d), "a pass that fails says why");
        mpc_graph_destroy(out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_diags d = fuzz_diags_open();
    mpc_context *ctx = mpc_context_create(&d.sink, d.sources);
    if (!ctx || mpc_passes_register(ctx) != MPC_OK) abort();
    mpc_graph *g = mpc_graph_parse(ctx, mpc_sources_add(d.sources, "input.mpir", (const char *)data, size));
    fuzz_require(g || fuzz_said_error(&d), "a text that isn't a graph is explained");
    if (g && mpc_graph_verify(g) == MPC_OK) {
        round_trip(ctx, g);
        run_pipelines(ctx, &d, g);
    }
    mpc_graph_destroy(g);
    mpc_context_destroy(ctx);
    fuzz_diags_close(&d);
    return 0;
}
