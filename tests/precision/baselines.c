/* Every solver on whole training steps: what it decides can be carried out (casts, lowering, every pass verified), and
 * the hard rules that it breaks are found. `list`, `mincut` and O0 break none. */
#include "../check.h"
#include "base/alloc.h"
#include "base/str.h"
#include "passes/pass.h"
#include "passes/precision/cost.h"
#include "passes/precision/hard_rules.h"
#include "passes/precision/precision.h"

typedef struct session {
    mpc_sources *sources;
    mpc_diag_list *diags;
    mpc_sink sink;
    mpc_context *ctx;
    mpc_graph *model;
} session;

static const char *const models[] = {"mlp", "convolution", "attention"};

static bool open_session(session *s, const char *model) {
    char path[128], text[8192];
    *s = (session){.sources = mpc_sources_create(), .diags = mpc_diag_list_create()};
    s->sink = mpc_diag_list_sink(s->diags);
    s->ctx = mpc_context_create(&s->sink, s->sources);
    snprintf(path, sizeof path, "tests/passes/models/%s.mpir", model);
    FILE *file = fopen(path, "rb");
    size_t size = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file != NULL) fclose(file);
    if (s->ctx == NULL || size == 0 || mpc_passes_register(s->ctx) != MPC_OK) return false;
    s->model = mpc_graph_parse(s->ctx, mpc_sources_add(s->sources, path, text, size));
    return s->model != NULL;
}

static void close_session(session *s) {
    mpc_graph_destroy(s->model);
    mpc_context_destroy(s->ctx);
    mpc_diag_list_destroy(s->diags);
    mpc_sources_destroy(s->sources);
}

static mpc_graph *run(session *s, const char *solver, const char *format, const char *rest) {
    mpc_str text = {0};
    mpc_pass_env env = {.ctx = s->ctx};
    mpc_pipeline_hooks hooks = {.verify_each = true};
    mpc_str_printf(&text, "grad,loss-scale{mode=%s},optimizer{kind=adamw},guard,autocast{format=%s solver=%s}%s",
                   strcmp(format, "f16") == 0 ? "dynamic" : "none", format, solver, rest);
    mpc_graph *g = mpc_pipeline_run(s->model, mpc_str_cstr(&text), &env, &hooks);
    mpc_str_free(&text);
    for (size_t i = 0; g == NULL && i < mpc_diag_list_count(s->diags); i++)
        fprintf(stderr, "%s: %s\n", solver, mpc_diag_list_get(s->diags, i)->message);
    return g;
}

static void decisions_can_be_carried_out(const char *model, const char *format) {
    static const char rest[] = ",insert-casts,master-weights,@clean,fold-casts,expand,@clean,fuse,schedule,memory";
    for (uint32_t i = 0; i < mpc_solver_count(); i++) {
        session s;
        mpc_graph *g = open_session(&s, model) ? run(&s, mpc_solver_at(i)->name, format, rest) : NULL;
        CHECK_MSG(g != NULL, "%s, %s, %s", model, format, mpc_solver_at(i)->name);
        mpc_graph_destroy(g);
        close_session(&s);
    }
}

static unsigned count_rule(const mpc_broken_rules *b, const char *rule) {
    unsigned count = 0;
    for (uint32_t i = 0; i < b->count; i++) count += strcmp(b->data[i].rule, rule) == 0;
    return count;
}

static void print_rules(const mpc_graph *g, const char *solver, const mpc_broken_rules *b) {
    for (uint32_t i = 0; i < b->count; i++)
        fprintf(stderr, "%s: %s %%%s %s\n", solver, b->data[i].rule,
                mpc_value_name(g, g->nodes[b->data[i].node].result_begin), b->data[i].why);
}

typedef struct judged { /* one solver on one model */
    bool ok;
    unsigned broken, n60;
    double seconds;
} judged;

