/* What each solver would decide for the training step of a model, side by side: modelled time, casts, bytes by format,
 * the share of f32, and the hard rules that it breaks, with the lower bound that no assignment can beat which keeps
 * them. Nothing of the session changes: each solver runs on a step of its own, without the session's assignment. */
#include "driver/compare_solvers.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "driver/format_choice.h"
#include "driver/train_settings.h"
#include "passes/precision/hard_rules.h"
#include "passes/precision/precision.h"

typedef struct compared { /* one solver */
    const mpc_solver *solver;
    mpc_formats_tried plan; /* names of values in `broken` are its graph's */
    mpc_broken_rules broken;
} compared;

typedef struct comparison {
    mpc_session *session;
    mpc_plan_choices *choices;
    mpc_arena *arena;
    compared *rows;
    uint32_t count;
    const mpc_formats_tried *mincut; /* of its row; its bound is that of all */
} comparison;

/* --- running --- */

/* In the step that would run: with a loss scale only where something is f16. */
static bool compare_one(comparison *c, compared *row) {
    mpc_session *s = c->session;
    mpc_train_config train = *s->train;
    mpc_pass_env env = {.ctx = s->ctx, .profile = s->profile, .observed = s->observed};
    train.solver = row->solver->name;
    if (!row->solver->takes_also) train.also = "none";
    return mpc_formats_try(s, &train, c->choices, &row->plan) &&
           mpc_hard_rules_check(row->plan.graph, mpc_format_find(s->train->precision), &env, c->arena, &row->broken) ==
               MPC_OK;
}

/* What a step has to say of its own is said once, by the run of the first solver. */
static bool compare_all(comparison *c) {
    const mpc_sink own = c->session->cli->sink;
    bool ok = true, muted = false;
    for (uint32_t i = 0; i < c->count && ok; i++) {
        c->rows[i].solver = mpc_solver_of(c->session->ctx, i);
        ok = compare_one(c, &c->rows[i]);
        muted = muted || ok;
        if (ok) mpc_cli_mute(c->session->cli);
    }
    c->session->cli->sink = own;
    if (!ok && muted) mpc_error(c->session->sink, "E105", "a solver failed on this model: `--solver NAME` shows why");
    for (uint32_t i = 0; ok && i < c->count; i++)
        if (strcmp(c->rows[i].solver->name, "mincut") == 0) c->mincut = &c->rows[i].plan;
    return ok;
}

/* --- printing --- */

static double bytes_of(const compared *row) {
    double sum = 0;
    for (int f = 0; f < MPC_FMT_count; f++) sum += row->plan.cost.bytes[f];
    return sum;
}

/* "N43 x 3, N60 x 12" */
static void print_rules(const mpc_broken_rules *b, mpc_str *out) {
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t same = 0;
        bool first = true;
        for (uint32_t k = 0; k < b->count; k++) {
            bool equal = strcmp(b->data[i].rule, b->data[k].rule) == 0;
            same += equal;
            first = first && !(equal && k < i);
        }
        if (first)
            mpc_str_printf(out, "%s%s x %u", out->length ? ", " : "", *b->data[i].rule ? b->data[i].rule : "type",
                           same);
    }
}

static void print_row(const compared *row) {
    mpc_str rules = {0};
    print_rules(&row->broken, &rules);
    const mpc_plan_cost *c = &row->plan.cost;
    printf("%-18s %10.2f %10.2f %10.2f %8.2f %6u %9.2f %9.2f %5.0f %%  %s\n", row->solver->name, c->seconds * 1e6,
           c->ops * 1e6, c->values * 1e6, c->casts * 1e6, c->cast_count, c->bytes[MPC_FMT_f32] * 1e-6,
           (bytes_of(row) - c->bytes[MPC_FMT_f32]) * 1e-6, 100 * c->f32_share,
           row->broken.count ? mpc_str_cstr(&rules) : "none");
    mpc_str_free(&rules);
}

/* A few examples of each solver's findings. */
static void print_examples(const compared *row) {
    enum { SHOWN = 3 };
    const mpc_broken_rules *b = &row->broken;
    if (b->count) printf("\n%s\n", row->solver->name);
    for (uint32_t i = 0, shown = 0; i < b->count && shown < SHOWN; i++) {
        bool seen = false;
        for (uint32_t k = 0; k < i; k++) seen = seen || strcmp(b->data[i].rule, b->data[k].rule) == 0;
        if (seen) continue;
        const mpc_node *n = &row->plan.graph->nodes[b->data[i].node];
        printf("  %-4s %%%s (%s) %s\n", b->data[i].rule, mpc_value_name(row->plan.graph, n->result_begin),
               mpc_node_op(row->plan.graph, b->data[i].node)->name, b->data[i].why);
        shown++;
    }
    if (row->broken.kept) printf("  %u results would be low, but for the types of our ops\n", row->broken.kept);
}

/* Of two formats the bound is what mincut reaches; of three it may be less. */
static double gap(const comparison *c) {
    return c->mincut->bound > 0 ? fmax(c->mincut->cost.seconds / c->mincut->bound - 1, 0) : 0;
}

static void print_bound(const comparison *c) {
    const mpc_formats_tried *m = c->mincut;
    if (!(m->bound > 0)) return;
    printf("%-18s %10.2f  no assignment that keeps the hard rules is faster", "lower bound", m->bound * 1e6);
    if (m->as_list) printf("; mincut is %.2g %% above it, see below", 100 * gap(c));
    else if (gap(c) > 1e-6) printf("; mincut is at most %.2g %% above it", 100 * gap(c));
    else if (strcmp(c->session->train->also, "none") != 0) printf("; mincut is the best there is");
    putchar('\n');
}

