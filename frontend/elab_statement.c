/* Statements. Loops are unrolled and branches chosen here; scopes follow the language: a block, a model and a `repeat`
 * body are scopes, `if` and `@f32 { }` are not. A newcomer would look for control flow in the graph: there is none. */
#include <string.h>

#include "frontend/fe_elab.h"

static void run_statement(fe_elab *e, const fe_ast *at);

void fe_run_body(fe_elab *e, const fe_list *body) {
    for (const fe_ast *s = body->first; s; s = s->next) {
        if (e->failed || e->d->no_memory || e->d->errors > FE_MAX_ERRORS) return;
        if (e->frame->returned) return;
        run_statement(e, s);
    }
}

/* --- assignment --- */

/* The other order, a variable that is called, is an error of the call. */
static bool hides_callee(fe_elab *e, const fe_ast *name) {
    for (size_t i = 0; i < e->frame->callees.count; i++) {
        const fe_ast *callee = e->frame->callees.data[i];
        if (callee->sym != name->sym) continue;
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E044", name->span,
                               "`%s` is called in this block; a variable needs another name", name->text);
        fe_note(&r, callee->span, "it is called here");
        fe_send(&r);
        return true;
    }
    return false;
}

static bool may_bind(fe_elab *e, const fe_ast *name) {
    const fe_const *c = fe_find_const(e->m, name);
    if (!c && strcmp(name->text, "training") != 0) return !hides_callee(e, name);
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E044", name->span, "`%s` is a constant; a variable needs another name",
                           name->text);
    if (c && c->item) fe_note(&r, c->item->span, "it is declared here");
    fe_send(&r);
    return false;
}

void fe_bind(fe_elab *e, const fe_ast *name, fe_value v, bool quiet) {
    fe_binding *old = fe_lookup(e, name->sym);
    if (old) {
        old->value = v;
        old->maybe = false;
        old->pattern = NULL;
        old->span = name->span;
        return;
    }
    fe_binding b = {.sym = name->sym, .value = v, .span = name->span, .quiet = quiet};
    if (!mpc_array_push(&e->frame->bindings, b)) fe_no_memory_value(e);
}

static void assign_one(fe_elab *e, const fe_ast *target, fe_value v) {
    if (target->kind != AST_NAME || !may_bind(e, target)) return;
    if (v.kind == FE_TUPLE) {
        fe_error(e->d, "E015", target->span, "this gives %u results, but there is one name for them", v.count);
        v = FE_POISONED;
    }
    fe_bind(e, target, v, false);
}

static void poison_targets(fe_elab *e, const fe_list *targets) {
    for (const fe_ast *t = targets->first; t; t = t->next) {
        if (t->kind == AST_NAME) fe_bind(e, t, FE_POISONED, false);
        if (t->kind == AST_LIST) poison_targets(e, &t->list);
    }
}

/* `[n, t, c] = shape(x)`, or several results into several names. */
static void unpack(fe_elab *e, const fe_ast *at, const fe_list *targets, fe_value v, fe_kind wanted) {
    if (v.kind == FE_POISON) {
        poison_targets(e, targets);
        return;
    }
    if (v.kind != wanted || v.count != targets->count) {
        fe_report r =
            fe_begin(e->d, MPC_SEV_ERROR, "E015", at->span, "%u names stand on the left, but there %s", targets->count,
                     v.count == 1 || v.kind != wanted ? "is one value" : "are more or fewer values");
        if (v.kind == wanted) fe_label(&r, "%u value%s", v.count, v.count == 1 ? "" : "s");
        else if (v.kind == FE_LIST) fe_help(&r, "a list is taken apart with brackets: [a, b] = ...");
        fe_send(&r);
        poison_targets(e, targets);
        return;
    }
    uint32_t i = 0;
    for (const fe_ast *t = targets->first; t; t = t->next, i++) {
        assign_one(e, t, v.items[i]);
        fe_binding *b = wanted == FE_LIST && t->kind == AST_NAME ? fe_lookup(e, t->sym) : NULL;
        if (b) b->pattern = targets;
    }
}