static judged judge(const char *model, const char *solver, bool clean) {
    const mpc_device_profile *profile = mpc_device_profile_find("cpu-amx");
    session s;
    mpc_arena *arena = mpc_arena_create();
    mpc_broken_rules broken = {0};
    mpc_plan_cost cost = {0};
    mpc_graph *g = open_session(&s, model) ? run(&s, solver, "bf16", "") : NULL;
    mpc_pass_env env = {.ctx = s.ctx, .profile = profile};
    judged j = {.ok = g != NULL && mpc_hard_rules_check(g, MPC_FMT_bf16, &env, arena, &broken) == MPC_OK &&
                      mpc_graph_price(g, profile, &env, &cost) == MPC_OK,
                .broken = broken.count,
                .n60 = count_rule(&broken, "N60"),
                .seconds = cost.seconds};
    if (clean && broken.count > 0) print_rules(g, solver, &broken);
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    close_session(&s);
    return j;
}

/* What mincut decides costs no more than any solver's assignment that keeps the rules. */
static void rules_and_prices(const char *model) {
    double best = 0, cut = 0;
    for (uint32_t i = 0; i < mpc_solver_count(); i++) {
        const char *name = mpc_solver_at(i)->name;
        bool clean = strcmp(name, "list") == 0 || strcmp(name, "mincut") == 0 || strcmp(name, "O0") == 0;
        judged j = judge(model, name, clean);
        CHECK_MSG(j.ok, "%s, %s", model, name);
        CHECK_MSG(!clean || j.broken == 0, "%s, %s breaks %u", model, name, j.broken);
        if (strcmp(name, "list-pytorch") == 0 || strcmp(name, "O3") == 0)
            CHECK_MSG(j.n60 > 0, "%s: weight gradients of %s are rounded", model, name);
        if (strcmp(name, "mincut") == 0) cut = j.seconds;
        if (j.ok && j.broken == 0 && (best == 0 || j.seconds < best)) best = j.seconds;
    }
    CHECK_MSG(cut > 0 && cut <= best * (1 + 1e-9), "%s: %g, and another has %g", model, cut, best);
}

/* What isn't the model's but the step's, in every step with a loss scale; with the rule that holds it. */
static const struct held_value {
    const char *name, *rule;
} held_values[] = {{"scaler.inverse", "N64"}, {"loss.seed.scaled", "N64"}, {"loss", "N12"}};

static mpc_node_id producer_of(const mpc_graph *g, const char *name) {
    mpc_value_id v = mpc_graph_find_value(g, name);
    if (v == MPC_NONE) v = mpc_graph_find_output(g, name);
    return v == MPC_NONE ? MPC_NONE : g->values[v].producer;
}

/* An assignment that says low, as an older version wrote it, is heard for the model and not for the step. */
static void an_assignment_moves_no_scaler(const char *model) {
    static const char pipeline[] = "grad,loss-scale{mode=dynamic},optimizer{kind=adamw},guard,autocast{format=f16 solver=O3}";
    const mpc_decision low = {.present = true, .operand = MPC_FMT_f16, .compute = MPC_FMT_f32, .result = MPC_FMT_f16};
    session s;
    mpc_assignment *a = mpc_assignment_create();
    mpc_graph *typed = open_session(&s, model) ? run(&s, "O3", "f16", "") : NULL;
    for (mpc_node_id id = 0; typed != NULL && id < typed->node_count; id++) {
        mpc_assigned line = {mpc_value_name(typed, mpc_result(&typed->nodes[id], 0)), mpc_node_op(typed, id)->name, "told", low};
        if (typed->decisions[id].present) CHECK(mpc_assignment_add(a, &line));
    }
    mpc_pass_env env = {.ctx = s.ctx, .assignment = a};
    mpc_graph *g = typed != NULL ? mpc_pipeline_run(s.model, pipeline, &env, NULL) : NULL;
    CHECK(g != NULL);
    for (size_t i = 0; g != NULL && i < sizeof held_values / sizeof *held_values; i++) {
        mpc_node_id id = producer_of(g, held_values[i].name);
        const mpc_decision *d = &g->decisions[id];
        CHECK_MSG(d->operand == MPC_FMT_f32 && d->result == MPC_FMT_f32, "%s: %s", model, held_values[i].name);
        CHECK(strstr(mpc_sym_text(g->ctx, g->nodes[id].why), "under every solver") != NULL);
    }
    mpc_graph_destroy(typed);
    mpc_graph_destroy(g);
    mpc_assignment_destroy(a);
    close_session(&s);
}

