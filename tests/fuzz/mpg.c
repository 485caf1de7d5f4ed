/* A model file as mpc reads it: load, print its settings, elaborate every phase at batch 2, and run the passes of a
 * training to the end. A graph that isn't made must have been explained by an error, and what the passes make must
 * verify. */
#include "driver/session.h"
#include "tests/fuzz/harness.h"

enum { LARGEST_GRAPH = 300 }; /* nodes that are worth the time of the passes here */

static void run_passes(mpc_session *s, const fuzz_diags *d, const mpc_graph *g, mpc_phase phase) {
    mpc_str text = {0};
    mpc_pipeline_text_for(s, phase, MPC_STAGE_FINAL, &text);
    mpc_pass_env env = {.ctx = s->ctx};
    const mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_graph *final = mpc_pipeline_run(g, mpc_str_cstr(&text), &env, &hooks);
    fuzz_require(final || fuzz_said_error(d), "a pass that fails says why");
    mpc_graph_destroy(final);
    mpc_str_free(&text);
}

static void elaborate(mpc_session *s, const fuzz_diags *d) {
    for (int phase = MPC_PHASE_TRAIN; phase <= MPC_PHASE_MEASURE; phase++) {
        mpc_graph *g = mpc_model_elaborate(s->model, (mpc_phase)phase, 2, NULL);
        fuzz_require(g || fuzz_said_error(d), "a graph that isn't made is explained");
        if (!g) return;
        fuzz_require(mpc_graph_verify(g) == MPC_OK, "what the front end makes verifies");
        if (g->node_count <= LARGEST_GRAPH) run_passes(s, d, g, (mpc_phase)phase);
        mpc_graph_destroy(g);
    }
}

static void print_settings(const mpc_model *model) {
    mpc_str text = {0};
    mpc_model_print_config(model, true, &text);
    mpc_model_print_resolved(model, "/", &text);
    for (size_t i = 0; i < mpc_model_used_count(model); i++) mpc_model_print_used(model, i, &text);
    mpc_str_free(&text);
}

/* "again.mpg" is the input itself, anything else a small file; with "circle" in its name, one that uses the input. */
typedef struct other_files {
    mpc_sources *sources;
    uint32_t model, other;
} other_files;

static uint32_t open_other(void *user, uint32_t from, const char *said, mpc_str *why) {
    static const char text[] = "use \"again.mpg\"\nuse lora from \"std/lora.mpg\"\nconst width = 8\n"
                               "block tower(x) { return lora(x, width) }\n";
    static const char plain[] = "const width = 8\nblock tower(x) { return linear(x, width) }\n";
    other_files *o = user;
    (void)from;
    if (strcmp(said, "again.mpg") == 0) return o->model;
    bool circle = strstr(said, "circle") != NULL;
    if (!o->other)
        o->other = mpc_sources_add(o->sources, "other.mpg", circle ? text : plain, strlen(circle ? text : plain));
    if (!o->other) mpc_str_append(why, "out of memory");
    return o->other;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_diags d = fuzz_diags_open();
    const mpc_options options = {0};
    mpc_cli cli = {.options = &options, .sources = d.sources, .sink = d.sink};
    mpc_session s = {.cli = &cli, .sink = &d.sink, .sources = d.sources, .total_updates = 100, .updates_per_epoch = 10};
    s.ctx = mpc_context_create(&d.sink, d.sources);
    if (!s.ctx || mpc_passes_register(s.ctx) != MPC_OK) abort();
    other_files files = {.sources = d.sources};
    files.model = mpc_sources_add(d.sources, "input.mpg", (const char *)data, size);
    s.model = mpc_model_load_using(s.ctx, files.model, &(mpc_other_files){open_other, &files}, NULL, 0);
    fuzz_require(s.model || fuzz_said_error(&d), "a model that isn't loaded is explained");
    if (s.model) {
        s.train = mpc_model_train(s.model);
        print_settings(s.model);
        elaborate(&s, &d);
    }
    mpc_model_destroy(s.model);
    mpc_context_destroy(s.ctx);
    fuzz_diags_close(&d);
    return 0;
}
