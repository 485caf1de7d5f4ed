/* `mpc fmt --name`: labels for the calls that only a number tells apart, linear.0 and linear.1, so that a line more or
 * less doesn't rename the others. It changes what parameters are called, which layout alone never does. */
#include <string.h>

#include "frontend/fe_elab.h"
#include "frontend/fe_fmt.h"

typedef struct namer {
    fmt *f;
    mpc_arena *arena;
    bool failed;
} namer;

/* A block, or an op that has parameters; others have no names that a checkpoint knows. */
static bool may_have_parameters(const char *callee) {
    const fe_builtin *b = fe_find_builtin(callee);
    return !b || b->parameters;
}

static void add_label(namer *n, const fe_ast *call) {
    char *words = mpc_arena_printf(n->arena, " as %s", call->site);
    fmt_token *close = fmt_find_token(n->f, call->span.end - 1);
    if (!words) n->failed = true;
    if (!words || !close) return;
    *strchr(words, '.') = '_';
    fmt_write_behind(close, words);
}

static void name_calls(namer *n, const fe_ast *at) {
    if (!at) return;
    for (int i = 0; i < 3; i++) name_calls(n, at->kid[i]);
    for (const fe_ast *k = at->list.first; k; k = k->next) name_calls(n, k);
    for (const fe_ast *k = at->other.first; k; k = k->next) name_calls(n, k);
    bool numbered = at->kind == AST_CALL && !at->text && at->siblings && at->site;
    if (numbered && may_have_parameters(at->kid[0]->text)) add_label(n, at);
}

bool fmt_name(fmt *f, mpc_arena *arena, const fe_list *items) {
    namer n = {.f = f, .arena = arena};
    for (fe_ast *i = items->first; i; i = i->next) {
        if (i->kind != AST_BLOCK && i->kind != AST_MODEL) continue;
        if (!fe_name_sites(arena, &i->list, &i->other)) return false;
        name_calls(&n, i);
    }
    return !n.failed;
}
