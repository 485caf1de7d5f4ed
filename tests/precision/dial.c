/* The dial against everything it could have been, on random graphs and devices with random sensitivities: the assignment keeps the budget, the bound holds, what
 * is chosen lies on the convex hull, and a smaller budget never gives a faster plan. Also the table of sensitivities: its text, and rounding errors by hand.
 * Arguments: first seed, number of graphs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"
#include "mincut_graph.h"
#include "passes/precision/sensitivity.h"

enum { MOST_FREE = 10 };

typedef struct tally {
    int graphs, searched, refused, exact;
    double worst;
} tally;

/* --- everything it could have been --- */

typedef struct pair {
    double seconds, variance;
} pair;

static bool keeps_rules(const mpc_labels *l) {
    for (uint32_t i = 0; i < l->implication_count; i++) {
        mpc_format a = mpc_label_of(l, l->implications[i].a), b = mpc_label_of(l, l->implications[i].b);
        if (mpc_format_is_low(a) && a != b) return false;
    }
    return true;
}

static uint32_t list_all(mpc_plan *p, const mpc_costs *c, mpc_labels *l, pair out[1 << MOST_FREE]) {
    uint32_t open[MOST_FREE], count = 0, found = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->variables[i].pinned != MPC_FMT_none) continue;
        if (count == MOST_FREE) return 0;
        open[count++] = i;
    }
    for (uint32_t bits = 0; bits < 1u << count; bits++) {
        for (uint32_t i = 0; i < count; i++) l->variables[open[i]].label = bits >> i & 1 ? p->low : MPC_FMT_f32;
        if (!keeps_rules(l)) continue;
        mpc_labels_write(l, p);
        mpc_plan_cost cost = mpc_plan_price(p, c);
        out[found++] = (pair){cost.seconds - cost.deviation, cost.deviation};
    }
    return found;
}

static double fastest_within(const pair *all, uint32_t count, double variance) {
    double best = HUGE_VAL;
    for (uint32_t i = 0; i < count; i++)
        if (all[i].variance <= variance) best = fmin(best, all[i].seconds);
    return best;
}

/* --- one graph --- */

static mpc_sensitivity *random_table(const mpc_graph *g, dice *d) {
    mpc_sensitivity *s = mpc_sensitivity_create();
    for (uint32_t v = 0; s != NULL && v < g->value_count; v++) {
        mpc_sensitive e = {0};
        if (roll(d, 4) == 0) continue;
        e.cast[MPC_SENSE_BF16] = roll_log(d, 1e-12, 1e-6);
        e.stored[MPC_SENSE_BF16] = roll(d, 3) == 0 ? 0 : e.cast[MPC_SENSE_BF16];
        CHECK(mpc_sensitivity_add(s, mpc_value_name(g, v), &e));
    }
    return s;
}

static void check_budgets(mpc_plan *p, mpc_pass_env *env, const mpc_costs *plain, const pair *all, uint32_t count, tally *t) {
    static const double shares[] = {2, 0.9, 0.5, 0.2, 0.05, 0.01};
    double before = 0, seed = (double)t->graphs;
    double free_variance = fmin(HUGE_VAL, fastest_within(all, count, HUGE_VAL)), whole = 0;
    for (uint32_t i = 0; i < count; i++)
        if (all[i].seconds <= free_variance) whole = fmax(whole, all[i].variance);
    for (int k = 0; whole > 0 && k < 6; k++) {
        mpc_dial found = {0};
        mpc_solver_env solver = {.pass = env, .costs = plain};
        env->loss_budget = sqrt(whole) * shares[k];
        env->dial = &found;
        double allowed = env->loss_budget * env->loss_budget, best = fastest_within(all, count, allowed);
        reopen_plan(p);
        if (mpc_dial_solve(p, &solver) != MPC_OK) {
            CHECK_MSG(fastest_within(all, count, allowed * 0.9) == HUGE_VAL, "graph %g, share %g: refused, but there is one", seed, shares[k]);
            t->refused++;
            continue;
        }
        CHECK_MSG(found.predicted * found.predicted <= allowed * (1 + 1e-9), "graph %g: deviation %g above %g", seed, found.predicted, env->loss_budget);
        CHECK_MSG(found.seconds >= best * (1 - 1e-9), "graph %g: faster than all: %.12g, %.12g", seed, found.seconds, best);
        CHECK_MSG(found.bound <= best * (1 + 1e-9), "graph %g, share %g: bound %.12g above the fastest %.12g", seed, shares[k], found.bound, best);
        CHECK_MSG(found.seconds >= before * (1 - 1e-9), "graph %g, share %g: a smaller budget is faster", seed, shares[k]);
        before = found.seconds;
        t->searched++;
        t->exact += found.seconds <= best * (1 + 1e-9);
        t->worst = fmax(t->worst, found.seconds / best);
    }
}

