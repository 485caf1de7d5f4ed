/* Calls: what the callee is, the name its parameters get, and layers (calls with a hole), which keep their arguments
 * until they are applied. The path of a call comes from the text alone (ast.c), so it is the same in every elaboration.
 */
#include <string.h>

#include "base/alloc.h"
#include "frontend/fe_elab.h"

const char *fe_join(fe_elab *e, const char *path, const char *name) {
    return *path ? fe_format(e, "%s.%s", path, name) : name;
}

fe_frame *fe_push_frame(fe_elab *e, const fe_ast *item, mpc_span call, const char *path) {
    fe_frame *f = fe_alloc(e, sizeof *f);
    if (!f) return NULL;
    *f = (fe_frame){
        .caller = e->frame, .item = item, .call = call, .path = path, .bare = "", .turns = "", .numbered = ""};
    e->frame = f;
    return f;
}

void fe_pop_frame(fe_elab *e) {
    fe_frame *f = e->frame;
    mpc_array_free(&f->bindings);
    mpc_array_free(&f->callees);
    mpc_array_free(&f->layers);
    e->frame = f->caller;
}

void fe_check_layers(fe_elab *e, fe_frame *frame) {
    for (size_t i = 0; i < frame->layers.count && !e->d->errors; i++) {
        const fe_layer *l = frame->layers.data[i];
        if (l->applied) continue;
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E042", l->at->span,
                               "layer `%s` is never used: its parameters would not exist", l->path);
        fe_help(&r, "apply it, %s(x), or remove the line", l->path);
        fe_send(&r);
    }
}

/* --- what is called --- */

static fe_value unknown_callee(fe_elab *e, const fe_ast *callee) {
    static const char *const later[] = {
        "lstm", "gru", "scan", "conv2d_transpose", "bernoulli", "standardize", "random_flip", "random_crop",
        "f1",   "auc", "prod", "conv1d",           "conv3d"};
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        if (strcmp(later[i], callee->text) != 0) continue;
        fe_error(e->d, "E009", callee->span, "`%s` is not supported yet", callee->text);
        return FE_POISONED;
    }
    const char *alias = fe_alias(callee->text);
    fe_suggestion s = fe_suggest(callee->text);
    for (size_t i = 0; fe_builtin_at(i); i++) fe_suggest_try(&s, fe_builtin_at(i)->name);
    fe_suggest_names(e->m, callee, true, &s);
    const fe_builtin *fn = fe_find_builtin(alias ? alias : s.best ? s.best : "");
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E010", callee->span, "there is no op or block `%s`", callee->text);
    bool helped = fe_help_elsewhere(e->m, callee, true, &r);
    if (fn && !helped) fe_help(&r, "did you mean %s(%s)?", fn->name, fe_signature(e, fn));
    else if (s.best && !helped) fe_help(&r, "did you mean `%s`?", s.best);
    fe_send(&r);
    return FE_POISONED;
}

static fe_value run_builtin(fe_call *c) {
    fe_elab *e = c->e;
    if (e->mapping && c->fn->parameters) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E203", c->at->span, "a data mapping has no parameters");
        fe_help(&r, "%s belongs in the model", c->fn->name);
        fe_send(&r);
        return FE_POISONED;
    }
    const char *outer = e->callee;
    e->callee = c->fn->name;
    fe_value v = c->fn->run(c);
    e->callee = outer;
    return v;
}

static fe_value run_call(fe_call *c) { return c->fn ? run_builtin(c) : fe_call_block(c); }

static bool has_hole(const fe_call *c) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->v[i].kind == FE_HOLE) return true;
    return false;
}

static fe_value make_layer(fe_call *c) {
    fe_elab *e = c->e;
    if (c->fn && !c->fn->parameters) {
        fe_error(e->d, "E014", c->at->span, "`%s` makes no parameters: call it where it is needed, without `_`",
                 c->fn->name);
        return FE_POISONED;
    }
    fe_layer *l = fe_alloc(e, sizeof *l);
    if (!l) return FE_POISONED;
    *l = (fe_layer){
        .at = c->at, .fn = c->fn, .block = c->block, .path = c->path, .v = c->v, .ast = c->ast, .count = c->count};
    l->numbered = c->numbered;
    l->text = fe_source_text(e->m, c->at->span);
    if (e->frame && !mpc_array_push(&e->frame->layers, l)) return fe_no_memory_value(e);
    return (fe_value){.kind = FE_LAYER, .layer = l};
}

