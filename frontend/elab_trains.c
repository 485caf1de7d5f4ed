/* `loss d = ... trains "disc.**"`: which loss moves which parameter. Losses with the same selectors form a group; a
 * parameter belongs to exactly one group, whose gradient alone it gets. All selectors stand in the text of the model,
 * so they are read before anything is elaborated and a parameter knows its group when it is made. */
#include <string.h>

#include "frontend/fe_elab.h"

static bool same_selectors(const fe_list *a, const fe_list *b) {
    const fe_ast *x = a->first, *y = b->first;
    for (; x && y && strcmp(x->text, y->text) == 0; x = x->next) y = y->next;
    return !x && !y;
}

uint32_t fe_group_of_loss(const fe_elab *e, const fe_ast *loss) {
    for (size_t i = 0; i < e->claims.count; i++)
        if (same_selectors(&e->claims.data[i].loss->list, &loss->list)) return e->claims.data[i].group;
    return 0;
}

static void add_claims(fe_elab *e, const fe_ast *loss) {
    uint32_t group = fe_group_of_loss(e, loss);
    if (group) return;
    e->groups++;
    for (const fe_ast *g = loss->list.first; g; g = g->next)
        if (!mpc_array_push(&e->claims, (fe_claim){.loss = loss, .glob = g, .group = e->groups})) fe_no_memory_value(e);
}

void fe_read_claims(fe_elab *e) {
    const fe_ast *silent = NULL;
    for (const fe_ast *s = e->m->item->other.first; s; s = s->next) {
        if (s->kind != AST_LOSS) continue;
        if (s->list.count) add_claims(e, s);
        else if (!silent) silent = s;
    }
    if (!silent || !e->groups) return;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E055", silent->span, "this loss doesn't say what it trains");
    fe_second(&r, e->claims.data[0].glob->span, "this one does");
    fe_help(&r, "once a loss has `trains`, all have: loss ... trains \"**\" for every parameter");
    fe_send(&r);
}

static void report_two(fe_elab *e, const char *path, mpc_span span, const fe_claim *a, const fe_claim *b) {
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E055", b->glob->span, "two losses train the parameter `%s`", path);
    fe_second(&r, a->glob->span, "the other one");
    fe_note(&r, span, "it is made here");
    fe_help(&r,
            "its gradient can come from one of them; losses with the same selectors are added: trains \"%s\" for both",
            a->glob->text);
    fe_send(&r);
}

static void report_none(fe_elab *e, const char *path, mpc_span span) {
    const fe_claim *first = &e->claims.data[0];
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E055", span, "no loss trains the parameter `%s`", path);
    fe_second(&r, first->glob->span, "losses say here what they train");
    fe_help(&r, "trains \"%s\", \"%s\"; or freeze it: params { \"%s\" { freeze = true } }", first->glob->text, path,
            path);
    fe_send(&r);
}

uint32_t fe_group_of_parameter(fe_elab *e, const char *path, mpc_span span) {
    const fe_claim *found = NULL;
    for (size_t i = 0; i < e->claims.count; i++) {
        fe_claim *c = &e->claims.data[i];
        if (!mpc_glob_match(c->glob->text, path)) continue;
        c->matched = true;
        if (!found) found = c;
        else if (found->group != c->group) {
            report_two(e, path, span, found, c);
            return 0;
        }
    }
    if (!found && e->claims.count) report_none(e, path, span);
    return found ? found->group : 0;
}

void fe_check_claims(fe_elab *e) {
    for (size_t i = 0; i < e->claims.count; i++) {
        const fe_claim *c = &e->claims.data[i];
        if (c->matched) continue;
        fe_suggestion near = fe_suggest(c->glob->text);
        near.distance = (unsigned)strlen(c->glob->text);
        for (size_t k = 0; k < e->params.count; k++) fe_suggest_try(&near, e->params.data[k].path);
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E045", c->glob->span, "`%s` matches no parameter that is trained",
                               c->glob->text);
        if (near.best) fe_help(&r, "the nearest path is `%s`", near.best);
        fe_send(&r);
    }
}

const char *fe_group_text(fe_elab *e, uint32_t group) {
    const char *text = "";
    for (size_t i = 0; i < e->losses.count; i++)
        if (e->losses.data[i].group == group)
            text = fe_format(e, "%s%s`%s`", text, *text ? ", " : "", e->losses.data[i].name);
    return text;
}