static void enter_region(fe_elab *e, const fe_ast *at, const fe_ast *word, mpc_format *format, const char **why) {
    *format = e->prec;
    *why = e->prec_why;
    mpc_format f = fe_region_format(e->m, word);
    if (f == MPC_FMT_none) return;
    e->prec = f;
    e->prec_why = fe_format(e, "user: @%s %s", word->text, fe_place_text(e->d, at->span));
}

/* The first tensor of a value that has no float among them; NULL otherwise. */
static const fe_tensor *no_float(fe_value v) {
    if (v.kind == FE_TENSOR) return mpc_format_is_float(v.t->shape.format) ? NULL : v.t;
    const fe_tensor *first = NULL;
    for (uint32_t i = 0; (v.kind == FE_LIST || v.kind == FE_TUPLE) && i < v.count; i++) {
        const fe_tensor *t = no_float(v.items[i]);
        if (!t) return NULL;
        first = first ? first : t;
    }
    return first;
}

/* `@bf16 p = ...` of an integer or a flag. `@f32` may be about what it was computed from. */
static void check_word(fe_elab *e, const fe_ast *at, fe_value v, bool taken) {
    const fe_tensor *t = no_float(v);
    if (!t || (taken && !mpc_format_is_low(mpc_format_find(at->text)))) return;
    const fe_ast *target = at->list.first;
    fe_worded what = {.path = target->text ? target->text : "this", .type = t->shape.format, .at = t->made};
    fe_report r = fe_begin_refusal(e, at->name_span, at->text, &what);
    fe_help(&r, "leave `@%s` out, or put it before the statement that makes the float; cast(..., f32) makes one",
            at->text);
    fe_send(&r);
}

static void run_assign(fe_elab *e, const fe_ast *at) {
    mpc_format format = e->prec;
    const char *why = e->prec_why;
    uint32_t taken = e->words_taken;
    if (at->text) enter_region(e, at, at, &format, &why);
    const fe_ast *target = at->list.first;
    bool single = at->list.count == 1 && target->kind != AST_LIST;
    fe_value v = single ? fe_eval(e, at->kid[0], target->kind == AST_NAME ? target->text : NULL)
                        : fe_eval_all(e, at->kid[0], NULL);
    e->prec = format;
    e->prec_why = why;
    if (at->text) check_word(e, at, v, e->words_taken > taken);
    if (v.kind == FE_HOLE) {
        fe_error(e->d, "E002", at->kid[0]->span, "`_` stands for a tensor in a call; it is no value");
        v = FE_POISONED;
    }
    if (single) assign_one(e, target, v);
    else if (at->list.count == 1) unpack(e, at->kid[0], &target->list, v, FE_LIST);
    else unpack(e, at->kid[0], &at->list, v, FE_TUPLE);
}

static void run_region(fe_elab *e, const fe_ast *at) {
    mpc_format format;
    const char *why;
    enter_region(e, at, at, &format, &why);
    fe_run_body(e, &at->list);
    e->prec = format;
    e->prec_why = why;
}

static void run_return(fe_elab *e, const fe_ast *at) {
    if (!e->frame->item || e->frame->item->kind != AST_BLOCK) {
        fe_error(e->d, "E002", at->span, "`return` belongs in a block; a model says `output`, `loss` and `metric`");
        return;
    }
    fe_value v;
    if (at->list.count == 1) v = fe_eval(e, at->list.first, NULL);
    else {
        v = fe_list_value(e, FE_TUPLE, at->list.count);
        uint32_t i = 0;
        for (const fe_ast *k = at->list.first; k && v.kind == FE_TUPLE; k = k->next) v.items[i++] = fe_eval(e, k, NULL);
    }
    e->frame->returned = true;
    e->frame->result = v;
    e->frame->result_at = at;
}

/* --- if --- */

