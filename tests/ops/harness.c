/* See harness.h. Operands are converted to the format under test one by one, as far as the op's shape rule accepts it:
 * so f32-only operands (a bias, statistics) stay what they are without a list of them. */
#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../check.h"

/* --- making a case --- */

static mpc_graph *build_case(const ops_case *c, const mpc_format *formats, mpc_format result) {
    mpc_builder *b = mpc_builder_create(c->ctx, "case");
    mpc_value_id operands[OPS_MAX_OPERANDS], first;
    const mpc_sample *s = &c->sample;
    if (b == NULL) return NULL;
    for (uint32_t i = 0; i < s->operand_count; i++) {
        const mpc_type *t = &s->operands[i].type;
        operands[i] = mpc_build_input(b, (const char[]){(char)('a' + i), 0},
                                      mpc_type_make(c->ctx, formats[i], t->rank, t->dims), NULL, 0);
    }
    if (s->result_type != 0) first = mpc_build_typed(b, c->id, s->result_type, s->attrs, s->attr_count);
    else first = mpc_build_as(b, c->id, operands, s->operand_count, s->attrs, s->attr_count, result);
    for (uint32_t i = 0; i < c->op->result_count; i++)
        mpc_build_output(b, (const char[]){'r', (char)('0' + i), 0}, first == MPC_NONE ? MPC_NONE : first + i);
    return mpc_builder_finish(b);
}

static bool accepts(const ops_case *c, const mpc_format *formats) {
    mpc_graph *g = build_case(c, formats, MPC_FMT_none);
    mpc_graph_destroy(g);
    return g != NULL;
}

/* Formats of the operands under `format`; false when it changes none. */
static bool choose_formats(const ops_case *c, mpc_format format, mpc_format *formats) {
    bool changed = format == MPC_FMT_f32;
    for (uint32_t i = 0; i < c->sample.operand_count; i++) formats[i] = c->sample.operands[i].type.format;
    for (uint32_t i = 0; i < c->sample.operand_count && format != MPC_FMT_f32; i++) {
        if (formats[i] != MPC_FMT_f32) continue;
        formats[i] = format;
        if (accepts(c, formats)) changed = true;
        else formats[i] = MPC_FMT_f32;
    }
    return changed;
}

static void convert_operands(ops_case *c, const mpc_format *formats) {
    c->operand_count = c->sample.operand_count;
    for (uint32_t i = 0; i < c->operand_count; i++) {
        mpc_type type = c->sample.operands[i].type;
        int64_t count = mpc_type_elements(&type);
        type.format = formats[i];
        c->operands[i] = mpc_tensor_make(c->arena, &type);
        for (int64_t k = 0; k < count; k++)
            c->operands[i].data[k] = mpc_round_to(formats[i], c->sample.operands[i].data[k]);
    }
}

/* A low result that may as well be f32. */
static bool can_widen(const ops_case *c, const mpc_graph *g) {
    return (c->op->flags & MPC_OPF_KEEPS_FORMAT) == 0 && g->output_count > 0 &&
           mpc_format_is_low(mpc_value_format(g, g->outputs[0].value));
}

typedef struct walk {
    mpc_context *ctx;
    ops_visit visit;
    void *user;
    mpc_arena *arena; /* of cases that are kept; NULL: each case goes after its visit */
    const mpc_format *formats;
    size_t format_count;
} walk;

static void visit_format(const walk *w, ops_case *c, mpc_format format, bool widened) {
    mpc_format formats[OPS_MAX_OPERANDS];
    if (!choose_formats(c, format, formats)) return;
    mpc_graph *g = build_case(c, formats, MPC_FMT_none);
    CHECK_MSG(g != NULL, "%s, variant %u, is refused", c->op->name, c->sample.variant);
    if (widened && g != NULL && can_widen(c, g)) {
        mpc_graph_destroy(g);
        g = build_case(c, formats, MPC_FMT_f32);
    } else if (widened) {
        mpc_graph_destroy(g);
        return;
    }
    if (g == NULL) return;
    c->graph = g;
    c->format = format;
    c->widened = widened;
    c->result_count = g->output_count;
    snprintf(c->label, sizeof c->label, "%s, variant %u, %s%s", c->op->name, c->sample.variant,
             mpc_format_get(format)->name, widened ? " to f32" : "");
    convert_operands(c, formats);
    w->visit(c, w->user);
    if (w->arena == NULL) mpc_graph_destroy(g);
}

