/* mpc diff-ir A B: graphs (.mpir, or .mpg with its decisions) or assignments, compared by the names of their values. As
 * with diff, the exit status is 0 when they are equal, 1 when they differ and 2 when one can't be read. */
#include <string.h>

#include "base/alloc.h"
#include "driver/cost_target.h"
#include "driver/ir_diff.h"
#include "passes/precision/cost.h"
#include "runtime/data/dataset_impl.h"

typedef struct side {
    json_t *lines;
    bool is_graph;
    bool priced;
    char device[48]; /* that the price is for */
    mpc_plan_cost cost;
} side;

static bool has_decisions(const mpc_graph *g) {
    for (mpc_node_id i = 0; g->decisions && i < g->node_count; i++)
        if (g->decisions[i].present) return true;
    return false;
}

/* Graphs that hold casts of autocast have formats as types: there is nothing left to price. */
static bool has_casts(const mpc_graph *g) {
    for (mpc_node_id i = 0; i < g->node_count; i++)
        if (g->nodes[i].op == MPC_OP_cast && strcmp(mpc_attr_str(g, &g->nodes[i], "by"), "autocast") == 0) return true;
    return false;
}

static bool take_graph(const mpc_graph *g, const mpc_device_profile *profile, side *out) {
    out->is_graph = true;
    out->lines = mpc_diff_side_of_graph(g);
    if (!out->lines || !has_decisions(g) || has_casts(g)) return out->lines != NULL;
    mpc_pass_env env = {.ctx = g->ctx, .profile = profile};
    out->priced = mpc_graph_price(g, profile, &env, &out->cost) == MPC_OK;
    snprintf(out->device, sizeof out->device, "%s", profile->name);
    return out->priced;
}

/* ---- the three kinds of file ---- */

static bool read_model(mpc_cli *cli, const char *path, bool is_other, side *out) {
    mpc_options options = *cli->options;
    mpc_cli own = *cli;
    own.options = &options;
    options.file = path;
    options.argument = NULL;
    if (is_other) options.changes = options.other_set; /* the last word, as settings go */
    mpc_session s;
    bool ok = mpc_session_open(&s, &own) && mpc_session_try_facts(&s);
    mpc_graph *g = ok ? mpc_session_graph(&s, MPC_PHASE_TRAIN, s.train->batch, MPC_STAGE_DECIDED) : NULL;
    ok = g && take_graph(g, s.profile, out);
    mpc_graph_destroy(g);
    mpc_session_close(&s);
    return ok;
}

static bool parse_graph(mpc_cli *cli, const char *path, const char *text, size_t size, side *out) {
    mpc_context *ctx = mpc_context_create(&cli->sink, cli->sources);
    uint32_t file = ctx && mpc_passes_register(ctx) == MPC_OK ? mpc_sources_add(cli->sources, path, text, size) : 0;
    mpc_graph *g = file ? mpc_graph_parse(ctx, file) : NULL;
    mpc_session s = {.cli = cli, .sink = &cli->sink, .sources = cli->sources, .ctx = ctx};
    if (strcmp(cli->options->device, "cuda") == 0) s.device = MPC_DEVICE_CUDA;
    const mpc_device_profile *profile = g ? mpc_cost_target(&s) : NULL;
    bool ok = profile && mpc_graph_verify(g) == MPC_OK && take_graph(g, profile, out);
    mpc_graph_destroy(g);
    mpc_context_destroy(ctx);
    return ok;
}

static bool parse_assignment(mpc_cli *cli, const char *text, side *out) {
    mpc_assignment *a = mpc_assignment_create();
    bool ok = a && mpc_assignment_parse(a, text, &cli->sink) == MPC_OK;
    out->lines = ok ? mpc_diff_side_of_assignment(a) : NULL;
    mpc_assignment_destroy(a);
    return out->lines != NULL;
}

