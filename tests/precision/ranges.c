/* Soundness of the range analysis: no element leaves its interval. For every op of the registry on its samples, and for
 * random graphs whose f32 values are rounded to bf16 or f16 wherever a coin says so. Arguments: first seed, number of
 * graphs. */
#include <math.h>
#include <stdlib.h>

#include "../check.h"
#include "../ops/harness.h"
#include "../ops/random_graph.h"
#include "base/rng.h"
#include "passes/pass.h"
#include "passes/precision/range.h"

static mpc_interval hull(const mpc_tensor *t) {
    mpc_interval out = {.lo = INFINITY, .hi = -INFINITY};
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++) {
        if (isnan(t->data[i])) out.nan = true;
        else out.lo = fmin(out.lo, t->data[i]), out.hi = fmax(out.hi, t->data[i]);
    }
    if (out.lo > out.hi) out.lo = -INFINITY, out.hi = INFINITY;
    return out;
}

static bool holds(mpc_interval a, double x) {
    if (isnan(x)) return a.nan;
    return a.lo <= x && x <= a.hi && (!a.counted || isinf(x) || fmod(x, mpc_interval_unit(a)) == 0);
}

/* The first element outside, -1: none. */
static int64_t first_outside(mpc_interval a, const mpc_tensor *t) {
    int64_t count = mpc_type_elements(&t->type);
    for (int64_t i = 0; i < count; i++)
        if (!holds(a, t->data[i])) return i;
    return -1;
}

/* --- every op on its samples --- */

typedef struct tally {
    int bounded, values;
} tally;

static void check_results(const ops_case *c, const mpc_interval *range, const mpc_tensor *got, tally *t) {
    for (uint32_t i = 0; i < c->result_count; i++) {
        mpc_interval a = range[c->graph->outputs[i].value];
        int64_t at = first_outside(a, &got[i]);
        CHECK_MSG(at < 0, "%s: result %u, element %lld is %.9g, outside [%.9g, %.9g]%s%s", c->label, i, (long long)at,
                  got[i].data[at], a.lo, a.hi, a.nan ? " or NaN" : "", a.counted ? " counted" : "");
        t->values++;
        t->bounded += mpc_interval_is_finite(a);
    }
}

static void check_case(const ops_case *c, void *user) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    mpc_interval inputs[OPS_MAX_OPERANDS];
    mpc_tensor got[OPS_MAX_RESULTS];
    const char *why = NULL;
    for (uint32_t i = 0; i < c->operand_count && i < c->graph->input_count; i++) inputs[i] = hull(&c->operands[i]);
    if (!ops_run_ref(&(ops_device){.name = "ref"}, c, got, &why)) return;
    for (size_t k = 0; k < 3; k++) {
        mpc_range_options options = {.low = formats[k], .inputs = inputs};
        const mpc_interval *range = mpc_range_analyze(c->graph, &options, c->arena);
        CHECK(range != NULL);
        if (range != NULL) check_results(c, range, got, user);
    }
    const mpc_interval *unknown = mpc_range_analyze(c->graph, &(mpc_range_options){0}, c->arena);
    tally ignored = {0};
    if (unknown != NULL) check_results(c, unknown, got, &ignored);
}

static void every_op_stays_inside(mpc_context *ctx) {
    tally t = {0};
    ops_walk(ctx, NULL, check_case, &t);
    CHECK_MSG(t.bounded * 2 > t.values, "only %d of %d results are bounded", t.bounded, t.values);
}

/* --- random graphs --- */

typedef struct rounding {
    mpc_format low;
    uint64_t seed;
} rounding;

/* A coin per value: stored in f32, or in the low format. */
static bool round_some(void *user, const mpc_graph *g, mpc_node_id node, const mpc_tensor *results) {
    const rounding *r = user;
    if (!mpc_format_is_low(r->low) || mpc_random_uniform(r->seed, 3, 0, node) < 0.5f) return true;
    for (uint32_t i = 0; i < g->nodes[node].result_count; i++) {
        if (results[i].type.format != MPC_FMT_f32) continue;
        int64_t count = mpc_type_elements(&results[i].type);
        for (int64_t k = 0; k < count; k++) results[i].data[k] = mpc_round_to(r->low, results[i].data[k]);
    }
    return true;
}

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