/* The user asked for a format that gains nothing: so mincut is what `list` is, however dear. */
static void print_as_list(const comparison *c) {
    const char *precision = c->session->train->precision;
    if (!c->mincut->as_list) return;
    printf("%s multiplies no faster than f32 on %s, so mincut takes it for its numbers, as list does (W155); for speed "
           "take precision = f32 there\n",
           precision, c->session->profile->name);
}

/* Which rows have a loss scale, when they could. */
static void print_scaled(const comparison *c) {
    const mpc_train_config *t = c->session->train;
    if (!mpc_train_has_loss_scale(t->precision, t->also)) return;
    for (int scaled = 1; scaled >= 0; scaled--) {
        bool first = true;
        for (uint32_t i = 0; i < c->count; i++) {
            if (c->rows[i].plan.scaled != (bool)scaled) continue;
            const char *head = scaled ? "with a loss scale: " : "without f16, hence without a loss scale: ";
            printf("%s%s", first ? head : ", ", c->rows[i].solver->name);
            first = false;
        }
        if (!first) putchar('\n');
    }
}

static void print_text(const comparison *c) {
    const char *also = c->session->train->also;
    bool three = strcmp(also, "none") != 0;
    printf(
        "%s%s%s, batch %lld, for %s: modelled time of what formats change, in microseconds a step; megabytes between "
        "kernels\n",
        c->session->train->precision, three ? " and " : "", three ? also : "", (long long)c->session->train->batch,
        c->session->profile->name);
    printf("%-18s %10s %10s %10s %8s %6s %9s %9s %7s  %s\n", "solver", "time", "in ops", "in values", "in casts",
           "casts", "MB f32", "MB low", "f32", "hard rules broken");
    for (uint32_t i = 0; i < c->count; i++) print_row(&c->rows[i]);
    print_bound(c);
    print_as_list(c);
    print_scaled(c);
    for (uint32_t i = 0; i < c->count; i++) print_examples(&c->rows[i]);
}

static json_t *json_of_rules(const compared *row) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < row->broken.count; i++) {
        const mpc_broken_rule *b = &row->broken.data[i];
        const mpc_node *n = &row->plan.graph->nodes[b->node];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:i}", "rule", b->rule, "value",
                                        mpc_value_name(row->plan.graph, n->result_begin), "op",
                                        mpc_node_op(row->plan.graph, b->node)->name, "why", b->why, "file",
                                        mpc_sym_text(row->plan.graph->ctx, n->loc.file), "line", (int)n->loc.line));
    }
    return list;
}

static json_t *json_of_row(const compared *row) {
    const mpc_plan_cost *c = &row->plan.cost;
    json_t *bytes = json_object();
    for (int f = 1; f < MPC_FMT_count; f++)
        if (c->bytes[f] > 0) json_object_set_new(bytes, mpc_format_get((mpc_format)f)->name, json_real(c->bytes[f]));
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:i, s:o, s:f, s:o, s:i, s:s, s:s, s:b, s:b}", "solver",
                     row->solver->name, "seconds", c->seconds, "ops_seconds", c->ops, "values_seconds", c->values,
                     "casts_seconds", c->casts, "casts", (int)c->cast_count, "bytes", bytes, "f32_share", c->f32_share,
                     "broken", json_of_rules(row), "kept_by_type", (int)row->broken.kept, "precision",
                     row->plan.precision, "also", row->plan.also, "loss_scale", row->plan.scaled, "as_list",
                     row->plan.as_list);
}

static void print_json(const comparison *c) {
    json_t *rows = json_array();
    for (uint32_t i = 0; i < c->count; i++) json_array_append_new(rows, json_of_row(&c->rows[i]));
    json_t *all =
        json_pack("{s:s, s:s, s:s, s:I, s:o, s:o, s:f}", "precision", c->session->train->precision, "also",
                  c->session->train->also, "target", c->session->profile->name, "batch",
                  (json_int_t)c->session->train->batch, "lower_bound_seconds",
                  c->mincut->bound > 0 ? json_real(c->mincut->bound) : json_null(), "solvers", rows, "gap", gap(c));
    if (all) json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

/* --- the whole --- */

bool mpc_compare_solvers(mpc_session *s) {
    if (!mpc_format_is_low(mpc_format_find(s->train->precision))) {
        mpc_error(s->sink, "E105",
                  "solvers decide where a 16-bit format is used: compare with --precision bf16 or f16");
        return false;
    }
    comparison c = {.session = s,
                    .count = mpc_solver_count() + mpc_context_extension_count(s->ctx, MPC_EXT_SOLVER),
                    .choices = mpc_plan_choices_create(),
                    .arena = mpc_arena_create()};
    if (c.arena) c.rows = mpc_arena_alloc(c.arena, c.count * sizeof *c.rows);
    bool ready = c.choices && c.rows;
    if (!ready) mpc_error(s->sink, "E901", "out of memory");
    bool ok = ready && compare_all(&c);
    if (ok && s->cli->options->json) print_json(&c);
    else if (ok) print_text(&c);
    for (uint32_t i = 0; ready && i < c.count; i++) mpc_graph_destroy(c.rows[i].plan.graph);
    mpc_plan_choices_destroy(c.choices);
    mpc_arena_destroy(c.arena);
    return ok;
}
