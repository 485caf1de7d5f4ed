/* mpc lint: numbers of a model that its precision can't hold. Looks at the training graph with its decisions, runs
 * nothing. Findings go to stdout with their source line; what the compiler keeps in f32 by itself is listed too, but
 * only what one can write better makes the exit status 1. */
#include <jansson.h>
#include <string.h>

#include "driver/explain_value.h"
#include "passes/precision/range.h"

static void print_text(const mpc_session *s, const mpc_graph *g, const mpc_finding *f) {
    const mpc_node *n = &g->nodes[f->node];
    mpc_str line = {0};
    mpc_explain_source_line(s, g, n, &line);
    const char *file = n->loc.file ? mpc_sym_text(g->ctx, n->loc.file) : s->cli->options->file;
    printf("%s:%u:%u: %s[%s]: %s (%s)\n", file, n->loc.line, n->loc.column, f->fix ? "warning" : "note", f->code,
           f->what, f->rule);
    if (line.length > 0) printf("    %s\n", line.data);
    if (f->fix) printf("  to change it: %s\n", f->fix);
    mpc_str_free(&line);
}

static void print_json(const mpc_session *s, const mpc_graph *g, const mpc_finding *f) {
    const mpc_node *n = &g->nodes[f->node];
    mpc_str line = {0};
    mpc_explain_source_line(s, g, n, &line);
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:s, s:s, s:s, s:s?, s:b}", "code", f->code, "rule", f->rule, "value",
                  mpc_value_name(g, n->result_begin), "file", mpc_sym_text(g->ctx, n->loc.file), "line",
                  (int)n->loc.line, "column", (int)n->loc.column, "source", mpc_str_cstr(&line), "op",
                  mpc_node_op(g, f->node)->name, "what", f->what, "fix", f->fix, "kept_f32", f->kept_f32);
    if (object) json_dumpf(object, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(object);
    mpc_str_free(&line);
}

static int report(const mpc_session *s, const mpc_graph *g, const mpc_findings *found) {
    size_t open = 0;
    for (size_t i = 0; i < found->count; i++) {
        if (s->cli->options->json) print_json(s, g, &found->data[i]);
        else print_text(s, g, &found->data[i]);
        open += found->data[i].fix != NULL;
    }
    if (!s->cli->options->json)
        printf("%s: %zu finding%s in %s\n", s->cli->options->file, open, open == 1 ? "" : "s", s->train->precision);
    return open > 0 ? MPC_EXIT_FAILED : MPC_EXIT_DONE;
}

/* A finding says what W151 and W189 say, with its line: they would come twice. */
static void drop_told(void *user, const mpc_diag *diag) {
    const mpc_sink *to = user;
    bool told = diag->code != NULL && (strcmp(diag->code, "W151") == 0 || strcmp(diag->code, "W189") == 0);
    if (!told) to->emit(to->user, diag);
}

static int lint(mpc_session *s) {
    mpc_arena *arena = mpc_arena_create();
    mpc_graph *g = arena ? mpc_session_graph(s, MPC_PHASE_TRAIN, s->train->batch, MPC_STAGE_DECIDED) : NULL;
    mpc_findings found = {0};
    int status = MPC_EXIT_FAILED;
    if (!arena) mpc_error(s->sink, "E901", "out of memory");
    if (g && mpc_lint(g, mpc_format_find(s->train->precision), s->observed, arena, &found) == MPC_OK)
        status = report(s, g, &found);
    mpc_findings_free(&found);
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    return status;
}

int mpc_cmd_lint(mpc_cli *cli) {
    mpc_session session;
    mpc_sink sink = cli->sink;
    cli->sink = (mpc_sink){.emit = drop_told, .user = &sink};
    bool ok = mpc_session_open(&session, cli) && mpc_session_try_facts(&session);
    session.formats_settled = true; /* f16 is judged as it was asked for, whether it pays or not */
    int status = ok ? lint(&session) : MPC_EXIT_FAILED;
    mpc_session_close(&session);
    cli->sink = sink;
    return status;
}