static void check_graph(const mpc_graph *g, dice *d, mpc_pass_env *env, tally *t) {
    mpc_arena *arena = mpc_arena_create();
    mpc_plan p = prepare_plan(g, MPC_FMT_bf16, arena);
    mpc_device_profile device = random_device(d);
    mpc_costs *plain = mpc_costs_create(&p, &device, env, arena), *charged = mpc_costs_create(&p, &device, env, arena);
    mpc_labels l = mpc_labels_create(&p, arena);
    mpc_sensitivity *s = random_table(g, d);
    pair *all = mpc_arena_alloc(arena, sizeof *all << MOST_FREE);
    CHECK(plain != NULL && charged != NULL && s != NULL && all != NULL && mpc_sensitivity_charge(&p, s, charged) == MPC_OK);
    env->sensitivity = s;
    uint32_t count = list_all(&p, charged, &l, all);
    if (count > 2) {
        t->graphs++;
        check_budgets(&p, env, plain, all, count, t);
    }
    env->sensitivity = NULL;
    mpc_sensitivity_destroy(s);
    mpc_arena_destroy(arena);
}

static void check_seed(mpc_context *ctx, uint64_t seed, tally *t) {
    dice d = {.seed = seed};
    mpc_pass_env env = {.ctx = ctx};
    mpc_graph *g = random_model(ctx, &d, 3 + roll(&d, 6), 8 << roll(&d, 3));
    CHECK(g != NULL);
    if (g != NULL) check_graph(g, &d, &env, t);
    mpc_graph_destroy(g);
}

static void ignore(void *user, const mpc_diag *diag) {
    (void)user;
    (void)diag;
}

static void check_graphs(uint64_t first, uint64_t count) {
    tally t = {0};
    mpc_sink sink = {.emit = ignore};
    for (uint64_t seed = first; seed < first + count;) {
        mpc_sources *sources = mpc_sources_create();
        mpc_context *ctx = mpc_context_create(&sink, sources);
        CHECK(mpc_passes_register(ctx) == MPC_OK);
        for (uint64_t end = seed + 100; seed < end && seed < first + count; seed++) check_seed(ctx, seed, &t);
        mpc_context_destroy(ctx);
        mpc_sources_destroy(sources);
    }
    fprintf(stderr, "%d graphs, %d budgets kept, %d impossible, %d times the fastest, at worst %.3f of it\n", t.graphs, t.searched, t.refused,
            t.exact, t.worst);
    if (count >= 200) CHECK(t.graphs > (int)count / 4 && t.exact > t.searched / 2);
}

/* --- the table --- */

static void text_reads_back(void) {
    static const char *const bad[] = {"", "mpc-sensitivity 2\n", "mpc-sensitivity 1\nnames\nx\t1\t2\t3\t4\t5\n",
                                      "mpc-sensitivity 1\nnames\nx\t1\t2\t3\t4\t5\t-1\n", "mpc-sensitivity 1\nnames\nx\t1\t2\t3\t4\t5\tnan\n",
                                      "mpc-sensitivity 1\nnames\nx\t1\t2\t3\t4\t5\t6\nx\t1\t2\t3\t4\t5\t6\n"};
    mpc_sink sink = {.emit = ignore};
    mpc_sensitivity *a = mpc_sensitivity_create(), *b = mpc_sensitivity_create();
    mpc_str text = {0}, again = {0};
    mpc_sensitive x = {{1e-9, HUGE_VAL, 0.1}, {0, 3e-300, 1.0 / 3}};
    CHECK(mpc_sensitivity_add(a, "layer.0.fc", &x) && mpc_sensitivity_add(a, "y", &x) && mpc_sensitivity_add(a, "y", &x));
    mpc_sensitivity_print(a, &text);
    CHECK(mpc_sensitivity_parse(b, mpc_str_cstr(&text), "t", &sink) == MPC_OK && mpc_sensitivity_count(b) == 2);
    mpc_sensitivity_print(b, &again);
    CHECK_MSG(strcmp(mpc_str_cstr(&text), mpc_str_cstr(&again)) == 0, "%s\n%s", mpc_str_cstr(&text), mpc_str_cstr(&again));
    const mpc_sensitive *y = mpc_sensitivity_find(b, "y");
    CHECK(y != NULL && y->cast[MPC_SENSE_BF16] == 2e-9 && mpc_sensitivity_of(y, true, MPC_FMT_f16) == 6e-300);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mpc_sensitivity *c = mpc_sensitivity_create();
        CHECK_MSG(mpc_sensitivity_parse(c, bad[i], "t", &sink) != MPC_OK, "taken: %s", bad[i]);
        mpc_sensitivity_destroy(c);
    }
    mpc_str_free(&text);
    mpc_str_free(&again);
    mpc_sensitivity_destroy(a);
    mpc_sensitivity_destroy(b);
}