/* true/false in *out; false and an error when it isn't a constant */
static bool read_condition(fe_elab *e, const fe_ast *at, bool *out) {
    fe_value v = fe_eval(e, at, NULL);
    *out = v.kind == FE_BOOL && v.i;
    if (v.kind == FE_BOOL) return true;
    if (v.kind == FE_POISON) return false;
    fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E016", at->span, "`if` needs a constant truth value, this is %s",
                           fe_kind_name(v.kind));
    if (v.kind == FE_TENSOR) fe_help(&r, "choose element by element with where(condition, a, b)");
    else if (fe_is_number(v)) fe_help(&r, "compare it: %s != 0", fe_source_text(e->m, at->span));
    fe_send(&r);
    return false;
}

/* Names of a branch that weren't taken, or not surely assigned by the other, can't be used afterwards. */
static void mark_maybe(fe_elab *e, const fe_list *branch, size_t before, const fe_list *other) {
    for (const fe_ast *s = branch->first; s; s = s->next) {
        for (const fe_ast *t = s->kind == AST_ASSIGN ? s->list.first : NULL; t; t = t->next) {
            if (t->kind != AST_NAME || fe_body_assigns(other, t->sym)) continue;
            fe_binding *b = fe_lookup(e, t->sym);
            if (!b) {
                fe_bind(e, t, FE_POISONED, true);
                b = fe_lookup(e, t->sym);
            }
            if (b && (size_t)(b - e->frame->bindings.data) >= before) b->maybe = b->quiet = true;
        }
        if (s->kind == AST_IF || s->kind == AST_REGION) mark_maybe(e, &s->list, before, other);
        if (s->kind == AST_IF) mark_maybe(e, &s->other, before, other);
    }
}

static void run_if(fe_elab *e, const fe_ast *at) {
    bool saved = e->training_read, taken = false;
    e->training_read = false;
    bool known = read_condition(e, at->kid[0], &taken);
    bool training = e->training_read;
    e->training_read = saved;
    size_t before = e->frame->bindings.count;
    if (known) {
        e->in_training += training;
        fe_run_body(e, taken ? &at->list : &at->other);
        e->in_training -= training;
    }
    if (e->frame->returned) return;
    mark_maybe(e, &at->list, before, &at->other);
    mark_maybe(e, &at->other, before, &at->list);
}

/* --- repeat --- */

typedef struct turn_state {
    const char *path, *bare, *turns;
    size_t bindings;
} turn_state;

/* Any mention counts: a name that only an untaken branch reads is used. */
static bool body_mentions(const fe_ast *item, mpc_sym sym) {
    for (const fe_ast *s = item ? item->other.first : NULL; s; s = s->next)
        if (fe_ast_mentions(s, sym)) return true;
    return false;
}

static bool pattern_read(const fe_elab *e, const fe_list *pattern) {
    for (const fe_ast *t = pattern ? pattern->first : NULL; t; t = t->next)
        if (t->kind == AST_NAME && body_mentions(e->frame->item, t->sym)) return true;
    return false;
}

void fe_warn_unused(fe_elab *e, size_t from) {
    for (size_t i = from; i < e->frame->bindings.count; i++) {
        const fe_binding *b = &e->frame->bindings.data[i];
        const char *name = mpc_sym_text(e->ctx, b->sym);
        if (b->used || b->quiet || b->value.kind == FE_POISON || e->d->errors) continue;
        if (e->phase == MPC_PHASE_TRAIN && e->b && !body_mentions(e->frame->item, b->sym) &&
            !pattern_read(e, b->pattern))
            fe_warning(e->d, "W102", b->span, "`%s` is never used", name);
    }
}

static void end_scope(fe_elab *e, size_t from) {
    fe_warn_unused(e, from);
    if (e->frame->bindings.count > from) e->frame->bindings.count = from;
}

static void bind_local(fe_elab *e, const fe_ast *name, fe_value v) {
    if (!may_bind(e, name)) return;
    fe_binding b = {.sym = name->sym, .value = v, .span = name->span, .quiet = true};
    if (!mpc_array_push(&e->frame->bindings, b)) fe_no_memory_value(e);
}