static void check_graph(const mpc_graph *g, rounding how, const mpc_tensor *inputs, mpc_arena *arena) {
    mpc_interval known[16];
    mpc_tensor *values = mpc_arena_alloc(arena, (g->value_count + 1) * sizeof *values);
    for (uint32_t i = 0; i < g->input_count; i++) known[i] = hull(&inputs[i]);
    mpc_eval_options options = {.after = round_some, .user = &how};
    const mpc_interval *range = mpc_range_analyze(g, &(mpc_range_options){.low = how.low, .inputs = known}, arena);
    CHECK(range != NULL && mpc_evaluate(g, inputs, no_state, NULL, &options, arena, values) == MPC_OK);
    for (mpc_value_id v = 0; range != NULL && v < g->value_count; v++) {
        int64_t at = first_outside(range[v], &values[v]);
        const mpc_node *n = mpc_producer(g, v);
        CHECK_MSG(at < 0, "seed %llu, %s: %s (%s) is %.9g, outside [%.9g, %.9g]%s", (unsigned long long)how.seed,
                  mpc_format_get(how.low)->name, mpc_value_name(g, v), n ? mpc_op_get(g->ctx, n->op)->name : "input",
                  values[v].data[at], range[v].lo, range[v].hi, range[v].nan ? " or NaN" : "");
    }
}

static void random_graphs_stay_inside(mpc_context *ctx, uint64_t first, uint64_t count) {
    static const mpc_format formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
    for (uint64_t seed = first; seed < first + count; seed++) {
        mpc_arena *arena = mpc_arena_create();
        mpc_graph *g = ops_random_graph(ctx, seed, 10 + (uint32_t)(seed % 40));
        mpc_tensor inputs[16];
        CHECK(g != NULL && arena != NULL);
        if (g != NULL && arena != NULL) {
            ops_random_inputs(g, seed, arena, inputs);
            check_graph(g, (rounding){.low = formats[seed % 3], .seed = seed}, inputs, arena);
        }
        mpc_graph_destroy(g);
        mpc_arena_destroy(arena);
    }
}

/* --- what must be known, so that an analysis that knows nothing fails --- */

static mpc_interval range_of(mpc_context *ctx, const char *text, const char *value) {
    mpc_sources *sources = mpc_context_sources(ctx);
    mpc_graph *g = mpc_graph_parse(ctx, mpc_sources_add(sources, "g.mpir", text, strlen(text)));
    mpc_arena *arena = mpc_arena_create();
    mpc_interval out = {.lo = NAN, .hi = NAN};
    CHECK_MSG(g != NULL, "%s", text);
    const mpc_interval *range = g != NULL ? mpc_range_analyze(g, &(mpc_range_options){0}, arena) : NULL;
    if (range != NULL) out = range[mpc_graph_find_value(g, value)];
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    return out;
}

static void check_range(mpc_context *ctx, const char *text, double lo, double hi) {
    mpc_interval a = range_of(ctx, text, "y");
    double slack = 1e-4 * (fabs(lo) + fabs(hi));
    CHECK_MSG(!a.nan && fabs(a.lo - lo) <= slack && fabs(a.hi - hi) <= slack, "[%g, %g]%s, not [%g, %g], for %s", a.lo,
              a.hi, a.nan ? " or NaN" : "", lo, hi, text);
}

#define GRAPH(inputs, body) "mpir 1\ngraph @g(" inputs ") {\n" body "  return(\"y\": %y)\n}\n"