static bool read_side(mpc_cli *cli, const char *path, bool is_other, side *out) {
    if (mpc_ends_with(path, ".mpg")) return read_model(cli, path, is_other, out);
    char *text;
    size_t size;
    if (mpc_data_read_file(path, &cli->sink, &text, &size) != MPC_OK) return false;
    bool assignment = strncmp(text, "mpc assignment", strlen("mpc assignment")) == 0;
    bool ok = assignment ? parse_assignment(cli, text, out) : parse_graph(cli, path, text, size, out);
    mpc_free(text);
    return ok;
}

/* ---- what comes out ---- */

static json_t *cost_json(const side *s) {
    json_t *bytes = json_object();
    for (int f = 1; f < MPC_FMT_count; f++)
        if (s->cost.bytes[f] > 0)
            json_object_set_new(bytes, mpc_format_get((mpc_format)f)->name, json_real(s->cost.bytes[f]));
    return json_pack("{s:s, s:f, s:i, s:o}", "device", s->device, "seconds", s->cost.seconds, "casts",
                     (int)s->cost.cast_count, "bytes", bytes);
}

static void print_bytes(const side *a, const side *b) {
    for (int f = 1; f < MPC_FMT_count; f++)
        if (a->cost.bytes[f] > 0 || b->cost.bytes[f] > 0)
            printf("bytes in %-5s %.0f -> %.0f\n", mpc_format_get((mpc_format)f)->name, a->cost.bytes[f],
                   b->cost.bytes[f]);
}

static void print_text(const json_t *diff, const side *a, const side *b) {
    mpc_str text = {0};
    mpc_diff_print(diff, 0, &text);
    fputs(mpc_str_cstr(&text), stdout);
    mpc_str_free(&text);
    if (mpc_diff_is_equal(diff)) printf("no difference\n");
    if (mpc_diff_is_equal(diff) || !a->priced || !b->priced) return;
    double from = a->cost.seconds, to = b->cost.seconds;
    printf("modelled time of a step, in what depends on formats: %.3g -> %.3g us (%+.2f %%)", 1e6 * from, 1e6 * to,
           from > 0 ? 100 * (to / from - 1) : 0.0);
    if (strcmp(a->device, b->device) == 0) printf(" on %s\n", a->device);
    else printf(" on %s -> %s\n", a->device, b->device);
    printf("casts          %u -> %u\n", a->cost.cast_count, b->cost.cast_count);
    print_bytes(a, b);
}

static bool report(mpc_cli *cli, const side *a, const side *b, int *status) {
    json_t *diff = mpc_diff_sides(a->lines, b->lines);
    if (!diff) {
        mpc_error(&cli->sink, "E901", "out of memory");
        return false;
    }
    if (a->priced && b->priced)
        json_object_set_new(diff, "cost", json_pack("{s:o, s:o}", "a", cost_json(a), "b", cost_json(b)));
    if (cli->options->json) {
        json_dumpf(diff, stdout, JSON_INDENT(1));
        putchar('\n');
    } else print_text(diff, a, b);
    *status = mpc_diff_is_equal(diff) ? MPC_EXIT_DONE : MPC_EXIT_FAILED;
    json_decref(diff);
    return true;
}

int mpc_cmd_diff_ir(mpc_cli *cli) {
    side a = {0}, b = {0};
    int status = MPC_EXIT_USAGE;
    bool ok = read_side(cli, cli->options->file, false, &a) && read_side(cli, cli->options->argument, true, &b);
    if (ok && a.is_graph != b.is_graph)
        mpc_error(&cli->sink, "E367", "%s is %s, %s is %s: there is nothing to compare", cli->options->file,
                  a.is_graph ? "a graph" : "an assignment", cli->options->argument,
                  b.is_graph ? "a graph" : "an assignment");
    else if (ok) report(cli, &a, &b, &status);
    json_decref(a.lines);
    json_decref(b.lines);
    return status;
}
