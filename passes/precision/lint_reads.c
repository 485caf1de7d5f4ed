/* What an op does to its operands before it reads them: a value that is stored in f32 and read in 16 bits through a
 * cast is rounded as surely as one that is stored so. Casts are those that the decisions ask for; the finding stands at
 * the op that reads, whose line can be changed. What is stored in 16 bits has been looked at where it is made. */
#include <math.h>
#include <string.h>

#include "passes/precision/lint.h"

typedef struct reading {
    mpc_lint_run *l;
    mpc_node_id id;
    mpc_value_id v;
    mpc_format f; /* what `v` is converted to */
} reading;

static const char *name_of(mpc_format f) { return mpc_format_get(f)->name; }
static const char *value_of(const reading *r) { return mpc_value_name(r->l->g, r->v); }
static const char *reader_of(const reading *r) {
    return mpc_value_name(r->l->g, mpc_result(&r->l->g->nodes[r->id], 0));
}

/* --- whole numbers (N44) --- */

static void look_for_whole_numbers(const reading *r) {
    mpc_lint_run *l = r->l;
    double most = l->reach[r->v].whole, exact = mpc_exact_integers(r->f);
    if (!(l->reach[r->v].steps > exact) || l->told[r->v]) return;
    mpc_lint_add(
        l,
        (mpc_finding){.code = "W182",
                      .rule = "N44",
                      .node = r->id,
                      .what = mpc_lint_text(l, "`%s` reads `%s` in %s, whole numbers up to %g; %s is exact only to %g",
                                            reader_of(r), value_of(r), name_of(r->f), most, name_of(r->f), exact),
                      .fix = mpc_lint_text(l,
                                           "leave the format of `%s` to the compiler, which reads them in f32, or "
                                           "scale them down first",
                                           reader_of(r))});
    l->told[mpc_result(&l->g->nodes[r->id], 0)] = true;
}

/* --- what lies beyond the format (N20, N45, N46) --- */

static void add_beyond(const reading *r, const char *code, const char *rule, const char *how) {
    double top = mpc_numfmt_max(&mpc_format_get(r->f)->fmt);
    mpc_lint_add(
        r->l, (mpc_finding){
                  .code = code,
                  .rule = rule,
                  .node = r->id,
                  .what = mpc_lint_text(r->l, "`%s` reads `%s` in %s, where it overflows: %s", reader_of(r),
                                        value_of(r), name_of(r->f), how),
                  .fix = mpc_lint_text(r->l, "put `@f32` before the statement, or keep what it reads within %g", top)});
    r->l->passed[mpc_result(&r->l->g->nodes[r->id], 0)] = true;
}

static void look_beyond(const reading *r) {
    mpc_lint_run *l = r->l;
    mpc_interval a = l->range[r->v];
    mpc_reach reach = l->reach[r->v];
    double top = mpc_numfmt_max(&mpc_format_get(r->f)->fmt);
    bool was_infinite = a.lo == INFINITY || a.hi == -INFINITY;
    if (l->passed[r->v] || was_infinite) return;
    bool reached = mpc_reach_largest(reach) > top;
    double most = mpc_reach_extreme(reach);
    if (reached && reach.literal) add_beyond(r, "W180", "N20", mpc_lint_text(l, "%g from a literal", most));
    else if (reached) add_beyond(r, "W183", "N46", mpc_lint_text(l, "%g from whole numbers", most));
    else if (a.lo > top || a.hi < -top)
        add_beyond(r, "W183", "N46", mpc_lint_text(l, "all of it lies beyond: from %g to %g", a.lo, a.hi));
}

/* --- literals (N45) --- */

/* A literal that fills a tensor, or one that ops made of literals. */
static bool is_one_number(const reading *r, uint32_t i, double *c) {
    mpc_interval a = r->l->range[r->v];
    if (mpc_lint_literal(r->l, &r->l->g->nodes[r->id], i, c)) return true;
    *c = r->l->reach[r->v].lo;
    return r->l->reach[r->v].literal && mpc_interval_is_finite(a) && a.hi - a.lo <= fabs(a.hi) * 0x1p-40;
}

static void look_at_literal(const reading *r, uint32_t i) {
    double c;
    const char *what = is_one_number(r, i, &c) ? mpc_constant_loss(c, r->f) : NULL;
    if (what != NULL) mpc_lint_add_literal(r->l, r->id, c, what, r->f, false);
}

void mpc_lint_reads(mpc_lint_run *l, mpc_node_id id) {
    const mpc_node *n = &l->g->nodes[id];
    for (uint32_t i = 0; i < n->operand_count; i++) {
        reading r = {.l = l, .id = id, .v = mpc_operand(l->g, n, i), .f = mpc_lint_read(l, id, i)};
        if (!mpc_format_is_low(r.f) || mpc_lint_stored(l, r.v) == r.f) continue;
        look_at_literal(&r, i);
        look_for_whole_numbers(&r);
        look_beyond(&r);
    }
}

/* --- what range evidence keeps in f32 (N22, N32, N41, N44, N45, N46) --- */

/* "... (N44)" apart into sentence and rule. */
void mpc_lint_forced(mpc_lint_run *l, mpc_node_id id) {
    const char *why = mpc_range_reason(l->g, id);
    const char *rule = why != NULL ? strrchr(why, '(') : NULL;
    if (rule == NULL || mpc_lint_has(l, id) || l->told[mpc_result(&l->g->nodes[id], 0)]) return;
    if (strncmp(rule, "(N32)", 5) == 0 && mpc_lint_is_builtins(l, id)) return;
    mpc_lint_add(l, (mpc_finding){.code = "W189",
                                  .rule = mpc_lint_text(l, "%.3s", rule + 1),
                                  .node = id,
                                  .kept_f32 = true,
                                  .what = mpc_lint_text(l, "`%s` is kept in f32: %.*s",
                                                        mpc_value_name(l->g, mpc_result(&l->g->nodes[id], 0)),
                                                        (int)(rule - why - 1), why)});
}
