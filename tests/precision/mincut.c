/* The cut against everything it could have been: on random graphs and random devices, with two formats, its value equals the smallest price of all
 * assignments that keep the rules, each priced by mpc_plan_price, which knows nothing of cuts; so does the cut with one decision pinned, of those that have
 * it so. With three formats the descent lies between the bound and the best of two. Arguments: first seed, number of graphs. */
#include <math.h>
#include <stdlib.h>

#include "../check.h"
#include "mincut_graph.h"

enum { MOST_FREE = 14 };

typedef struct tally {
    int graphs, free, mixed, beaten_list, joint, pinned, impossible;
} tally;

static bool keeps_rules(const mpc_labels *l) {
    for (uint32_t i = 0; i < l->implication_count; i++) {
        mpc_format a = mpc_label_of(l, l->implications[i].a), b = mpc_label_of(l, l->implications[i].b);
        if (mpc_format_is_low(a) && a != b) return false;
    }
    return true;
}

static uint32_t list_free(const mpc_labels *l, uint32_t out[MOST_FREE + 1]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->count && count <= MOST_FREE; i++)
        if (l->variables[i].pinned == MPC_FMT_none) out[count++] = i;
    return count;
}

/* The smallest price over all labels of `count` free variables; with `held` in `format`, unless it is MPC_NONE. */
static double search_all(mpc_plan *p, const mpc_costs *c, mpc_labels *l, const uint32_t *open, uint32_t count, uint32_t held,
                         mpc_format format) {
    double best = HUGE_VAL;
    for (uint32_t bits = 0; bits < 1u << count; bits++) {
        for (uint32_t i = 0; i < count; i++)
            l->variables[open[i]].label = bits >> i & 1 ? p->low : MPC_FMT_f32;
        if (!keeps_rules(l) || (held != MPC_NONE && mpc_label_of(l, held) != format)) continue;
        mpc_labels_write(l, p);
        best = fmin(best, mpc_plan_price(p, c).seconds);
    }
    return best;
}

static bool is_near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

static double price_list(mpc_plan *p, const mpc_costs *c) {
    reopen_plan(p);
    for (mpc_node_id id = 0; id < p->g->node_count; id++)
        if (mpc_is_assigned(p->g, id) && !p->given[id]) mpc_solve_list(p, id);
    return mpc_plan_price(p, c).seconds;
}

static void charge(mpc_costs *c, dice *d, mpc_arena *arena) {
    double *values = mpc_arena_alloc(arena, (c->g->value_count + 1) * sizeof *values);
    double *nodes = mpc_arena_alloc(arena, (c->g->node_count + 1) * sizeof *nodes);
    for (uint32_t v = 0; v < c->g->value_count; v++) values[v] = roll(d, 2) ? roll_log(d, 1e-10, 1e-7) : 0;
    for (uint32_t i = 0; i < c->g->node_count; i++) nodes[i] = roll(d, 2) ? roll_log(d, 1e-10, 1e-6) : 0;
    mpc_costs_charge(c, values, nodes);
}

static void three_formats(mpc_plan *p, const mpc_costs *c, double two, uint64_t seed) {
    static const mpc_format formats[] = {MPC_FMT_bf16, MPC_FMT_f16};
    mpc_solution s = {0};
    reopen_plan(p);
    CHECK(mpc_mincut_formats(p, c, formats, 2, NULL, &s) == MPC_OK);
    CHECK_MSG(s.bound <= s.cost.seconds * (1 + 1e-9), "seed %llu: bound %g above %g", (unsigned long long)seed, s.bound, s.cost.seconds);
    CHECK_MSG(s.cost.seconds <= two * (1 + 1e-9), "seed %llu: three formats cost %g, two %g", (unsigned long long)seed, s.cost.seconds, two);
}

/* One decision, drawn, in the format that it hasn't. `l`: of the open plan. */
static void check_pin(mpc_plan *p, const mpc_costs *c, mpc_labels *l, const uint32_t *open, uint32_t count, dice *d, tally *t) {
    mpc_plan_choices *choices = mpc_plan_choices_create();
    mpc_pin *pin = mpc_plan_choices_pin(choices);
    mpc_solution s = {0};
    mpc_node_id id = roll(d, p->g->node_count);
    for (uint32_t i = 0; !mpc_is_assigned(p->g, id) || p->given[id]; i++) {
        if (i == p->g->node_count) break;
        id = (id + 1) % p->g->node_count;
    }
    uint32_t held = mpc_deciding_variable(l, id);
    *pin = (mpc_pin){.value = mpc_value_name(p->g, mpc_result(&p->g->nodes[id], 0)), .format = roll(d, 2) ? p->low : MPC_FMT_f32};
    double best = search_all(p, c, l, open, count, held, pin->format);
    reopen_plan(p);
    CHECK(mpc_mincut_formats(p, c, &p->low, 1, choices, &s) == MPC_OK);
    CHECK_MSG(pin->possible == isfinite(best), "seed %llu: `%s` pinned to %s is %spossible", (unsigned long long)d->seed, pin->value,
              mpc_format_get(pin->format)->name, pin->possible ? "" : "im");
    CHECK(pin->possible == (pin->rule == NULL));
    CHECK_MSG(!pin->possible || is_near(s.cost.seconds, best), "seed %llu: with `%s` pinned the cut's plan costs %.12g, the best is %.12g",
              (unsigned long long)d->seed, pin->value, s.cost.seconds, best);
    t->pinned += pin->possible;
    t->impossible += !pin->possible;
    mpc_plan_choices_destroy(choices);
}

