/* What the precision passes decide on the examples, in every precision and phase: classes are kept, a value has one
 * cast per format, every computing node says why, and after every pass the graph survives its own text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "driver/session.h"

static const char *const examples[] = {"examples/linear.mpg", "examples/mlp.mpg", "examples/digits.mpg",
                                       "examples/gpt.mpg"};
static const char *const precisions[] = {"f32", "bf16", "f16"};

typedef struct opened {
    mpc_options options;
    mpc_cli cli;
    mpc_session session;
    char file[64], precision[32];
} opened;

static void print_diag(void *user, const mpc_diag *diag) {
    mpc_str text = {0};
    mpc_diag_render(diag, user, true, false, &text);
    if (diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s\n", mpc_str_cstr(&text));
    mpc_str_free(&text);
}

/* The session of an example with its data's facts; NULL after a failed check. */
static opened *open_example(const char *file, const char *precision) {
    opened *o = calloc(1, sizeof *o);
    if (o == NULL) abort();
    snprintf(o->file, sizeof o->file, "%s", file);
    snprintf(o->precision, sizeof o->precision, "%s", precision);
    char flag[] = "--precision", solver[] = "--solver", list[] = "list"; /* what is checked are the rules by class */
    char *args[] = {o->file, flag, o->precision, solver, list};
    mpc_sources *sources = mpc_sources_create();
    bool ok = mpc_options_parse(&o->options, mpc_command_find("train"), 5, args);
    o->cli = (mpc_cli){.options = &o->options, .sources = sources, .sink = {.emit = print_diag, .user = sources}};
    ok = ok && mpc_session_open(&o->session, &o->cli) && mpc_session_try_facts(&o->session);
    CHECK_MSG(ok, "%s", file);
    return o;
}

static void close_example(opened *o) {
    mpc_session_close(&o->session);
    mpc_sources_destroy(o->cli.sources);
    mpc_options_free(&o->options);
    free(o);
}

static bool is_computing(const mpc_graph *g, mpc_node_id id) { return mpc_node_op(g, id)->kind != MPC_KIND_STRUCT; }

static void every_node_says_why(const mpc_graph *g, const char *what) {
    for (mpc_node_id id = 0; id < g->node_count; id++)
        if (is_computing(g, id))
            CHECK_MSG(g->nodes[id].why != 0, "%s: %%%s", what, mpc_value_name(g, mpc_result(&g->nodes[id], 0)));
}

static void n04_low_ops_accumulate_in_f32(const mpc_graph *g, mpc_format low, const char *what) {
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        const mpc_node *n = &g->nodes[id];
        const mpc_op *op = mpc_node_op(g, id);
        if (op->cls != MPC_CLASS_LOW) continue;
        CHECK(mpc_attr_format(g, n, "acc") == MPC_FMT_f32);
        for (uint32_t i = 0; i < 2; i++) {
            mpc_format f = mpc_value_format(g, mpc_operand(g, n, i));
            CHECK_MSG(f == low, "%s: %%%s reads %s", what, mpc_value_name(g, mpc_result(n, 0)),
                      mpc_format_get(f)->name);
        }
    }
}

static void high_ops_compute_in_f32(const mpc_graph *g, const char *what) {
    for (mpc_node_id id = 0; id < g->node_count; id++) {
        if (mpc_node_op(g, id)->cls != MPC_CLASS_HIGH || g->decisions == NULL || !g->decisions[id].present) continue;
        CHECK_MSG(g->decisions[id].compute == MPC_FMT_f32, "%s: %%%s", what,
                  mpc_value_name(g, mpc_result(&g->nodes[id], 0)));
    }
}

static void one_cast_a_value_and_format(const mpc_graph *g, const char *what) {
    for (mpc_node_id a = 0; a < g->node_count; a++)
        for (mpc_node_id b = a + 1; g->nodes[a].op == MPC_OP_cast && b < g->node_count; b++) {
            if (g->nodes[b].op != MPC_OP_cast) continue;
            bool same = mpc_operand(g, &g->nodes[a], 0) == mpc_operand(g, &g->nodes[b], 0) &&
                        mpc_attr_format(g, &g->nodes[a], "to") == mpc_attr_format(g, &g->nodes[b], "to");
            CHECK_MSG(!same, "%s: %%%s and %%%s", what, mpc_value_name(g, mpc_result(&g->nodes[a], 0)),
                      mpc_value_name(g, mpc_result(&g->nodes[b], 0)));
        }
}

/* Text and back, with everything: locations, origins, reasons, decisions, groups, places. */
static void survives_its_text(const mpc_graph *g, const char *pass) {
    mpc_str text = {0};
    mpc_graph_print(g, MPC_PRINT_ALL, &text);
    /* the graph's context, so that symbols and types are the same; its sources get one more file */
    uint32_t file = mpc_sources_add(mpc_context_sources(g->ctx), "printed", mpc_str_cstr(&text), text.length);
    mpc_graph *again = mpc_graph_parse(g->ctx, file);
    CHECK_MSG(again != NULL && mpc_graph_equal(g, again), "after %s", pass);
    mpc_graph_destroy(again);
    mpc_str_free(&text);
}

static void after_pass(void *user, const mpc_pass *pass, const mpc_graph *before, const mpc_graph *after,
                       double seconds) {
    unsigned *passes = user;
    (void)before;
    (void)seconds;
    ++*passes;
    survives_its_text(after, pass->name);
}

static void every_pass_round_trips(opened *o, mpc_phase phase) {
    mpc_session *s = &o->session;
    mpc_graph *parsed = mpc_model_elaborate(s->model, phase, s->train->batch, &s->facts);
    mpc_str text = {0};
    unsigned passes = 0;
    mpc_pipeline_text_for(s, phase, MPC_STAGE_FINAL, &text);
    mpc_pass_env env = {.ctx = s->ctx, .assignment = s->assignment};
    mpc_pipeline_hooks hooks = {.verify_each = true, .after = after_pass, .user = &passes};
    CHECK(parsed != NULL);
    if (parsed != NULL) survives_its_text(parsed, "elaboration");
    mpc_graph *g = parsed == NULL ? NULL : mpc_pipeline_run(parsed, mpc_str_cstr(&text), &env, &hooks);
    CHECK_MSG(g != NULL && passes >= 8, "%s: %u passes", o->file, passes);
    mpc_graph_destroy(g);
    mpc_graph_destroy(parsed);
    mpc_str_free(&text);
}

static void decided(opened *o, mpc_phase phase) {
    char what[128];
    mpc_graph *g = mpc_session_graph(&o->session, phase, o->session.train->batch, MPC_STAGE_AUTOCAST);
    snprintf(what, sizeof what, "%s, %s, phase %d", o->file, o->precision, (int)phase);
    CHECK_MSG(g != NULL, "%s", what);
    if (g == NULL) return;
    every_node_says_why(g, what);
    n04_low_ops_accumulate_in_f32(g, mpc_format_find(o->precision), what);
    high_ops_compute_in_f32(g, what);
    one_cast_a_value_and_format(g, what);
    mpc_graph_destroy(g);
}

int main(void) {
    static const mpc_phase phases[] = {MPC_PHASE_TRAIN, MPC_PHASE_EVAL, MPC_PHASE_PREDICT};
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++)
        for (size_t p = 0; p < sizeof precisions / sizeof *precisions; p++) {
            opened *o = open_example(examples[e], precisions[p]);
            for (size_t i = 0; i < 3; i++) {
                decided(o, phases[i]);
                every_pass_round_trips(o, phases[i]);
            }
            close_example(o);
        }
    return check_result();
}