static void known_ranges_are_found(mpc_context *ctx) {
    check_range(ctx, GRAPH("%i: i32[4] {lo=0 hi=5000}", "  %y = cast(%i) {to=f32 by=front} : f32[4]\n"), 0, 4999);
    check_range(ctx,
                GRAPH("%x: bool[4]", "  %c = cast(%x) {to=f32 by=front} : f32[4]\n"
                                     "  %y = sum(%c) {axes=[0]} : f32[]\n"),
                0, 4);
    check_range(ctx,
                GRAPH("%i: i32[4] {lo=-3 hi=4}", "  %c = cast(%i) {to=f32 by=front} : f32[4]\n"
                                                 "  %y = mul(%c, %c) : f32[4]\n"),
                0, 9);
    check_range(ctx,
                GRAPH("%i: i32[4] {lo=0 hi=11}", "  %c = cast(%i) {to=f32 by=front} : f32[4]\n"
                                                 "  %y = exp(%c) : f32[4]\n"),
                1, exp(10));
    check_range(ctx,
                GRAPH("%i: i32[4,8] {lo=0 hi=3}, %j: i32[8,2] {lo=-1 hi=2}",
                      "  %a = cast(%i) {to=f32 by=front} : f32[4,8]\n"
                      "  %b = cast(%j) {to=f32 by=front} : f32[8,2]\n"
                      "  %y = matmul(%a, %b) : f32[4,2]\n"),
                -16, 16);
}

static void the_own_maximum_bounds_a_difference(mpc_context *ctx) {
    mpc_interval a = range_of(ctx,
                              GRAPH("%x: f32[3,3]", "  %m = max(%x) {axes=[1] keep=true} : f32[3,1]\n"
                                                    "  %y = sub(%x, %m) : f32[3,3]\n"),
                              "y");
    CHECK(a.hi == 0);
    mpc_interval other = range_of(ctx,
                                  GRAPH("%x: f32[3,3]", "  %m = max(%x) {axes=[1]} : f32[3]\n"
                                                        "  %y = sub(%x, %m) : f32[3,3]\n"),
                                  "y");
    CHECK(other.hi == INFINITY); /* the maxima stand along the wrong axis */
}

static void what_is_unbounded_stays_unknown(mpc_context *ctx) {
    mpc_interval a = range_of(ctx, GRAPH("%x: f32[3]", "  %y = add(%x, %x) : f32[3]\n"), "y");
    CHECK(a.lo == -INFINITY && a.hi == INFINITY && a.nan && !a.counted);
}

/* `c` holds ids from 0 to 9, `x` anything, `f` flags, `big` is -1e9. */
#define WITH_IDS(body)                                                                                                 \
    GRAPH("%i: i32[4] {lo=0 hi=10}, %x: f32[4], %f: bool[4]",                                                          \
          "  %c = cast(%i) {to=f32 by=front} : f32[4]\n  %big = const() {value=-1e9} : f32[]\n" body)