static bool visit_variant(walk *w, mpc_op_id id, uint32_t variant) {
    mpc_context *ctx = w->ctx;
    ops_case c = {
        .ctx = ctx, .arena = w->arena != NULL ? w->arena : mpc_arena_create(), .op = mpc_op_get(ctx, id), .id = id};
    c.sample = (mpc_sample){.ctx = ctx, .op = c.op, .seed = 20240607, .variant = variant, .arena = c.arena};
    bool more = c.op->sample(&c.sample);
    for (size_t f = 0; more && f < w->format_count; f++) {
        visit_format(w, &c, w->formats[f], false);
        if (mpc_format_is_low(w->formats[f])) visit_format(w, &c, w->formats[f], true);
    }
    if (w->arena == NULL) mpc_arena_destroy(c.arena);
    return more;
}

int ops_result(void) { return check_result(); }

static const mpc_format default_formats[] = {MPC_FMT_f32, MPC_FMT_bf16, MPC_FMT_f16};
enum { DEFAULT_FORMATS = sizeof default_formats / sizeof *default_formats };

static void walk_ops(walk *w, const char *only) {
    for (mpc_op_id id = 0; id < mpc_op_count(w->ctx); id++) {
        const mpc_op *op = mpc_op_get(w->ctx, id);
        if (op->sample == NULL || (only != NULL && strcmp(only, op->name) != 0)) continue;
        uint32_t variant = 0;
        while (visit_variant(w, id, variant)) variant++;
        CHECK_MSG(variant > 0, "%s has no sample", op->name);
    }
}

void ops_walk(mpc_context *ctx, const char *only, ops_visit visit, void *user) {
    ops_walk_formats(ctx, only, default_formats, DEFAULT_FORMATS, visit, user);
}

void ops_walk_formats(mpc_context *ctx, const char *only, const mpc_format *formats, size_t count, ops_visit visit,
                      void *user) {
    walk_ops(&(walk){.ctx = ctx, .visit = visit, .user = user, .formats = formats, .format_count = count}, only);
}

static void keep_case(const ops_case *c, void *user) {
    ops_list *list = user;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 64;
        ops_case *larger = realloc(list->cases, capacity * sizeof *larger);
        if (larger == NULL) return;
        list->cases = larger;
        list->capacity = capacity;
    }
    list->cases[list->count++] = *c;
}

ops_list ops_collect(mpc_context *ctx, const char *only) {
    ops_list list = {.arena = mpc_arena_create()};
    walk_ops(&(walk){.ctx = ctx,
                     .visit = keep_case,
                     .user = &list,
                     .arena = list.arena,
                     .formats = default_formats,
                     .format_count = DEFAULT_FORMATS},
             only);
    return list;
}

void ops_list_free(ops_list *list) {
    for (size_t i = 0; i < list->count; i++) mpc_graph_destroy((mpc_graph *)list->cases[i].graph);
    free(list->cases);
    mpc_arena_destroy(list->arena);
}

/* --- running it --- */

static mpc_tensor no_state(void *user, const mpc_graph *g, const mpc_node *state) {
    (void)user, (void)g, (void)state;
    return (mpc_tensor){.data = NULL};
}

bool ops_evaluate(const ops_case *c, const mpc_graph *g, bool f64, mpc_tensor *results) {
    mpc_eval_options options = {.f64 = f64};
    mpc_tensor *values = mpc_arena_alloc(c->arena, (g->value_count + 1) * sizeof *values);
    if (mpc_evaluate(g, c->operands, no_state, NULL, &options, c->arena, values) != MPC_OK) return false;
    for (uint32_t i = 0; i < g->output_count; i++) results[i] = values[g->outputs[i].value];
    return true;
}

bool ops_run_ref(const ops_device *device, const ops_case *c, mpc_tensor *results, const char **why) {
    *why = "evaluation failed";
    return ops_evaluate(c, c->graph, device->user != NULL, results);
}

/* --- judging it --- */

/* Distance from |x| to the next value of the format. */
static double ulp_of(mpc_format format, double x) {
    int fraction = format == MPC_FMT_f32   ? 23
                   : format == MPC_FMT_f64 ? 52
                                           : mpc_format_get(format)->fmt.fraction_bits,
        exponent;
    double least = mpc_numfmt_min_subnormal(&mpc_format_get(format)->fmt);
    if (x == 0) return least;
    frexp(fabs(x), &exponent);
    double ulp = ldexp(1, exponent - 1 - fraction);
    return ulp > least ? ulp : least;
}

static double element_error(double got, double want, mpc_format format, ops_bound bound, double largest) {
    want = mpc_round_to(format, want);
    if (got == want || (got != got && want != want)) return 0;
    if (!mpc_format_is_float(format) || got != got || want != want) return INFINITY;
    double max = mpc_numfmt_max(&mpc_format_get(format)->fmt); /* an infinity is one ulp beyond the largest number */
    if (isinf(got)) got = copysign(max + ulp_of(format, max), got);
    if (isinf(want)) want = copysign(max + ulp_of(format, max), want);
    return fabs(got - want) / (bound.ulps * ulp_of(format, want) + bound.norm * largest);
}