static void run_turn(fe_elab *e, const fe_ast *at, int64_t i, fe_value element) {
    e->work++;
    fe_frame *f = e->frame;
    turn_state s = {f->path, f->bare, f->turns, f->bindings.count};
    if (at->kid[1]) {
        const char *name = at->kid[1]->text;
        f->path = fe_join(e, f->path, fe_format(e, "%s%s.%lld", name, f->bare, (long long)i));
        f->bare = "";
        f->turns = fe_format(e, "%s%s%s %lld", f->turns, *f->turns ? ", " : "", name, (long long)i);
        bind_local(e, at->kid[1], fe_int(i));
    } else f->bare = fe_format(e, "%s.%lld", f->bare, (long long)i);
    if (at->kid[2]) bind_local(e, at->kid[2], element);
    fe_run_body(e, &at->list);
    if (!f->returned) end_scope(e, s.bindings);
    f->path = s.path;
    f->bare = s.bare;
    f->turns = s.turns;
}

static bool out_of_work(fe_elab *e, const fe_ast *at) {
    if (e->work <= FE_MAX_WORK) return false;
    fe_error(e->d, "E051", at->span, "this model takes more than %d evaluations to unroll", FE_MAX_WORK);
    e->failed = true;
    return true;
}

static void run_repeat(fe_elab *e, const fe_ast *at) {
    fe_value v = fe_eval(e, at->kid[0], NULL);
    if (v.kind == FE_POISON) return;
    bool list = v.kind == FE_LIST;
    if (!list && (v.kind != FE_INT || v.i < 0 || v.i > FE_MAX_TURNS)) {
        fe_report r = fe_begin(e->d, MPC_SEV_ERROR, "E016", at->kid[0]->span,
                               "`repeat` needs a constant count from 0 to %d, or a list", FE_MAX_TURNS);
        fe_label(&r, "this is %s", v.kind == FE_INT ? fe_format(e, "%lld", (long long)v.i) : fe_kind_name(v.kind));
        fe_send(&r);
        return;
    }
    if (!list && at->kid[2]) {
        fe_error(e->d, "E014", at->kid[2]->span, "`%s` would be the element of a list, but this repeats %lld times",
                 at->kid[2]->text, (long long)v.i);
        return;
    }
    int64_t turns = list ? (int64_t)v.count : v.i;
    unsigned errors = e->d->errors;
    for (int64_t i = 0; i < turns && !e->frame->returned && e->d->errors == errors && !e->failed && !out_of_work(e, at);
         i++)
        run_turn(e, at, i, list ? v.items[i] : FE_POISONED);
}

/* --- the rest --- */

static bool top_level(fe_elab *e, const fe_ast *at, const char *what) {
    for (const fe_ast *s = e->m->item->other.first; s; s = s->next)
        if (s == at) return true;
    fe_error(e->d, "E053", at->span, "%s stands in the model itself, outside of `repeat`, `if` and blocks", what);
    return false;
}

static void run_statement(fe_elab *e, const fe_ast *at) {
    switch (at->kind) {
    case AST_ASSIGN:
        run_assign(e, at);
        return;
    case AST_REGION:
        run_region(e, at);
        return;
    case AST_RETURN:
        run_return(e, at);
        return;
    case AST_IF:
        run_if(e, at);
        return;
    case AST_REPEAT:
        run_repeat(e, at);
        return;
    case AST_LOSS:
        if (top_level(e, at, "a loss")) fe_run_loss(e, at);
        return;
    case AST_METRIC:
        if (top_level(e, at, "a metric")) fe_run_metric(e, at);
        return;
    case AST_OUTPUT:
        if (top_level(e, at, "an output")) fe_run_output(e, at);
        return;
    default:
        break;
    }
    fe_report r =
        fe_begin(e->d, MPC_SEV_ERROR, "E006", at->span, "the result of %s is not used", fe_source_text(e->m, at->span));
    fe_help(&r, "give it a name: y = %s", fe_source_text(e->m, at->span));
    fe_send(&r);
}
