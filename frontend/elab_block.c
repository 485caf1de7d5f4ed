/* Calling a block: a new frame, its parameters bound and checked against the signature, its body run, its result handed
 * back. A size name in a signature is checked when it is a `const` or already bound, and bound otherwise. Mistakes are
 * shown at the call. */
#include <string.h>

#include "frontend/fe_elab.h"

static void mismatch(fe_call *c, uint32_t i, const fe_ast *type, const char *why) {
    fe_elab *e = c->e;
    fe_frame *inner = e->frame;
    e->frame = inner->caller; /* the mistake is the caller's */
    mpc_span at = i < c->count && c->ast[i] ? c->ast[i]->span : c->at->span;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E024", at, "this doesn't fit the block's signature: %s", why);
    if (i < c->count)
        fe_label(&r, "%s", c->v[i].kind == FE_TENSOR ? fe_shape_text(e, c->v[i]) : fe_kind_name(c->v[i].kind));
    fe_note(&r, type->span, "%s wants this", c->block->item->text);
    fe_send(&r);
    e->frame = inner;
}

/* One size of a signature against a dim. NULL: fine. */
static const char *check_dim(fe_elab *e, const fe_ast *dim, int64_t size) {
    if (dim->kind == AST_HOLE) return NULL;
    if (dim->kind == AST_NAME && !fe_lookup(e, dim->sym) && !fe_find_const(e->m, dim)) {
        fe_bind(e, dim, fe_int(size), true);
        return NULL;
    }
    fe_value v = fe_eval(e, dim, NULL);
    if (v.kind == FE_POISON) return NULL;
    if (v.kind == FE_INT && v.i == size) return NULL;
    if (v.kind != FE_INT) return fe_format(e, "`%s` is no size", fe_source_text(e->m, dim->span));
    return fe_format(e, "%s is %lld, not %lld", fe_source_text(e->m, dim->span), (long long)v.i, (long long)size);
}

/* A value against `[..., c]`. NULL: fine. */
static const char *check_shape(fe_elab *e, const fe_ast *type, fe_value v) {
    if (v.kind == FE_POISON) return NULL;
    if (v.kind != FE_TENSOR) return fe_format(e, "a tensor is needed, not %s", fe_kind_name(v.kind));
    const mpc_type *t = fe_type(v);
    uint32_t wanted = 0, lead = fe_lead(e, v), rank = t->rank - lead;
    bool open = false;
    for (const fe_ast *d = type->list.first; d; d = d->next) {
        if (d->kind == AST_ELLIPSIS) open = true;
        else wanted++;
    }
    if (open ? rank < wanted : rank != wanted)
        return fe_format(e, "%s%u ax%s needed, it has %u", open ? "at least " : "", wanted,
                         wanted == 1 ? "is is" : "es are", rank);
    uint32_t axis = lead;
    for (const fe_ast *d = type->list.first; d; d = d->next) {
        if (d->kind == AST_ELLIPSIS) {
            axis += rank - wanted;
            continue;
        }
        const char *why = check_dim(e, d, t->dims[axis++]);
        if (why) return why;
    }
    return NULL;
}

static bool kind_fits(fe_elab *e, const fe_ast *type, fe_value *v, const char **why) {
    static const struct {
        const char *word;
        fe_kind kind;
    } words[] = {{"int", FE_INT}, {"float", FE_FLOAT}, {"bool", FE_BOOL}, {"string", FE_STRING}, {"list", FE_LIST}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i].word, type->text) != 0) continue;
        if (v->kind == FE_INT && words[i].kind == FE_FLOAT) *v = fe_float((double)v->i);
        if (v->kind == words[i].kind || v->kind == FE_POISON) return true;
        *why = fe_format(e, "%s is needed, not %s", fe_kind_name(words[i].kind), fe_kind_name(v->kind));
        return false;
    }
    *why = fe_format(e, "`%s` is no kind of parameter; there are int, float, bool, string, list and shapes [a, b]",
                     type->text);
    return false;
}

/* Binds the parameters; shapes after the rest, so that `c: int` is known when `x: [n, c]` is checked. */
static bool bind_parameters(fe_call *c) {
    fe_elab *e = c->e;
    bool ok = true;
    for (int shapes = 0; shapes < 2; shapes++) {
        uint32_t i = 0;
        for (const fe_ast *p = c->block->item->list.first; p; p = p->next, i++) {
            const fe_ast *type = p->kid[0];
            bool is_shape = type && type->integer;
            if (shapes != (int)is_shape) continue;
            if (!c->ast[i]) c->v[i] = fe_eval(e, p->kid[1], NULL);
            const char *why = NULL;
            if (is_shape)
                why = type->text ? "a block's signature has no number format: precision is the compiler's"
                                 : check_shape(e, type, c->v[i]);
            else if (type && kind_fits(e, type, &c->v[i], &why)) why = NULL;
            if (why) mismatch(c, i, type, why);
            ok = ok && !why;
            fe_bind(e, p, c->v[i], true);
        }
    }
    return ok;
}

static void check_result(fe_call *c, fe_value v) {
    uint32_t i = 0;
    fe_elab *e = c->e;
    for (const fe_ast *type = c->block->item->kid[0]; type; type = type->next, i++) {
        fe_value one = v.kind == FE_TUPLE ? (i < v.count ? v.items[i] : FE_POISONED) : v;
        const char *why = type->integer ? check_shape(e, type, one) : NULL;
        if (!why) continue;
        fe_report r =
            fe_begin(e->d, MPC_SEV_ERROR, "E024", e->frame->result_at ? e->frame->result_at->span : c->at->span,
                     "the result doesn't fit the block's signature: %s", why);
        fe_label(&r, "%s", fe_shape_text(e, one));
        fe_note(&r, type->span, "declared here");
        fe_send(&r);
    }
}

fe_value fe_call_block(fe_call *c) {
    fe_elab *e = c->e;
    const fe_ast *item = c->block->item;
    if (e->calls >= FE_MAX_CALLS) {
        fe_error(e->d, "E051", c->at->span, "blocks call each other more than %d levels deep", FE_MAX_CALLS);
        return FE_POISONED;
    }
    if (!e->b && !fe_want_builder(e, c->at)) return FE_POISONED;
    if (!fe_push_frame(e, item, c->at->span, c->path)) return FE_POISONED;
    e->frame->numbered = c->numbered;
    e->calls++;
    fe_value v = FE_POISONED;
    unsigned errors = e->d->errors;
    if (bind_parameters(c)) {
        fe_run_body(e, &item->other);
        v = e->frame->result;
        if (!e->frame->returned && errors == e->d->errors && !e->failed) {
            fe_report r =
                fe_begin(e->d, MPC_SEV_ERROR, "E006", item->name_span, "block `%s` returns nothing", item->text);
            fe_help(&r, "end it with `return` and its result");
            fe_send(&r);
        }
        check_result(c, v);
    }
    fe_warn_unused(e, 0);
    fe_check_layers(e, e->frame);
    fe_pop_frame(e);
    e->calls--;
    return v;
}