static void whole_numbers_know_what_divides_them(mpc_context *ctx) {
    static const struct {
        const char *text;
        double unit; /* 0: not counted */
    } cases[] = {
        {WITH_IDS("  %k = const() {value=300.0} : f32[]\n  %y = mul(%c, %k) : f32[4]\n"), 4},
        {WITH_IDS("  %k = const() {value=512.0} : f32[]\n  %y = mul(%c, %k) : f32[4]\n"), 512},
        {WITH_IDS("  %k = const() {value=512.0} : f32[]\n  %m = mul(%c, %k) : f32[4]\n  %y = add(%m, %c) : f32[4]\n"), 1},
        {WITH_IDS("  %k = const() {value=6.0} : f32[]\n  %m = mul(%c, %k) : f32[4]\n  %y = mul(%m, %m) : f32[4]\n"), 4},
        {WITH_IDS("  %k = const() {value=2000.0} : f32[]\n  %y = add(%c, %k) : f32[4]\n"), 1},
        {WITH_IDS("  %k = const() {value=0.5} : f32[]\n  %y = mul(%c, %k) : f32[4]\n"), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mpc_interval a = range_of(ctx, cases[i].text, "y");
        CHECK_MSG(a.counted == (cases[i].unit > 0) && (!a.counted || mpc_interval_unit(a) == cases[i].unit), "unit %g for %s",
                  mpc_interval_unit(a), cases[i].text);
    }
}

static mpc_reach reach_of(mpc_context *ctx, const char *text) {
    mpc_sources *sources = mpc_context_sources(ctx);
    mpc_graph *g = mpc_graph_parse(ctx, mpc_sources_add(sources, "g.mpir", text, strlen(text)));
    mpc_arena *arena = mpc_arena_create();
    mpc_reach out = {0};
    CHECK_MSG(g != NULL, "%s", text);
    const mpc_interval *range = g != NULL ? mpc_range_analyze(g, &(mpc_range_options){0}, arena) : NULL;
    const mpc_reach *reach = range != NULL ? mpc_reach_find(g, range, arena) : NULL;
    if (reach != NULL) out = reach[mpc_graph_find_value(g, "y")];
    mpc_graph_destroy(g);
    mpc_arena_destroy(arena);
    return out;
}

/* Bounds aren't enough: a number must be reached, or nothing is said. */
static void elements_that_are_reached_are_found(mpc_context *ctx) {
    static const struct {
        const char *text;
        bool known, literal;
        double lo, hi;
    } cases[] = {
        {WITH_IDS("  %y = where(%f, %x, %big) : f32[4]\n"), true, true, -1e9, -1e9},
        {WITH_IDS("  %w = where(%f, %x, %big) : f32[4]\n  %s = slice(%w) {start=[0] stop=[2]} : f32[2]\n  %y = concat(%s, %x) {axis=0} : f32[6]\n"), true, true, -1e9, -1e9},
        {WITH_IDS("  %p = cast(%f) {to=f32 by=front} : f32[4]\n  %y = mul(%p, %big) : f32[4]\n"), true, true, -1e9, 0},
        {WITH_IDS("  %y = exp(%c) : f32[4]\n"), true, false, 1, 8103.08},
        {WITH_IDS("  %y = concat(%x, %c) {axis=0} : f32[8]\n"), true, false, 0, 9},
        {WITH_IDS("  %y = mul(%x, %big) : f32[4]\n"), false, false, 0, 0},
        {WITH_IDS("  %y = where(%f, %c, %x) : f32[4]\n"), false, false, 0, 0},                                      /* the ends may go to the other side */
        {WITH_IDS("  %y = slice(%c) {start=[0] stop=[2]} : f32[2]\n"), false, false, 0, 0},                         /* and may be cut off */
        {WITH_IDS("  %y = add(%c, %c) : f32[4]\n"), false, false, 0, 0},                                            /* two that vary need not meet */
        {WITH_IDS("  %w = where(%f, %x, %big) : f32[4]\n  %y = exp(%w) : f32[4]\n"), false, false, 0, 0},           /* what stands beside it has no bounds */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mpc_reach r = reach_of(ctx, cases[i].text);
        bool near = fabs(r.lo - cases[i].lo) <= 1e-4 * fabs(cases[i].lo) && fabs(r.hi - cases[i].hi) <= 1e-4 * fabs(cases[i].hi);
        CHECK_MSG(r.known == cases[i].known && (!r.known || (r.literal == cases[i].literal && near)), "[%g, %g]%s%s for %s", r.lo, r.hi,
                  r.known ? "" : " unknown", r.literal ? " literal" : "", cases[i].text);
    }
}

int main(int argc, char **argv) {
    mpc_sources *sources = mpc_sources_create();
    mpc_context *ctx = mpc_context_create(NULL, sources);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = argc > 2 ? strtoull(argv[2], NULL, 10) : 3000;
    if (ctx == NULL || mpc_passes_register(ctx) != MPC_OK) return 1;
    every_op_stays_inside(ctx);
    random_graphs_stay_inside(ctx, first, count);
    known_ranges_are_found(ctx);
    the_own_maximum_bounds_a_difference(ctx);
    what_is_unbounded_stays_unknown(ctx);
    whole_numbers_know_what_divides_them(ctx);
    elements_that_are_reached_are_found(ctx);
    mpc_context_destroy(ctx);
    mpc_sources_destroy(sources);
    return check_result();
}
