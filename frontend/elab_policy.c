/* The policy while a model is elaborated: what it says about each op, and what it turns out to have said at the end. A
 * nearer word, a region or a later line, decides instead; a line that never decides while another format is taken is
 * told with the line that wins. Only floats have formats to choose from, so a line that finds none but others is
 * refused. */
#include <string.h>

#include "frontend/fe_elab.h"

static bool finds(const fe_elab *e, const fe_selector *s, const fe_worded *op) {
    if (!s->is_op) return mpc_glob_match(s->glob, op->path);
    return strcmp(s->glob, op->op) == 0 || (e->callee && strcmp(s->glob, e->callee) == 0);
}

/* The policy outlives this elaboration. */
static const char *keep(fe_elab *e, const char *text) {
    const char *copy = mpc_arena_strdup(e->m->arena, text);
    if (!copy) fe_no_memory_value(e);
    return copy;
}

static void note_refusal(fe_elab *e, fe_selector *s, const fe_worded *op) {
    if (s->refused_by) return;
    s->refused_by = keep(e, op->path);
    s->refused_type = op->type;
    s->refused_at = op->at;
}

static void note_defeat(fe_elab *e, fe_selector *s, mpc_format format, const char *why) {
    if (s->format != format && !s->beaten_by) s->beaten_by = keep(e, why);
}

static const char *place_of_line(fe_elab *e, const fe_selector *s) {
    return fe_format(e, "policy %s", fe_place_text(e->d, s->span));
}

mpc_format fe_policy_format(fe_elab *e, const fe_worded *op, const char **why) {
    fe_selector *last = NULL;
    for (size_t i = 0; i < e->m->policy.count; i++) {
        fe_selector *s = &e->m->policy.data[i];
        if (!finds(e, s, op)) continue;
        if (!mpc_format_is_float(op->type)) note_refusal(e, s, op);
        else s->matched = true;
        if (!op->takes) continue;
        s->heard = true;
        last = s;
    }
    if (!last) return MPC_FMT_none;
    const char *winner = e->prec != MPC_FMT_none ? e->prec_why : place_of_line(e, last);
    mpc_format format = e->prec != MPC_FMT_none ? e->prec : last->format;
    for (size_t i = 0; i < e->m->policy.count; i++) {
        fe_selector *s = &e->m->policy.data[i];
        if (!finds(e, s, op)) continue;
        if (e->prec == MPC_FMT_none && (s == last || last->command)) s->decided = true;
        else note_defeat(e, s, format, winner);
    }
    if (e->prec == MPC_FMT_none) *why = winner;
    return e->prec != MPC_FMT_none ? MPC_FMT_none : format;
}

/* --- at the end --- */

fe_report fe_begin_refusal(fe_elab *e, mpc_span word, const char *asked, const fe_worded *what) {
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E111", word, "`%s` is %s: whole numbers and flags have no other format (N44)",
                 what->path, mpc_format_get(what->type)->name);
    fe_label(&r, "%s is asked for", asked);
    fe_second(&r, what->at, "it is made here");
    return r;
}

static void refuse(fe_elab *e, const fe_selector *s) {
    fe_worded what = {.path = s->refused_by, .type = s->refused_type, .at = s->refused_at};
    fe_report r = fe_begin_refusal(e, s->span, mpc_format_get(s->format)->name, &what);
    fe_help(&r, "leave the line out; cast(..., f32) makes a float of it");
    fe_send(&r);
}

static void warn_of_defeat(fe_elab *e, const fe_selector *s) {
    const char *by = strncmp(s->beaten_by, "user: ", 6) == 0 ? s->beaten_by + 6 : s->beaten_by;
    fe_report r = fe_begin(e->d, MPC_SEV_WARNING, "W109", s->span,
                           "this line decides nothing: %s wins for all that it finds", by);
    fe_help(&r, "leave it out; a statement's `@` is nearer than a policy, and a later line than an earlier one");
    fe_send(&r);
}

static void warn_of_views(fe_elab *e, const fe_selector *s) {
    fe_report r = fe_begin(e->d, MPC_SEV_WARNING, "W109", s->span,
                           "this line decides nothing: what it finds moves values or casts them, and computes none");
    fe_help(&r, "name the op that computes the values; what moves them has their format");
    fe_send(&r);
}

bool fe_check_policy_line(fe_elab *e, const fe_selector *s) {
    if (!s->matched && !s->refused_by) return false;
    if (!s->matched) refuse(e, s);
    else if (!s->heard) warn_of_views(e, s);
    else if (!s->decided && s->beaten_by) warn_of_defeat(e, s);
    return true;
}
