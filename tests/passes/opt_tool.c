/* Runs passes over a graph in text form: for tests, and for looking at a pass without the rest of mpc.
 *   opt_tool [--passes PIPELINE] [--trace | --times] FILE.mpir
 * Without --passes the pipeline stands in the file, in a line "# RUN: PIPELINE". Prints diagnostics, the graph, and how
 * often each op occurs. Every pass's result is verified. Exit 0 also when a pass refuses: the test looks at what was
 * printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/instrument.h"
#include "passes/pass.h"

static void print_diag(void *user, const mpc_diag *diag) {
    mpc_str text = {0};
    mpc_diag_render(diag, user, true, false, &text);
    printf("%s\n", mpc_str_cstr(&text));
    mpc_str_free(&text);
}

static char *read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    mpc_str text = {0};
    char buffer[4096];
    size_t n;
    if (file == NULL) return NULL;
    while ((n = fread(buffer, 1, sizeof buffer, file)) > 0) mpc_str_append_n(&text, buffer, n);
    fclose(file);
    char *copy = strdup(mpc_str_cstr(&text));
    mpc_str_free(&text);
    return copy;
}

static char *run_line(const char *text) {
    const char *at = strstr(text, "# RUN: ");
    if (at == NULL) return strdup("");
    return strndup(at + 7, strcspn(at + 7, "\r\n"));
}

static void print_counts(const mpc_graph *g) {
    printf("count:");
    for (mpc_op_id op = 0; op < mpc_op_count(g->ctx); op++) {
        unsigned count = 0;
        for (mpc_node_id i = 0; i < g->node_count; i++) count += g->nodes[i].op == op;
        if (count > 0) printf(" %s=%u", mpc_op_get(g->ctx, op)->name, count);
    }
    printf("\n");
}

static void print_graph(const mpc_graph *g) {
    mpc_str text = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &text);
    fputs(mpc_str_cstr(&text), stdout);
    mpc_str_free(&text);
    print_counts(g);
}

static int run(mpc_context *ctx, const char *name, const char *text, const char *pipeline,
               mpc_instrument_options watch) {
    mpc_pass_env env = {.ctx = ctx, .assignment = mpc_assignment_create()};
    mpc_instrument *instrument = mpc_instrument_create(&watch);
    uint32_t file = mpc_sources_add(mpc_context_sources(ctx), name, text, strlen(text));
    mpc_graph *in = mpc_graph_parse(ctx, file), *out = NULL;
    if (in != NULL) {
        mpc_pipeline_hooks hooks = mpc_instrument_hooks(instrument);
        out = mpc_pipeline_run(in, pipeline, &env, &hooks);
        fputs(mpc_instrument_text(instrument), stdout);
    }
    if (out != NULL && watch.time_passes) print_counts(out);
    else if (out != NULL) print_graph(out);
    else printf("failed\n");
    mpc_graph_destroy(out);
    mpc_graph_destroy(in);
    mpc_instrument_destroy(instrument);
    mpc_assignment_destroy(env.assignment);
    return in == NULL;
}

int main(int argc, char **argv) {
    const char *path = NULL, *passes = NULL;
    mpc_instrument_options watch = {.verify_each = true};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--passes") == 0 && i + 1 < argc) passes = argv[++i];
        else if (strcmp(argv[i], "--trace") == 0) watch.print_after = "*";
        else if (strcmp(argv[i], "--times") == 0) watch = (mpc_instrument_options){.time_passes = true, .stats = true};
        else path = argv[i];
    }
    char *text = path == NULL ? NULL : read_file(path);
    if (text == NULL) {
        fprintf(stderr, "usage: opt_tool [--passes PIPELINE] [--trace] FILE.mpir\n");
        return 2;
    }
    mpc_sources *sources = mpc_sources_create();
    mpc_sink sink = {.emit = print_diag, .user = sources};
    mpc_context *ctx = mpc_context_create(&sink, sources);
    char *pipeline = passes == NULL ? run_line(text) : strdup(passes);
    const char *slash = strrchr(path, '/');
    int rc = ctx == NULL || mpc_passes_register(ctx) != MPC_OK;
    if (rc == 0) rc = run(ctx, slash == NULL ? path : slash + 1, text, pipeline, watch);
    free(pipeline);
    free(text);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return rc;
}