/* --- errors by hand --- */

static const char SELECTED[] = "mpir 1\n"
                               "graph @g(%x: f32[6]) {\n"
                               "  %w = state() {name=\"w\" skip=keep} : f32[6]\n"
                               "  %r = relu(%x) : f32[6]\n"
                               "  %m = mul(%r, %w) : f32[6]\n"
                               "  %s = sum(%m) {axes=[0]} : f32[]\n"
                               "  return(\"loss\": %s)\n"
                               "}\n";
static const double X[6] = {1.0009765625, -2.001953125, 3, 0x1.004p-16, 100.1875, 7.0078125}, W[6] = {0.5, 9, 2, 1, 3.0009765625, 0};

static mpc_tensor fill_tensor(mpc_arena *arena, const mpc_type *type, const double *data) {
    mpc_tensor t = mpc_tensor_make(arena, type);
    for (int i = 0; i < 6; i++) t.data[i] = data[i];
    return t;
}

static mpc_tensor read_weight(void *user, const mpc_graph *g, const mpc_node *state) {
    return fill_tensor(user, mpc_value_type(g, mpc_result(state, 0)), W);
}

static double square(double x) { return x * x; }

static double error_of(mpc_format f, const double *x, const double *gradient, bool positive) {
    double sum = 0;
    for (int i = 0; i < 6; i++)
        if (!positive || X[i] > 0) sum += square(gradient[i] * (mpc_round_to(f, x[i]) - x[i]));
    return sum;
}

static bool is_close(double a, double b) { return fabs(a - b) <= 1e-12 * fmax(fabs(a), fabs(b)); }

/* x: its gradient is w where it is positive; relu of a rounded x is exact; r * w rounds, with gradient 1. */
static void errors_are_those_of_the_elements(void) {
    mpc_sink sink = {.emit = ignore};
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = mpc_context_create(&sink, sources);
    CHECK(mpc_passes_register(ctx) == MPC_OK);
    mpc_pass_env env = {.ctx = ctx};
    mpc_graph *text = mpc_graph_parse(ctx, mpc_sources_add(sources, "g.mpir", SELECTED, sizeof SELECTED - 1));
    mpc_graph *g = text != NULL ? mpc_pipeline_run(text, "grad{each=true}", &env, NULL) : NULL;
    CHECK(g != NULL);
    if (g == NULL) return;
    for (size_t i = 0; i < 5; i++) {
        static const char *const names[] = {"each:x", "each:w", "each:r", "each:m", "each:s"};
        CHECK_MSG(mpc_graph_find_output(g, names[i]) != MPC_NONE, "no output %s", names[i]);
    }
    mpc_arena *arena = mpc_arena_create();
    mpc_tensor input = fill_tensor(arena, mpc_value_type(g, g->inputs[0].value), X), *values;
    values = mpc_arena_alloc(arena, g->value_count * sizeof *values);
    CHECK(mpc_evaluate(g, &input, read_weight, arena, &(mpc_eval_options){0}, arena, values) == MPC_OK);
    values[g->inputs[0].value] = input;
    mpc_sensitivity *s = mpc_sensitivity_create();
    CHECK(mpc_sensitivity_measure(s, g, values, 0.5) == MPC_OK);
    const mpc_sensitive *x = mpc_sensitivity_find(s, "x"), *r = mpc_sensitivity_find(s, "r"), *w = mpc_sensitivity_find(s, "w");
    CHECK(x != NULL && r != NULL && w != NULL);
    for (int k = 0; k < 2 && x != NULL && r != NULL && w != NULL; k++) {
        mpc_format f = k == 0 ? MPC_FMT_bf16 : MPC_FMT_f16;
        CHECK_MSG(is_close(mpc_sensitivity_of(x, false, f), 0.5 * error_of(f, X, W, true)), "x %g", mpc_sensitivity_of(x, false, f));
        CHECK(mpc_sensitivity_of(x, true, f) == mpc_sensitivity_of(x, false, f) && mpc_sensitivity_of(x, true, f) > 0);
        CHECK(is_close(mpc_sensitivity_of(r, false, f), 0.5 * error_of(f, X, W, true)) && mpc_sensitivity_of(r, true, f) == 0);
        CHECK_MSG(is_close(mpc_sensitivity_of(w, false, f), 0.5 * error_of(f, W, X, true)), "w %g", mpc_sensitivity_of(w, false, f));
    }
    mpc_sensitivity_destroy(s);
    mpc_arena_destroy(arena);
    mpc_graph_destroy(g);
    mpc_graph_destroy(text);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 600;
    text_reads_back();
    errors_are_those_of_the_elements();
    check_graphs(first, count);
    return check_result();
}