double ops_error(const mpc_tensor *got, const mpc_tensor *want, mpc_format format, ops_bound bound, int64_t *where) {
    int64_t count = mpc_type_elements(&want->type);
    double worst = 0, largest = 0;
    *where = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(want->data[i]) && fabs(want->data[i]) > largest) largest = fabs(want->data[i]);
    for (int64_t i = 0; i < count; i++) {
        double e = element_error(got->data[i], want->data[i], format, bound, largest);
        if (!(e <= worst)) worst = e, *where = i;
    }
    return worst;
}

int64_t ops_first_difference(const mpc_tensor *a, const mpc_tensor *b) {
    int64_t count = mpc_type_elements(&a->type);
    for (int64_t i = 0; i < count; i++) {
        double x = a->data[i], y = b->data[i];
        bool same = (x != x && y != y) || (x == y && signbit(x) == signbit(y));
        if (!same) return i;
    }
    return -1;
}

typedef struct bound_row {
    const char *op;
    mpc_format format; /* none: any */
    ops_bound bound;
} bound_row;

static const bound_row bound_rows[] = {
#define MPC_FMT_any MPC_FMT_none
#define KIND_BOUND(...)
#define BOUND(op, format, ulps, norm) {#op, MPC_FMT_##format, {ulps, norm}},
#include "bounds.def"
#undef BOUND
#undef KIND_BOUND
};

static const ops_bound kind_bounds[] = {
#define BOUND(...)
#define KIND_BOUND(kind, ulps, norm) [MPC_KIND_##kind] = {ulps, norm},
#include "bounds.def"
#undef BOUND
#undef KIND_BOUND
};

static const bound_row *find_row(const mpc_op *op, mpc_format format) {
    const bound_row *found = NULL;
    for (size_t i = 0; i < sizeof bound_rows / sizeof *bound_rows; i++) {
        if (strcmp(bound_rows[i].op, op->name) != 0) continue;
        if (bound_rows[i].format == format) return &bound_rows[i];
        if (bound_rows[i].format == MPC_FMT_none) found = &bound_rows[i];
    }
    return found;
}

ops_bound ops_bound_of(const mpc_op *op, mpc_format format) {
    const bound_row *row = find_row(op, format);
    return row != NULL ? row->bound : kind_bounds[op->kind];
}

bool ops_bound_has_row(const mpc_op *op, mpc_format format) { return find_row(op, format) != NULL; }

static void judge(const ops_case *c, ops_comparison *cmp, uint32_t i, const mpc_tensor *got, const mpc_tensor *exact,
                  const mpc_tensor *wide) {
    int64_t at = -1;
    if (cmp->bits && (c->op->flags & MPC_OPF_EXACT) != 0) {
        at = ops_first_difference(got, exact);
        CHECK_MSG(at < 0, "%s on %s: result %u, element %lld is %.9g, must be %.9g to the bit", c->label,
                  cmp->device->name, i, (long long)at, got->data[at], exact->data[at]);
    }
    ops_bound bound = cmp->bound != NULL ? *cmp->bound : ops_bound_of(c->op, c->format);
    mpc_format format = cmp->f64 && mpc_format_is_float(got->type.format) ? MPC_FMT_f64 : got->type.format;
    double error = ops_error(got, wide, format, bound, &at);
    CHECK_MSG(error <= 1, "%s on %s: result %u, element %lld is %.17g, f64 gives %.17g: %.3g times the bound", c->label,
              cmp->device->name, i, (long long)at, got->data[at], wide->data[at], error);
    if (error <= cmp->worst) return;
    cmp->worst = error;
    snprintf(cmp->worst_label, sizeof cmp->worst_label, "%s, result %u", c->label, i);
}

void ops_judge(const ops_case *c, ops_comparison *cmp, const mpc_tensor *got) {
    mpc_tensor exact[OPS_MAX_RESULTS], wide[OPS_MAX_RESULTS];
    bool ok = ops_evaluate(c, c->graph, false, exact) && ops_evaluate(c, c->graph, true, wide);
    CHECK_MSG(ok, "%s doesn't evaluate", c->label);
    for (uint32_t i = 0; ok && i < c->result_count; i++) judge(c, cmp, i, &got[i], &exact[i], &wide[i]);
    cmp->ran++;
}

void ops_compare(const ops_case *c, void *comparison) {
    ops_comparison *cmp = comparison;
    mpc_tensor got[OPS_MAX_RESULTS];
    const char *why = "";
    if (cmp->device->run(cmp->device, c, got, &why)) {
        ops_judge(c, cmp, got);
        return;
    }
    cmp->refused++;
    CHECK_MSG(false, "%s on %s: %s", c->label, cmp->device->name, why);
}