/* Fills the holes with the arguments of the application, in order. */
static bool fill_holes(fe_call *c, const fe_layer *l, const fe_ast *at) {
    fe_elab *e = c->e;
    const fe_ast *arg = at->list.first;
    uint32_t holes = 0;
    for (uint32_t i = 0; i < l->count; i++) {
        c->v[i] = l->v[i];
        c->ast[i] = l->ast[i];
        if (l->v[i].kind != FE_HOLE) continue;
        holes++;
        if (!arg) continue;
        if (arg->text) {
            fe_error(e->d, "E013", arg->name_span, "a layer takes its tensors in order, without names");
            return false;
        }
        c->v[i] = fe_eval(e, arg->kid[0], NULL);
        c->ast[i] = arg->kid[0];
        if (c->v[i].kind == FE_POISON) return false;
        arg = arg->next;
    }
    if (at->list.count == holes) return true;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E012", at->span, "this layer takes %u tensor%s, not %u", holes,
                           holes == 1 ? "" : "s", at->list.count);
    fe_note(&r, l->at->span, "its holes stand here");
    fe_send(&r);
    return false;
}

static fe_value apply_layer(fe_elab *e, const fe_ast *at, fe_layer *l, const char *name) {
    fe_call c = {.e = e,
                 .at = at,
                 .fn = l->fn,
                 .block = l->block,
                 .name = at->text ? at->text : name,
                 .path = l->path,
                 .numbered = l->numbered,
                 .layer = l,
                 .count = l->count};
    c.v = fe_alloc(e, (l->count + 1) * sizeof *c.v);
    c.ast = fe_alloc(e, (l->count + 1) * sizeof *c.ast);
    if (!c.v || !c.ast || !fill_holes(&c, l, at)) return FE_POISONED;
    fe_value v = run_call(&c);
    if (!l->applied++) l->first = at->span;
    return v;
}

static fe_value call_value(fe_elab *e, const fe_ast *at, const char *name) {
    fe_value v = fe_eval(e, at->kid[0], NULL);
    if (v.kind == FE_POISON) return v;
    if (v.kind == FE_LAYER) return apply_layer(e, at, v.layer, name);
    const fe_ast *callee = at->kid[0];
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E010", callee->span, "%s can't be called", fe_kind_name(v.kind));
    const fe_binding *b = callee->kind == AST_NAME ? fe_lookup(e, callee->sym) : NULL;
    if (b && fe_find_builtin(callee->text))
        fe_note(&r, b->span, "the variable `%s` hides the op of that name", callee->text);
    fe_send(&r);
    return FE_POISONED;
}

static const char *call_path(fe_elab *e, const fe_ast *at) {
    const char *site = at->site ? at->site : "call";
    if (!e->frame) return site;
    return fe_join(e, e->frame->path, *e->frame->bare ? fe_format(e, "%s%s", site, e->frame->bare) : site);
}

/* top_k(logits, labels, k = 5) is the metric, top_k(x, 5) the op. */
static const char *callee_name(const fe_ast *at) {
    const char *name = at->kid[0]->text;
    if (strcmp(name, "top_k") != 0) return name;
    const fe_ast *arg = at->list.first, *last = at->list.count == 3 ? arg->next->next : NULL;
    bool metric = last && !arg->text && !arg->next->text && last->text && strcmp(last->text, "k") == 0;
    return metric ? "top_k_accuracy" : name;
}

/* What a checkpoint records, so that equal shapes never load under a number that another call had. */
static const char *call_numbers(fe_elab *e, const fe_ast *at) {
    const char *outer = e->frame ? e->frame->numbered : "";
    if (!at->siblings) return outer;
    const char *name = fe_join(e, e->frame ? e->frame->path : "", at->kid[0]->text);
    return fe_format(e, "%s%s%s=%u", outer, *outer ? " " : "", name, at->siblings);
}

/* A variable of this name would hide it below. */
static bool remember_callee(fe_elab *e, const fe_ast *callee) {
    if (!e->frame) return true;
    for (size_t i = 0; i < e->frame->callees.count; i++)
        if (e->frame->callees.data[i]->sym == callee->sym) return true;
    return mpc_array_push(&e->frame->callees, callee);
}

fe_value fe_eval_call(fe_elab *e, const fe_ast *at, const char *name) {
    const fe_ast *callee = at->kid[0];
    if (e->mapping && fe_is_field_name(e, at)) return fe_eval_field(e, at);
    if (callee->kind != AST_NAME || fe_lookup(e, callee->sym)) return call_value(e, at, name);
    fe_block *block = fe_find_block(e->m, callee);
    const fe_builtin *fn = block ? NULL : fe_find_builtin(callee_name(at));
    if (!block && !fn) fn = fe_find_plugin_op(e, callee->text);
    if (!block && !fn) return unknown_callee(e, callee);
    if (!remember_callee(e, callee)) return fe_no_memory_value(e);
    if (block) block->used = true;
    fe_call c = {
        .e = e, .at = at, .fn = fn, .block = block, .name = at->text ? at->text : name, .path = call_path(e, at)};
    c.numbered = call_numbers(e, at);
    if (!fe_bind_arguments(&c)) return FE_POISONED;
    return has_hole(&c) ? make_layer(&c) : run_call(&c);
}