/* Decisions that somebody wrote into a graph: the check names the rule, and casts aren't inserted all the same. */
static void the_check_knows_what_is_held(const char *model) {
    session s;
    mpc_arena *arena = mpc_arena_create();
    mpc_broken_rules broken = {0};
    mpc_graph *g = open_session(&s, model) ? run(&s, "O3", "f16", "") : NULL;
    mpc_pass_env env = {.ctx = s.ctx, .profile = mpc_device_profile_find("cpu-amx")};
    mpc_fixed fixed = g != NULL ? mpc_fixed_formats(g, arena) : (mpc_fixed){0};
    for (size_t i = 0; g != NULL && i < sizeof held_values / sizeof *held_values; i++) {
        mpc_node_id id = producer_of(g, held_values[i].name);
        mpc_decision before = g->decisions[id];
        g->decisions[id].operand = g->decisions[id].result = MPC_FMT_f16;
        bool found = false;
        CHECK(mpc_hard_rules_check(g, MPC_FMT_f16, &env, arena, &broken) == MPC_OK);
        for (uint32_t k = 0; k < broken.count; k++)
            found = found || (broken.data[k].node == id && strcmp(broken.data[k].rule, held_values[i].rule) == 0);
        CHECK_MSG(found, "%s: %s isn't found", model, held_values[i].name);
        CHECK(mpc_format_stored(g, &fixed, mpc_result(&g->nodes[id], 0)) == MPC_FMT_f32);
        CHECK(mpc_format_read(g, &fixed, id, 0) == MPC_FMT_f32);
        g->decisions[id] = before;
    }
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    close_session(&s);
}

/* One attempt with the n-th allocation failing; the solver ran through, and the check after it. */
static bool try_with_failure(const mpc_graph *g, mpc_context *ctx, const char *pipeline, uint64_t n) {
    mpc_pass_env env = {.ctx = ctx, .profile = mpc_device_profile_find("cpu-amx")};
    mpc_broken_rules broken;
    mpc_alloc_fail_after(n);
    mpc_arena *arena = mpc_arena_create();
    mpc_graph *out = arena != NULL ? mpc_pipeline_run(g, pipeline, &env, NULL) : NULL;
    bool done = out != NULL && mpc_hard_rules_check(out, MPC_FMT_bf16, &env, arena, &broken) == MPC_OK;
    mpc_alloc_fail_after(0);
    mpc_graph_destroy(out);
    mpc_arena_destroy(arena);
    return done;
}

/* The n-th allocation fails, for every n: a clean failure, never a crash. */
static void solvers_survive_failing_memory(const char *solver) {
    bool done = false;
    char pipeline[96];
    snprintf(pipeline, sizeof pipeline, "autocast{format=bf16 solver=%s}", solver);
    for (uint64_t n = 1; n < 2000 && !done; n++) {
        session s;
        mpc_pass_env env = {0};
        bool open = open_session(&s, "mlp");
        env.ctx = s.ctx;
        mpc_graph *g =
            open ? mpc_pipeline_run(s.model, "grad,loss-scale{mode=none},optimizer{kind=adamw},guard", &env, NULL)
                 : NULL;
        CHECK(g != NULL);
        done = g == NULL || try_with_failure(g, s.ctx, pipeline, n);
        mpc_graph_destroy(g);
        close_session(&s);
    }
    CHECK_MSG(done, "%s never ran through", solver);
}

int main(void) {
    static const char *const unlucky[] = {"list-pytorch", "list-tf", "list-tvm", "O2"};
    for (size_t i = 0; i < sizeof unlucky / sizeof *unlucky; i++) solvers_survive_failing_memory(unlucky[i]);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        decisions_can_be_carried_out(models[i], "bf16");
        decisions_can_be_carried_out(models[i], "f16");
        rules_and_prices(models[i]);
        an_assignment_moves_no_scaler(models[i]);
        the_check_knows_what_is_held(models[i]);
    }
    return check_result();
}