static void check_graph(const mpc_graph *g, dice *d, mpc_pass_env *env, tally *t) {
    mpc_arena *arena = mpc_arena_create();
    mpc_plan p = prepare_plan(g, MPC_FMT_bf16, arena);
    mpc_device_profile device = random_device(d);
    mpc_costs *c = mpc_costs_create(&p, &device, env, arena);
    mpc_labels l = mpc_labels_create(&p, arena);
    uint32_t open[MOST_FREE + 1], count = list_free(&l, open);
    CHECK(c != NULL && !l.failed);
    if (c != NULL && count > 0 && count <= MOST_FREE) {
        if (roll(d, 4) == 0) charge(c, d, arena);
        double best = search_all(&p, c, &l, open, count, MPC_NONE, MPC_FMT_none);
        mpc_solution s = {0};
        reopen_plan(&p);
        CHECK(mpc_mincut_formats(&p, c, &p.low, 1, NULL, &s) == MPC_OK);
        CHECK_MSG(is_near(s.cost.seconds, best), "seed %llu: the cut's plan costs %.12g, the best is %.12g (%u free)",
                  (unsigned long long)d->seed, s.cost.seconds, best, count);
        CHECK_MSG(is_near(s.bound, best), "seed %llu: the cut is %.12g, the best is %.12g (%u free)", (unsigned long long)d->seed, s.bound, best, count);
        double list = price_list(&p, c);
        CHECK_MSG(best <= list * (1 + 1e-9), "seed %llu: list costs %g, less than %g", (unsigned long long)d->seed, list, best);
        t->beaten_list += best < list * 0.999;
        t->mixed += s.cost.f32_share > 0.05 && s.cost.f32_share < 0.95;
        t->free += (int)count;
        t->graphs++;
        check_pin(&p, c, &l, open, count, d, t);
        three_formats(&p, c, best, d->seed);
    }
    mpc_arena_destroy(arena);
}

static void check_seed(mpc_context *ctx, uint64_t seed, tally *t) {
    static const int sizes[] = {4, 8, 17, 32};
    dice d = {.seed = seed};
    mpc_pass_env env = {.ctx = ctx};
    bool joint = roll(&d, 3) == 0;
    mpc_graph *g = random_model(ctx, &d, joint ? 2 + roll(&d, 3) : 3 + roll(&d, 10), sizes[roll(&d, 4)]);
    CHECK(g != NULL);
    if (g != NULL && joint && mpc_graph_find_value(g, "w0") != MPC_NONE) {
        mpc_graph *step = mpc_pipeline_run(g, "grad,optimizer{kind=sgd},guard,dce", &env, NULL);
        mpc_graph_destroy(g);
        g = step;
        t->joint++;
    }
    if (g != NULL) check_graph(g, &d, &env, t);
    mpc_graph_destroy(g);
}

static void ignore(void *user, const mpc_diag *diag) {
    (void)user;
    if (diag->severity == MPC_SEV_ERROR) fprintf(stderr, "%s: %s\n", diag->code, diag->message);
}

int main(int argc, char **argv) {
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 3000;
    tally t = {0};
    mpc_sink sink = {.emit = ignore};
    for (uint64_t seed = first; seed < first + count;) { /* a new context now and then: it keeps every name */
        mpc_sources *sources = mpc_sources_create();
        mpc_context *ctx = mpc_context_create(&sink, sources);
        CHECK(mpc_passes_register(ctx) == MPC_OK);
        for (uint64_t end = seed + 100; seed < end && seed < first + count; seed++) check_seed(ctx, seed, &t);
        mpc_context_destroy(ctx);
        mpc_sources_destroy(sources);
    }
    fprintf(stderr, "%d graphs, %d of training steps drawn, %.1f free formats each; %d mix formats, %d are cheaper than list\n", t.graphs,
            t.joint, t.graphs > 0 ? (double)t.free / t.graphs : 0, t.mixed, t.beaten_list);
    fprintf(stderr, "one decision pinned: %d, and %d that the rules forbid\n", t.pinned, t.impossible);
    if (count >= 1000) CHECK(t.pinned > t.graphs / 4 && t.impossible > t.graphs / 20);
    if (count >= 1000) CHECK(t.graphs >= (int)count / 2 && t.mixed > t.graphs / 10 && t.beaten_list > t.graphs / 10);
    return check_result();
}
